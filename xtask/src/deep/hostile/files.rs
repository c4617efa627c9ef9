//! Foreign files that are strange, cut off or wrong. None may stop the server for long, make it use much
//! memory, lose bytes (other than an incomplete command at the end), or pass unknown records on to the
//! files that the server writes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::differential::crc64;
use crate::{Result, shell};

use super::program::Program;
use super::scene::{Measured, Scene, nothing, play, resident_mib};

/// Number of auxiliary fields in a file; KeyDB writes one for each key.
const AUX_FIELDS: usize = 80_000;
/// Maximum memory that the server may take in addition, MiB.
const MEMORY_MAX_MIB: u64 = 100;
/// Time in which a server must have started, or must have ended with a reason.
const START_MAX: Duration = Duration::from_secs(5);
/// Maximum bytes of a dump without keys, which must contain none of the foreign fields.
const EMPTY_DUMP_MAX_BYTES: u64 = 64 << 10;

const OPCODE_MODULE_AUX: u8 = 247;
const OPCODE_AUX: u8 = 250;
const OPCODE_RESIZEDB: u8 = 251;
const OPCODE_EOF: u8 = 255;
/// An id of a module as in files: nine characters and a version in 64 bits.
const MODULE_ID: [u8; 8] = [0x5f, 0x1d, 0x7a, 0x3c, 0x91, 0x2e, 0x44, 0x01];

const AOF_BASE: &str = "appendonly.aof.1.base.rdb";
const AOF_INCREMENT: &str = "appendonly.aof.1.incr.aof";
const AOF_MANIFEST: &str = "appendonly.aof.manifest";

pub(super) fn programs() -> Vec<Program> {
    let rows: [(&str, fn(&Path) -> Result<Measured>); 3] = [
        ("a dump with 80,000 auxiliary fields", aux_fields),
        ("a dump with what a module left beside keys", module_aux),
        ("a command of an append-only file cut off", cut),
    ];
    let mut programs: Vec<Program> = rows
        .into_iter()
        .map(|(name, run)| Program::new(format!("files: {name}"), MEMORY_MAX_MIB, run))
        .collect();
    for (name, log) in spoilt_logs() {
        programs
            .push(Program::new(format!("files: {name}"), MEMORY_MAX_MIB, move |binary| kept(binary, &log)));
    }
    for (name, value) in HOSTILE_LENGTHS {
        programs.push(Program::new(
            format!("files: a length without end: {name}"),
            MEMORY_MAX_MIB,
            move |binary| refused(binary, value),
        ));
    }
    programs
}

/// An RDB file with these records between its header and its end.
fn dump(records: &[u8]) -> Vec<u8> {
    let mut file = [b"REDIS0011", records, &[OPCODE_EOF]].concat();
    let sum = crc64(&file);
    file.extend_from_slice(&sum.to_le_bytes());
    file
}

/// A string of fewer than 64 bytes.
fn string(text: &[u8]) -> Vec<u8> {
    [&[text.len() as u8][..], text].concat()
}

fn aux_fields(binary: &Path) -> Result<Measured> {
    let mut records = Vec::new();
    for number in 0..AUX_FIELDS {
        records.push(OPCODE_AUX);
        records.extend(string(b"mvcc-tstamp"));
        records.extend(string(format!("{:020}", number).as_bytes()));
    }
    carried(binary, &records, b"mvcc-tstamp")
}

fn module_aux(binary: &Path) -> Result<Measured> {
    // The record has the module's id in 64 bits, the time of writing, a string, and the end of the module's
    // record.
    let mut records = vec![OPCODE_MODULE_AUX, 0x81];
    records.extend(MODULE_ID);
    records.extend([2, 2, 5]);
    records.extend(string(b"what a module left"));
    records.push(0);
    carried(binary, &records, &MODULE_ID)
}

