//! The order in which output is sent to clients, when there is more output than one iteration sends.

use sluice_base::SessionKey;

/// A sender of output to clients, with a byte budget for each iteration.
pub(super) trait ServesInTurns {
    /// Sends a client's output.
    fn send(&mut self, client: SessionKey);

    /// Whether a client's output is so short that it needs no turn.
    fn is_short(&self, client: SessionKey) -> bool;

    /// Whether the iteration's byte budget is spent.
    fn is_spent(&self) -> bool;
}

/// Sends to the clients in `ready`; the first `kept` of them have waited for a turn since earlier
/// iterations. Afterwards `ready` holds the clients that still wait, in order.
///
/// A short output never waits for long outputs. Long outputs are sent in the order of their arrival, at
/// least one in each iteration. Cost: O(1) for each client; the client's session is accessed only while some
/// client waits.
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
    // At least one of the clients that have waited is served, however long the short outputs are in
    // total.
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

    /// A sender whose clients have outputs of given sizes, in bytes.
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

    /// Returns the sizes of the outputs that each iteration sends, if clients with outputs of the given
    /// sizes become ready. No size may occur twice.
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
