//! Measures group commit: appends a block to a file, forces it to disk, and notifies the main thread. In the
//! four arms, the write and the sync are two system calls or two linked entries of an io_uring, made on a
//! second thread or on the main thread.
//!
//! `cargo bench -p sluice-micro --bench commit -- [FOLDER [ROUNDS]]`. Rounds are interleaved. The bench
//! prints, for each arm and block size, the median and the 99th and 99.9th percentiles of the time from
//! submitting a block to the notification that it is durable, and the processor time of the process.
#![allow(missing_docs, unsafe_code)]

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use io_uring::types::{Fd, FsyncFlags};
    use io_uring::{IoUring, opcode, squeue};
    use rustix::event::{EventfdFlags, eventfd};
    use sluice_clock::{Machine, System};
    use std::fs::{File, OpenOptions};
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::path::Path;
    use std::sync::{Arc, Condvar, Mutex};

    /// Number of commits that each arm makes in a round.
    const COMMITS: usize = 300;
    /// Sizes of the blocks in bytes: one small command, an iteration of a busy server, a burst.
    const SIZES: [usize; 3] = [128, 8 * 1024, 128 * 1024];

    pub(super) fn main() {
        let arguments: Vec<String> =
            std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
        let folder = arguments.first().map_or(".", String::as_str);
        let rounds: usize = arguments.get(1).and_then(|word| word.parse().ok()).unwrap_or(7);
        for size in SIZES {
            let mut arms: Vec<(&str, Box<dyn Commit>)> = vec![
                ("thread: write, fdatasync", Box::new(Thread::start(Calls(open(folder, 0))))),
                ("thread: linked entries", Box::new(Thread::start(Ring::new(open(folder, 1))))),
                ("main thread: linked entries", Box::new(Ring::new(open(folder, 2)))),
                ("main thread: write, fdatasync", Box::new(Calls(open(folder, 3)))),
            ];
            let block = vec![b'x'; size];
            let mut figures = vec![(Vec::new(), 0u64); arms.len()];
            for _ in 0..rounds {
                for ((_, arm), (times, processor_ns)) in arms.iter_mut().zip(&mut figures) {
                    let before = processor_time_ns();
                    for _ in 0..COMMITS {
                        let began = now_ns();
                        arm.commit(&block);
                        times.push(now_ns() - began);
                    }
                    *processor_ns += processor_time_ns() - before;
                }
            }
            println!("{size} bytes, {} commits each", rounds * COMMITS);
            for ((name, _), (times, processor_ns)) in arms.iter().zip(&mut figures) {
                times.sort_unstable();
                let at = |share: usize| times[times.len() * share / 1000] as f64 / 1e3;
                let (median, high, most) = (at(500), at(990), at(999));
                let processor = *processor_ns as f64 / times.len() as f64 / 1e3;
                println!(
                    "  {name:<30} median {median:>8.1} µs  p99 {high:>8.1}  p99.9 {most:>8.1}  processor {processor:>6.1}"
                );
            }
        }
        for number in 0..4 {
            let _ = std::fs::remove_file(path(folder, number));
        }
    }

    fn path(folder: &str, number: u32) -> std::path::PathBuf {
        Path::new(folder).join(format!("commit-bench.{number}"))
    }

    fn open(folder: &str, number: u32) -> File {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        options.open(path(folder, number)).expect("a file in the folder")
    }

    fn now_ns() -> u64 {
        System::without_counter().monotonic_ns()
    }

    /// Processor time of all threads of the process, including kernel threads that work for its rings.
    fn processor_time_ns() -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// A way to make a block durable.
    trait Commit {
        /// Writes the block; returns when it is durable.
        fn commit(&mut self, block: &[u8]);
    }

    /// A write and an fdatasync, as two system calls.
    struct Calls(File);

    impl Commit for Calls {
        fn commit(&mut self, block: &[u8]) {
            let written = rustix::io::write(&self.0, block).expect("write");
            assert_eq!(written, block.len());
            rustix::fs::fdatasync(&self.0).expect("fdatasync");
        }
    }

    /// A write and a linked fdatasync, with one system call that submits both and waits.
    struct Ring {
        ring: IoUring,
        file: File,
    }

    impl Ring {
        fn new(file: File) -> Ring {
            Ring { ring: IoUring::new(8).expect("io_uring"), file }
        }
    }

    impl Commit for Ring {
        fn commit(&mut self, block: &[u8]) {
            let fd = Fd(self.file.as_raw_fd());
            // This offset means the end of the file, which was opened for appending.
            let write = opcode::Write::new(fd, block.as_ptr(), block.len() as u32).offset(u64::MAX);
            let write = write.build().flags(squeue::Flags::IO_LINK).user_data(1);
            let sync = opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build().user_data(2);
            // JUSTIFICATION: the crate has no safe way to push an entry.
            // SAFETY: the block and the file outlive both entries, whose completions are waited for below.
            unsafe { self.ring.submission().push_multiple(&[write, sync]) }
                .expect("the ring has room for two");
            self.ring.submit_and_wait(2).expect("submit");
            let mut results = [0; 2];
            for entry in self.ring.completion() {
                results[entry.user_data() as usize - 1] = entry.result();
            }
            assert_eq!(results, [block.len() as i32, 0]);
        }
    }

    /// The state that two threads share: a block to commit, and the buffer of the previous one.
    #[derive(Default)]
    struct Shared {
        block: Mutex<Option<Vec<u8>>>,
        arrived: Condvar,
        spent: Mutex<Vec<u8>>,
    }

    /// A second thread that makes the commits, and notifies the main thread by an eventfd.
    struct Thread {
        shared: Arc<Shared>,
        done: OwnedFd,
    }

    impl Thread {
        fn start(mut way: impl Commit + Send + 'static) -> Thread {
            let shared = Arc::new(Shared::default());
            let done = eventfd(0, EventfdFlags::empty()).expect("eventfd");
            let (theirs, tell) = (shared.clone(), done.try_clone().expect("dup"));
            std::thread::spawn(move || {
                loop {
                    let mut given = theirs.block.lock().expect("lock");
                    let block = loop {
                        match given.take() {
                            Some(block) => break block,
                            None => given = theirs.arrived.wait(given).expect("lock"),
                        }
                    };
                    drop(given);
                    way.commit(&block);
                    *theirs.spent.lock().expect("lock") = block;
                    rustix::io::write(&tell, &1u64.to_ne_bytes()).expect("tell");
                }
            });
            Thread { shared, done }
        }
    }

    impl Commit for Thread {
        fn commit(&mut self, block: &[u8]) {
            let mut buffer = std::mem::take(&mut *self.shared.spent.lock().expect("lock"));
            buffer.clear();
            buffer.extend_from_slice(block);
            *self.shared.block.lock().expect("lock") = Some(buffer);
            self.shared.arrived.notify_one();
            let mut told = [0; 8];
            rustix::io::read(&self.done, &mut told).expect("wait");
        }
    }
}
