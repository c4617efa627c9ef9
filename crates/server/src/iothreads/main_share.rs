//! Decides how many connections the main thread keeps while I/O threads are active. This is a pure state
//! machine that takes a step ten times a second.
//!
//! If there are only a few I/O threads, they are the bottleneck, while the main thread, which then only
//! executes commands, is idle for more than half of its time (with `io-threads 2` for nine tenths). The
//! main thread then receives and sends for some of the connections itself, as it does without I/O threads.
//! It takes no more connections while I/O threads may still be added, because adding a thread helps more.

/// The load in the last tenth of a second.
#[derive(Clone, Copy, Debug)]
pub struct ShareSample {
    /// Busy share of the main thread, as [`super::policy::LoadSample::main_busy`].
    pub main_busy: f64,
    /// Mean busy share of the active I/O threads.
    pub io_threads_busy: f64,
    /// Number of active I/O threads.
    pub io_threads: usize,
    /// Number of connections of the I/O threads.
    pub connections: usize,
    /// Number of connections of the main thread.
    pub of_main: usize,
    /// Whether the main thread may take more connections.
    pub may_take: bool,
}

/// The state machine that decides how many connections the main thread keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct MainShare {
    kept: usize,
    /// Number of consecutive samples that called for more connections.
    asked: u32,
    /// Number of samples until the next decision, which must wait until the last change shows its effect.
    rest: u32,
    /// Number of samples until the main thread may take more connections.
    holdoff: u32,
    /// Number of samples for which the main thread takes no more connections after it has given some
    /// away. The number doubles each time.
    penalty: u32,
    /// Number of connections of all threads when `penalty` was last reset. When the present number differs
    /// from it by more than a quarter, `penalty` is reset.
    penalty_of: usize,
}

/// The main thread keeps more connections only if the mean busy share of the I/O threads is at least this.
/// The busy share of a saturated I/O thread is about four fifths.
const HOT: f64 = 0.6;
/// The main thread keeps more connections only if the I/O threads are also busier than the main thread by at
/// least this.
const BUSIER: f64 = 0.1;
/// The main thread gives connections away only if its busy share is at least this.
const MAIN_HOT: f64 = 0.85;
/// The main thread gives connections away only if it is also busier than the I/O threads by at least this.
const MAIN_BUSIER: f64 = 0.15;
/// More connections are kept only after this many consecutive samples have called for them.
const ASKED_SAMPLES: u32 = 3;
/// After a change, the next decision is made with the sample of this number at the earliest, counted from the
/// change.
const REST_SAMPLES: u32 = 5;
/// Number of samples (one second) for which the main thread takes no more connections after it has given some
/// away for the first time.
const FIRST_PENALTY: u32 = 10;
/// Maximum number of samples (one minute) for which the main thread takes no more connections after it
/// has given some away.
const LAST_PENALTY: u32 = 600;

impl MainShare {
    /// How many connections the main thread keeps.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Sets the number of kept connections to 0, because the I/O threads take all connections, or there
    /// are no I/O threads.
    pub fn give_all(&mut self) {
        *self = MainShare::default();
    }

