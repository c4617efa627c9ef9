//! DUMP of a large collection, produced by another thread.

use crate::payload::dumped;
use crate::production::{SlowRead, root_of};
use sluice_base::Bytes;
use sluice_keyspace::ValueRef;
use sluice_persist::rdb::{self};

pub(super) fn dump(value: ValueRef<'_>, list_fill: i32, compress: bool) -> SlowRead {
    SlowRead::in_one_step(vec![root_of(value)], move |roots, reply| {
        let [root] = roots else { return };
        reply.bulk_shared(&Bytes::from_vec(rdb::dump(dumped(root, list_fill), compress)));
    })
}
