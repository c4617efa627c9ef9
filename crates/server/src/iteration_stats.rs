//! The longest iteration of the event loop by the wall clock, with the main thread's processor time in it.
//!
//! An iteration may be long because it did much work, or because the thread did not run, for example because
//! another thread had the processor, a page was fetched, or a command slept. The thread's clock of processor
//! time distinguishes the two cases, but a reading of that clock is a system call, which an ordinary
//! iteration must not cost. The clock is therefore read when an iteration is the longest so far, and
//! otherwise once in [`MARK_NS`] of iterations. The wall time of earlier iterations since the last reading is
//! subtracted, so the error of the result is at most [`MARK_NS`]. Waits within those earlier iterations make
//! the result too low, and processor time between them makes it too high.

/// Time in iterations after which the thread's clock is read again. A reading costs some 200 ns in a
/// millisecond of work.
const MARK_NS: u64 = 1_000_000;

/// The longest iteration so far. Times are nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct LongestIteration {
    wall_ns: u64,
    cpu_ns: u64,
    /// The thread's clock at its last reading.
    mark_ns: u64,
    /// Wall time of iterations since the last reading of the thread's clock.
    since_mark_ns: u64,
}

impl LongestIteration {
    /// Records an iteration that took `wall_ns` of wall time. `thread_ns` reads the thread's clock.
    #[inline]
    pub fn note(&mut self, wall_ns: u64, thread_ns: impl FnOnce() -> u64) {
        if wall_ns <= self.wall_ns && self.since_mark_ns + wall_ns < MARK_NS {
            self.since_mark_ns += wall_ns;
            return;
        }
        self.read(wall_ns, thread_ns());
    }

    /// Forgets the longest iteration, so that the next iteration becomes the longest so far. Readings of
    /// the thread's clock continue.
    pub fn forget(&mut self) {
        (self.wall_ns, self.cpu_ns) = (0, 0);
    }

    #[cold]
    fn read(&mut self, wall_ns: u64, thread_ns: u64) {
        if wall_ns > self.wall_ns {
            let used_ns = thread_ns.saturating_sub(self.mark_ns).saturating_sub(self.since_mark_ns);
            (self.wall_ns, self.cpu_ns) = (wall_ns, used_ns.min(wall_ns));
        }
        (self.mark_ns, self.since_mark_ns) = (thread_ns, 0);
    }

    /// Wall time of the longest iteration, in microseconds.
    pub fn wall_us(&self) -> u64 {
        self.wall_ns / 1000
    }

    /// The main thread's processor time in that iteration, in microseconds.
    pub fn cpu_us(&self) -> u64 {
        self.cpu_ns / 1000
    }
}

/// The processor time that the calling thread has used so far, ns; 0 if the system does not report it. Cost:
/// a system call.
pub fn thread_ns() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fake clock of a thread, with a count of its readings.
    #[derive(Default)]
    struct Thread {
        ns: u64,
        reads: u64,
    }

    /// Records an iteration of `wall_us`, in which the thread used `cpu_us` of processor time.
    fn iterate(longest: &mut LongestIteration, thread: &mut Thread, wall_us: u64, cpu_us: u64) {
        thread.ns += cpu_us * 1000;
        longest.note(wall_us * 1000, || {
            thread.reads += 1;
            thread.ns
        });
    }

    #[test]
    fn the_longest_iteration_has_its_own_processor_time_beside_it() {
        let (mut longest, mut thread) = (LongestIteration::default(), Thread::default());
        longest.note(0, || 0);
        iterate(&mut longest, &mut thread, 200, 200);
        assert_eq!((longest.wall_us(), longest.cpu_us()), (200, 200));
        // The thread did not run for most of this iteration.
        iterate(&mut longest, &mut thread, 20_000, 300);
        assert_eq!((longest.wall_us(), longest.cpu_us()), (20_000, 300));
        // The processor time of short iterations is not attributed to the long iteration after them.
        for _ in 0..15 {
            iterate(&mut longest, &mut thread, 50, 50);
        }
        iterate(&mut longest, &mut thread, 30_000, 29_000);
        assert_eq!((longest.wall_us(), longest.cpu_us()), (30_000, 29_000));
        // The time for which short iterations wait is not subtracted from a later long iteration, apart
        // from at most a millisecond.
        for _ in 0..10_000 {
            iterate(&mut longest, &mut thread, 90, 10);
        }
        iterate(&mut longest, &mut thread, 40_000, 35_000);
        assert_eq!(longest.wall_us(), 40_000);
        assert!((34_000..=35_000).contains(&longest.cpu_us()), "{}", longest.cpu_us());
    }

    #[test]
    fn ordinary_iterations_read_the_threads_clock_once_in_a_millisecond_of_work() {
        let (mut longest, mut thread) = (LongestIteration::default(), Thread::default());
        iterate(&mut longest, &mut thread, 1000, 1000);
        let before = thread.reads;
        for _ in 0..100_000 {
            iterate(&mut longest, &mut thread, 10, 10);
        }
        assert!((900..=1000).contains(&(thread.reads - before)), "{}", thread.reads - before);
    }

    #[test]
    fn the_threads_clock_goes_on_while_it_works() {
        let before = thread_ns();
        let mut sum = 0u64;
        while thread_ns() < before + 1_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0);
    }
}
