//! The thread of a load: it fills a keyspace and then ends.

use crate::threads::{Refused, Thread};
use sluice_base::Now;
use sluice_clock::Clock;
use sluice_control::persistence::loading::LoadJob;
use sluice_evloop::Waker;
use sluice_snapshot::LoadThread;
use std::time::Duration;

/// The last log line if the data cannot be loaded. The lines before it are about the file, because
/// operators' scripts search for such lines at this point of the log.
pub const NOT_LOADED: &str = "Fatal error loading the DB, check server logs. Exiting.";

/// The load's connection to the main thread, and its clock.
struct LoadLink {
    main: Waker,
    clock: Clock,
}

impl LoadLink {
    fn new(main: Waker) -> LoadLink {
        LoadLink { main, clock: Clock::system() }
    }
}

impl LoadThread for LoadLink {
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

/// Runs a load on a separate thread. `bio`: the directive `bio-cpulist`. Errors: no thread could be
/// started, and the load was run on the calling thread instead.
pub fn start(job: LoadJob, main: Waker, bio: &str) -> std::io::Result<()> {
    let waker = main.clone();
    let started = Thread::Load { bio }.start_with(job, move |job| job.run(&mut LoadLink::new(waker)));
    started.map(drop).map_err(|Refused { job, error }| {
        job.run(&mut LoadLink::new(main));
        error
    })
}
