//! Clients that send commands and are subscribed for a while. The replies and messages that they receive in
//! that time are compared in order, as a whole.
//!
//! An unknown command marks the end of the replies to each batch: even a user without rights receives the
//! error for it. In RESP2, messages to a subscriber look like replies, so single replies are not assigned to
//! commands. Only a few kinds of commands are sent, whose replies must be equal byte by byte.
//!
//! Invariant: a client subscribes outside of a transaction, and until it has ended every subscription it
//! sends no command that would begin a transaction or change its replies.

use super::command::{Command, bytes_of};
use super::generator::Generator;
use super::pair::Pair;
use super::special::CHANNELS;
use super::values;
use crate::wire::{End, encode};

/// Patterns that clients subscribe to, one at a time, because the reference serves several patterns in the
/// order of a hash table.
const PATTERNS: &[&str] = &["*", "n*", "__key*", "__keyspace@0__:[a-l]*"];

/// Name of the unknown command that ends a batch.
const MARK: &[u8] = b"the batch ends here";

/// Commands of a client that begins to subscribe.
pub(super) fn begin(generator: &mut Generator) -> Vec<Command> {
    let mut all = vec![of(&[b"DISCARD"])];
    let first = subscription(generator);
    all.push(first);
    if generator.chance(50) {
        let pattern = generator.pick(PATTERNS);
        all.push(of(&[b"PSUBSCRIBE", &pattern]));
    }
    all
}

/// A command of a subscribed client.
pub(super) fn command(generator: &mut Generator) -> Command {
    let channel = generator.pick(CHANNELS);
    let key = values::key(&mut generator.rng);
    let text = values::value(&mut generator.rng, "value", "string");
    match generator.below(16) {
        0..=4 => of(&[b"PUBLISH", &channel, &text]),
        5 => of(&[b"SPUBLISH", &channel, &text]),
        6 => of(&[b"PING"]),
        7 => of(&[b"PING", &text]),
        8 => of(&[b"SET", &key, &text]),
        9 => of(&[b"DEL", &key]),
        10 => of(&[b"GET", &key]),
        11 => of(&[b"RPUSH", &key, &text]),
        12 => of(&[b"PUBSUB", b"NUMSUB", &channel]),
        13 => of(&[b"UNSUBSCRIBE", &channel]),
        14 => of(&[b"SUNSUBSCRIBE", &channel, &channel]),
        _ => subscription(generator),
    }
}

/// Commands that end every subscription.
pub(super) fn end() -> Vec<Command> {
    let all = |name: &str, names: &[&str]| {
        let names = names.iter().map(|name| name.as_bytes().to_vec());
        listening(std::iter::once(name.as_bytes().to_vec()).chain(names).collect())
    };
    vec![all("UNSUBSCRIBE", CHANNELS), all("SUNSUBSCRIBE", CHANNELS), all("PUNSUBSCRIBE", PATTERNS)]
}

fn subscription(generator: &mut Generator) -> Command {
    let name = generator.pick(&["SUBSCRIBE", "SUBSCRIBE", "SSUBSCRIBE"]);
    let mut words = vec![name];
    for _ in 0..=generator.below(2) {
        words.push(generator.pick(CHANNELS));
    }
    listening(words)
}

fn of(words: &[&[u8]]) -> Command {
    listening(words.iter().map(|word| word.to_vec()).collect())
}

fn listening(words: Vec<Vec<u8>>) -> Command {
    Command { listens: true, ..Command::of(words) }
}

/// The output of a server: replies and messages in the order of their arrival.
pub(super) type Sent = (Vec<Vec<u8>>, Option<End>);

/// Sends a batch to both servers, and reads the output of both until its end.
pub(super) fn exchange(pair: &mut Pair, commands: &[Command]) -> [Sent; 2] {
    let mut bytes = bytes_of(commands, b"");
    encode(&[MARK], &mut bytes);
    pair.ours.send(&bytes);
    pair.peer.send(&bytes);
    [&mut pair.ours, &mut pair.peer].map(|connection| connection.receive_until(is_mark))
}

fn is_mark(raw: &[u8]) -> bool {
    raw.strip_prefix(b"-ERR unknown command '").is_some_and(|rest| rest.starts_with(MARK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_found() {
        let text = String::from_utf8_lossy(MARK);
        assert!(is_mark(format!("-ERR unknown command '{text}', with args beginning with: \r\n").as_bytes()));
        assert!(!is_mark(
            format!("*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n${}\r\n{text}\r\n", text.len()).as_bytes()
        ));
        assert!(!is_mark(b"-ERR unknown command 'x', with args beginning with: \r\n"));
    }

    #[test]
    fn whoever_ends_every_subscription_names_every_channel_and_pattern() {
        let count = |name: &[u8]| {
            end().iter().find(|command| command.words[0] == name).map(|command| command.words.len() - 1)
        };
        assert_eq!(count(b"UNSUBSCRIBE"), Some(CHANNELS.len()));
        assert_eq!(count(b"PUNSUBSCRIBE"), Some(PATTERNS.len()));
        assert!(end().iter().all(|command| command.listens));
    }
}
