//! Runs, which are executions of clients' scripts and functions, and the libraries of the functions. A run
//! writes several keys, is interrupted at the end of each slice, and meets faults while it is interrupted.
//!
//! The simulation checks that (1) a node that does not execute a run has all of the run's writes or
//! none, also after a start from its files; (2) a run that was refused, killed, or lost with its node
//! before its end has no effect at any node, at any time; (3) a run that was answered was complete where
//! it ran; (4) a node keeps its role, and a primary its history, while an execution unit is open; (5) if a
//! node has the key of a promised write (see `promises.rs`: promised to a client by WAIT, WAITAOF or
//! `appendfsync always`), it has the libraries whose loads were acknowledged before that write; at equal
//! points of a history all nodes have equal libraries, because the fingerprint of the data covers the
//! libraries.

mod ledger;

pub(super) use self::ledger::{HowPromised, Runs};

use self::ledger::{Fate, OpenAt, Run};
use super::World;
use crate::net::NodeId;
use crate::node::{SimNode, node_of};
use crate::promises::key_of;
use crate::scripts::{self, Course, FAILED_AS_TOLD};
use crate::workload::Words;
use sluice_base::Rng;
use sluice_resp::{Value, decode};

/// Number of latest runs whose keys are checked after each iteration; all runs are checked at starts, after
/// snapshots and at the end.
const LOOKED_FOR: usize = 6;

/// The open execution unit of a node, with the role of the node.
fn open_at(node: &SimNode) -> Option<OpenAt> {
    let (unit, follows) = (node.engine.open_unit()?, node.engine.primary().map(node_of));
    let history = node.engine.history_point().map(|point| point.replid);
    // The history is noted for a primary only, because a replica can receive a new history id from its
    // primary at any time.
    Some(OpenAt { unit, follows, history: history.filter(|_| follows.is_none()) })
}

impl World {
    /// Takes the replies to runs. At random, starts a run, changes a library, or disturbs nodes with open
    /// execution units.
    pub(super) fn run_something(&mut self) -> Result<(), String> {
        if !self.runs.are_drawn() {
            return Ok(());
        }
        self.hear_runs()?;
        let Runs { rng, one_in, has_libraries, .. } = &mut self.runs;
        let (runs, loads) = (rng.below(*one_in) == 0, *has_libraries && rng.below(*one_in * 4) == 0);
        // In most steps, the run or the library goes to the node that the Sentinel considers the primary.
        let any = rng.below(self.hosts.len() as u64) as usize;
        let at = if rng.below(4) == 0 { any } else { self.primary };
        if loads {
            self.load_or_delete(at);
        }
        if runs {
            self.begin_run(at);
        }
        (0..self.hosts.len()).for_each(|id| self.disturb(id));
        Ok(())
    }

    fn load_or_delete(&mut self, at: NodeId) {
        self.runs.names += 1;
        let (version, library) = (self.runs.names, self.runs.rng.below(scripts::LIBRARIES));
        let words = match self.runs.rng.below(4) {
            0 => scripts::delete(library),
            _ => scripts::load(library, version),
        };
        self.trace(|| format!("to {at}: library {library} as of {version}, or deleted"));
        let Some(node) = &mut self.hosts[at].node else { return };
        let client = node.client();
        node.request_run(client, &words);
    }

