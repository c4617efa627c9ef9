//! Files of other servers: unknown parts are dropped, named in the log, and written nowhere. The
//! engine's `foreign_files.rs` tests what append-only files and replicas receive of such data.

use crate::common::{load, load_as, save};
use sluice_persist::rdb::{Item, ReadOptions, Reader, Unknown};
use sluice_testbase::{FOREIGN_RDB_FILES, content, foreign_rdb};

/// Counts the keys of a file written by this server. The reader must skip nothing in the file.
fn keys_of_ours(file: &[u8]) -> usize {
    let mut reader = Reader::of(file, ReadOptions::default());
    let mut keys = 0;
    while let Some(item) = reader.next_of_whole().expect("ours is well-formed") {
        match item {
            Item::LoadedEntry(_) => keys += 1,
            Item::Aux(..) | Item::Db(_) | Item::Sizes(..) | Item::Function(_) => {}
            foreign @ (Item::ModuleRecord { .. }
            | Item::Slot(_)
            | Item::SlotImport { .. }
            | Item::Empty { .. }
            | Item::Skipped { .. }) => panic!("{foreign:?}"),
        }
    }
    keys
}

#[test]
fn all_keys_come_in_and_what_is_written_holds_nothing_foreign() {
    for number in 0..FOREIGN_RDB_FILES {
        let file = foreign_rdb(number);
        let unknown = if file.module_keys > 0 { Unknown::Skip } else { Unknown::Refuse };
        let loaded = load_as(&file.bytes, unknown);
        let said = loaded.said();
        let counts = loaded.result.unwrap_or_else(|why| panic!("file {number}: {why:?}: {said}")).counts;
        assert_eq!((counts.loaded, counts.skipped), (file.keys as u64, file.module_keys as u64), "{number}");
        for module in &file.modules {
            assert!(said.contains(&format!("module type {module} ")), "file {number}, {module}: {said}");
        }
        let written = save(&loaded.keyspace);
        assert_eq!(keys_of_ours(&written), file.keys, "file {number}");
        assert_eq!(content(&load(&written).keyspace), content(&loaded.keyspace), "file {number}");
    }
}

#[test]
fn values_of_modules_are_refused_unless_that_is_relaxed() {
    let file = (0..FOREIGN_RDB_FILES).map(foreign_rdb).find(|file| file.module_keys > 0).unwrap();
    let loaded = load(&file.bytes);
    assert!(loaded.result.is_err());
    assert!(loaded.said().contains("key 'module 0' at byte"), "{}", loaded.said());
}
