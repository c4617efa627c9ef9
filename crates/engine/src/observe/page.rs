//! The engine's part of the page of the metrics endpoint.

use crate::core::Core;
use sluice_acl::{Refusal, RefusalContext, User};
use sluice_base::{Now, SessionKey};
use sluice_cluster::{NodeFacts, NodeHealth, NodeId};
use sluice_command::Spec;
use sluice_command::specs::{server, string};
use sluice_commands::HotKeyLimits;
use sluice_control::cluster::shown_moves::{ShownMove, shown_moves};
use sluice_control::observe::info::LOOKED_AT_MAX;
use sluice_control::observe::page::{CLIENTS_SHOWN, held_bytes};
use sluice_control::process::Process;
use sluice_control::users::refusals::LoggedRefusal;
use sluice_numbers::commandlog::{LogEntry, LogKind};
use sluice_numbers::page::details::{
    BasicCredentials, ClientRow, HotKeyRow, JUDGED_MAX, JudgedCredentials, MayShow, MoveRow, MoveRowProgress,
    NodeRow, PageAsk, PageDetails, ScriptRow, SlowCommandRow,
};
use sluice_numbers::page::keys::KEYS_SHOWN;
use sluice_session::Session;
use std::collections::BTreeSet;

/// Maximum number of logged commands that the page shows.
const COMMANDS_SHOWN: usize = 20;
/// Maximum number of moves of slots that the page shows.
const MOVES_SHOWN: usize = 20;
/// Maximum number of nodes of a cluster that the page shows.
const NODES_SHOWN: usize = 100;
/// Nanoseconds of each second that sampling of keys may take, shared by the runs of the cron.
const LOOK_NS_MAX: u64 = 2_500_000;
/// How the hottest keys are counted: one access in twenty is sampled, in windows of two seconds.
const HOT_KEY_LIMITS: HotKeyLimits = HotKeyLimits { keys: 100, percent: 5, window_s: 2 };
/// A key is shown if it has at least this many accesses a second, because fewer than three sampled accesses
/// may be chance.
const HOT_LEAST: u64 = 30;
/// Maximum bytes that are kept of a name that a client has chosen.
const LABEL_BYTES_MAX: usize = 256;

/// The first [`LABEL_BYTES_MAX`] bytes of a name, or all if there are fewer.
fn cut(label: &[u8]) -> Box<[u8]> {
    label.get(..LABEL_BYTES_MAX).unwrap_or(label).into()
}

/// The id of the primary of a node's shard.
fn shard_of(node: &NodeFacts<'_>) -> NodeId {
    node.primary.unwrap_or(node.id)
}

fn node_row(node: &NodeFacts<'_>, now: Now) -> NodeRow {
    let pong_ms = (node.pong_wall_ms > 0).then_some(node.pong_wall_ms);
    let address = match node.ip {
        "" => String::new(),
        ip if ip.contains(':') => format!("[{ip}]:{}", node.port),
        ip => format!("{ip}:{}", node.port),
    };
    NodeRow {
        id: node.id.to_string(),
        name: cut(node.name),
        address,
        is_myself: node.is_myself,
        is_replica: node.is_replica,
        primary: node.primary.map(|primary| primary.to_string()).unwrap_or_default(),
        slots: node.slots,
        health: match node.health {
            NodeHealth::Up => "ok",
            NodeHealth::PFail => "pfail",
            NodeHealth::Fail { .. } => "fail",
        },
        is_linked: node.is_linked,
        pong_age_ms: pong_ms.map(|pong_ms| u64::try_from(now.unix_ms() - pong_ms).unwrap_or(0)),
    }
}

fn slow_command(entry: &LogEntry) -> SlowCommandRow {
    SlowCommandRow {
        id: entry.id,
        at_s: entry.time_s,
        us: entry.value,
        argv: entry.argv.clone(),
        address: entry.peer.clone(),
        client_name: cut(&entry.name),
    }
}

/// Gathers the rows of the page from the core.
pub(crate) struct PageRows<'a> {
    core: &'a mut Core,
}

