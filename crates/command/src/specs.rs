//! The declarations, one file for each group. `groups!` numbers the files and `specs!` the specs of a file,
//! so that the compiler computes every id. Ids follow the order of the files, and within a file the order of
//! the names.
#![allow(missing_docs, reason = "a spec has its name and its summary")]

mod shorthand;

pub mod bitmap;
pub mod cluster;
pub mod connection;
pub mod generic;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod list;
pub mod pubsub;
pub mod scripting;
pub mod server;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;
pub mod transactions;

use crate::spec::Spec;

/// Lists the files in the order of the ids. Defines an enum of the files, the table of their tables of specs,
/// and the number of specs in each file.
macro_rules! groups {
    ($($file:ident),+ $(,)?) => {
        /// The files by name; the number of a member is its index in the list.
        #[allow(non_camel_case_types, reason = "the members are the names of the files")]
        #[derive(Clone, Copy)]
        pub(crate) enum File {
            $($file),+
        }

        /// The specs of every file in the order of the ids.
        pub(crate) const TABLES: &[&[&Spec]] = &[$(&$file::SPECS),+];

        /// Number of specs in each file.
        const COUNTS: &[u16] = &[$($file::COUNT),+];
    };
}

groups! { string, list, hash, set, bitmap, hyperloglog, stream, sorted_set, geo, generic, connection, cluster, server, transactions, pubsub, scripting }

/// Number of specs, subcommands included.
pub(crate) const COUNT: usize = count_before(COUNTS.len()) as usize;

/// Id of the first spec in a file.
pub(crate) const fn first_id(file: File) -> u16 {
    count_before(file as usize)
}

/// Number of specs in the first `files` files.
const fn count_before(files: usize) -> u16 {
    let mut count = 0;
    let mut at = 0;
    while at < files {
        count += COUNTS[at];
        at += 1;
    }
    count
}