    fn begin_run(&mut self, at: NodeId) {
        let Runs { rng, has_libraries, .. } = &mut self.runs;
        let (kind, parts) = (rng.below(8), 2 + rng.below(3));
        let is_function = *has_libraries && rng.below(2) == 0;
        let Some(node) = &mut self.hosts[at].node else { return };
        let (snapshots, is_replica) = (node.link_counts().snapshots, node.engine.primary().is_some());
        let caller = node.client();
        // Most runs at a replica only read, because a replica refuses scripts that may write, usually before
        // they run.
        if kind == 0 || is_replica && kind < 6 {
            let words = Course::reads(rng.below(40));
            self.trace(|| format!("to {at}: EVAL_RO"));
            return self.request_run(at, &[(caller, words)]);
        }
        let keys = self.runs.new_keys(parts);
        let rng = &mut self.runs.rng;
        let fails_at = if rng.below(6) == 0 { 1 + rng.below(parts) } else { 0 };
        let course = course(rng, keys, fails_at);
        let words = if is_function { course.fcall(rng.below(scripts::LIBRARIES)) } else { course.eval() };
        let mut requests = vec![words];
        if kind == 1 {
            let other = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Words>();
            requests = vec![other(&["MULTI"]), other(&["INCR", "n2"]), requests.remove(0), other(&["EXEC"])];
        }
        let mut written = course.keys;
        written.truncate(if fails_at > 0 { fails_at as usize } else { usize::MAX });
        self.trace(|| {
            format!(
                "to {at}: a run of {:?}",
                written.iter().map(|key| key.escape_ascii().to_string()).collect::<Vec<_>>()
            )
        });
        self.runs.all.push(Run {
            parts: written,
            at: Some(at),
            snapshots,
            caller: Some(caller),
            replies_before: requests.len() - 1,
            replies: Vec::new(),
            fate: Fate::Open,
        });
        let requests: Vec<_> = requests.into_iter().map(|words| (caller, words)).collect();
        self.request_run(at, &requests);
    }

    fn request_run(&mut self, at: NodeId, requests: &[(sluice_base::SessionKey, Words)]) {
        let Some(node) = &mut self.hosts[at].node else { return };
        for (client, words) in requests {
            node.request_run(*client, words);
        }
        self.met.runs += 1;
    }

    /// Draws the command that makes the next promised write.
    pub(super) fn how_promised(&mut self, at: NodeId, key: &[u8]) -> HowPromised {
        if !self.runs.are_drawn() {
            return HowPromised::Plainly;
        }
        match self.runs.rng.below(6) {
            0 if self.runs.has_libraries => HowPromised::AfterLibrary,
            1 | 2 => HowPromised::ByRun(self.promise_by_run(at, key.to_vec())),
            _ => HowPromised::Plainly,
        }
    }

    /// Makes a run whose last write is to this key, and returns the command that starts the run.
    fn promise_by_run(&mut self, at: NodeId, key: Vec<u8>) -> Words {
        let mut keys = self.runs.new_keys(2);
        keys.push(key);
        let course = course(&mut self.runs.rng, keys.clone(), 0);
        let snapshots = self.hosts[at].node.as_ref().map_or(0, |node| node.link_counts().snapshots);
        self.runs.all.push(Run {
            parts: keys,
            at: Some(at),
            snapshots,
            caller: None,
            replies_before: 0,
            replies: Vec::new(),
            fate: Fate::Open,
        });
        self.met.runs += 1;
        course.eval()
    }

    /// Perhaps disturbs a node while its execution unit is open: by a kill, a crash, a shutdown, a save or
    /// another event.
    fn disturb(&mut self, id: NodeId) {
        let is_open = self.hosts[id].node.as_ref().is_some_and(|node| node.engine.has_open_unit());
        if !is_open {
            return;
        }
        self.met.suspensions += 1;
        let choice = self.runs.rng.below(90);
        match choice {
            0..4 => self.kill_run(id),
            4..6 => self.leave_run(id),
            6 => self.crash(id),
            7 => {
                let words: &[&str] = match self.runs.rng.below(3) {
                    0 => &["SHUTDOWN", "NOSAVE"],
                    1 => &["SHUTDOWN", "NOSAVE", "NOW"],
                    _ => &["SHUTDOWN", "NOSAVE", "NOW", "FORCE"],
                };
                self.runs.ending.insert(id);
                self.order(id, words);
            }
            8 => self.order(id, &["BGSAVE"]),
            9 => self.order(id, &["BGREWRITEAOF"]),
            10 => {
                if let Some(conn) = self.net.kill_any(&mut self.runs.rng) {
                    self.trace(|| format!("connection {conn} dies"));
                }
            }
            11 if !self.handovers.is_under_way() => self.make_chain(),
            12 if !self.handovers.is_under_way() && id == self.primary && self.is_seen(id) => {
                self.ask_for_failover()
            }
            _ => {}
        }
    }

