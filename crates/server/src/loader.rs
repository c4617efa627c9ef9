//! The thread of a load: it fills a keyspace and ends.

use sluice_base::Now;
use sluice_clock::Clock;
use sluice_engine::LoadJob;
use sluice_evloop::Waker;
use sluice_snapshot::LoadThread;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The last line of the log when the data cannot be loaded. Those before are about the file: scripts look for them there.
pub const NOT_LOADED: &str = "Fatal error loading the DB, check server logs. Exiting.";

/// The thread's way to the main thread, and its clock.
struct Loader {
    main: Waker,
    clock: Clock,
}

impl Loader {
    fn new(main: Waker) -> Loader {
        Loader { main, clock: Clock::system() }
    }
}

impl LoadThread for Loader {
    fn wake(&mut self) {
        self.main.wake();
    }

    fn sleep(&mut self, microseconds: u64) {
        std::thread::sleep(Duration::from_micros(microseconds));
    }

    fn now(&mut self) -> Now {
        self.clock.now()
    }
}

/// Runs a load on a thread of its own, on these processors: a list as [`crate::affinity`] takes it. Errors: there is no
/// thread to be had, and the load was run here.
pub fn start(job: LoadJob, main: Waker, processors: &str) -> std::io::Result<()> {
    // Where no thread starts, what was meant for it is gone.
    let job = Arc::new(Mutex::new(Some(job)));
    let take = |job: &Mutex<Option<LoadJob>>| job.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (own, waker) = (job.clone(), main.clone());
    let processors = processors.to_owned();
    let started = std::thread::Builder::new().name("load".into()).spawn(move || {
        let _stack = crate::crash::SignalStack::install();
        // The processors are a preference: the thread works on others too.
        let _ = crate::affinity::bind_thread(&processors);
        if let Some(job) = take(&own) {
            job.run(&mut Loader::new(waker));
        }
    });
    if let Err(error) = started {
        if let Some(job) = take(&job) {
            job.run(&mut Loader::new(main));
        }
        return Err(error);
    }
    Ok(())
}
