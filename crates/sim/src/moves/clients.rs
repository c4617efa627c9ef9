//! Clients that write, one write at a time, and follow redirects; the ledger records the answered writes.

use super::ledger::Excuse;
use super::plan::MovesSeason;
use super::view::{KeyName, ids_in, shown, slot_of};
use super::world::{MS, MovesWorld};
use super::writer::{Doing, Executed, Write, Writer};
use crate::net::NodeId;

/// How long a client waits for an answer before it gives up, ms.
const PATIENCE_MS: u64 = 6_000;
/// Number of keys of each kind with a hash tag. The keys of all kinds take several buckets of the slot's
/// index, so that writes occur while a move walks through the index.
const NAMES: u64 = 8;

impl MovesWorld {
    /// Advances each client by one step.
    pub(super) fn write(&mut self) {
        for at in 0..self.writers.len() {
            let mut writer = std::mem::take(&mut self.writers[at]);
            self.go_on(&mut writer);
            self.writers[at] = writer;
        }
    }

    fn go_on(&mut self, writer: &mut Writer) {
        let now_ns = self.now.mono_ns;
        if let Some((id, boot, _)) = writer.at
            && (self.hosts[id].node.is_none() || self.hosts[id].boot != boot)
        {
            *writer = Writer { idle_until_ns: now_ns + 100 * MS, ..Writer::default() };
        }
        if let Some((id, _, key)) = writer.at
            && let Some(node) = &mut self.hosts[id].node
        {
            if !node.has_client(key) {
                *writer = Writer::default();
                return;
            }
            writer.input.push_str(&String::from_utf8_lossy(&node.replies(key)));
            if now_ns.saturating_sub(writer.since_ns) > PATIENCE_MS * MS
                && !matches!(writer.doing, Doing::Nothing)
            {
                node.close_client(key);
                *writer = Writer::default();
                return;
            }
        }
        while let Some((line, rest)) = writer.input.split_once("\r\n") {
            let (line, rest) = (line.to_owned(), rest.to_owned());
            writer.input = rest;
            self.heard(writer, &line);
        }
        if matches!(writer.doing, Doing::Nothing) && writer.idle_until_ns <= now_ns && now_ns < self.rests_ns
        {
            self.begin_write(writer);
        }
    }

    fn begin_write(&mut self, writer: &mut Writer) {
        let any = self.rng.below(self.hosts.len() as u64) as usize;
        let id = writer.next.take().or(writer.at.map(|(id, ..)| id)).unwrap_or(any);
        if !self.goes_on(id) {
            writer.idle_until_ns = self.now.mono_ns + 50 * MS;
            return;
        }
        let (tag, kind) = (self.rng.below(self.plan.tags.len() as u64) as usize, self.rng.below(3));
        let db = self.rng.below(self.plan.databases) as usize;
        let count = match self.rng.below(12) {
            0 => 1 + self.rng.below(150),
            _ => 1,
        };
        let ids = self.ledger.new_ids(count);
        let name = format!("{}{kind}.{}", self.plan.tags[tag].0, ids[0] % NAMES);
        let boot = self.hosts[id].boot;
        let Some(node) = &mut self.hosts[id].node else { return };
        if let Some((old, _, key)) = writer.at.filter(|(old, ..)| *old != id) {
            writer.at = None;
            if let Some(node) = &mut self.hosts[old].node {
                node.close_client(key);
            }
            return self.go_to(writer, id);
        }
        let key = match writer.at {
            Some((_, _, key)) => key,
            None => node.client(),
        };
        writer.at = Some((id, boot, key));
        if self.plan.databases > 1 {
            node.request(key, &[b"SELECT", db.to_string().as_bytes()]);
        }
        let texts: Vec<String> = ids.iter().map(u64::to_string).collect();
        let joined = texts.join(",") + ",";
        let mut words: Vec<&[u8]> = vec![[&b"RPUSH"[..], b"SADD", b"APPEND"][kind as usize], name.as_bytes()];
        match kind {
            2 => words.push(joined.as_bytes()),
            _ => words.extend(texts.iter().map(String::as_bytes)),
        }
        node.request(key, &words);
        let (ahead, key) = (usize::from(self.plan.databases > 1), (db, name.into_bytes()));
        let is_there = ids_in(&node.engine, &key).contains(&ids[0]);
        let when =
            if is_there { Executed::AtOnce(self.claimed_elsewhere(id, &key)) } else { Executed::Later };
        writer.doing = Doing::Write(Write { ahead, key, ids, when });
        writer.since_ns = self.now.mono_ns;
    }

    /// Makes the client write to another node from now on.
    fn go_to(&self, writer: &mut Writer, id: NodeId) {
        writer.next = Some(id);
        writer.idle_until_ns = self.now.mono_ns;
    }

