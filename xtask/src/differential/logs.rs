//! Compares the append-only files: after a stream, our server loads the files of both servers, and the
//! reference loads ours. Every digest must equal that of the server that wrote the files, or for the
//! reference's files the digest of a reference that has loaded them.
//!
//! Invariant: no compared key expires within an hour, so a digest does not depend on the time
//! at which it is taken.

use std::path::Path;
use std::time::Duration;

use super::pair::DATABASES;
use crate::error::Result;
use crate::server::Server;
use crate::shell;
use crate::wire::Connection;

/// Options of servers whose files are compared. With `always`, the file has every command that was answered.
pub(super) const OPTIONS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// Remaining time to live, ms, below which keys are deleted before digests are taken.
const EXPIRY_MIN_MS: i64 = 3_600_000;

/// Maximum duration of a rewrite.
const REWRITE_MAX: Duration = Duration::from_secs(20);

/// The folder of the files, within a server's folder.
const FOLDER: &str = "appendonlydir";

/// Begins a rewrite of the files, so that commands of the stream follow the new base, or arrive while it is
/// written.
pub(super) fn rewrite(connection: &mut Connection) -> Result<()> {
    // The reply is not checked, because it is an error while the rewrite of the last stream is still
    // running.
    connection.ask(&[b"BGREWRITEAOF"]).map(|_| ())
}

/// Compares the digests of the writing and the loading servers; returns the first two that
/// differ, with a description.
pub(super) fn compare(ours: &Server, peer: &Server) -> Result<Option<[String; 2]>> {
    for (writer, name, readers) in [
        (ours, "ours", [("ours", ours), ("the reference", peer)].as_slice()),
        (peer, "the reference", &[("ours", ours)]),
    ] {
        let mut written = settle(writer)?;
        if name != "ours" {
            // The digest is that of a reference that has loaded the files, because the reference does not
            // load everything that it writes, such as MSETEX with two expiries in seconds.
            written = loaded(peer, peer)?;
        }
        for (reader_name, reader) in readers {
            let loaded = loaded(writer, reader).unwrap_or_else(|error| error.to_string());
            if loaded != written {
                return Ok(Some([
                    format!("({name} wrote) {written}"),
                    format!("({reader_name} loaded) {loaded}"),
                ]));
            }
        }
    }
    Ok(None)
}

/// The digest of a server like `reader` that has loaded the files of `writer`.
fn loaded(writer: &Server, reader: &Server) -> Result<String> {
    let copy = |folder: &Path| copy_files(&writer.folder().join(FOLDER), &folder.join(FOLDER));
    digest(&mut Connection::open(reader.another(&copy)?.port)?)
}

/// Deletes keys that expire soon, waits for the end of a rewrite, and takes the digest.
fn settle(server: &Server) -> Result<String> {
    let mut connection = Connection::open(server.port)?;
    for database in 0..DATABASES {
        connection.ask(&[b"SELECT", database.to_string().as_bytes()])?;
        // The keys are listed by SCAN, which also deletes keys that have expired already.
        let mut cursor = b"0".to_vec();
        loop {
            let reply = connection.ask(&[b"SCAN", &cursor, b"COUNT", b"1000"])?;
            let [next, keys] = reply.items.as_slice() else { return Err("SCAN has no two parts".into()) };
            for key in &keys.items {
                let left: i64 = connection.ask(&[b"PTTL", &key.text])?.string().parse()?;
                if (0..EXPIRY_MIN_MS).contains(&left) {
                    connection.ask(&[b"DEL", &key.text])?;
                }
            }
            cursor.clone_from(&next.text);
            if cursor == b"0" {
                break;
            }
        }
    }
    let began = shell::now();
    loop {
        let info = connection.ask(&[b"INFO", b"persistence"])?.string();
        let is_quiet = ["aof_rewrite_in_progress:0\r", "aof_rewrite_scheduled:0\r"]
            .iter()
            .all(|line| info.contains(line));
        if is_quiet {
            return digest(&mut connection);
        }
        if began.elapsed() > REWRITE_MAX {
            return Err("a rewrite of the append-only file does not end".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn digest(connection: &mut Connection) -> Result<String> {
    Ok(connection.ask(&[b"DEBUG", b"DIGEST"])?.string())
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
