//! The commands of streams: which client sends each, and the bytes of a batch.

use crate::wire::encode;

/// A command to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// The words of the command, the name first; never empty.
    pub(crate) words: Vec<Vec<u8>>,
    /// Whether the command is sent inline; its words then have no blanks, quotes or control characters.
    pub(crate) inline: bool,
    /// Index of the client of the stream that sends the command.
    pub(crate) client: usize,
    /// Whether the client may have subscribed, so that messages may be mixed with its replies.
    pub(crate) listens: bool,
}

impl Command {
    /// A command of the first client.
    pub(crate) fn of(words: Vec<Vec<u8>>) -> Command {
        Command { words, inline: false, client: 0, listens: false }
    }
}

/// Number of clients of a stream: two that send any commands, and one that blocks on keys.
pub(crate) const CLIENTS: usize = 3;
/// Index of the client that blocks.
pub(crate) const WAITER: usize = 2;

/// Placeholder for the id of the blocking client, which differs between the servers.
pub(super) const WAITER_ID: &[u8] = b"<waiter>";

/// The bytes of a batch. `waiter` replaces [`WAITER_ID`].
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