    /// Processes a sample. Returns how many connections the main thread is to keep.
    pub fn step(&mut self, seen: ShareSample) -> usize {
        let ShareSample { main_busy, io_threads_busy, io_threads, connections, of_main, may_take } = seen;
        if io_threads == 0 {
            self.give_all();
            return 0;
        }
        // The main thread keeps at most an equal share of all connections, even after some have ended.
        let all = connections.saturating_add(of_main);
        let equal = all / io_threads.saturating_add(1);
        self.kept = self.kept.min(equal);
        if self.penalty_of.abs_diff(all) > self.penalty_of / 4 {
            (self.holdoff, self.penalty, self.penalty_of) = (0, FIRST_PENALTY, all);
        }
        (self.rest, self.holdoff) = (self.rest.saturating_sub(1), self.holdoff.saturating_sub(1));
        let is_asked = may_take && io_threads_busy >= HOT && io_threads_busy - main_busy >= BUSIER;
        self.asked = if is_asked { self.asked + 1 } else { 0 };
        if self.rest > 0 {
            return self.kept;
        }
        if main_busy >= MAIN_HOT && main_busy - io_threads_busy >= MAIN_BUSIER && self.kept > 0 {
            self.kept -= self.kept.div_ceil(4);
            (self.rest, self.holdoff) = (REST_SAMPLES, self.penalty);
            self.penalty = (self.penalty * 2).min(LAST_PENALTY);
        } else if self.asked >= ASKED_SAMPLES && self.holdoff == 0 && connections > 0 && self.kept < equal {
            // The main thread takes as many connections as halve the difference of the loads if all
            // connections are equally busy.
            let each = io_threads_busy * io_threads as f64 / connections as f64;
            let more = ((io_threads_busy - main_busy) / (2.0 * each)) as usize;
            self.kept = self.kept.saturating_add(more.max(1)).min(equal);
            self.rest = REST_SAMPLES;
        }
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of a server and of connections that send a request as soon as the previous one was answered.
    /// Times are in microseconds.
    #[derive(Clone, Copy)]
    struct Machine {
        io_threads: usize,
        connections: usize,
        /// The I/O thread's time for a request of one of its connections.
        io: f64,
        /// The main thread's time for a request of an I/O thread's connection.
        executes: f64,
        /// The main thread's time for a request of a connection of its own.
        whole: f64,
    }

    /// A model with times that were measured on sixteen processors, for GETs of 512 bytes.
    const MEASURED: Machine = Machine { io_threads: 3, connections: 400, io: 7.6, executes: 1.0, whole: 8.0 };

    impl Machine {
        /// Returns the number of requests in a microsecond, and a sample that shows how busy each kind of
        /// thread is.
        fn run(&self, kept: usize) -> (f64, ShareSample) {
            let share = kept as f64 / self.connections as f64;
            let main = share * self.whole + (1.0 - share) * self.executes;
            let io = (1.0 - share) * self.io / self.io_threads as f64;
            let rate = (1.0 / main).min(1.0 / io);
            let sample = ShareSample {
                main_busy: rate * main,
                // An I/O thread sleeps briefly between its iterations.
                io_threads_busy: 0.8 * rate * io,
                io_threads: self.io_threads,
                connections: self.connections - kept,
                of_main: kept,
                may_take: true,
            };
            (rate, sample)
        }

        /// The number of kept connections after `samples` samples, and how often this number changed in
        /// the second half of the samples.
        fn settle(&self, samples: usize) -> (usize, usize) {
            let (mut share, mut changes) = (MainShare::default(), 0);
            for sample in 0..samples {
                let before = share.kept();
                let kept = share.step(self.run(before).1);
                changes += usize::from(kept != before && sample > samples / 2);
            }
            (share.kept(), changes)
        }
    }

    #[test]
    fn the_main_thread_does_what_few_io_threads_cannot() {
        for io_threads in 1..=5 {
            let machine = Machine { io_threads, ..MEASURED };
            let (kept, changes) = machine.settle(1000);
            let (alone, with) = (machine.run(0).0, machine.run(kept).0);
            let best = (0..400).map(|kept| machine.run(kept).0).fold(0.0, f64::max);
            println!(
                "{io_threads} I/O threads: {kept} kept, {:.2} times the rate, {:.2} of the best",
                with / alone,
                with / best
            );
            assert!(with >= alone && with > best * 0.9, "{io_threads}: {kept} {alone} {with} {best}");
            assert_eq!(changes, 0, "it comes to rest");
        }
    }

    #[test]
    fn a_main_thread_that_is_the_bottleneck_keeps_none() {
        let heavy = Machine { executes: 5.0, ..MEASURED };
        assert_eq!(heavy.settle(1000), (0, 0));
    }

    #[test]
    fn connections_go_when_the_main_thread_gets_more_to_execute() {
        let mut share = MainShare::default();
        for _ in 0..200 {
            share.step(MEASURED.run(share.kept()).1);
        }
        assert!(share.kept() > 20, "{}", share.kept());
        let heavy = Machine { executes: 5.0, ..MEASURED };
        for _ in 0..200 {
            share.step(heavy.run(share.kept()).1);
        }
        assert_eq!(share.kept(), 0);
    }

    #[test]
    fn few_connections_do_not_move_to_and_fro() {
        for io_threads in 1..=5 {
            for connections in 2..=64 {
                let machine = Machine { io_threads, connections, ..MEASURED };
                // The samples cover ten minutes. In the second half, the number may change at most twice a
                // minute.
                let (kept, changes) = machine.settle(6000);
                assert!(
                    changes <= 10,
                    "{io_threads} I/O threads, {connections} connections: {kept}, {changes}"
                );
            }
        }
    }

    #[test]
    fn connections_that_go_leave_the_io_threads_their_share() {
        let mut share = MainShare::default();
        let many = Machine { connections: 4000, ..MEASURED };
        for _ in 0..200 {
            share.step(many.run(share.kept()).1);
        }
        assert!(share.kept() > 200, "{}", share.kept());
        let few = ShareSample {
            main_busy: 0.3,
            io_threads_busy: 0.1,
            io_threads: 3,
            connections: 20,
            of_main: 40,
            may_take: true,
        };
        assert!(share.step(few) <= 15, "{}", share.kept());
    }

    #[test]
    fn a_modest_load_stays_with_the_io_threads() {
        let mut share = MainShare::default();
        let modest = ShareSample {
            main_busy: 0.1,
            io_threads_busy: 0.5,
            io_threads: 3,
            connections: 400,
            of_main: 0,
            may_take: true,
        };
        assert!((0..1000).all(|_| share.step(modest) == 0));
        let growing = ShareSample { io_threads_busy: 0.8, may_take: false, ..modest };
        assert!((0..1000).all(|_| share.step(growing) == 0), "I/O threads may be added");
    }

    #[test]
    fn no_sample_makes_it_keep_more_than_an_equal_share() {
        let mut share = MainShare::default();
        let mut rng = sluice_base::Rng::new(7);
        for _ in 0..100_000 {
            let [main_busy, io_threads_busy] = [(); 2].map(|()| rng.below(101) as f64 / 100.0);
            let [connections, of_main] = [(); 2].map(|()| rng.below(1000) as usize);
            let io_threads = rng.below(9) as usize;
            let may_take = rng.below(4) > 0;
            let seen = ShareSample { main_busy, io_threads_busy, io_threads, connections, of_main, may_take };
            let kept = share.step(seen);
            assert!(kept <= (connections + of_main) / (io_threads + 1), "{kept} of {seen:?}");
        }
    }
}