    fn kill_run(&mut self, id: NodeId) {
        let command = if self.runs.rng.below(2) == 0 { "SCRIPT" } else { "FUNCTION" };
        self.trace(|| format!("to {id}: {command} KILL"));
        let Some(node) = &mut self.hosts[id].node else { return };
        let client = node.client();
        node.request(client, &[command.as_bytes(), b"KILL"]);
        self.runs.killers.push((id, client));
    }

    /// Closes the session of a client whose run is interrupted.
    fn leave_run(&mut self, id: NodeId) {
        let mut waiting = self.runs.all.iter_mut().filter(|run| run.at == Some(id));
        let Some(caller) = waiting.find_map(|run| run.caller.take()) else { return };
        self.trace(|| format!("a client of {id} goes away"));
        self.met.left += 1;
        if let Some(node) = &mut self.hosts[id].node {
            node.close_client(caller);
        }
    }

    // --- results of runs

    fn hear_runs(&mut self) -> Result<(), String> {
        let killers = std::mem::take(&mut self.runs.killers);
        for (id, client) in killers {
            let Some(node) = self.hosts[id].node.as_mut().filter(|node| node.has_client(client)) else {
                continue;
            };
            let replies = node.replies(client);
            self.met.unkillable += u64::from(replies.starts_with(b"-UNKILLABLE"));
            if replies.is_empty() {
                self.runs.killers.push((id, client));
            }
        }
        let mut all = std::mem::take(&mut self.runs.all);
        let result = all.iter_mut().try_for_each(|run| self.hear_run(run));
        self.runs.all = all;
        result
    }

    fn hear_run(&mut self, run: &mut Run) -> Result<(), String> {
        let (Some(id), Some(caller)) = (run.at, run.caller) else { return Ok(()) };
        let Some(node) = self.hosts[id].node.as_mut().filter(|node| node.has_client(caller)) else {
            run.caller = None;
            return Ok(());
        };
        run.replies.extend(node.replies(caller));
        let mut rest = &run.replies[..];
        for _ in 0..run.replies_before {
            let Ok(Some((_, used))) = decode(rest) else { return Ok(()) };
            rest = &rest[used..];
        }
        let value = match decode(rest) {
            Ok(Some((Value::Array(mut items), _))) => items.pop().unwrap_or(Value::Null),
            Ok(Some((value, _))) => value,
            _ => return Ok(()),
        };
        node.close_client(caller);
        run.caller = None;
        let has_all = run.parts.iter().all(|part| node.has_key(part));
        let is_elsewhere = node.link_counts().snapshots != run.snapshots;
        let name = run.parts[0].escape_ascii().to_string();
        match value {
            Value::Error(text)
                if !text.windows(FAILED_AS_TOLD.len()).any(|part| part == FAILED_AS_TOLD.as_bytes()) =>
            {
                let text = String::from_utf8_lossy(&text).into_owned();
                self.trace(|| format!("{name} has come to nothing: {text}"));
                self.met.killed += u64::from(text.contains("killed by user"));
                run.fate = Fate::Dropped;
                Ok(())
            }
            value => {
                self.trace(|| format!("{name} has ended: {value:?}"));
                self.met.ended += 1;
                match has_all || is_elsewhere {
                    true => Ok(()),
                    false => Err(format!("node {id} has answered the run of {name} and has not all of it")),
                }
            }
        }
    }

