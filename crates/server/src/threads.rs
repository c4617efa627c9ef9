//! The threads of the server. Every thread is a variant of [`Thread`], and is started here and nowhere
//! else, which `cargo xtask tidy` checks.
//!
//! Every thread has, from its first instruction to its last:
//! 1. a name of at most 15 bytes, which `ps -L`, crash reports and panics show;
//! 2. a signal stack, on which a crash report can be made when the thread's own stack has overflowed;
//! 3. processors: those of `bio-cpulist` for the threads that [`Thread::processors`] selects, and otherwise
//!    those of the starting thread, which are those of `server-cpulist`. If the system refuses these
//!    processors, the thread runs on any processor;
//! 4. a share of the processors: [`Thread::yields`].
//!
//! A panic on any thread makes a crash report and ends the process (`daemon/crash.rs`). The panic hook
//! aborts before the stack is unwound, so no other thread needs to handle a panic, and a join does not
//! fail. The threads for `evloop`'s pool are started here as well.
//!
//! If the system refuses a thread, the caller gets the error, and also the job if another thread can do
//! it ([`Thread::start_with`]). The comment of each variant describes what then happens to the job.

mod affinity;

pub use affinity::bind_thread as bind_main_thread;

use sluice_daemon::crash::SignalStack;
use sluice_evloop::{AnyLoop, Backend, Mailbox, Sender};
use std::borrow::Cow;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};

/// The purpose of a thread.
#[derive(Clone, Copy, Debug)]
pub enum Thread<'a> {
    /// Writes the append-only file. If refused, there is no append-only file, so that a start ends, and
    /// CONFIG SET fails.
    Aof,
    /// Syncs the append-only file. If refused, the consequences are those of [`Thread::Aof`].
    AofSync,
    /// Puts the base of a rewrite in force. If refused, the thread of the file puts it in force.
    AofBase,
    /// Performs the TLS handshakes of cluster bus connections. If refused, the connection is closed, and
    /// the log reports this.
    BusHandshake,
    /// Writes `nodes.conf`. If refused, the server does not start.
    ClusterFile,
    /// Makes a connection to a primary. If refused, the link's attempt fails.
    Connect,
    /// Makes a connection to the target of a slot move. If refused, the move fails.
    ExportConnect,
    /// Receives a primary's snapshot into a file. If refused, the full sync fails.
    Download {
        /// The processors, as `bio-cpulist` lists them.
        bio: &'a str,
    },
    /// An I/O thread, by its number, counted from 1. If refused, fewer I/O threads run, and the log reports
    /// this.
    Io(usize),
    /// Frees large values. If refused, the server does not start.
    LazyFree {
        /// The processors, as `bio-cpulist` lists them.
        bio: &'a str,
    },
    /// Loads data into a keyspace. If refused, the main thread loads the data while all clients wait, and
    /// the log reports this.
    Load {
        /// The processors, as `bio-cpulist` lists them.
        bio: &'a str,
    },
    /// Serves the metrics endpoint. If refused, the endpoint does not answer, and the log reports this.
    Metrics,
    /// Performs a MIGRATE. If refused, the client gets the error for an unreachable target.
    Migrate,
    /// Looks up the names of nodes. If refused, the name has no address.
    Resolve,
    /// Produces replies of slow reads; the field is the thread's number, counted from 1. If refused, the
    /// main thread produces the replies, and the log reports this.
    SlowRead(usize),
    /// Formats a snapshot, or the base of a rewrite. If refused, the save, the rewrite or the replica's full
    /// sync fails.
    Snapshot,
    /// Reads a snapshot's pieces back from a scratch file. If refused, there is no scratch file, and the
    /// pieces wait in memory.
    SnapshotLoad,
    /// Writes a snapshot file, or the base of a rewrite. If refused, the save or the rewrite fails.
    SnapshotWrite,
    /// Puts the replication stream that follows a snapshot into a spool. If refused, the replica's
    /// full sync fails.
    StreamSpool,
    /// Performs the TLS handshakes of clients. If refused, the connection is closed, and the log reports
    /// this.
    TlsHandshake,
    /// Checks whether certificate files have changed. If refused, the certificates in use stay in use,
    /// and the log reports this.
    TlsReload,
    /// Reads and validates a file of users. If refused, ACL LOAD fails.
    Users,
}