/// Starts a server with a dump of records and one key, and makes it write a dump without keys, which must
/// be small and must not contain `mark`.
fn carried(binary: &Path, records: &[u8], mark: &[u8]) -> Result<Measured> {
    let file = dump(&[records, &[0], &string(b"key"), &string(b"value")].concat());
    let prepare = |folder: &Path| Ok(std::fs::write(folder.join("dump.rdb"), &file)?);
    let began = shell::now();
    play(binary, &[], &prepare, &|scene| {
        let mut client = scene.client()?;
        while client.ask(&[b"GET", b"key"])?.text != b"value" {
            if began.elapsed() > START_MAX {
                return Err(format!("the file was not loaded within {} s", START_MAX.as_secs()).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        client.ask(&[b"FLUSHALL"])?;
        client.ask(&[b"SAVE"])?;
        let written = std::fs::read(scene.server.folder().join("dump.rdb"))?;
        let size = written.len() as u64;
        scene.check(size <= EMPTY_DUMP_MAX_BYTES, || format!("the dump without keys has {size} bytes"));
        let carries = written.windows(mark.len()).any(|part| part == mark);
        scene.check(!carries, || "the dump has a record that the server does not understand".to_owned());
        Ok(())
    })
}

/// A SELECT and `count` SETs, as in an append-only file.
fn commands(count: usize) -> Vec<u8> {
    let mut log = Vec::new();
    crate::wire::encode(&["SELECT", "0"], &mut log);
    for number in 0..count {
        crate::wire::encode(&["SET".to_owned(), format!("key:{number}"), "x".repeat(40)], &mut log);
    }
    log
}

/// Logs that are damaged, but not cut off. A server must refuse them without losing any of their bytes.
fn spoilt_logs() -> Vec<(&'static str, Vec<u8>)> {
    let sound = commands(2000);
    let mut lines = sound.clone();
    lines.retain(|byte| *byte != b'\r');
    let tail = |garbage: &[u8]| [&sound, garbage].concat();
    // The second half of the log; it begins in the middle of a command.
    let middle = sound.len() / 2;
    let mut half = sound[middle..].to_vec();
    half.retain(|byte| *byte != b'\r');
    let mut few = commands(20);
    few.retain(|byte| *byte != b'\r');
    vec![
        ("a small append-only file with the line ends of a text", few.clone()),
        ("an append-only file with the line ends of a text", lines),
        (
            "an append-only file whose second half has the line ends of a text",
            [&sound[..middle], &half].concat(),
        ),
        ("an append-only file whose last commands have the line ends of a text", tail(&few)),
        ("a tail of letters", tail(&[b'x'; 1000])),
        ("a tail of zeros", tail(&[0; 4096])),
        ("a tail of zeros of 1 MiB", tail(&vec![0; 1 << 20])),
        ("a tail with a header of letters", tail(b"*abc")),
        ("a tail with a length of letters", tail(b"*1\r\n$x")),
        ("a tail of another file", tail(b"REDIS0011\xfa")),
    ]
}

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn with_log(log: &[u8]) -> Result<Folder> {
        let folder = Folder(std::env::temp_dir().join(format!(
            "sluice-hostile-{}-{}",
            std::process::id(),
            shell::unix_seconds()
        )));
        let inner = folder.logs();
        if folder.0.exists() {
            std::fs::remove_dir_all(&folder.0)?;
        }
        std::fs::create_dir_all(&inner)?;
        std::fs::write(inner.join(AOF_BASE), dump(&[]))?;
        std::fs::write(inner.join(AOF_INCREMENT), log)?;
        let manifest = format!("file {AOF_BASE} seq 1 type b\nfile {AOF_INCREMENT} seq 1 type i\n");
        std::fs::write(inner.join(AOF_MANIFEST), manifest)?;
        Ok(folder)
    }

    fn logs(&self) -> PathBuf {
        self.0.join("appendonlydir")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts a server with a log that is damaged, but not cut off. The server must end, and must keep all
/// bytes of the file; if it removes a part of the file, it must keep that part in a file beside it.
fn kept(binary: &Path, log: &[u8]) -> Result<Measured> {
    let folder = Folder::with_log(log)?;
    let folder_text = folder.0.to_string_lossy().into_owned();
    let mut scene = Scene::begin(binary, &["--appendonly", "yes", "--dir", &folder_text], &nothing)?;
    let mut ended = scene.has_ended(Duration::from_millis(300));
    if !ended && !scene.is_served() {
        ended = scene.has_ended(START_MAX);
    }
    scene.note_memory();
    let now = std::fs::read(folder.logs().join(AOF_INCREMENT))?;
    let is_whole = now.starts_with(log);
    let rest_is_beside =
        now.len() < log.len() && log.starts_with(&now) && has_file(&folder.0, &log[now.len()..])?;
    scene.check(is_whole || rest_is_beside, || {
        format!("of {} bytes the file has {} now, and no other has its rest", log.len(), now.len())
    });
    scene.check(ended, || "the server serves data of a file that is wrong".to_owned());
    Ok(scene.measured)
}

/// Whether a file of the folder, or of a subfolder, ends with `rest`.
fn has_file(folder: &Path, rest: &[u8]) -> Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let found = match path.is_dir() {
            true => has_file(&path, rest)?,
            false => std::fs::read(&path)?.ends_with(rest),
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The counterpart of [`kept`], for a log that is cut off because the end of a command is missing. The server
/// must start with all other commands.
fn cut(binary: &Path) -> Result<Measured> {
    let log = commands(2000);
    let folder = Folder::with_log(&log[..log.len() - 20])?;
    let folder_text = folder.0.to_string_lossy().into_owned();
    play(binary, &["--appendonly", "yes", "--dir", &folder_text], &nothing, &|scene| {
        let mut client = scene.client()?;
        let began = shell::now();
        let mut keys = client.ask(&[b"DBSIZE"])?;
        while keys.is_error() && began.elapsed() < START_MAX {
            std::thread::sleep(Duration::from_millis(5));
            keys = client.ask(&[b"DBSIZE"])?;
        }
        scene.check(keys.text == b"1999", || format!("DBSIZE is {} of 1999", keys.string()));
        Ok(())
    })
}

/// Records with a length of 2^62, 2^32 - 1 or 2^31 - 1, although the file ends there. Most of them have the
/// type of a value, a key and the length.
const HOSTILE_LENGTHS: [(&str, &[u8]); 14] = [
    ("string", &[0, 1, b'k', 0x81, 0x40, 0, 0, 0, 0, 0, 0, 0]),
    ("compressed string", &[0, 1, b'k', 0xc3, 10, 0x81, 0x40, 0, 0, 0, 0, 0, 0, 0, 0]),
    ("list", &[1, 1, b'k', 0x80, 0xff, 0xff, 0xff, 0xff]),
    ("set", &[2, 1, b'k', 0x80, 0xff, 0xff, 0xff, 0xff]),
    ("sorted set", &[5, 1, b'k', 0x81, 0x40, 0, 0, 0, 0, 0, 0, 0]),
    ("hash", &[4, 1, b'k', 0x81, 0x40, 0, 0, 0, 0, 0, 0, 0]),
    ("quicklist", &[18, 1, b'k', 0x81, 0x40, 0, 0, 0, 0, 0, 0, 0]),
    ("stream", &[21, 1, b'k', 0x81, 0x40, 0, 0, 0, 0, 0, 0, 0]),
    ("listpack of a hash", &[16, 1, b'k', 0x80, 0x7f, 0xff, 0xff, 0xff]),
    ("intset", &[11, 1, b'k', 0x80, 0x7f, 0xff, 0xff, 0xff]),
    ("auxiliary field", &[250, 0x81, 0x40, 0, 0, 0, 0, 0, 0, 0]),
    ("library", &[245, 0x81, 0x40, 0, 0, 0, 0, 0, 0, 0]),
    ("sizes of a database", &[251, 0x81, 0x40, 0, 0, 0, 0, 0, 0, 0, 0x81, 0x40, 0, 0, 0, 0, 0, 0, 0]),
    ("name of a key", &[0, 0x81, 0x40, 0, 0, 0, 0, 0, 0, 0]),
];

/// Starts a server with a dump that has an impossible length. The server must end soon, without allocating
/// that much and without changing the file. A file may be loaded if the length is only announced (the sizes
/// of a database).
fn refused(binary: &Path, record: &[u8]) -> Result<Measured> {
    let file = dump(record);
    let prepare = |folder: &Path| Ok(std::fs::write(folder.join("dump.rdb"), &file)?);
    let mut scene = Scene::begin(binary, &[], &prepare)?;
    let began = shell::now();
    let mut peak_mib = 0;
    while scene.server.is_alive() && began.elapsed() < START_MAX && !scene.is_served() {
        peak_mib = resident_mib(scene.server.pid(), "VmHWM").unwrap_or_default().max(peak_mib);
        std::thread::sleep(Duration::from_millis(2));
    }
    scene.measured.memory.peak_mib = peak_mib;
    let took = began.elapsed();
    scene.check(took < START_MAX, || {
        format!("the server neither began nor ended within {} s", START_MAX.as_secs())
    });
    let now = std::fs::read(scene.server.folder().join("dump.rdb"))?;
    scene.check(now == file, || "the file was changed".to_owned());
    let is_announced = record.first() == Some(&OPCODE_RESIZEDB);
    let ended = !scene.server.is_alive();
    scene.check(ended || is_announced, || "the server serves a file whose length cannot be".to_owned());
    Ok(scene.measured)
}
