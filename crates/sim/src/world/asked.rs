//! Promised writes: the command after the write that asks for the promise, and the reply to that command.

use super::World;
use super::runs::HowPromised;
use crate::net::NodeId;
use crate::promises::{AskedFor, Given, PendingPromise, key_of};
use crate::scripts;
use sluice_control::process::AppendOnlyFile;
use sluice_resp::{Value, decode};
use std::collections::BTreeSet;

impl World {
    /// Sends a write and asks for a promise. If an earlier promise is pending, looks for its reply instead.
    pub(super) fn promise(&mut self) -> Result<(), String> {
        if self.pending.is_some() {
            return self.hear_promise();
        }
        if self.rng.below(4) > 0 {
            return Ok(());
        }
        let mut client = std::mem::take(&mut self.promiser);
        let at = self.attach(&mut client);
        self.promiser = client;
        let Some((id, key)) = at else { return Ok(()) };
        self.promises += 1;
        let name = key_of(self.promises);
        let replicas = 1 + self.rng.below(self.hosts.len() as u64 - 1);
        let is_strict = self.plan.nodes[id].is_strict;
        // In a run with faulty disks, the promise is about disks as long as the append-only file of any node
        // has no base in force.
        let is_about_disks = self.rng.below(2) == 1 || self.disks.are_drawn() && self.has_no_base();
        let asked = match is_about_disks {
            _ if is_strict && self.rng.below(3) == 0 => AskedFor::Answer,
            false => AskedFor::Wait(replicas),
            true => AskedFor::WaitAof(self.rng.below(1 + u64::from(self.plan.nodes[id].has_aof)), replicas),
        };
        let timeout_ms = (1 + self.rng.below(3000)).to_string();
        self.trace(|| format!("to {id}: {} {asked:?} {timeout_ms}", name.escape_ascii()));
        let how = self.how_promised(id, &name);
        let Some(node) = &mut self.hosts[id].node else { return Ok(()) };
        node.replies(key);
        let mut library = None;
        match how {
            HowPromised::AfterLibrary => {
                node.request_run(key, &scripts::load_kept(self.promises));
                library = Some(self.promises);
                node.request(key, &[b"SET", &name, b"1"]);
            }
            HowPromised::ByRun(words) => node.request_run(key, &words),
            HowPromised::Plainly => node.request(key, &[b"SET", &name, b"1"]),
        }
        match asked {
            AskedFor::Wait(count) => {
                node.request(key, &[b"WAIT", count.to_string().as_bytes(), timeout_ms.as_bytes()]);
            }
            AskedFor::WaitAof(local, count) => {
                let (local, count) = (local.to_string(), count.to_string());
                node.request(key, &[b"WAITAOF", local.as_bytes(), count.as_bytes(), timeout_ms.as_bytes()]);
            }
            AskedFor::Answer => {}
        }
        let (had, excused) = (BTreeSet::new(), BTreeSet::new());
        self.pending = Some(PendingPromise {
            key: name,
            primary: id,
            client: key,
            asked,
            had,
            excused,
            replies: Vec::new(),
            library,
        });
        Ok(())
    }