impl Thread<'_> {
    /// The thread's name as the system shows it, at most 15 bytes.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Thread::Aof => "aof".into(),
            Thread::AofSync => "aof-sync".into(),
            Thread::AofBase => "aof-base".into(),
            Thread::BusHandshake => "bus-handshake".into(),
            Thread::ClusterFile => "cluster-file".into(),
            Thread::Connect => "repl_connect".into(),
            Thread::ExportConnect => "slot-export".into(),
            Thread::Download { .. } => "bio_rdb_save".into(),
            Thread::Io(number) => format!("io_thd_{number}").into(),
            Thread::LazyFree { .. } => "bio_lazy_free".into(),
            Thread::Load { .. } => "load".into(),
            Thread::Metrics => "metrics".into(),
            Thread::Migrate => "migrate".into(),
            Thread::Resolve => "resolve".into(),
            Thread::SlowRead(number) => format!("slow_read_{number}").into(),
            Thread::Snapshot => "snapshot".into(),
            Thread::SnapshotLoad => "snapshot-load".into(),
            Thread::SnapshotWrite => "snapshot-write".into(),
            Thread::StreamSpool => "stream-spool".into(),
            Thread::TlsHandshake => "tls-handshake".into(),
            Thread::TlsReload => "tls-reload".into(),
            Thread::Users => "users".into(),
        }
    }

    /// The processors that the thread prefers, as a list such as `0,2,4-9:2`; empty for those of the
    /// starting thread.
    fn processors(&self) -> &str {
        match self {
            Thread::Download { bio } | Thread::LazyFree { bio } | Thread::Load { bio } => bio,
            Thread::Aof
            | Thread::AofSync
            | Thread::AofBase
            | Thread::BusHandshake
            | Thread::ClusterFile
            | Thread::Connect
            | Thread::ExportConnect
            | Thread::Io(_)
            | Thread::Metrics
            | Thread::Migrate
            | Thread::Resolve
            | Thread::SlowRead(_)
            | Thread::Snapshot
            | Thread::SnapshotLoad
            | Thread::SnapshotWrite
            | Thread::StreamSpool
            | Thread::TlsHandshake
            | Thread::TlsReload
            | Thread::Users => "",
        }
    }

    /// Whether the thread gets only a third of other threads' processor time if there are too few
    /// processors. On an idle processor the thread is not slowed down.
    fn yields(self) -> bool {
        matches!(
            self,
            Thread::LazyFree { .. }
                | Thread::Metrics
                | Thread::Snapshot
                | Thread::SnapshotWrite
                | Thread::TlsHandshake
        )
    }

    /// Starts the thread. Cost: some system calls, about 50 microseconds.
    ///
    /// # Errors
    /// An error of the system, because there are too many threads, or no memory for a stack. `run` is then
    /// dropped.
    pub fn start<T: Send + 'static>(
        self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let (processors, yields) = (self.processors().to_owned(), self.yields());
        Builder::new().name(self.name().into_owned()).spawn(move || {
            let _stack = SignalStack::install();
            let _ = affinity::bind_thread(&processors);
            if yields {
                yield_to_others();
            }
            run()
        })
    }

    /// Starts the thread for a job that another thread can do as well.
    ///
    /// # Errors
    /// As for [`Thread::start`]; the error contains the job.
    pub fn start_with<J: Send + 'static, T: Send + 'static>(
        self,
        job: J,
        run: impl FnOnce(J) -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, Refused<J>> {
        // The closure shares the job with this function, because everything moved into a closure is dropped
        // if the thread does not start.
        let job = Arc::new(Mutex::new(Some(job)));
        let own = job.clone();
        let taken = |job: &Mutex<Option<J>>| {
            let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
            job.expect("the job is taken once: by the thread, or by the caller where there is none")
        };
        let started = self.start(move || run(taken(&own)));
        started.map_err(|error| Refused { job: taken(&job), error })
    }
}