    /// Handles the end of a process, whose unfinished runs must have no effect.
    pub(super) fn lose_runs(&mut self, id: NodeId, node: &SimNode) {
        self.runs.ending.remove(&id);
        self.runs.open.remove(&id);
        self.runs.killers.retain(|(at, _)| *at != id);
        let mut lost = 0;
        for run in self.runs.all.iter_mut().filter(|run| run.at == Some(id)) {
            let has_all = run.parts.iter().all(|part| node.has_key(part));
            let is_elsewhere = node.link_counts().snapshots != run.snapshots;
            if !has_all && !is_elsewhere && run.fate == Fate::Open {
                run.fate = Fate::Dropped;
                lost += u64::from(run.parts.iter().any(|part| node.has_key(part)));
            }
            (run.at, run.caller) = (None, None);
        }
        self.met.lost_halves += lost;
    }

    /// Checks at a node the keys of the latest runs, or of all runs if `of_all` is set.
    pub(super) fn check_runs(&mut self, id: NodeId, of_all: bool) -> Result<(), String> {
        let Some(node) = &self.hosts[id].node else { return Ok(()) };
        if !self.runs.are_drawn() || node.engine.is_loading() {
            return Ok(());
        }
        let now = open_at(node);
        let is_open = now.is_some();
        let before = match now.clone() {
            Some(now) => self.runs.open.insert(id, now),
            None => self.runs.open.remove(&id),
        };
        if let (Some(before), Some(now)) = (before, now)
            && before.unit == now.unit
            && before != now
        {
            return Err(format!("node {id} was {before:?} and is {now:?} while the same unit stands open"));
        }
        let first = if of_all { 0 } else { self.runs.all.len().saturating_sub(LOOKED_FOR) };
        for run in &self.runs.all[first..] {
            let found = run.parts.iter().filter(|part| node.has_key(part)).count();
            let is_half = found > 0 && found < run.parts.len();
            let name = run.parts[0].escape_ascii();
            if is_open && run.at == Some(id) {
                continue;
            }
            if is_half {
                return Err(format!(
                    "node {id} has {found} of the {} keys of the run of {name}",
                    run.parts.len()
                ));
            } else if found > 0 && run.fate == Fate::Dropped {
                return Err(format!("node {id} has the run of {name}, which has come to nothing"));
            }
        }
        self.check_kept(id)
    }

    /// Checks that a node with a promised key has the version of the library that was acknowledged before the
    /// key was written, or a later version.
    fn check_kept(&self, id: NodeId) -> Result<(), String> {
        let Some(node) = &self.hosts[id].node else { return Ok(()) };
        let Some(wanted) = self.runs.kept.iter().rev().find(|promise| node.has_key(&key_of(**promise)))
        else {
            return Ok(());
        };
        match node.engine.library_codes().find_map(scripts::kept_version) {
            Some(version) if version >= *wanted => Ok(()),
            found => Err(format!("node {id} has promise {wanted}, and of the library before it {found:?}")),
        }
    }

    /// Ends a node that carries out a SHUTDOWN, with all executed writes in its files.
    pub(super) fn shut_down(&mut self, id: NodeId) {
        let Some(node) = &mut self.hosts[id].node else { return };
        node.end();
        self.trace(|| format!("node {id} ends as it was told"));
        self.met.shutdowns += 1;
        self.crash(id);
    }

    /// At random, repeats the Sentinel's order to become a primary, which the node may have refused because
    /// it was busy with a script. The script is killed first.
    pub(super) fn insist_on_primary(&mut self) {
        let id = self.primary;
        if self.runs.are_drawn() && self.followed(id).is_some() && self.runs.rng.below(10) == 0 {
            self.order(id, &["SCRIPT", "KILL"]);
            self.order(id, &["FUNCTION", "KILL"]);
            self.follow(id, None);
        }
    }
}

fn course(rng: &mut Rng, keys: Vec<Vec<u8>>, fails_at: u64) -> Course {
    let calls = [(0, 3), (0, 12), (6, 6), (20, 0)][rng.below(4) as usize];
    let db = if rng.below(3) == 0 { 1 + rng.below(3) } else { 0 };
    Course { keys, calls, fails_at, db, beside: scripts::beside(rng) }
}
