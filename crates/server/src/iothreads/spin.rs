//! Decides whether threads spin, i.e. poll for work for some microseconds before they sleep. This is a
//! pure state machine that takes a step ten times a second.
//!
//! A request that goes through an I/O thread costs two wake-ups: the I/O thread wakes the main thread for
//! the batch, and the main thread wakes the I/O thread for the replies. With many clients both threads
//! are awake in any case. With a few clients, each of which has one request under way, both threads fall
//! asleep before each request, and a wake-up takes longer than the request. Threads therefore spin if
//! each of them has a processor of its own, and half a processor is left over.
//!
//! All busy shares count work only, not the time spent spinning.

/// The load in the last tenth of a second.
#[derive(Clone, Copy, Debug)]
pub struct SpinSample {
    /// Number of I/O threads that take connections.
    pub io_threads: usize,
    /// Busy share of the main thread, as [`super::policy::LoadSample::main_busy`].
    pub main_busy: f64,
    /// Mean busy share of the active I/O threads.
    pub io_threads_busy: f64,
    /// Number of processors that would be idle if no thread spun; see
    /// [`super::policy::LoadSample::idle_processors`].
    pub idle_processors: f64,
    /// Number of commands executed in a tenth of a second.
    pub commands: u64,
}

/// The state machine that decides whether threads spin.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin {
    is_on: bool,
    /// Whether a test makes threads spin on any machine and under any load.
    is_forced: bool,
}

/// How long a thread polls after its last work, ns. A client on the same network makes some round trips in
/// this time.
pub const SPIN_NS: u64 = 50_000;
/// Threads begin to spin only if the busy share of the I/O threads is below this. Busier threads seldom
/// sleep.
const LIGHT: f64 = 0.5;
/// Threads stop spinning if the busy share of the I/O threads is at least this. It is above `LIGHT`,
/// because clients that are answered sooner send their next request sooner, and below the busy share of
/// saturated I/O threads, 0.77 to 0.86.
const HEAVY: f64 = 0.7;
/// Spinning begins only if at least this number of processors stays idle in addition to those on which
/// threads spin.
const LEFT_OVER: f64 = 0.5;
/// Spinning continues only if at least this number of processors stays idle.
const LEFT_OVER_ON: f64 = 0.25;
/// Spinning begins only with at least this many commands in a tenth of a second, and ends with less than
/// half of this number, because threads would otherwise spin more than they work.
pub const COMMANDS: u64 = 1000;

/// Number of processors that would be idle if no thread spun, computed from the number of idle processors
/// and the number on which threads spun. If hardly any processor is idle, spinning threads have displaced
/// other threads, and their time counts as work.
pub fn would_be_idle(idle: f64, spun: f64) -> f64 {
    if idle >= LEFT_OVER_ON { idle + spun } else { idle }
}

impl Spin {
    /// A state in which no thread spins. `is_forced`: whether threads spin whenever at least one I/O
    /// thread takes connections.
    pub fn new(is_forced: bool) -> Spin {
        Spin { is_on: false, is_forced }
    }

    /// How long threads poll after their last work, ns; 0 if they do not poll.
    pub fn ns(self) -> u64 {
        if self.is_on { SPIN_NS } else { 0 }
    }

    /// Whether an almost idle server must be sampled, because spinning may have to end, or forced
    /// spinning must begin under any load.
    pub fn needs_samples(self) -> bool {
        self.is_on || self.is_forced
    }

    /// Ends spinning, until a later sample begins it again.
    pub fn stop(&mut self) {
        self.is_on = false;
    }