/// Starts a thread that waits in an event loop of its own. Returns the sending end of the thread's inbox,
/// which wakes the loop. The thread is not joined; it ends when `run` returns, or with the process. This
/// function waits until the thread has started.
///
/// # Errors
/// The thread, or its event loop, cannot be started.
pub fn start_with_loop<M: Send + 'static>(
    thread: Thread<'_>,
    run: impl FnOnce(AnyLoop, Mailbox<M>) + Send + 'static,
) -> io::Result<Sender<M>> {
    let (ready, opened) = mpsc::channel();
    thread.start(move || {
        // The event loop is opened on the thread that uses it.
        let backends = [Backend::Epoll, Backend::Poll];
        let event_loop = match AnyLoop::first_of(&backends, &sluice_evloop::Config::default()) {
            Ok(opened) => opened.event_loop,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let (sender, inbox) = Mailbox::new(event_loop.waker());
        let _ = ready.send(Ok(sender));
        run(event_loop, inbox);
    })?;
    opened.recv().map_err(|_| io::ErrorKind::BrokenPipe)?
}

/// A job for which no thread could be started.
#[derive(Debug)]
pub struct Refused<J> {
    /// The job, which the caller can do elsewhere.
    pub job: J,
    /// The system's reason for the refusal.
    pub error: io::Error,
}

/// Gives this thread a third of other threads' processor time if there are too few processors.
fn yield_to_others() {
    use rustix::process::{getpid, getpriority_process, setpriority_process};
    // The niceness is relative to the main thread's, because that of the starting thread may already be
    // raised.
    let main = getpriority_process(Some(getpid())).unwrap_or(0);
    // An error is ignored, because only the priority is affected if the system does not allow the change.
    let _ = setpriority_process(Some(rustix::thread::gettid()), (main + YIELDED).min(NICENESS_MAX));
}

/// A yielding thread's niceness is higher than the main thread's by this. Each step divides the thread's
/// weight by 1.25, so five steps leave a third.
const YIELDED: i32 = 5;
/// The largest niceness that Linux has.
const NICENESS_MAX: i32 = 19;

#[cfg(test)]
mod tests {
    use super::Thread;

    #[test]
    fn names_are_short_enough_for_the_kernel() {
        let bio = "";
        let all = [
            Thread::Aof,
            Thread::AofSync,
            Thread::AofBase,
            Thread::BusHandshake,
            Thread::ClusterFile,
            Thread::Connect,
            Thread::Download { bio },
            Thread::Io(999),
            Thread::LazyFree { bio },
            Thread::Load { bio },
            Thread::Metrics,
            Thread::Migrate,
            Thread::Resolve,
            Thread::SlowRead(999),
            Thread::Snapshot,
            Thread::SnapshotLoad,
            Thread::SnapshotWrite,
            Thread::StreamSpool,
            Thread::TlsHandshake,
            Thread::TlsReload,
            Thread::Users,
        ];
        let mut names: Vec<_> = all.iter().map(|thread| thread.name()).collect();
        assert!(names.iter().all(|name| name.len() <= 15), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len(), "two kinds of threads have one name");
    }

    #[test]
    fn a_thread_has_its_name_and_its_processors() {
        let name_of = || std::thread::current().name().map(str::to_owned);
        let started = Thread::Load { bio: "0" }.start(move || (name_of(), super::affinity::allowed()));
        assert_eq!(started.unwrap().join().unwrap(), (Some("load".to_owned()), vec![0]));
        let started = Thread::Aof.start(super::affinity::allowed);
        assert_eq!(started.unwrap().join().unwrap(), super::affinity::allowed());
    }

    #[test]
    fn a_thread_with_a_loop_is_woken_by_what_it_is_sent() {
        let (told, heard) = std::sync::mpsc::channel();
        let sender = super::start_with_loop(Thread::Metrics, move |mut event_loop, mut inbox| {
            let mut sum = 0;
            while sum < 3 {
                let _ = event_loop.wait(0, sluice_evloop::Deadline::NEVER).unwrap();
                sum += inbox.drain().sum::<u32>();
            }
            told.send(sum).unwrap();
        });
        let sender = sender.unwrap();
        // The result only says whether the kernel had to be asked to wake the thread.
        for _ in 0..3 {
            let _ = sender.send(1);
        }
        assert_eq!(heard.recv(), Ok(3));
    }

    #[test]
    fn a_job_reaches_its_thread() {
        let started = Thread::AofBase.start_with(vec![1, 2], |job| job.len());
        assert_eq!(started.unwrap().join().unwrap(), 2);
    }
}
