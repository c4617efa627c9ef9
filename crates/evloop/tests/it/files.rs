//! Tests of operations on files and FIFOs, named by the ids of their requirements in `CONFORMANCE.md`.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluice_evloop::{AnyLoop, Config, Event, FileDone, FileId, FileOp, FileOpId, Token};

use crate::common::{assert_quiet, in_time, look, next, now_ns, on_each, on_each_with, soon};

/// The path of a file in the directory for temporary files. The file is removed when this value is dropped.
struct Path(PathBuf);

impl Path {
    fn new() -> Path {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Path(std::env::temp_dir().join(format!("evloop-{}-{number}", std::process::id())))
    }

    /// An empty file, open for reading and writing.
    fn file(&self) -> File {
        File::options().read(true).write(true).create(true).truncate(true).open(&self.0).expect("a file")
    }

    /// A FIFO, open for reading and writing without blocking.
    fn fifo(&self) -> File {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &self.0, rustix::fs::FileType::Fifo, mode, 0).expect("a FIFO");
        File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&self.0).expect("opens")
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn open(lp: &mut AnyLoop, file: File) -> FileId {
    lp.file_open(OwnedFd::from(file))
}

/// Waits for the next finished operation; returns its token and its result.
fn done(lp: &mut AnyLoop) -> (u64, FileDone) {
    match next(lp) {
        Event::FileDone { token, done } => (token.0, done),
        other => panic!("{other:?}"),
    }
}

fn run(lp: &mut AnyLoop, file: FileId, op: FileOp) -> FileDone {
    let id = lp.file_start(file, op, Token(77));
    let (token, done) = done(lp);
    assert_eq!((token, done.id), (77, id));
    done
}

/// The number of bytes that were read or written, or the errno.
fn outcome(done: &FileDone) -> Result<usize, i32> {
    match &done.error {
        None => Ok(done.bytes),
        Some(error) => Err(error.raw_os_error().unwrap_or(-1)),
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 256) as u8).collect()
}

#[test]
fn ev_f1_reads_and_writes_share_the_position() {
    on_each(|mut lp| {
        let path = Path::new();
        let file = open(&mut lp, path.file());
        assert_eq!(outcome(&run(&mut lp, file, FileOp::write(pattern(128)))), Ok(128));
        let again = open(&mut lp, File::open(&path.0).expect("opens"));
        let first = run(&mut lp, again, FileOp::read(vec![0; 64]));
        let second = run(&mut lp, again, FileOp::read(vec![0; 64]));
        assert_eq!([first.buf, second.buf].concat(), pattern(128));
        let end = run(&mut lp, again, FileOp::read(vec![9; 64]));
        assert_eq!((outcome(&end), &end.buf[..]), (Ok(0), &[9; 64][..]));
    });
}

#[test]
fn ev_f2_an_offset_in_the_file_leaves_the_position_alone() {
    on_each(|mut lp| {
        let path = Path::new();
        let file = open(&mut lp, path.file());
        run(&mut lp, file, FileOp::write(b"0123456789".to_vec()));
        assert_eq!(outcome(&run(&mut lp, file, FileOp::write(b"abc".to_vec()).at(2))), Ok(3));
        run(&mut lp, file, FileOp::write(b"end".to_vec()));
        let read = run(&mut lp, file, FileOp::read(vec![0; 100]).at(1));
        assert_eq!(outcome(&read), Ok(12), "up to the end of the file");
        assert_eq!(&read.buf[..12], b"1abc56789end");
        assert_eq!(std::fs::read(&path.0).expect("reads"), b"01abc56789end");
    });
}

