//! Foreign records are not passed on: after a file of another server was loaded, files and streams of
//! this server contain only records that it could have made itself.

use sluice_persist::rdb::{Item, ReadOptions, Reader};
use sluice_testkit::{FOREIGN_RDB_FILES, ForeignRdb, Rig, foreign_rdb};

/// The auxiliary fields that this server writes.
const FIELDS: [&str; 8] =
    ["valkey-ver", "redis-bits", "ctime", "used-mem", "repl-stream-db", "repl-id", "repl-offset", "aof-base"];

/// Counts the keys of a file of this server. The reader skips no unknown record here.
fn keys_of_ours(file: &[u8]) -> usize {
    let mut reader = Reader::of(file, ReadOptions::default());
    let mut keys = 0;
    while let Some(item) = reader.next_of_whole().expect("ours is well-formed") {
        match item {
            Item::LoadedEntry(entry) => {
                assert_eq!(entry.usage, sluice_persist::rdb::Usage::Absent, "no policy asks for it");
                keys += 1;
            }
            Item::Aux(name, _) => {
                let name = String::from_utf8_lossy(&name).into_owned();
                assert!(FIELDS.contains(&name.as_str()), "field {name}");
            }
            Item::Db(_) | Item::Sizes(..) | Item::Function(_) => {}
            foreign @ (Item::ModuleRecord { .. }
            | Item::Slot(_)
            | Item::SlotImport { .. }
            | Item::Empty { .. }
            | Item::Skipped { .. }) => panic!("{foreign:?}"),
        }
    }
    keys
}

fn load(rig: &mut Rig, file: &ForeignRdb) {
    rig.process.snapshots.borrow_mut().insert(b"dump.rdb".to_vec(), file.bytes.clone());
    let check = if file.module_keys > 0 { "relaxed" } else { "strict" };
    rig.check(&format!("CONFIG SET rdb-version-check {check} dbfilename dump.rdb"), "+OK");
    rig.check("DEBUG RELOAD NOSAVE", "+OK");
}

/// The full copy for a replica that announces this version, or no version.
fn full_copy(rig: &mut Rig, version: Option<&str>) -> Vec<u8> {
    let replica = rig.connect();
    if let Some(version) = version {
        rig.check_as(replica, &format!("REPLCONF version {version}"), "+OK");
    }
    let sent = rig.argv(replica, &[b"SYNC"]);
    let line = sent.iter().position(|byte| *byte == b'\n').expect("a length") + 1;
    rig.run_as(replica, "QUIT");
    sent[line..].to_vec()
}

#[test]
fn what_is_written_behind_a_load_holds_nothing_foreign() {
    let mut rig = Rig::with(&[("databases", "16"), ("save", "")]);
    for number in 0..FOREIGN_RDB_FILES {
        let file = foreign_rdb(number);
        load(&mut rig, &file);
        let loaded = format!("keys loaded: {}", file.keys);
        let lines: Vec<String> = rig.process.log.drain(..).map(|(_, line)| line).collect();
        assert!(lines.iter().any(|line| line.contains(&loaded)), "file {number}: {lines:?}");
        for module in &file.modules {
            let named = lines.iter().filter(|line| line.contains(&format!("module type {module} "))).count();
            assert!(named >= 1, "file {number}, {module}: {lines:?}");
        }
        // The file holds more than was loaded, so no save replaces it; the data are saved to another file.
        rig.check("CONFIG SET dbfilename other.rdb", "+OK");
        rig.check("SAVE", "+OK");
        let saved = rig.process.snapshots.borrow().get(&b"other.rdb"[..]).cloned().expect("it was saved");
        let mut base = Vec::new();
        let mut give = |piece: &[u8]| {
            base.extend_from_slice(piece);
            Ok(())
        };
        rig.engine.write_aof_base(&mut give, &mut rig.process).expect("nothing refuses a piece");
        let copies = [None, Some("8.1.0"), Some("9.1.2")].map(|version| full_copy(&mut rig, version));
        for written in [saved, base].iter().chain(&copies) {
            assert_eq!(keys_of_ours(written), file.keys, "file {number}");
        }
    }
}

#[test]
fn what_a_file_leaves_beside_keys_takes_no_memory_and_no_file() {
    let mut rig = Rig::with(&[("save", "")]);
    rig.check("SAVE", "+OK");
    let empty = rig.process.snapshots.borrow().get(&b"dump.rdb"[..]).expect("saved").len();
    for number in 0..FOREIGN_RDB_FILES {
        load(&mut rig, &foreign_rdb(number));
        rig.check("FLUSHALL", "+OK");
        rig.check("FUNCTION FLUSH", "+OK");
        rig.check("CONFIG SET dbfilename other.rdb", "+OK");
        rig.check("SAVE", "+OK");
        let saved = rig.process.snapshots.borrow().get(&b"other.rdb"[..]).expect("saved").len();
        // The written fields have about the same length.
        assert!(saved <= empty + 100, "file {number}: {saved} bytes for {empty}");
    }
}
