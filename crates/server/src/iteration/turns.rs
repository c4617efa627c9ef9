//! The order in which clients are sent their output, where all of it is more than one iteration sends.

use sluice_base::SessionKey;

/// A sender of output to clients, and how much of an iteration's bytes is left to it.
pub(super) trait ServesInTurns {
    /// Sends what a client is to have.
    fn send(&mut self, client: SessionKey);

    /// Whether a client is to have so little that it needs no turn.
    fn is_short(&self, client: SessionKey) -> bool;

    /// Whether the iteration has sent as much as it may.
    fn is_spent(&self) -> bool;
}

/// Sends to the clients that are `ready`, of whom the first `kept` have waited for a turn since earlier
/// iterations. Afterwards `ready` holds the clients that wait on, in order.
///
/// A short output never waits for long ones, and among long ones those that came first are sent first, one in
/// each iteration at least. Cost:
/// O(1) for each client; a look at its session only where somebody waits.
pub(super) fn send_in_turns<S: ServesInTurns>(sender: &mut S, ready: &mut Vec<SessionKey>, kept: usize) {
    let mut waiting = kept;
    for at in kept..ready.len() {
        let client = ready[at];
        if (kept == 0 && !sender.is_spent()) || sender.is_short(client) {
            sender.send(client);
        } else {
            ready[waiting] = client;
            waiting += 1;
        }
    }
    ready.truncate(waiting);
    let mut sent = 0;
    // One of those that have waited at least, however much the short ones were.
    while sent < waiting && ((sent == 0 && kept > 0) || !sender.is_spent()) {
        sender.send(ready[sent]);
        sent += 1;
    }
    ready.drain(..sent);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A sender whose clients have outputs of so many bytes.
    struct Fake {
        outputs: BTreeMap<SessionKey, usize>,
        sent: Vec<usize>,
        bytes: usize,
    }

    impl ServesInTurns for Fake {
        fn send(&mut self, client: SessionKey) {
            let bytes = self.outputs[&client];
            self.sent.push(bytes);
            self.bytes += bytes;
        }

        fn is_short(&self, client: SessionKey) -> bool {
            self.outputs[&client] <= 30
        }

        fn is_spent(&self) -> bool {
            self.bytes >= 100
        }
    }

    /// What each iteration sends, where clients with outputs of these sizes, each size once, become ready.
    fn run(iterations: &[&[usize]]) -> Vec<Vec<usize>> {
        let mut fake = Fake { outputs: BTreeMap::new(), sent: Vec::new(), bytes: 0 };
        let (mut ready, mut all) = (Vec::new(), Vec::new());
        for coming in iterations {
            let kept = ready.len();
            for size in *coming {
                let client = SessionKey { slot: u32::try_from(*size).unwrap(), generation: 1 };
                fake.outputs.insert(client, *size);
                ready.push(client);
            }
            fake.bytes = 0;
            send_in_turns(&mut fake, &mut ready, kept);
            all.push(std::mem::take(&mut fake.sent));
        }
        all
    }

    #[test]
    fn long_outputs_have_turns_in_the_order_of_their_coming_and_short_ones_wait_for_none() {
        let sent = run(&[&[60, 61, 62, 5, 63], &[6, 64, 7], &[8], &[]]);
        assert_eq!(sent, [vec![60, 61, 5], vec![6, 7, 62, 63], vec![8, 64], vec![]]);
    }

    #[test]
    fn a_long_output_goes_on_however_much_the_short_ones_are() {
        let sent = run(&[&[90, 91, 92, 93], &[21, 22, 23, 24, 25], &[]]);
        assert_eq!(sent, [vec![90, 91], vec![21, 22, 23, 24, 25, 92], vec![93]]);
    }

    #[test]
    fn who_fits_into_an_iteration_is_sent_to_in_order() {
        assert_eq!(run(&[&[5, 20, 6, 30], &[40]]), [vec![5, 20, 6, 30], vec![40]]);
    }
}