impl<'a> PageRows<'a> {
    #[inline]
    pub(crate) fn of(core: &'a mut Core) -> PageRows<'a> {
        PageRows { core }
    }
}

impl PageRows<'_> {
    /// As [`Engine::page_details`](crate::engine::Engine::page_details).
    pub(crate) fn page_details(&mut self, ask: &PageAsk, process: &mut dyn Process) -> PageDetails {
        let now = process.recent();
        let watch = &mut self.core.upkeep.cron.page;
        if ask.looks_at_slots {
            watch.note_look_at_slots(now);
        }
        let slot_look = ask.looks_at_slots.then(|| watch.keys.slot_look());
        if !ask.looks_at_page {
            return PageDetails { slot_look, ..PageDetails::default() };
        }
        watch.note_look(now);
        if ask.looks_at_keys {
            watch.note_look_at_keys(now);
        }
        let largest = watch.looks_at_keys(now).then(|| watch.keys.found());
        let hottest = largest.is_some().then(|| self.hottest_keys(now));
        let (clients, slow_reads) = self.shown_clients(now);
        let names_in = largest.iter().flat_map(|found| &found.keys).map(|key| key.db);
        let names_in = names_in.chain(hottest.iter().flatten().map(|key| key.db)).collect();
        let judged =
            ask.credentials.iter().take(JUDGED_MAX).map(|shown| self.judge(shown, &names_in, now)).collect();
        let log = &self.core.control.commandlog;
        let script = self.core.control.scripts.running.as_deref().map(|script| ScriptRow {
            name: (*script.name).into(),
            running_ms: now.mono_ns.saturating_sub(script.began_ns) / 1_000_000,
        });
        let (nodes, node_count) = self.nodes(now);
        PageDetails {
            clients,
            slow_reads,
            slow_commands: log.newest(LogKind::Slow, COMMANDS_SHOWN).map(slow_command).collect(),
            script,
            moves: self.moves(),
            nodes,
            node_count,
            largest,
            hottest,
            slot_look,
            texts: self.page_texts(),
            judged,
        }
    }

