//! Converts the root of a value for the payload of DUMP.

use sluice_persist::rdb::{Dumped, Text};
use sluice_value::Value;

/// A root in the form that DUMP takes.
pub(crate) fn dumped(root: &Value, list_fill: i32) -> Dumped<'_> {
    match root {
        Value::Str(bytes) => Dumped::Str(Text::Bytes(bytes)),
        Value::Pages(pages) => Dumped::Pages(pages),
        Value::List(list) => Dumped::List(list.view(), list_fill),
        Value::Hash(hash) => Dumped::Hash(hash.view()),
        Value::Set(set) => Dumped::Set(set.view()),
        Value::Stream(stream) => Dumped::Stream(stream),
        Value::Zset(zset) => Dumped::Zset(zset.view()),
    }
}