#[test]
fn ev_f4_b3_b7_b8_b9_b10_bounds_are_checked_before_the_descriptor() {
    on_each(|mut lp| {
        let path = Path::new();
        drop(path.file());
        // Each file is opened only for the opposite direction, so a system call would fail with EBADF.
        // Operations with wrong bounds, or without a byte to move, must end without a system call.
        let unreadable = open(&mut lp, File::options().write(true).open(&path.0).expect("opens"));
        let unwritable = open(&mut lp, File::open(&path.0).expect("opens"));
        for at in [None, Some(5)] {
            let ops: [(FileId, fn(Vec<u8>) -> FileOp); 2] =
                [(unreadable, FileOp::read), (unwritable, FileOp::write)];
            for (file, op) in ops {
                let from = |from, least| FileOp { from, least, at, ..op(vec![0; 64]) };
                assert_eq!(outcome(&run(&mut lp, file, from(65, 0))), Err(libc::EINVAL), "beyond the buffer");
                assert_eq!(outcome(&run(&mut lp, file, from(usize::MAX, 0))), Err(libc::EINVAL));
                assert_eq!(outcome(&run(&mut lp, file, from(60, 5))), Err(libc::EINVAL), "more than fits");
                assert_eq!(outcome(&run(&mut lp, file, from(64, 0))), Ok(0), "at its end");
                let home = run(&mut lp, file, from(60, 4));
                assert_eq!(outcome(&home), Err(libc::EBADF), "the descriptor's own word");
                assert_eq!(home.buf.len(), 64, "the buffer comes home");
            }
        }
        let op = FileOp { at: Some(u64::MAX), ..FileOp::read(vec![0; 4]) };
        assert_eq!(outcome(&run(&mut lp, unwritable, op)), Err(libc::EINVAL), "no such offset");
    });
}

#[test]
fn ev_b3_offsets_on_both_sides() {
    on_each(|mut lp| {
        let path = Path::new();
        let file = open(&mut lp, path.file());
        let write = FileOp { from: 32, least: 96, ..FileOp::write(pattern(128)) };
        assert_eq!(outcome(&run(&mut lp, file, write)), Ok(96));
        let read = FileOp { from: 10, least: 54, at: Some(0), ..FileOp::read(vec![0; 64]) };
        let read = run(&mut lp, file, read);
        assert_eq!(outcome(&read), Ok(54));
        assert_eq!(&read.buf[..10], [0; 10]);
        assert_eq!(&read.buf[10..], &pattern(128)[32..86]);
    });
}

#[test]
fn ev_b4_the_wrong_end_is_an_error() {
    on_each(|mut lp| {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("pipe");
        let (reader, _writer) = (lp.file_open(reader), writer);
        assert_eq!(outcome(&run(&mut lp, reader, FileOp::write(vec![1; 10]))), Err(libc::EBADF));
    });
}

#[test]
fn operations_of_a_file_come_in_order_and_a_sync_covers_those_before() {
    on_each(|mut lp| {
        let path = Path::new();
        let file = open(&mut lp, path.file());
        for round in 0..20_u64 {
            lp.file_start(file, FileOp::write(vec![round as u8; 100]), Token(round));
        }
        lp.file_start(file, FileOp::sync_data(), Token(20));
        lp.file_start(file, FileOp::sync(), Token(21));
        lp.file_start(file, FileOp::read(vec![0; 2000]).at(0), Token(22));
        for round in 0..22 {
            let (token, done) = done(&mut lp);
            assert_eq!((token, done.error.is_none()), (round, true), "{done:?}");
        }
        let (_, read) = done(&mut lp);
        assert_eq!(outcome(&read), Ok(2000));
        assert!((0..20).all(|round| read.buf[round * 100..][..100] == [round as u8; 100]));
    });
}

