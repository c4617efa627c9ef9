//! Plays a stream on both servers and finds the first command whose replies differ, or the state they leave apart.
//!
//! Invariant: a stream begins with fresh connections, empty databases and default parameters, so playing it again gives
//! the same replies, whatever was played before.

use std::collections::BTreeMap;

use sluice_base::Rng;

use super::allowed::Allowed;
use super::compare::{equal, equal_parsed};
use super::generate::Command;
use super::grammar::Grammar;
use super::hostile;
use super::rules::Rule;
use super::server::Server;
use super::special::{self, PARAMETERS};
use super::wire::{Answers, Connection, End, encode, parse};
use crate::Result;

/// Commands sent at once.
const BATCH: usize = 48;

/// Databases whose contents are compared at the end.
const DATABASES: usize = 16;

/// The first difference in a stream.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Index of the command in the stream; the stream's length for a difference in what it left behind.
    pub(crate) index: usize,
    /// The command whose replies differ; one of the questions about the state, where the index is past the end.
    pub(crate) command: Vec<Vec<u8>>,
    /// What ours answered, raw or in words.
    pub(crate) ours: Vec<u8>,
    /// What the reference answered.
    pub(crate) peer: Vec<u8>,
}

/// The two servers with their connections.
pub(crate) struct Player<'a> {
    pub(crate) ours: Server,
    pub(crate) peer: Server,
    grammar: &'a Grammar,
    /// Defaults of the parameters that streams change, each server's own.
    defaults: [Vec<Vec<u8>>; 2],
    resp: u8,
    /// Whether what a stream leaves behind is compared too.
    pub(crate) looks_at_state: bool,
    /// By full name: how many replies were compared, and how many of them were errors.
    pub(crate) tally: BTreeMap<String, (u64, u64)>,
}

/// Both connections of one stream.
struct Pair {
    ours: Connection,
    peer: Connection,
}

