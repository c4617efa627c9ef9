//! The commands of streams: which client sends each, and the bytes of a batch.

use crate::wire::encode;

/// A command to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// Its words, the name first; never empty.
    pub(crate) words: Vec<Vec<u8>>,
    /// Whether it is sent as a line; its words then have neither blanks nor quotes nor control characters.
    pub(crate) inline: bool,
    /// Which of the stream's clients sends it.
    pub(crate) client: usize,
    /// Whether that client may have subscribed: its replies then have messages among them.
    pub(crate) listens: bool,
}

impl Command {
    /// A command of the first client.
    pub(crate) fn of(words: Vec<Vec<u8>>) -> Command {
        Command { words, inline: false, client: 0, listens: false }
    }
}

/// Clients of a stream: two that send anything, and one that waits for keys.
pub(crate) const CLIENTS: usize = 3;
/// The client that waits.
pub(crate) const WAITER: usize = 2;

/// The waiting client's id, which each server numbers by itself.
pub(super) const WAITER_ID: &[u8] = b"<waiter>";

/// A batch as it is sent. `waiter` stands for [`WAITER_ID`].
pub(super) fn bytes_of(commands: &[Command], waiter: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Command { words, inline, .. } in commands {
        let word = |word: &Vec<u8>| if word == WAITER_ID { waiter.to_vec() } else { word.clone() };
        let words: Vec<Vec<u8>> = words.iter().map(word).collect();
        if *inline {
            bytes.extend_from_slice(&words.join(&b' '));
            bytes.extend_from_slice(b"\r\n");
        } else {
            encode(&words, &mut bytes);
        }
    }
    bytes
}