    fn hear_promise(&mut self) -> Result<(), String> {
        let Some(mut pending) = self.pending.take() else { return Ok(()) };
        let Some(node) =
            self.hosts[pending.primary].node.as_mut().filter(|node| node.has_client(pending.client))
        else {
            return Ok(());
        };
        pending.replies.extend(node.replies(pending.client));
        if let Some(number) = pending.library {
            match decode(&pending.replies) {
                Ok(Some((Value::Bulk(_), used))) => {
                    pending.replies.drain(..used);
                    pending.library = None;
                    self.runs.note_kept(number);
                }
                Ok(None) => {
                    self.pending = Some(pending);
                    return Ok(());
                }
                _ => {
                    self.promiser.at = None;
                    return Ok(());
                }
            }
        }
        let Ok(Some((Value::Simple(_), first))) = decode(&pending.replies) else {
            // The write failed, because the node is no primary any more or its disk is faulty. The reply to
            // the command after the write then means nothing.
            match pending.replies.starts_with(b"-") {
                true => {
                    self.runs.drop_run_of(&pending.key);
                    self.promiser.at = None;
                }
                false => self.pending = Some(pending),
            }
            return Ok(());
        };
        if pending.asked == AskedFor::Answer {
            return self.answered(pending);
        }
        match decode(&pending.replies[first..]) {
            Ok(Some((Value::Int(count), _))) => self.waited(pending, u64::try_from(count).unwrap_or(0)),
            Ok(Some((Value::Array(items), _))) => match items[..] {
                [Value::Int(local), Value::Int(count)] => {
                    self.waited_for_disks(pending, local > 0, u64::try_from(count).unwrap_or(0))
                }
                _ => Ok(()),
            },
            Ok(None) => {
                self.pending = Some(pending);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Handles the reply of a primary under `appendfsync always`.
    fn answered(&mut self, pending: PendingPromise) -> Result<(), String> {
        let PendingPromise { key, primary, .. } = pending;
        self.trace(|| format!("{} was answered", key.escape_ascii()));
        let node = &mut self.hosts[primary].node;
        if !node.as_mut().is_some_and(|node| node.process.has_aof_base()) {
            // The reply promises nothing about a crash here, because a start does not read the log before
            // its first base is in force (see docs/operating.md).
            return Ok(());
        }
        if !self.hosts[primary].disk.has_durably(&key) {
            return Err(format!("node {primary} has answered {} and has it not on disk", key.escape_ascii()));
        }
        if primary == self.primary {
            self.met.answers += 1;
            self.given.push(Given { key, holders: BTreeSet::new(), durable: BTreeSet::from([primary]) });
        }
        Ok(())
    }

    /// Handles the number in the reply of WAIT.
    fn waited(&mut self, pending: PendingPromise, count: u64) -> Result<(), String> {
        self.trace(|| format!("{} has reached {count}; had {:?}", pending.key.escape_ascii(), pending.had));
        let PendingPromise { key, primary, mut had, excused, .. } = pending;
        had.remove(&primary);
        if (had.len() as u64) < count {
            let key = key.escape_ascii();
            return Err(format!("WAIT said that {count} replicas have {key}, but only {had:?} have had it"));
        }
        if count > 0 && primary == self.primary {
            self.met.waits += 1;
            let holders = had.difference(&excused).copied().collect();
            self.given.push(Given { key, holders, durable: BTreeSet::new() });
        }
        Ok(())
    }

    /// Handles the numbers in the reply of WAITAOF.
    fn waited_for_disks(&mut self, pending: PendingPromise, local: bool, count: u64) -> Result<(), String> {
        let PendingPromise { key, primary, mut had, excused, .. } = pending;
        let on_disk: BTreeSet<NodeId> = (0..self.hosts.len())
            .filter(|id| self.plan.nodes[*id].has_aof && self.hosts[*id].disk.has_durably(&key))
            .collect();
        self.trace(|| {
            format!("{} is on disk: here {local}, at {count}; found at {on_disk:?}", key.escape_ascii())
        });
        let others = on_disk.iter().filter(|id| **id != primary).count() as u64;
        if others + (excused.len() as u64) < count || local && !on_disk.contains(&primary) {
            return Err(format!(
                "WAITAOF said {local} and {count} of {}, but only the disks of {on_disk:?} have it, and the primary is {primary}",
                key.escape_ascii()
            ));
        }
        had.remove(&primary);
        if (count > 0 || local) && primary == self.primary {
            self.met.aof_waits += 1;
            let holders =
                if count > 0 { had.difference(&excused).copied().collect() } else { BTreeSet::new() };
            self.given.push(Given { key, holders, durable: on_disk });
        }
        Ok(())
    }
}
