//! DUMP of a large collection, produced by another thread.

use crate::slow_reads::{Production, Progress, SlowRead, root_of};
use sluice_base::Bytes;
use sluice_keyspace::ValueRef;
use sluice_persist::rdb::{self, Dumped, Text};
use sluice_resp::Reply;
use sluice_value::Value;

/// A payload, which is made in one step.
#[derive(Debug)]
struct Payload {
    /// `list-max-listpack-size` at the moment of the read.
    list_fill: i32,
    compress: bool,
}

pub(super) fn dump(value: ValueRef<'_>, list_fill: i32, compress: bool) -> SlowRead {
    SlowRead::new(vec![root_of(value)], Payload { list_fill, compress })
}

impl Production for Payload {
    fn go_on(&mut self, roots: &[Value], reply: &mut Reply<'_>) -> Progress {
        let [root] = roots else { return Progress::End };
        let value = match root {
            Value::Str(bytes) => Dumped::Str(Text::Bytes(bytes)),
            Value::Pages(pages) => Dumped::Pages(pages),
            Value::List(list) => Dumped::List(list.view(), self.list_fill),
            Value::Hash(hash) => Dumped::Hash(hash.view()),
            Value::Zset(zset) => Dumped::Zset(zset.view()),
            Value::Stream(stream) => Dumped::Stream(stream),
        };
        reply.bulk_shared(&Bytes::from_vec(rdb::dump(value, self.compress)));
        Progress::End
    }
}
