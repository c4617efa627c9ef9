#![allow(clippy::disallowed_methods, reason = "a deadline of the test is in real time")]

use super::*;
use sluice_evloop::{AnyLoop, Backend};
use sluice_persist::rdb::{Compression, Text, Usage, Version, WriteOptions, Writer};
use sluice_storage::Real;
use sluice_storage::faulty::{AfterCrash, Faulty, FileFault, Plan};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const MARK: &str = "0123456789abcdefghij0123456789abcdefghij";
const DEADLINE: Duration = Duration::from_secs(30);

/// A download from a primary that the test plays.
struct Bed {
    folder: PathBuf,
    primary: TcpStream,
    download: Option<Download>,
    lines: Vec<String>,
    _event_loop: AnyLoop,
}

impl Bed {
    fn new(fault: Option<Plan>) -> Bed {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("sluice-download-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("dump.rdb"), "old").unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let primary = listener.accept().unwrap().0;
        let event_loop = AnyLoop::choose(Backend::Poll, &Default::default()).unwrap().event_loop;
        let storage: Arc<dyn Storage> = match fault {
            Some(plan) => Arc::new(Faulty::new(Arc::new(Real), plan, AfterCrash::Fail)),
            None => Arc::new(Real),
        };
        let plan = DownloadPlan {
            storage,
            temporary: folder.join("temp-7.1.rdb"),
            target: folder.join("dump.rdb"),
            options: ReadOptions::default(),
            bio_cpulist: String::new(),
        };
        let download = Download::start(socket.into(), Vec::new(), plan, event_loop.waker()).unwrap();
        Bed { folder, primary, download: Some(download), lines: Vec::new(), _event_loop: event_loop }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The write may fail if the replica has given up, which does no harm.
        let _ = self.primary.write_all(bytes.as_ref());
    }

    /// The next report other than a line for the log.
    fn report(&mut self) -> Report {
        let began = Instant::now();
        loop {
            match self.download.as_ref().unwrap().take() {
                Some(Report::Log(_, line)) => self.lines.push(line),
                Some(report) => return report,
                None => std::thread::yield_now(),
            }
            assert!(began.elapsed() < DEADLINE, "nothing is reported: {:?}", self.lines);
        }
    }

    fn target(&self) -> Vec<u8> {
        std::fs::read(self.folder.join("dump.rdb")).unwrap()
    }

    /// Waits until the temporary file was removed.
    fn temporary_is_gone(&self) {
        let began = Instant::now();
        while Path::new(&self.folder.join("temp-7.1.rdb")).exists() {
            assert!(began.elapsed() < DEADLINE, "the temporary file stays");
            std::thread::yield_now();
        }
    }

    /// Checks that the download fails and keeps the former file.
    fn fails(&mut self, what: &str) {
        let report = self.report();
        assert!(matches!(report, Report::Failed), "{what}: {report:?}, {:?}", self.lines);
        assert_eq!(self.target(), b"old", "{what}");
        self.temporary_is_gone();
        let warned = self.lines.iter().any(|line| line.starts_with("Replica bio thread: "));
        assert!(warned, "{what}: the log has no reason");
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.download = None;
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A snapshot with a string of `bytes` bytes.
fn snapshot(bytes: usize) -> Vec<u8> {
    let options = WriteOptions { version: Version::Valkey, compression: Compression::None, checksum: true };
    let mut writer = Writer::new(options);
    writer.db(0, 1, 0);
    writer.string(b"key", Text::Bytes(&vec![b'v'; bytes]), None, Usage::Absent);
    writer.finish()
}

/// The two forms in which a primary may send the snapshot: with its size in front, or with an end mark
/// after it.
fn framed(snapshot: &[u8]) -> [Vec<u8>; 2] {
    [
        [format!("\n${}\r\n", snapshot.len()).as_bytes(), snapshot].concat(),
        [format!("\n\n$EOF:{MARK}\r\n").as_bytes(), snapshot, MARK.as_bytes()].concat(),
    ]
}

#[test]
fn a_snapshot_takes_the_place_of_the_file_when_that_is_wanted_and_not_before() {
    let snapshot = snapshot(3_000_000);
    for bytes in framed(&snapshot) {
        let mut bed = Bed::new(None);
        bed.send(&bytes);
        assert!(matches!(bed.report(), Report::Saved));
        assert_eq!(bed.target(), b"old", "D-3: nobody has said commit");
        bed.download.as_ref().unwrap().commit();
        let Report::InForce(socket, rest) = bed.report() else { panic!("{:?}", bed.lines) };
        assert_eq!((bed.target(), rest), (snapshot.clone(), Vec::new()));
        bed.temporary_is_gone();
        let mut socket = socket.block().unwrap();
        assert_eq!(socket.write(b"x").unwrap(), 1, "the connection comes back open");
    }
}

/// A saved snapshot may wait for its rename, for example while the RDB file is about to become the base of
/// the append-only file, or while the disk hangs. The primary must not take the silence for a dead replica.
#[test]
fn a_primary_hears_of_a_download_that_waits_to_be_committed() {
    for bytes in framed(&snapshot(1000)) {
        let mut bed = Bed::new(None);
        bed.send(&bytes);
        assert!(matches!(bed.report(), Report::Saved));
        bed.download.as_ref().unwrap().keep_alive();
        bed.primary.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut said = [0];
        bed.primary.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"\n");
    }
}

#[test]
fn what_comes_behind_a_snapshot_of_a_known_size_is_left_to_the_stream() {
    let snapshot = snapshot(100);
    let mut bed = Bed::new(None);
    let [sized, _] = framed(&snapshot);
    bed.send([&sized[..], b"*1\r\n$4\r\nPING\r\n"].concat());
    assert!(matches!(bed.report(), Report::Saved));
    bed.download.as_ref().unwrap().commit();
    let Report::InForce(socket, mut rest) = bed.report() else { panic!("{:?}", bed.lines) };
    // `rest` has the bytes of PING that were read together with the snapshot. Any others are still in the
    // socket.
    let mut socket = socket.block().unwrap();
    while rest.len() < 14 {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        rest.push(byte[0]);
    }
    assert_eq!(rest, b"*1\r\n$4\r\nPING\r\n");
}

#[test]
fn d3_a_file_that_is_wrong_never_replaces_anything() {
    let good = snapshot(50_000);
    let mut summed = good.clone();
    summed[20_000] ^= 1;
    let mut version = good.clone();
    version[8] = b'9';
    let cases = [("checksum", summed), ("version", version), ("magic", vec![b'x'; 5000])];
    for (what, snapshot) in cases {
        for bytes in framed(&snapshot) {
            let mut bed = Bed::new(None);
            bed.send(&bytes);
            bed.fails(what);
        }
    }
}

#[test]
fn a_primary_that_ends_at_any_moment_leaves_what_was_there() {
    let snapshot = snapshot(300_000);
    for bytes in framed(&snapshot) {
        for len in [0, 1, 2, 5, 30, 60, 1000, bytes.len() / 2, bytes.len() - 1] {
            let mut bed = Bed::new(None);
            bed.send(&bytes[..len]);
            let _ = bed.primary.shutdown(std::net::Shutdown::Both);
            bed.fails(&format!("killed behind {len} bytes"));
        }
    }
}

#[test]
fn lines_that_are_no_metadata_are_errors() {
    for line in ["-ERR no\r\n", "+OK\r\n", "$x\r\n", "$EOF:abc\r\n"] {
        let mut bed = Bed::new(None);
        bed.send(line);
        bed.fails(line);
    }
}

/// Number of disk operations of a download of the snapshot below: create, writes, syncs, and those after the
/// commit.
const STEPS: u64 = 6;

#[test]
fn every_fault_of_the_disk_leaves_what_was_there_or_the_new_file() {
    let snapshot = snapshot(200_000);
    let faults = [
        FileFault::NoSpace,
        FileFault::FillsUp,
        FileFault::WriteError,
        FileFault::SyncError,
        FileFault::TornRename,
        FileFault::Crash,
    ];
    for fault in faults {
        for first in 1..=STEPS {
            for bytes in framed(&snapshot) {
                let mut bed = Bed::new(Some(Plan { fault, first, count: 1000, seed: first }));
                bed.send(&bytes);
                let what = format!("{fault:?} at step {first}");
                let mut report = bed.report();
                if matches!(report, Report::Saved) {
                    assert_eq!(bed.target(), b"old", "{what}");
                    bed.download.as_ref().unwrap().commit();
                    report = bed.report();
                }
                match report {
                    Report::InForce(..) => assert_eq!(bed.target(), snapshot, "{what}"),
                    Report::Failed => {
                        let left = std::fs::read(bed.folder.join("dump.rdb")).unwrap_or_default();
                        assert!(left == b"old" || left == snapshot, "{what}: {} bytes", left.len());
                    }
                    other => panic!("{what}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn the_final_sync_that_fails_is_no_success() {
    let snapshot = snapshot(1000);
    for bytes in framed(&snapshot) {
        // The plan strikes every step, but this fault has an effect only on syncs: the create and the writes
        // succeed, and the sync after them fails.
        let mut bed = Bed::new(Some(Plan { fault: FileFault::SyncError, first: 1, count: 1000, seed: 0 }));
        bed.send(&bytes);
        bed.fails("EIO of the final fsync");
    }
}

#[test]
fn short_writes_are_gone_on_with() {
    let snapshot = snapshot(100_000);
    for bytes in framed(&snapshot) {
        let mut bed = Bed::new(Some(Plan { fault: FileFault::ShortWrite, first: 1, count: 1000, seed: 0 }));
        bed.send(&bytes);
        assert!(matches!(bed.report(), Report::Saved), "{:?}", bed.lines);
    }
}

#[test]
fn d4_a_snapshot_that_does_not_fit_is_refused_before_it_comes() {
    let mut bed = Bed::new(Some(Plan { fault: FileFault::NoSpace, first: 1000, count: 1, seed: 0 }));
    bed.send("$1000000\r\n");
    bed.fails("no room");
    assert!(bed.lines.iter().any(|line| line.contains("0 bytes are free on the disk")), "{:?}", bed.lines);
}

#[test]
fn d1_d7_a_cancel_ends_a_silent_download_at_once() {
    for sent in ["", "\n", "$100000\r\n", "$100000\r\nVALKEY080", "$EOF:"] {
        let mut bed = Bed::new(None);
        bed.send(sent);
        let began = Instant::now();
        let progress = bed.download.as_ref().unwrap().progress().clone();
        while progress.received() < sent.len() as u64 {
            assert!(began.elapsed() < DEADLINE);
            std::thread::yield_now();
        }
        let cancelled = Instant::now();
        drop(bed.download.take());
        let dropped = cancelled.elapsed();
        // The primary sees the end of the connection, because the drop has shut the socket down. The thread
        // then removes the file.
        bed.primary.set_read_timeout(Some(DEADLINE)).unwrap();
        assert_eq!(bed.primary.read(&mut [0]).unwrap_or(0), 0, "{sent:?}");
        bed.temporary_is_gone();
        assert!(dropped < Duration::from_millis(50), "D-1: the main thread waited {dropped:?}");
        assert!(cancelled.elapsed() < Duration::from_secs(2), "D-7: {:?}", cancelled.elapsed());
        assert_eq!(bed.target(), b"old");
    }
}

#[test]
fn d3_a_cancel_before_the_commit_leaves_what_was_there() {
    for bytes in framed(&snapshot(1000)) {
        let mut bed = Bed::new(None);
        bed.send(&bytes);
        assert!(matches!(bed.report(), Report::Saved));
        drop(bed.download.take());
        bed.temporary_is_gone();
        assert_eq!(bed.target(), b"old");
    }
}

#[test]
fn d6_numbers_are_those_of_the_snapshot() {
    let snapshot = snapshot(70_000);
    for (bytes, total) in framed(&snapshot).into_iter().zip([snapshot.len() as i64, 0]) {
        let mut bed = Bed::new(None);
        assert_eq!(bed.download.as_ref().unwrap().progress().bytes(), (-1, 0));
        bed.send(&bytes);
        assert!(matches!(bed.report(), Report::Saved));
        let progress = bed.download.as_ref().unwrap().progress();
        assert_eq!(progress.bytes(), (total, snapshot.len() as u64));
        assert_eq!(progress.received(), bytes.len() as u64);
    }
}