#[test]
fn many_files_at_once_are_all_served_however_short_the_queue_is() {
    on_each_with(
        &Config { file_workers: 1, file_queue: 1, ring_entries: 2, ..Config::default() },
        |mut lp| {
            let paths: Vec<Path> = (0..12).map(|_| Path::new()).collect();
            let files: Vec<FileId> = paths.iter().map(|path| open(&mut lp, path.file())).collect();
            for (index, file) in files.iter().enumerate() {
                lp.file_start(*file, FileOp::write(vec![index as u8; 5000]), Token(index as u64));
                lp.file_start(*file, FileOp::read(vec![0; 5000]).at(0), Token(100 + index as u64));
            }
            let mut read = 0;
            for _ in 0..24 {
                let (token, done) = done(&mut lp);
                assert_eq!(outcome(&done), Ok(5000));
                if let Some(index) = token.checked_sub(100) {
                    assert!(done.buf.iter().all(|byte| *byte == index as u8));
                    read += 1;
                }
            }
            assert_eq!(read, 12);
            assert_quiet(&mut lp);
        },
    );
}

#[test]
fn ev_fifo1_a_fifo_is_read_when_something_comes() {
    on_each(|mut lp| {
        let path = Path::new();
        let fifo = path.fifo();
        let mut peer = OpenOptions::new().write(true).open(&path.0).expect("opens");
        let reader = open(&mut lp, fifo);
        lp.file_start(reader, FileOp::read_some(vec![0; 64]), Token(1));
        (0..3).for_each(|_| assert!(look(&mut lp).is_empty()));
        peer.write_all(b"hello").expect("writes");
        let (_, some) = done(&mut lp);
        assert_eq!((outcome(&some), &some.buf[..5]), (Ok(5), &b"hello"[..]));
        lp.file_start(reader, FileOp::read(vec![0; 6]), Token(2));
        peer.write_all(b"abc").expect("writes");
        (0..3).for_each(|_| assert!(look(&mut lp).is_empty(), "half is not enough"));
        peer.write_all(b"def").expect("writes");
        assert_eq!(done(&mut lp).1.buf, b"abcdef");
        assert_eq!(outcome(&run(&mut lp, reader, FileOp::read(vec![0; 6]).at(3))), Err(libc::ESPIPE));
        assert_quiet(&mut lp);
    });
}

/// Reading and writing at the same time needs a `FileId` for each direction, because the operations of one
/// `FileId` are executed in order.
#[test]
fn one_descriptor_that_is_open_twice_is_read_and_written_at_once() {
    on_each(|mut lp| {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        ours.set_nonblocking(true).expect("nonblocking");
        let ours = Arc::new(OwnedFd::from(ours));
        let (reader, writer) = (lp.file_open(ours.clone()), lp.file_open(ours.clone()));
        lp.file_start(reader, FileOp::read(vec![0; 4]), Token(1));
        let bytes = pattern(4 << 20);
        lp.file_start(writer, FileOp::write(bytes.clone()), Token(2));
        (0..3).for_each(|_| assert!(look(&mut lp).is_empty(), "both wait"));
        theirs.write_all(b"ping").expect("writes");
        assert_eq!(done(&mut lp).1.buf, b"ping");
        let peer = std::thread::spawn(move || {
            let mut got = vec![0; 4 << 20];
            theirs.read_exact(&mut got).expect("reads");
            (got, theirs)
        });
        let (token, written) = done(&mut lp);
        assert_eq!((token, outcome(&written)), (2, Ok(4 << 20)));
        let (got, mut theirs) = peer.join().expect("thread");
        assert!(got == bytes);
        // Once both files are closed, the descriptor must not be registered in the kernel's set any more,
        // although it is still open.
        lp.file_start(reader, FileOp::read(vec![0; 4]), Token(3));
        assert!(look(&mut lp).is_empty());
        lp.file_close(reader);
        lp.file_close(writer);
        assert_quiet(&mut lp);
        theirs.write_all(b"pong").expect("writes");
        assert_quiet(&mut lp);
        drop(ours);
    });
}

