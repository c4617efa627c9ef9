//! Moving back: the reference, if the environment names one, must load the files and streams that this server
//! writes after it has loaded files of other servers. `crates/engine/tests/it/foreign_files.rs` checks for
//! all files, without a reference, that no foreign records are written.

use crate::common::reference::Reference;
use crate::common::{Client, Dir, Server, until};
use sluice_testkit::{FOREIGN_RDB_FILES, foreign_rdb};

fn digest(client: &mut Client) -> String {
    client.send("DEBUG DIGEST\r\n").line()
}

fn ended(client: &mut Client, fields: [&str; 2]) {
    until("the end of what runs in the background", || {
        fields.iter().all(|field| client.info(field) == "0").then_some(())
    });
}

/// The base file named in the manifest.
fn base(dir: &Dir) -> String {
    let manifest = std::fs::read_to_string(dir.join("appendonlydir/appendonly.aof.manifest")).unwrap();
    let line = manifest.lines().find(|line| line.ends_with("type b")).expect("there is a base");
    dir.join(&format!("appendonlydir/{}", line.split(' ').nth(1).unwrap()))
}

#[test]
fn the_reference_loads_what_is_written_behind_files_of_other_servers() {
    let Some(reference) = Reference::start(&["--databases", "16"]) else { return };
    let dir = Dir::new();
    let ours = Server::start_in(Dir::new(), |command| {
        command.args([
            "--dir",
            &dir.join(""),
            "--databases",
            "16",
            "--appendonly",
            "yes",
            "--appendfsync",
            "no",
        ]);
    });
    let (mut client, mut peer) = (ours.client(), reference.client());
    for number in 0..FOREIGN_RDB_FILES {
        let file = foreign_rdb(number);
        std::fs::write(dir.join("foreign.rdb"), &file.bytes).unwrap();
        let check = if file.module_keys > 0 { "relaxed" } else { "strict" };
        client.check(&format!("CONFIG SET rdb-version-check {check} dbfilename foreign.rdb"), "+OK\r\n");
        client.check("DEBUG RELOAD NOSAVE", "+OK\r\n");
        let wanted = digest(&mut client);
        client.check("CONFIG SET dbfilename saved.rdb", "+OK\r\n").check("SAVE", "+OK\r\n");
        client.check("CONFIG SET dbfilename behind.rdb", "+OK\r\n");
        client.check("BGSAVE", "+Background saving started\r\n");
        ended(&mut client, ["rdb_bgsave_in_progress", "aof_rewrite_in_progress"]);
        client.check("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        ended(&mut client, ["aof_rewrite_scheduled", "aof_rewrite_in_progress"]);
        for written in [dir.join("saved.rdb"), dir.join("behind.rdb"), base(&dir)] {
            std::fs::copy(&written, reference.dir.join("dump.rdb")).unwrap();
            peer.check("DEBUG RELOAD NOSAVE", "+OK\r\n");
            assert_eq!(digest(&mut peer), wanted, "file {number}, {written}");
        }
        if number.is_multiple_of(FULL_COPIES_EVERY) {
            peer.check("FLUSHALL", "+OK\r\n");
            peer.check(&format!("REPLICAOF 127.0.0.1 {}", ours.port), "+OK\r\n");
            until("the full copy", || (peer.info("master_link_status") == "up").then_some(()));
            assert_eq!(digest(&mut peer), wanted, "file {number}, full copy");
            peer.check("REPLICAOF NO ONE", "+OK\r\n");
        }
    }
}

/// There is one full synchronisation for this many files, because it takes as long as a hundred files, and
/// the same code writes files and streams.
const FULL_COPIES_EVERY: u64 = 12;
