//! DUMP of a large collection, produced by another thread.

use crate::slow_reads::{SlowRead, root_of};
use sluice_base::Bytes;
use sluice_keyspace::ValueRef;
use sluice_persist::rdb::{self, Dumped, Text};
use sluice_value::Value;

pub(super) fn dump(value: ValueRef<'_>, list_fill: i32, compress: bool) -> SlowRead {
    SlowRead::in_one_step(vec![root_of(value)], move |roots, reply| {
        let [root] = roots else { return };
        reply.bulk_shared(&Bytes::from_vec(rdb::dump(dumped(root, list_fill), compress)));
    })
}

/// A root as DUMP takes it.
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