    fn heard(&mut self, writer: &mut Writer, line: &str) {
        let Some((id, _, session)) = writer.at else { return };
        let now_ns = self.now.mono_ns;
        match std::mem::take(&mut writer.doing) {
            Doing::Nothing => {}
            Doing::Write(Write { ahead, key, ids, when }) if ahead > 0 => {
                writer.doing = Doing::Write(Write { ahead: ahead - 1, key, ids, when });
            }
            Doing::Write(Write { key, ids, when, .. }) if line.starts_with(':') => {
                self.met.answered += ids.len() as u64;
                let excuse = match when {
                    Executed::AtOnce(excuse) => excuse,
                    Executed::Later => self.claimed_elsewhere(id, &key),
                };
                self.trace(|| format!("node {id} answers {} of {}, {excuse:?}", ids[0], shown(&key)));
                self.ledger.answered(&key, &ids, excuse);
                if self.plan.nodes.len() == self.primaries() {
                    self.ledger.confirmed(&key, &ids);
                    writer.idle_until_ns = now_ns + self.rng.below(60) * MS;
                    return;
                }
                if let Some(node) = &mut self.hosts[id].node {
                    node.request(session, &[b"WAIT", b"1", b"500"]);
                }
                (writer.doing, writer.since_ns) = (Doing::Wait { key, ids }, now_ns);
            }
            Doing::Write(_) => {
                if line.starts_with("-MOVED ")
                    && let Some(port) = line.rsplit(':').next().and_then(|port| port.parse::<u16>().ok())
                {
                    self.met.redirected += 1;
                    self.go_to(writer, usize::from(port - crate::node::port_of(0)));
                } else {
                    // The client tries another node after an error.
                    writer.next = Some(self.rng.below(self.hosts.len() as u64) as usize);
                    writer.idle_until_ns = now_ns + self.rng.below(200) * MS;
                }
            }
            Doing::Wait { key, ids } => {
                if line.starts_with(':') && line != ":0" {
                    self.ledger.confirmed(&key, &ids);
                }
                writer.idle_until_ns = now_ns + self.rng.below(60) * MS;
            }
        }
    }

    fn primaries(&self) -> usize {
        self.plan.follows.iter().filter(|follows| follows.is_none()).count()
    }

    /// The excuse for a write to the node `id` if another node claims the key's slot too, or may claim it
    /// by a grant that `id` has forgotten. In a calm season there is no excuse, because the node receives
    /// the other's messages.
    fn claimed_elsewhere(&self, id: NodeId, key: &KeyName) -> Option<Excuse> {
        if self.plan.season == MovesSeason::Calm {
            return None;
        }
        let slot = slot_of(key);
        let lines = self.own_lines();
        let own_epoch = if lines[id].has(slot) { lines[id].epoch } else { 0 };
        // A claim by a node of the same shard with a lower epoch does not count: that node is a replaced
        // primary, which claims slots until it receives news of its replacement.
        let of_my_shard = |other: NodeId| self.shard_of(other) == self.shard_of(id);
        let mut others = (0..lines.len()).filter(|other| *other != id);
        others
            .any(|other| {
                let line = &lines[other];
                (line.is_primary && line.has(slot) && (line.epoch >= own_epoch || !of_my_shard(other)))
                    || self.has_orphan_grant(other, id, slot)
            })
            .then_some(Excuse::Claims)
    }

    /// The shard of a node at the beginning of the run.
    fn shard_of(&self, id: NodeId) -> NodeId {
        self.plan.follows[id].unwrap_or(id)
    }

    /// Whether `target` may still claim a slot by a move that `source` has given up.
    fn has_orphan_grant(&self, target: NodeId, source: NodeId, slot: u16) -> bool {
        let jobs = |id: NodeId, operation: &'static str| {
            let machine = self.hosts[id].node.as_ref().and_then(|node| node.engine.node());
            let rows = machine.into_iter().flat_map(|machine| machine.migrations());
            rows.filter(move |row| row.operation == operation && !is_over(row.state))
        };
        let mut imports = jobs(target, "IMPORT")
            .filter(|row| row.state.starts_with("failover") && ranges_have(&row.slot_ranges, slot));
        imports.any(|import| !jobs(source, "EXPORT").any(|export| export.name == import.name))
    }
}

/// Whether a job (a move of slots) in this state has ended.
pub(super) fn is_over(state: &str) -> bool {
    matches!(state, "success" | "failed" | "cancelled")
}

/// Whether a slot is in one of the ranges of a job.
pub(super) fn ranges_have(ranges: &str, slot: u16) -> bool {
    let bounds = ranges.split(' ').filter_map(|range| range.split_once('-'));
    let numbers = bounds.filter_map(|(first, last)| Some((first.parse().ok()?, last.parse::<u16>().ok()?)));
    numbers.into_iter().any(|(first, last): (u16, u16)| (first..=last).contains(&slot))
}