#[test]
fn a_write_that_fills_a_fifo_goes_on_when_it_drains() {
    on_each(|mut lp| {
        let path = Path::new();
        let fifo = path.fifo();
        let mut peer = File::options().read(true).open(&path.0).expect("opens");
        let writer = open(&mut lp, fifo);
        let bytes = pattern(300_000);
        lp.file_start(writer, FileOp::write(bytes.clone()), Token(1));
        lp.file_start(writer, FileOp::write(b"behind".to_vec()), Token(2));
        (0..3).for_each(|_| assert!(look(&mut lp).is_empty(), "it does not fit"));
        let len = bytes.len() + 6;
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; len];
            peer.read_exact(&mut got).expect("reads");
            got
        });
        let (first, second) = (done(&mut lp), done(&mut lp));
        assert_eq!((first.0, outcome(&first.1)), (1, Ok(300_000)));
        assert_eq!((second.0, outcome(&second.1)), (2, Ok(6)));
        let got = reader.join().expect("thread");
        assert_eq!((&got[..300_000], &got[300_000..]), (&bytes[..], &b"behind"[..]));
    });
}

#[test]
fn a_fifo_whose_writers_are_gone_has_ended() {
    on_each(|mut lp| {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("pipe");
        let reader = lp.file_open(reader);
        rustix::io::write(&writer, b"last").expect("writes");
        lp.file_start(reader, FileOp::read(vec![0; 10]), Token(1));
        assert!(look(&mut lp).is_empty());
        drop(writer);
        let (_, end) = done(&mut lp);
        assert_eq!((outcome(&end), &end.buf[..4]), (Ok(4), &b"last"[..]));
    });
}

#[test]
fn what_is_always_ready_is_served_too() {
    on_each(|mut lp| {
        let null = File::options().read(true).write(true).open("/dev/null").expect("opens");
        let null = open(&mut lp, null);
        assert_eq!(outcome(&run(&mut lp, null, FileOp::write(vec![1; 70]))), Ok(70));
        assert_eq!(outcome(&run(&mut lp, null, FileOp::read(vec![1; 70]))), Ok(0));
    });
}

/// Every operation, whether cancelled or not, ends once and returns its buffer.
#[test]
fn a_cancelled_operation_ends_once_and_its_buffer_comes_home() {
    on_each(|mut lp| {
        let path = Path::new();
        let fifo = path.fifo();
        let mut peer = OpenOptions::new().write(true).open(&path.0).expect("opens");
        let reader = open(&mut lp, fifo);
        for _ in 0..10 {
            let first = lp.file_start(reader, FileOp::read_some(vec![1; 64]), Token(1));
            let second = lp.file_start(reader, FileOp::read_some(vec![2; 64]), Token(2));
            let third = lp.file_start(reader, FileOp::read_some(vec![3; 64]), Token(3));
            assert!(look(&mut lp).is_empty());
            lp.file_cancel(second);
            lp.file_cancel(first);
            lp.file_cancel(first);
            let mut ends = [done(&mut lp), done(&mut lp)];
            ends.sort_by_key(|(token, _)| *token);
            for (index, (token, done)) in ends.iter().enumerate() {
                assert_eq!((*token, outcome(done)), (index as u64 + 1, Err(libc::ECANCELED)));
                assert_eq!(done.buf, [*token as u8; 64]);
            }
            assert_eq!([ends[0].1.id, ends[1].1.id], [first, second]);
            peer.write_all(b"x").expect("writes");
            let (token, read) = done(&mut lp);
            assert_eq!((token, read.id, outcome(&read)), (3, third, Ok(1)), "no byte went to the cancelled");
            lp.file_cancel(third);
        }
        assert_quiet(&mut lp);
    });
}

/// If a cancellation races with a byte that arrives, the operation either has read the byte, or leaves it in
/// the FIFO for the next read.
#[test]
fn a_cancellation_that_meets_the_byte_loses_none() {
    on_each(|mut lp| {
        let path = Path::new();
        let fifo = path.fifo();
        let mut peer = OpenOptions::new().write(true).open(&path.0).expect("opens");
        let reader = open(&mut lp, fifo);
        for round in 1..40 {
            let id = lp.file_start(reader, FileOp::read_some(vec![0; 8]), Token(1));
            (0..round % 3).for_each(|_| assert!(look(&mut lp).is_empty()));
            peer.write_all(&[round]).expect("writes");
            lp.file_cancel(id);
            let (_, first) = done(&mut lp);
            let read = match outcome(&first) {
                Ok(1) => first,
                Err(libc::ECANCELED) => {
                    assert_eq!(first.bytes, 0);
                    run(&mut lp, reader, FileOp::read_some(vec![0; 8]))
                }
                other => panic!("{other:?}"),
            };
            assert_eq!((read.bytes, read.buf[0]), (1, round));
        }
        assert_quiet(&mut lp);
    });
}