impl<'a> Player<'a> {
    /// Takes the servers, which are fresh.
    pub(crate) fn new(ours: Server, peer: Server, grammar: &'a Grammar) -> Result<Player<'a>> {
        let defaults = [defaults(ours.port)?, defaults(peer.port)?];
        Ok(Player { ours, peer, grammar, defaults, resp: 2, looks_at_state: true, tally: BTreeMap::new() })
    }

    /// The protocol version that streams begin with.
    pub(crate) fn speak(&mut self, resp: u8) {
        self.resp = resp;
    }

    /// Plays the commands; the first difference that is not in `allowed`, if there is one. Servers that died or hang
    /// are started again.
    pub(crate) fn play(&mut self, commands: &[Command], allowed: &mut Allowed) -> Result<Option<Failure>> {
        let failure = self.play_once(commands, allowed)?;
        let silent = failure
            .as_ref()
            .is_some_and(|failure| failure.ours.starts_with(b"(") || failure.peer.starts_with(b"("));
        if silent {
            for server in [&mut self.ours, &mut self.peer] {
                let answers =
                    Connection::open(server.port).and_then(|mut connection| connection.ask(&[b"PING"]));
                if answers.is_err() {
                    println!("a server died or hangs; the end of its log:\n{}", server.log_tail());
                    server.restart()?;
                }
            }
        }
        Ok(failure)
    }

    /// Plays the commands and then asks for the state.
    fn play_once(&mut self, commands: &[Command], allowed: &mut Allowed) -> Result<Option<Failure>> {
        let mut pair = self.begin()?;
        let mut queued: Option<Vec<usize>> = None;
        let mut at = 0;
        while at < commands.len() {
            let end = self.batch_end(commands, at);
            let (ours, peer) = exchange(&mut pair, &commands[at..end]);
            let failure = self.compare(commands, at..end, &ours, &peer, &mut queued, allowed);
            if failure.is_some() {
                return Ok(failure);
            }
            if ours.end.is_some() {
                pair = self.connect()?;
                queued = None;
            }
            at = end;
        }
        if self.looks_at_state { self.compare_state(commands.len(), allowed) } else { Ok(None) }
    }

    /// Where the batch that starts at `at` ends: full, or behind a command that may close the connection.
    fn batch_end(&self, commands: &[Command], at: usize) -> usize {
        let closes = |command: &Command| self.grammar.full_name(&command.words) == "quit";
        let batch = &commands[at..(at + BATCH).min(commands.len())];
        at + batch.iter().position(closes).map_or(batch.len(), |index| index + 1)
    }

    /// Connects anew, empties both servers and sets the defaults.
    fn begin(&mut self) -> Result<Pair> {
        let mut pair = self.connect()?;
        for (connection, defaults) in [&mut pair.ours, &mut pair.peer].into_iter().zip(&self.defaults) {
            connection.ask(&[b"FLUSHALL"])?;
            // What expired stays until a command meets it, so that DBSIZE does not depend on when a cycle ran.
            connection.ask(&[b"DEBUG", b"SET-ACTIVE-EXPIRE", b"0"])?;
            let mut words = vec![b"CONFIG".as_slice(), b"SET"];
            words.extend(defaults.iter().map(Vec::as_slice));
            if words.len() > 2 {
                let reply = connection.ask(&words)?;
                if reply.is_error() {
                    return Err(format!("the defaults cannot be set: {}", reply.string()).into());
                }
            }
        }
        Ok(pair)
    }

    /// Two connections that speak the stream's protocol version.
    fn connect(&self) -> Result<Pair> {
        let mut pair =
            Pair { ours: Connection::open(self.ours.port)?, peer: Connection::open(self.peer.port)? };
        if self.resp == 3 {
            pair.ours.speak(3)?;
            pair.peer.speak(3)?;
        }
        Ok(pair)
    }

    /// Compares the replies to one batch. `queued` holds the commands since MULTI.
    fn compare(
        &mut self,
        commands: &[Command],
        batch: std::ops::Range<usize>,
        ours: &Answers,
        peer: &Answers,
        queued: &mut Option<Vec<usize>>,
        allowed: &mut Allowed,
    ) -> Option<Failure> {
        for index in batch.clone() {
            let command = &commands[index].words;
            let failure =
                |ours: Vec<u8>, peer: Vec<u8>| Some(Failure { index, command: command.clone(), ours, peer });
            let slot = index - batch.start;
            let (a, b) = match (ours.replies.get(slot), peer.replies.get(slot)) {
                (Some(a), Some(b)) => (a, b),
                (None, None) if ours.end == peer.end && ours.end == Some(End::Closed) => return None,
                (a, b) => return failure(outcome(a, ours.end), outcome(b, peer.end)),
            };
            let name = self.grammar.full_name(command);
            let before = slot.checked_sub(1).map(|before| [&ours.replies[before][..], &peer.replies[before]]);
            let is_named = before.is_some_and(|replies| {
                special::names_the_moment(&commands[index - 1].words, replies, command)
            });
            let same = match (&name[..], queued.as_ref()) {
                ("exec", Some(queue)) => self.equal_exec(commands, queue, a, b, allowed),
                _ if is_named => a == b,
                _ => {
                    a == b || equal(self.grammar.rule(command), a, b) || allowed.permits(&name, command, a, b)
                }
            };
            if !same {
                return failure(a.clone(), b.clone());
            }
            follow_queue(queued, &name, index, a);
            let tally = self.tally.entry(name).or_default();
            *tally = (tally.0 + 1, tally.1 + u64::from(a.starts_with(b"-")));
        }
        let differ = ours.pushes != peer.pushes;
        let last = batch.end - 1;
        differ.then(|| Failure {
            index: last,
            command: commands[last].words.clone(),
            ours: ours.pushes.concat(),
            peer: peer.pushes.concat(),
        })
    }

    /// Whether the replies to EXEC are equal, each element by the rule of the command that was queued for it.
    fn equal_exec(
        &self,
        commands: &[Command],
        queue: &[usize],
        ours: &[u8],
        peer: &[u8],
        allowed: &mut Allowed,
    ) -> bool {
        if ours == peer {
            return true;
        }
        let (Some(a), Some(b)) = (parse(ours), parse(peer)) else { return false };
        if a.items.len() != queue.len() || b.items.len() != queue.len() || a.kind != b.kind {
            return equal_parsed(Rule::Exact, &a, &b)
                || allowed.permits("exec", &[b"EXEC".to_vec()], ours, peer);
        }
        queue.iter().zip(a.items.iter().zip(&b.items)).all(|(&index, (a, b))| {
            let command = &commands[index].words;
            let name = self.grammar.full_name(command);
            equal_parsed(self.grammar.rule(command), a, b) || allowed.permits_parsed(&name, command, a, b)
        })
    }

    /// Compares keys, types, expiries, encodings and values in all databases.
    fn compare_state(&mut self, index: usize, allowed: &mut Allowed) -> Result<Option<Failure>> {
        let mut pair = self.connect()?;
        for database in 0..DATABASES {
            let number = database.to_string().into_bytes();
            let keys = vec![
                vec![b"SELECT".to_vec(), number],
                vec![b"DBSIZE".to_vec()],
                vec![b"KEYS".to_vec(), b"*".to_vec()],
            ];
            let (failure, answers) = self.compare_questions(&mut pair, index, &keys, allowed);
            let Some(answers) = answers.filter(|_| failure.is_none()) else { return Ok(failure) };
            let Some(list) = answers.replies.last().and_then(|raw| parse(raw)) else { continue };
            let mut names: Vec<Vec<u8>> = list.items.into_iter().map(|key| key.text).collect();
            names.sort();
            for chunk in names.chunks(BATCH / 4) {
                let (failure, answers) = self.compare_questions(&mut pair, index, &about(chunk), allowed);
                let Some(answers) = answers.filter(|_| failure.is_none()) else { return Ok(failure) };
                let values = values_of(chunk, &answers);
                let (failure, _) = self.compare_questions(&mut pair, index, &values, allowed);
                if failure.is_some() {
                    return Ok(failure);
                }
            }
        }
        Ok(None)
    }

    /// Asks both and compares by the usual rules.
    fn compare_questions(
        &mut self,
        pair: &mut Pair,
        index: usize,
        questions: &[Vec<Vec<u8>>],
        allowed: &mut Allowed,
    ) -> (Option<Failure>, Option<Answers>) {
        let commands: Vec<Command> =
            questions.iter().map(|words| Command { words: words.clone(), inline: false }).collect();
        let (ours, peer) = exchange(pair, &commands);
        let failure = self.compare(&commands, 0..commands.len(), &ours, &peer, &mut None, allowed);
        (failure.map(|failure| Failure { index, ..failure }), Some(ours))
    }
}

/// The type, expiry and encoding of keys.
fn about(keys: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let questions = |key: &Vec<u8>| {
        [
            vec![b"TYPE".to_vec(), key.clone()],
            vec![b"PTTL".to_vec(), key.clone()],
            vec![b"OBJECT".to_vec(), b"ENCODING".to_vec(), key.clone()],
        ]
    };
    keys.iter().flat_map(questions).collect()
}

/// The commands that read whole values, by the types that `answers` to [`about`] hold.
fn values_of(keys: &[Vec<u8>], answers: &Answers) -> Vec<Vec<Vec<u8>>> {
    let read = |(key, answers): (&Vec<u8>, &[Vec<u8>])| -> Vec<Vec<u8>> {
        let (before, after): (&str, &[&str]) = match answers[0].as_slice() {
            b"+list\r\n" => ("LRANGE", &["0", "-1"]),
            b"+hash\r\n" => ("HGETALL", &[]),
            b"+set\r\n" => ("SMEMBERS", &[]),
            b"+zset\r\n" => ("ZRANGE", &["0", "-1", "WITHSCORES"]),
            b"+stream\r\n" => ("XRANGE", &["-", "+"]),
            _ => ("GET", &[]),
        };
        let mut words = vec![before.as_bytes().to_vec(), key.clone()];
        words.extend(after.iter().map(|word| word.as_bytes().to_vec()));
        words
    };
    keys.iter().zip(answers.replies.chunks_exact(3)).map(read).collect()
}

/// Sends a batch to both and reads both.
fn exchange(pair: &mut Pair, commands: &[Command]) -> (Answers, Answers) {
    let mut bytes = Vec::new();
    for command in commands {
        if command.inline {
            bytes.extend_from_slice(&command.words.join(&b' '));
            bytes.extend_from_slice(b"\r\n");
        } else {
            encode(&command.words, &mut bytes);
        }
    }
    // Every seventh length or so goes out in pieces: a function of the batch, so that a replay does the same.
    let mut rng = Rng::new(bytes.len() as u64);
    if rng.below(7) == 0 {
        for piece in hostile::pieces(&mut rng, &bytes) {
            pair.ours.send(piece);
            pair.peer.send(piece);
        }
    } else {
        pair.ours.send(&bytes);
        pair.peer.send(&bytes);
    }
    (pair.ours.receive(commands.len()), pair.peer.receive(commands.len()))
}

/// Follows MULTI, queued commands, EXEC, DISCARD and RESET through the replies.
fn follow_queue(queued: &mut Option<Vec<usize>>, name: &str, index: usize, reply: &[u8]) {
    match (name, queued.as_mut()) {
        ("multi", None) if reply.starts_with(b"+OK") => *queued = Some(Vec::new()),
        ("exec" | "discard" | "reset", _) => *queued = None,
        (_, Some(queue)) if reply.starts_with(b"+QUEUED") => queue.push(index),
        _ => {}
    }
}

/// A reply, or in words why there is none.
fn outcome(reply: Option<&Vec<u8>>, end: Option<End>) -> Vec<u8> {
    match (reply, end) {
        (Some(reply), _) => reply.clone(),
        (None, Some(End::Closed)) => b"(the connection was closed)".to_vec(),
        (None, Some(End::Silent)) => b"(no reply in time)".to_vec(),
        (None, _) => b"(bytes that are no RESP)".to_vec(),
    }
}

/// The parameters that streams change, with the values they have now.
fn defaults(port: u16) -> Result<Vec<Vec<u8>>> {
    let mut words = vec![b"CONFIG".as_slice(), b"GET"];
    words.extend(PARAMETERS.iter().map(|name| name.as_bytes()));
    let reply = Connection::open(port)?.ask(&words)?;
    Ok(reply.items.into_iter().map(|item| item.text).collect())
}