    /// Processes a sample. Returns whether threads spin from now on.
    pub fn step(&mut self, seen: SpinSample) -> bool {
        let SpinSample { io_threads, main_busy, io_threads_busy, idle_processors, commands } = seen;
        // The number of processors that all threads use beyond their work if they never sleep.
        let spinning = (1.0 - main_busy) + (1.0 - io_threads_busy) * io_threads as f64;
        let (heavy, left_over, least) = match self.is_on {
            true => (HEAVY, LEFT_OVER_ON, COMMANDS / 2),
            false => (LIGHT, LEFT_OVER, COMMANDS),
        };
        let pays = io_threads_busy < heavy && idle_processors >= spinning + left_over && commands >= least;
        self.is_on = io_threads > 0 && (pays || self.is_forced);
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The load of eight clients with one request each on a machine with 16 processors, half of which the
    /// clients use.
    const FEW: SpinSample = SpinSample {
        io_threads: 7,
        main_busy: 0.3,
        io_threads_busy: 0.2,
        idle_processors: 8.0,
        commands: 15_000,
    };

    #[test]
    fn few_clients_on_many_processors_have_threads_that_spin() {
        let mut spin = Spin::default();
        assert!(spin.step(FEW));
        assert_eq!(spin.ns(), SPIN_NS);
    }

    #[test]
    fn a_trial_begins_with_threads_that_spin() {
        // The main thread alone is always busy; the two I/O threads on trial have no connections yet.
        let first = SpinSample { io_threads: 2, main_busy: 1.0, io_threads_busy: 0.0, ..FEW };
        assert!(Spin::default().step(first));
    }

    #[test]
    fn threads_that_have_always_something_to_do_do_not_spin() {
        let mut spin = Spin::default();
        assert!(!spin.step(SpinSample { io_threads_busy: 0.8, commands: 60_000, ..FEW }));
        assert!(spin.step(FEW));
        assert!(
            spin.step(SpinSample { io_threads_busy: 0.65, ..FEW }),
            "no coming and going at the threshold"
        );
        assert!(!spin.step(SpinSample { io_threads_busy: 0.9, ..FEW }));
    }

    #[test]
    fn nobody_spins_on_a_processor_that_another_thread_needs() {
        for processors in [2.0, 4.0, 8.0] {
            for io_threads in 1..=7 {
                let work = FEW.main_busy + FEW.io_threads_busy * io_threads as f64;
                for of_clients in [0.2, 0.7, 1.2, 4.2] {
                    let idle_processors = (processors - work - of_clients).max(0.0);
                    let seen = SpinSample { io_threads, idle_processors, ..FEW };
                    let threads = 1.0 + io_threads as f64;
                    let fits = threads + of_clients + LEFT_OVER <= processors;
                    assert_eq!(Spin::default().step(seen), fits, "{seen:?} on {processors}");
                }
            }
        }
    }

    #[test]
    fn spinning_ends_when_others_want_the_processors() {
        let threads = 1.0 + FEW.io_threads as f64;
        let work = FEW.main_busy + FEW.io_threads_busy * FEW.io_threads as f64;
        let mut spin = Spin::default();
        // Each pair: the number of processors (of sixteen) that other processes use, and whether threads spin
        // afterwards.
        for (of_others, expected) in
            [(2.0, true), (7.0, true), (7.9, false), (7.9, false), (7.0, true), (16.0, false)]
        {
            let (own, spun) = if spin.ns() > 0 { (threads, threads - work) } else { (work, 0.0) };
            // The time for which a spinning thread waits for its processor counts as time spun.
            let idle = (16.0 - own - of_others).max(0.0);
            let idle_processors = would_be_idle(idle, spun);
            assert_eq!(spin.step(SpinSample { idle_processors, ..FEW }), expected, "others take {of_others}");
        }
    }

    #[test]
    fn two_processors_never_spin_beside_a_load() {
        for io_threads_busy in [0.0, 0.1, 0.3] {
            for idle_processors in [0.0, 0.5, 1.0, 1.5] {
                let seen = SpinSample { io_threads: 1, io_threads_busy, idle_processors, ..FEW };
                assert!(!Spin::default().step(seen), "{seen:?}");
            }
        }
    }

    #[test]
    fn a_quiet_server_is_sampled_while_threads_spin_or_a_test_has_them_spin() {
        let mut spin = Spin::default();
        assert!(!spin.needs_samples());
        spin.step(FEW);
        assert!(spin.needs_samples());
        let quiet = SpinSample { commands: 0, ..FEW };
        let mut forced = Spin::new(true);
        assert!(forced.needs_samples());
        assert!(forced.step(quiet));
    }

    #[test]
    fn a_load_that_ends_ends_the_spinning() {
        let mut spin = Spin::default();
        assert!(spin.step(FEW));
        assert!(!spin.step(SpinSample { commands: 100, main_busy: 0.0, io_threads_busy: 0.0, ..FEW }));
        spin.step(FEW);
        assert!(!spin.step(SpinSample { io_threads: 0, ..FEW }));
        spin.step(FEW);
        spin.stop();
        assert_eq!(spin.ns(), 0);
    }
}