    /// The newest moves of slots.
    fn moves(&self) -> Vec<MoveRow> {
        let Core { control, keyspace, sessions, .. } = &*self.core;
        let Some(mode) = control.cluster.as_deref() else { return Vec::new() };
        let row = |ShownMove { row, progress }: ShownMove<'_>| {
            let leaves = row.operation == "EXPORT";
            let other = row.nodes.map(|(target, source)| if leaves { target } else { source });
            let [_, (_, updated_s), _] = row.numbers;
            let progress = progress.map(|progress| MoveRowProgress {
                keys: progress.keys,
                keys_left: leaves.then_some(progress.keys_left),
                bytes: progress.bytes,
                bytes_left: leaves.then_some(progress.bytes_left),
                holds_writers: progress.holds_writers,
                is_braked: progress.is_braked,
            });
            MoveRow {
                leaves,
                slots: row.slots_text(LABEL_BYTES_MAX),
                node: other.map(|id| id.to_string()).unwrap_or_default(),
                state: row.state,
                message: row.message.to_owned(),
                updated_s,
                progress,
            }
        };
        shown_moves(mode, keyspace, sessions).take(MOVES_SHOWN).map(row).collect()
    }

    /// The nodes of the cluster to show, and how many there are in all: first this node with its shard and
    /// the nodes that do not answer, then each primary with its replicas, in the order of slots. Cost:
    /// O(nodes), of which only those that are shown are sorted.
    fn nodes(&self, now: Now) -> (Vec<NodeRow>, usize) {
        let Some(mode) = self.core.control.cluster.as_deref() else { return (Vec::new(), 0) };
        let mut nodes: Vec<NodeFacts<'_>> = mode.machine.nodes().collect();
        let (count, own) = (nodes.len(), nodes.iter().find(|node| node.is_myself).map(shard_of));
        let order = |node: &NodeFacts<'_>| {
            let is_first = Some(shard_of(node)) == own || node.health != NodeHealth::Up;
            (!is_first, node.first_slot.is_none(), node.first_slot, shard_of(node), node.is_replica, node.id)
        };
        if count > NODES_SHOWN {
            nodes.select_nth_unstable_by_key(NODES_SHOWN, order);
            nodes.truncate(NODES_SHOWN);
        }
        nodes.sort_unstable_by_key(order);
        (nodes.iter().map(|node| node_row(node, now)).collect(), count)
    }

    fn page_texts(&self) -> Vec<(&'static str, String)> {
        let fault = self.core.control.persistence.aof.report().fault.as_ref();
        fault.map(|fault| ("aof_fault", fault.clone())).into_iter().collect()
    }

    /// Samples some keys while a viewer asks for the largest keys or for the sizes of slots. While a viewer
    /// asks for keys, ends the windows in which accesses are counted; otherwise ends the counting.
    pub(crate) fn look_at_keys(&mut self, now: Now, hz: u64, process: &mut dyn Process) {
        let (watch, hot_keys) =
            (&mut self.core.upkeep.cron.page, &mut self.core.control.clients.hot_keys.page);
        if watch.scans_keys(now) {
            let until_ns = process.now().mono_ns.saturating_add(LOOK_NS_MAX / hz.max(1));
            watch.keys.step(&self.core.keyspace, now.unix_s(), || process.now().mono_ns >= until_ns);
        }
        if watch.looks_at_keys(now) {
            hot_keys.quietly().end_window(now.mono_ns);
        } else if hot_keys.is_on() {
            hot_keys.configure(HotKeyLimits::default());
        }
    }

    /// The keys that clients access most, which are counted from the first call on.
    fn hottest_keys(&mut self, now: Now) -> Vec<HotKeyRow> {
        let hot_keys = &mut self.core.control.clients.hot_keys.page;
        if !hot_keys.is_on() {
            hot_keys.configure(HOT_KEY_LIMITS);
            hot_keys.quietly().end_window(now.mono_ns);
        }
        let rows = hot_keys.hottest().into_iter().filter(|key| key.per_second >= HOT_LEAST).take(KEYS_SHOWN);
        rows.map(|key| HotKeyRow { db: key.db, name: key.name.into(), per_second: key.per_second }).collect()
    }

    /// The rows of clients, and of clients that are sent replies of slow reads. If there are few
    /// clients, each is read now; otherwise the cron has read them within the last two seconds.
    fn shown_clients(&self, now: Now) -> (Vec<ClientRow>, Vec<ClientRow>) {
        let (mut keys, mut reading) = self.core.upkeep.cron.page.clients.found();
        if self.core.sessions.len() <= LOOKED_AT_MAX {
            keys = self.core.sessions.iter().map(|session| session.key).collect();
            reading = self.core.sessions.iter().filter(|s| s.producing().is_some()).map(|s| s.key).collect();
        }
        let held = |key: &SessionKey| self.core.sessions.get(*key).map(held_bytes);
        let mut held: Vec<(usize, SessionKey)> =
            keys.into_iter().filter_map(|key| Some((held(&key)?, key))).collect();
        held.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        held.truncate(CLIENTS_SHOWN);
        let row = |key: SessionKey| self.core.sessions.get(key).map(|session| self.client_row(session, now));
        let clients = held.into_iter().filter_map(|(_, key)| row(key)).collect();
        (clients, reading.into_iter().take(CLIENTS_SHOWN).filter_map(row).collect())
    }

    fn client_row(&self, session: &Session, now: Now) -> ClientRow {
        let (caller, sources) = (&session.caller, self.core.control.clients.line_sources());
        ClientRow {
            id: caller.id.0,
            address: caller.origin.addr.clone(),
            name: cut(caller.name()),
            library: cut(caller.lib_name()),
            user: cut(caller.user_name()),
            command: caller.last_command.map_or("", |spec| spec.full_name),
            flags: session.flag_letters(sources),
            age_s: (now.unix_s() - i64::from(caller.origin.created_s)).max(0),
            idle_s: (now.unix_s() - caller.traffic.last_s).max(0),
            output_bytes: session.output_bytes(),
            held_bytes: held_bytes(session),
            commands: caller.traffic.commands,
        }
    }

    /// What a user with these credentials may see, given that keys of the databases `names_in` are shown. A
    /// refusal is counted and logged like a refusal of AUTH.
    fn judge(&mut self, shown: &BasicCredentials, names_in: &BTreeSet<usize>, now: Now) -> JudgedCredentials {
        let users = &mut self.core.control.clients.users;
        match users.users().authenticate(&shown.user, &shown.password) {
            Ok(user) => JudgedCredentials::Accepted(self.may_show(&user, names_in)),
            Err(_) => {
                let refused = LoggedRefusal {
                    refusal: Refusal::Auth,
                    context: RefusalContext::Toplevel,
                    object: b"metrics page",
                };
                let (counts, config) = (&mut self.core.stats.failures.refused, &self.core.control.config);
                let client = format!("addr={} page of the metrics endpoint", shown.peer);
                users.note(refused, &shown.user, &client, counts, config, now);
                JudgedCredentials::Refused
            }
        }
    }

    /// Names of keys are shown to a user who may read every key of each database that holds keys, and of each
    /// database in `names_in`, because a database whose key was hot may be empty by now. Arguments of slow
    /// commands are shown if the user may also run COMMANDLOG GET.
    fn may_show(&self, user: &User, names_in: &BTreeSet<usize>) -> MayShow {
        let count = self.core.keyspace.databases();
        let reads_all = |spec: &'static Spec, args: &[&[u8]]| {
            let holding =
                self.core.keyspace.iter().filter(|(_, db)| !db.is_empty()).map(|(number, _)| number);
            holding.chain(names_in.iter().copied()).all(|db| user.reads_every_key(spec, args, db, count))
        };
        let key_names = reads_all(&string::GET, &[b"get", b"key"]);
        let log = [&b"commandlog"[..], b"get", b"1", b"slow"];
        let arguments = key_names && user.check_args(&server::COMMANDLOG_GET, &log, 0, count).is_ok();
        MayShow { key_names, arguments }
    }
}
