//! Two clients that track changes. Both servers must send them invalidations of the same keys.
//!
//! One client receives all changes (BCAST); the other receives changes of keys that it has read since their
//! last change, and reads all keys of streams again after each batch. The split of keys into messages depends
//! on the ends of event loop iterations, so all keys since the last check are compared as a set.
//!
//! Invariant: ours sends every invalidation that the reference sends. It sends more only where
//! `docs/compat.md` says so, and only if such a command has run recently.

use std::collections::BTreeSet;

use super::command::Command;
use super::pair::Pair;
use super::values::KEYS;
use crate::error::Result;
use crate::wire::{Connection, encode, parse};

/// The clients that track changes.
pub(super) struct Trackers {
    /// The client with BCAST, which receives invalidations for all changes.
    broadcast: Pair,
    /// The client that receives invalidations only for keys that it has read.
    reader: Pair,
}

/// Invalidations that one client has received since the last check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Keys in the invalidations.
    keys: BTreeSet<Vec<u8>>,
    /// Whether an invalidation of all keys was received.
    all: bool,
}

/// A difference: the invalidations of both servers, as text.
pub(super) struct Untold {
    pub(super) ours: Vec<u8>,
    pub(super) peer: Vec<u8>,
}

/// The ECHO text that marks the end of the output so far.
const MARK: &[u8] = b"that is all of it";

/// A command that was queued in a transaction or postponed runs at most this many commands later.
const RECENT: usize = 200;

/// Commands for which ours sends more invalidations: changes of consumer groups (as in 9.1.3), exchanges
/// of databases, loads; and commands that may contain these.
const TELL_MORE: [&str; 14] = [
    "XGROUP",
    "XSETID",
    "XREADGROUP",
    "XACK",
    "XCLAIM",
    "XAUTOCLAIM",
    "SWAPDB",
    "DEBUG",
    "EVAL",
    "EVALSHA",
    "FCALL",
    "EVAL_RO",
    "EVALSHA_RO",
    "FCALL_RO",
];

impl Trackers {
    /// Connects both clients to both servers.
    pub(super) fn open(ports: [u16; 2]) -> Result<Trackers> {
        let pair = |words: &[&[u8]]| -> Result<Pair> {
            let mut pair = Pair::open(ports)?;
            for connection in [&mut pair.ours, &mut pair.peer] {
                connection.speak(3)?;
                connection.ask(words)?;
            }
            Ok(pair)
        };
        let mut trackers = Trackers {
            broadcast: pair(&[b"CLIENT", b"TRACKING", b"ON", b"BCAST"])?,
            reader: pair(&[b"CLIENT", b"TRACKING", b"ON"])?,
        };
        // The first check only reads the keys, because no invalidation can have been sent yet.
        match trackers.look(&[])? {
            Ok(_) => Ok(trackers),
            Err(_) => Err("clients that have just begun to track were told of changes".into()),
        }
    }

    /// Compares the invalidations since the last check, after these commands; returns the number of keys, or
    /// a difference. Nothing is compared for killed clients, which connect again.
    pub(super) fn look(&mut self, commands: &[Command]) -> Result<std::result::Result<u64, Untold>> {
        let recent = &commands[commands.len().saturating_sub(RECENT)..];
        let tells_more = recent.iter().any(|command| {
            command
                .words
                .first()
                .is_some_and(|name| TELL_MORE.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())))
        });
        let mut count = 0;
        for (pair, reads) in [(&mut self.broadcast, false), (&mut self.reader, true)] {
            let told = [told_to(&mut pair.ours, reads), told_to(&mut pair.peer, reads)];
            let [Some(ours), Some(peer)] = told else { return Ok(Ok(count)) };
            count += peer.keys.len() as u64;
            if !is_as_much(&ours, &peer, tells_more) {
                let name: &[u8] = if reads { b"to a reader: " } else { b"to all: " };
                let shown = |told: &Told| [name, format!("{told:?}").as_bytes()].concat();
                return Ok(Err(Untold { ours: shown(&ours), peer: shown(&peer) }));
            }
        }
        Ok(Ok(count))
    }

    /// Whether a connection of one of the clients has ended. Then the caller has to open all of them again.
    pub(super) fn have_ended(&mut self) -> bool {
        let pairs = [&mut self.broadcast, &mut self.reader];
        pairs.into_iter().any(|pair| {
            [&mut pair.ours, &mut pair.peer].into_iter().any(|connection| connection.ask(&[b"PING"]).is_err())
        })
    }
}

/// Whether ours sent all of the reference's invalidations, and more only if it may.
fn is_as_much(ours: &Told, peer: &Told, tells_more: bool) -> bool {
    let is_enough = ours.all || !peer.all && peer.keys.is_subset(&ours.keys);
    is_enough && (tells_more || ours == peer)
}

/// The invalidations that a client has received since the last check, after which a reading client reads
/// all keys again; `None` when its connection has ended.
fn told_to(connection: &mut Connection, reads: bool) -> Option<Told> {
    let mut bytes = Vec::new();
    if reads {
        let words: Vec<&[u8]> = std::iter::once(b"EXISTS".as_slice()).chain(KEYS.iter().copied()).collect();
        encode(&words, &mut bytes);
    }
    encode(&[b"ECHO".as_slice(), MARK], &mut bytes);
    connection.send(&bytes);
    let (replies, end) = connection.receive_until(is_mark);
    if end.is_some() {
        return None;
    }
    let mut told = Told::default();
    for reply in replies.iter().filter_map(|raw| parse(raw)) {
        if reply.kind != b'>' || reply.items.first().is_none_or(|kind| kind.text != b"invalidate") {
            continue;
        }
        match &reply.items[1..] {
            [keys] if !keys.null => told.keys.extend(keys.items.iter().map(|key| key.text.clone())),
            _ => told.all = true,
        }
    }
    Some(told)
}

fn is_mark(raw: &[u8]) -> bool {
    raw.starts_with(b"$") && raw.windows(MARK.len()).any(|part| part == MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(keys: &[&[u8]], all: bool) -> Told {
        Told { keys: keys.iter().map(|key| key.to_vec()).collect(), all }
    }

    #[test]
    fn what_is_not_told_is_a_difference_and_more_only_where_nothing_allows_it() {
        let (none, one, two) = (told(&[], false), told(&[b"a"], false), told(&[b"a", b"b"], false));
        let all = told(&[], true);
        assert!(is_as_much(&one, &one, false));
        for allowed in [false, true] {
            assert!(!is_as_much(&one, &two, allowed));
            assert!(!is_as_much(&one, &all, allowed));
            assert_eq!(is_as_much(&two, &one, allowed), allowed);
            assert_eq!(is_as_much(&all, &none, allowed), allowed);
        }
    }
}
