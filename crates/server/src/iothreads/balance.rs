//! Decides which I/O thread gives connections away. This is a pure state machine that takes a step ten times
//! a second.
//!
//! New connections go to the least loaded I/O thread, but a connection may become busy later. The I/O
//! threads' busy time shows this, but the numbers of their connections do not.

use super::IoThreadId;

/// The load of an I/O thread.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// The I/O thread that has this load.
    pub id: IoThreadId,
    /// The part of the last sample's time, 0 to 1, in which the thread had work, or in which it was on a
    /// processor if this part is larger.
    pub busy: f64,
    /// Number of connections of the thread.
    pub connections: usize,
}

/// Decides when connections move from a busy I/O thread to others, by the threads' busy time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balance {
    /// Number of consecutive samples in which the load was uneven.
    uneven: u32,
    /// Number of samples until the next decision, which must wait until the last move shows its effect.
    holdoff: u32,
}

/// The number of connections that an I/O thread is to give away. The caller moves different connections
/// each time, because otherwise a connection that alone causes the load would move back and forth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionMove {
    /// The I/O thread that gives connections away.
    pub id: IoThreadId,
    /// Number of connections that move.
    pub count: usize,
}

/// An I/O thread gives connections away only if its busy share is at least this.
const HOT: f64 = 0.5;
/// An I/O thread gives connections away only if it is also busier than the least busy one by at least this.
const UNEVEN: f64 = 0.3;
/// Connections move only if the busiest thread reaches both of these limits in this many consecutive samples.
const UNEVEN_SAMPLES: u32 = 3;
/// After a move, the next decision is made with the sample of this number at the earliest, counted from the
/// move.
const BALANCE_REST: u32 = 5;

impl Balance {
    /// Processes a sample of the active I/O threads. Returns the move to make, if any.
    pub fn step(&mut self, threads: &[Share]) -> Option<ConnectionMove> {
        self.holdoff = self.holdoff.saturating_sub(1);
        let by_load = |a: &&Share, b: &&Share| a.busy.total_cmp(&b.busy);
        let (hot, cold) = (threads.iter().max_by(by_load)?, threads.iter().min_by(by_load)?);
        let uneven = hot.busy >= HOT && hot.busy - cold.busy >= UNEVEN && hot.connections > 1;
        self.uneven = if uneven { self.uneven + 1 } else { 0 };
        if self.uneven < UNEVEN_SAMPLES || self.holdoff > 0 {
            return None;
        }
        *self = Balance { uneven: 0, holdoff: BALANCE_REST };
        // The connections that move cause half of the difference of the loads if the thread's connections
        // are equally busy. At least one connection stays.
        let share = (hot.busy - cold.busy) / (2.0 * hot.busy);
        let count = (hot.connections as f64 * share) as usize;
        Some(ConnectionMove { id: hot.id, count: count.clamp(1, hot.connections - 1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates two I/O threads with connections of these loads until no connection has moved for ten
    /// seconds. Returns the loads and the number of moves.
    fn run(mut hot: Vec<f64>, mut cold: Vec<f64>) -> (f64, f64, usize) {
        let mut balance = Balance::default();
        let (mut quiet, mut moves, mut next) = (0, 0, 0);
        let busy = |all: &[f64]| all.iter().sum::<f64>().min(1.0);
        while quiet < 100 && moves < 1000 {
            let shares = [
                Share { id: IoThreadId(0), busy: busy(&hot), connections: hot.len() },
                Share { id: IoThreadId(1), busy: busy(&cold), connections: cold.len() },
            ];
            quiet += 1;
            if let Some(wanted) = balance.step(&shares) {
                (quiet, moves) = (0, moves + 1);
                let hot_gives = wanted.id == IoThreadId(0);
                let (from, to) = if hot_gives { (&mut hot, &mut cold) } else { (&mut cold, &mut hot) };
                // Like the caller, this takes the connections that follow the connections moved last.
                let start = next % from.len();
                from.rotate_left(start);
                to.extend(from.drain(..wanted.count));
                let back = start.min(from.len());
                from.rotate_right(back);
                next = start;
            }
        }
        (busy(&hot), busy(&cold), moves)
    }

    #[test]
    fn even_connections_on_one_io_thread_are_shared_at_once() {
        let (hot, cold, moves) = run(vec![0.09; 10], Vec::new());
        assert!((hot - cold).abs() < UNEVEN, "{hot} {cold}");
        assert_eq!(moves, 1);
    }

    #[test]
    fn busy_connections_among_idle_ones_are_parted() {
        let mut mixed = vec![0.001; 50];
        mixed.splice(20..24, [0.2; 4]);
        let (hot, cold, moves) = run(mixed, vec![0.001; 50]);
        assert!((hot - cold).abs() < UNEVEN, "{hot} {cold}");
        assert!(moves < 20, "{moves}");
    }

    #[test]
    fn an_even_load_moves_nothing() {
        assert_eq!(run(vec![0.1; 8], vec![0.09; 8]).2, 0);
    }

    #[test]
    fn the_last_connection_stays() {
        let mut balance = Balance::default();
        let shares = [
            Share { id: IoThreadId(3), busy: 1.0, connections: 1 },
            Share { id: IoThreadId(4), busy: 0.0, connections: 9 },
        ];
        assert!((0..100).all(|_| balance.step(&shares).is_none()));
    }

    #[test]
    fn a_moment_of_unevenness_moves_nothing() {
        let mut balance = Balance::default();
        let even = [0.6, 0.5].map(|busy| Share { id: IoThreadId(0), busy, connections: 5 });
        let uneven = [0.9, 0.1].map(|busy| Share { id: IoThreadId(0), busy, connections: 5 });
        for _ in 0..50 {
            assert!(balance.step(&uneven).is_none() && balance.step(&uneven).is_none());
            assert!(balance.step(&even).is_none());
        }
    }
}