#[test]
fn cancelling_and_working_race_and_each_operation_ends_once() {
    on_each(|mut lp| {
        let path = Path::new();
        let file = open(&mut lp, path.file());
        let ids: Vec<FileOpId> = (0..60)
            .map(|round| lp.file_start(file, FileOp::write(vec![round as u8; 3000]), Token(round)))
            .collect();
        ids.iter().rev().step_by(3).for_each(|id| lp.file_cancel(*id));
        let (mut written, mut seen) = (0, Vec::new());
        for _ in 0..60 {
            let (token, done) = done(&mut lp);
            assert_eq!(done.buf, vec![token as u8; 3000]);
            written += done.bytes as u64;
            seen.push(done.id);
        }
        assert!(ids.iter().all(|id| seen.contains(id)));
        assert_eq!(std::fs::metadata(&path.0).expect("there").len(), written);
        assert_quiet(&mut lp);
    });
}

#[test]
fn a_closed_file_says_nothing_more_and_its_descriptor_goes() {
    on_each(|mut lp| {
        let path = Path::new();
        let fifo = Arc::new(OwnedFd::from(path.fifo()));
        let reader = lp.file_open(fifo.clone());
        let waiting = lp.file_start(reader, FileOp::read(vec![0; 8]), Token(1));
        lp.file_start(reader, FileOp::read(vec![0; 8]), Token(2));
        lp.file_start(reader, FileOp { from: 9, ..FileOp::read(vec![0; 8]) }, Token(3));
        lp.file_close(reader);
        lp.file_cancel(waiting);
        assert_quiet(&mut lp);
        let until = soon();
        while Arc::strong_count(&fifo) > 1 {
            assert!(now_ns() < u64::from(until), "the descriptor goes");
            let _ = look(&mut lp);
        }
        assert_eq!(outcome(&run(&mut lp, reader, FileOp::read(vec![5; 8]))), Err(libc::EBADF), "stale");
        let again = lp.file_open(fifo.clone());
        rustix::io::write(&*fifo, b"12345678").expect("writes");
        assert_eq!(run(&mut lp, again, FileOp::read(vec![0; 8])).buf, b"12345678");
    });
}

#[test]
fn a_loop_may_go_with_operations_in_flight() {
    on_each(|mut lp| {
        let (path, other) = (Path::new(), Path::new());
        let fifo = open(&mut lp, path.fifo());
        let file = open(&mut lp, other.file());
        lp.file_start(fifo, FileOp::read(vec![0; 8]), Token(1));
        lp.file_start(file, FileOp::write(vec![0; 100_000]), Token(2));
        lp.file_start(file, FileOp::sync(), Token(2));
        assert!(look(&mut lp).iter().all(|event| matches!(event, Event::FileDone { .. })));
        drop(lp);
    });
}

#[test]
fn a_loop_may_go_with_ends_at_hand_that_nobody_took() {
    in_time(|| {
        on_each(|mut lp| {
            let path = Path::new();
            let file = open(&mut lp, path.file());
            lp.file_start(file, FileOp::write(vec![0; 1000]), Token(1));
            lp.file_start(file, FileOp::sync(), Token(2));
            let until = soon();
            loop {
                let iteration = lp.wait(now_ns(), until).expect("wait");
                if iteration.ready > 0 || iteration.woken {
                    break;
                }
                assert!(now_ns() < u64::from(until), "it ends");
            }
            drop(lp);
        });
    });
}
