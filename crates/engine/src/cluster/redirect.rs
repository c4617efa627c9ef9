//! The check `slots` of the gate: a request for keys of a slot that this node does not serve is redirected,
//! refused or postponed (section 1 of the specification of the slots).
//!
//! `SlotMap::answer` decides; this module finds the slot of a request, looks up its keys, and
//! writes the errors.

use crate::exec::gate::{Asked, Rejection, Verdict};
use crate::exec::standing::Standing;
use sluice_base::{Now, key_slot, num};
use sluice_cluster::{ClusterState, DownRules, HashSlot, KeyCounts, MapNode, SlotRequest, SlotVerdict};
use sluice_command::derive::keys::{is_row_whole, key_row, routing_keys};
use sluice_command::specs::{connection, generic, pubsub, transactions};
use sluice_command::{Flags, KeyFlags, Named, Spec};
use sluice_commands::{Args, CmdError, Hashing, WaitFor};
use sluice_config::choice::EndpointType;
use sluice_config::{Config, param};
use sluice_control::cluster::endpoint::{EndpointClient, NodeEndpoint};
use sluice_control::cluster::mode::ClusterMode;
use sluice_keyspace::{Keyspace, slot_of};
use sluice_session::transaction::{QueueRoute, Transaction};
use sluice_session::{AskingState, Caller, Session};
use std::borrow::Cow;

/// Slots of the keys of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotRoute {
    /// The call has no keys: any node may answer.
    Keyless,
    /// All keys are in this slot.
    Slot(HashSlot),
    /// The keys are in several slots.
    Crosses,
}

impl SlotRoute {
    fn with(self, slot: HashSlot) -> SlotRoute {
        match self {
            SlotRoute::Keyless => SlotRoute::Slot(slot),
            SlotRoute::Slot(own) if own == slot => self,
            SlotRoute::Slot(_) | SlotRoute::Crosses => SlotRoute::Crosses,
        }
    }
}

/// Number of arguments that are listed without an allocation.
const ARGS_INLINE: usize = 16;

/// Passes the routing keys of a call to `visit`, and whether each is a key of the data; the name of a sharded
/// channel is not.
fn for_each_name<'a>(spec: &Spec, args: Args<'a>, mut visit: impl FnMut(&'a [u8], bool)) {
    let mut inline: [&[u8]; ARGS_INLINE] = [&[]; ARGS_INLINE];
    let listed: Vec<&[u8]>;
    let all: &[&[u8]] = match inline.get_mut(..args.len()) {
        Some(inline) => {
            inline.iter_mut().zip(args.iter_from(0)).for_each(|(entry, arg)| *entry = arg);
            inline
        }
        None => {
            listed = args.iter_from(0).collect();
            &listed
        }
    };
    let mut found = Vec::new();
    routing_keys(spec, all, &mut found);
    found.iter().for_each(|(at, flags)| visit(args.at(*at), !flags.has(KeyFlags::NOT_KEY)));
}

/// The slot of a call's routing keys (S-3, S-4, S-10). The hashes of `args` must be those of a
/// keyspace with slots.
pub(crate) fn route_of(spec: &Spec, args: Args<'_>) -> SlotRoute {
    let mut route = SlotRoute::Keyless;
    let row = key_row(spec);
    if is_row_whole(spec)
        && let Some(first) = row.first(args.len())
    {
        let step = 1 + usize::from(row.are_pairs());
        for ordinal in 0..=row.behind_first(args.len()) {
            route = route.with(slot_of_hash(args.key(first + ordinal * step).hash));
        }
        return route;
    }
    for_each_name(spec, args, |name, _| route = route.with(slot_of_name(name)));
    route
}

fn slot_of_hash(hash: u64) -> HashSlot {
    slot_numbered(slot_of(hash))
}

/// The slot of a key or channel name.
pub(crate) fn slot_of_name(name: &[u8]) -> HashSlot {
    slot_numbered(usize::from(key_slot(name)))
}

fn slot_numbered(number: usize) -> HashSlot {
    u16::try_from(number).ok().and_then(HashSlot::new).expect("slots of keys are below their number")
}

/// Whether the command belongs to sharded publish/subscribe.
fn is_shard_pubsub(spec: &Spec) -> bool {
    [pubsub::SSUBSCRIBE.id, pubsub::SUNSUBSCRIBE.id, pubsub::SPUBLISH.id].contains(&spec.id)
}

/// Whether a call takes a key to another database than `db`, as far as its arguments show (S-13).
fn leaves_db(spec: &Spec, args: Args<'_>, db: usize) -> bool {
    if spec.id == generic::MOVE.id {
        return true;
    }
    let is_other = |at: usize| {
        let value = args.get(at + 1).map(num::parse_i64);
        args.is(at, "DB") && value.is_some_and(|value| value != i64::try_from(db).ok())
    };
    spec.id == generic::COPY.id && (3..args.len()).any(is_other)
}

/// Adds a queued command to the facts by which EXEC is routed (H-5). `db` is the database in which the
/// command will run.
pub(crate) fn note_route(of: &mut QueueRoute, route: SlotRoute, spec: &Spec, args: Args<'_>, db: usize) {
    of.commands += 1;
    match route {
        SlotRoute::Keyless => {}
        SlotRoute::Slot(slot) => of.add(slot.number()),
        SlotRoute::Crosses => of.crosses = true,
    }
    of.has_shard_pubsub |= is_shard_pubsub(spec);
    of.leaves_db |= leaves_db(spec, args, db);
}

/// The route of EXEC: the slots of its queued commands, and of the keys of its conditions (S-6).
pub(crate) fn route_of_exec(spec: &Spec, args: Args<'_>, queue: &QueueRoute) -> SlotRoute {
    let own = route_of(spec, args);
    if queue.crosses {
        return SlotRoute::Crosses;
    }
    queue.slot.and_then(HashSlot::new).map_or(own, |slot| own.with(slot))
}

/// Decides which node must answer a request, or a call of a script.
pub(crate) fn ask(asked: &Asked<'_>) -> Option<Verdict> {
    let mode = asked.control.cluster.as_deref()?;
    let is_exec = asked.spec.id == transactions::EXEC.id;
    let queue = match (is_exec, &asked.session.transaction) {
        (true, None) => return None,
        // EXEC of an aborted transaction runs nothing.
        (true, Some(transaction)) if transaction.aborted => return None,
        (true, Some(transaction)) => Some(transaction.as_ref()),
        (false, _) => None,
    };
    let route = match queue {
        Some(transaction) => route_of_exec(asked.spec, asked.args, &transaction.route),
        None => route_of(asked.spec, asked.args),
    };
    let slot = match route {
        SlotRoute::Keyless => return None,
        SlotRoute::Crosses => {
            return Some(reject(asked, CmdError::Slot(Cow::Borrowed(CROSSES)), NOT_LOCAL.into()));
        }
        SlotRoute::Slot(slot) if mode.served.own.contains(slot) => return None,
        SlotRoute::Slot(slot) => slot,
    };
    let request = SlotRequest {
        slot,
        is_shard_pubsub: queue.map_or_else(|| is_shard_pubsub(asked.spec), |of| of.route.has_shard_pubsub),
        writes: asked.flags.has(Flags::WRITE),
        is_migrate: asked.spec.id == generic::MIGRATE.id,
        leaves_db: queue.map_or_else(
            || leaves_db(asked.spec, asked.args, database_of(asked.session)),
            |of| of.route.leaves_db,
        ),
        is_asking: asked.caller.flags.asking == AskingState::Now || asked.spec.flags.has(Flags::ASKING),
        is_readonly: asked.caller.flags.read_only,
    };
    let is_queued = asked.standing == Standing::Client && asked.session.transaction.is_some() && !is_exec;
    let look = || match (is_queued, queue) {
        (true, _) => KeyCounts::default(),
        (false, Some(transaction)) => look_for_queue(asked, transaction),
        (false, None) => look_for(asked, asked.session.caller.db),
    };
    let verdict = mode.map.answer(&request, down_rules(&asked.control.config), look);
    answer(asked, slot, verdict)
}

/// Whether all keys of a call are in one slot, and the session that sent the call is the link of an import
/// that moves this slot to this node. False for a call without keys.
pub(crate) fn is_of_import(asked: &Asked<'_>) -> bool {
    let mode = asked.control.cluster.as_deref();
    let link = mode.and_then(|mode| mode.moves.link(asked.session.key));
    match (link, route_of(asked.spec, asked.args)) {
        (Some(link), SlotRoute::Slot(slot)) => link.slots.contains(slot),
        (_, SlotRoute::Slot(_) | SlotRoute::Keyless | SlotRoute::Crosses) => false,
    }
}

/// The database in which the next command of a session will run.
fn database_of(session: &Session) -> usize {
    let selected = session.transaction.as_ref().and_then(|transaction| transaction.selected_db());
    selected.unwrap_or(session.caller.db)
}

/// The settings that determine which requests are served while the cluster is down.
fn down_rules(config: &Config) -> DownRules {
    DownRules {
        allows_reads: config.bool(param::CLUSTER_ALLOW_READS_WHEN_DOWN),
        allows_shard_pubsub: config.bool(param::CLUSTER_ALLOW_PUBSUBSHARD_WHEN_DOWN),
    }
}

/// Counts the keys of a request that exist here and those that do not, without changing their access times.
struct KeyCount<'a> {
    keyspace: &'a Keyspace,
    now: Now,
    first: Option<Vec<u8>>,
    found: KeyCounts,
}

impl KeyCount<'_> {
    fn add(&mut self, db: usize, name: &[u8]) {
        let db = self.keyspace.db(db);
        let entry = db.find(self.keyspace.key(name));
        let is_live = |at_ms: i64| self.now.unix_ms() <= at_ms;
        let is_here = entry.is_some_and(|found| db.expiry(found.handle).is_none_or(is_live));
        self.found.existing += usize::from(is_here);
        self.found.missing += usize::from(!is_here);
        self.found.are_several |= *self.first.get_or_insert_with(|| name.to_vec()) != *name;
    }

    fn add_call(&mut self, db: usize, spec: &Spec, args: Args<'_>) {
        for_each_name(spec, args, |name, is_key| {
            if is_key {
                self.add(db, name);
            }
        });
    }
}

fn look_for(asked: &Asked<'_>, db: usize) -> KeyCounts {
    let keyspace = asked.keyspace;
    let mut count = KeyCount { keyspace, now: asked.now, first: None, found: KeyCounts::default() };
    count.add_call(db, asked.spec, asked.args);
    count.found
}

/// Looks up the keys of all queued commands, each in the database that the queue will have
/// selected (S-41, S-42).
fn look_for_queue(asked: &Asked<'_>, transaction: &Transaction) -> KeyCounts {
    let keyspace = asked.keyspace;
    let mut count = KeyCount { keyspace, now: asked.now, first: None, found: KeyCounts::default() };
    let mut db = asked.session.caller.db;
    count.add_call(db, asked.spec, asked.args);
    let hashing = Hashing { hasher: keyspace.hasher(), hashes: Vec::new() };
    for (at, prepared) in transaction.prepared.iter().take(transaction.route.commands).enumerate() {
        let request = transaction.requests.at(at);
        let Named::Command(spec) = prepared.named else { continue };
        let args = Args::new(&request, prepared, &hashing);
        if spec.id == connection::SELECT.id {
            let wanted = args.int(1).ok().and_then(|number| usize::try_from(number).ok());
            db = wanted.filter(|wanted| *wanted < keyspace.databases()).unwrap_or(db);
        } else {
            count.add_call(db, spec, args);
        }
    }
    count.found
}

/// The verdict for the client, or the script.
fn answer(asked: &Asked<'_>, slot: HashSlot, verdict: SlotVerdict<'_>) -> Option<Verdict> {
    let name = asked.spec.full_name;
    let in_script: Cow<'static, str> = match verdict {
        SlotVerdict::Local => return None,
        SlotVerdict::LocalLater | SlotVerdict::DownAtFirst if asked.call.is_none() => {
            return Some(Verdict::Postpone);
        }
        SlotVerdict::Down | SlotVerdict::DownAtFirst => {
            format!("Can not execute a command '{name}' while the cluster is down").into()
        }
        SlotVerdict::DownForWrites => {
            format!("Can not execute a write command '{name}' while the cluster is down and readonly").into()
        }
        SlotVerdict::LocalLater
        | SlotVerdict::Unbound
        | SlotVerdict::TryAgain
        | SlotVerdict::Ask(_)
        | SlotVerdict::Moved(_) => NOT_LOCAL.into(),
    };
    let error = text_of(verdict, slot, asked.caller, &asked.control.config)?;
    Some(reject(asked, CmdError::Slot(error), in_script))
}

fn reject(asked: &Asked<'_>, error: CmdError, in_script: Cow<'static, str>) -> Verdict {
    Verdict::Reject(Rejection { error, in_script: asked.call.map(|_| in_script) })
}

/// The error for a client; `None` if the request is answered here.
fn text_of(
    verdict: SlotVerdict<'_>,
    slot: HashSlot,
    caller: &Caller,
    config: &Config,
) -> Option<Cow<'static, str>> {
    let text = match verdict {
        SlotVerdict::Local => return None,
        SlotVerdict::LocalLater | SlotVerdict::Unbound => UNBOUND,
        SlotVerdict::Down | SlotVerdict::DownAtFirst => DOWN,
        SlotVerdict::DownForWrites => "CLUSTERDOWN The cluster is down and only accepts read commands",
        SlotVerdict::TryAgain => "TRYAGAIN Multiple keys request during rehashing of slot",
        SlotVerdict::Ask(node) => return Some(redirect(RedirectWord::Ask, slot, node, caller, config)),
        SlotVerdict::Moved(node) => return Some(redirect(RedirectWord::Moved, slot, node, caller, config)),
    };
    Some(Cow::Borrowed(text))
}

/// First word of a redirect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RedirectWord {
    Ask,
    Moved,
}

/// A redirect (S-50 to S-53). After an ASK without a host, many clients fail, or ask the redirecting
/// node again (U31), so ASK always names an address.
fn redirect(
    word: RedirectWord,
    slot: HashSlot,
    node: &MapNode,
    caller: &Caller,
    config: &Config,
) -> Cow<'static, str> {
    let client = EndpointClient::of(caller, config);
    let kind = config.choice::<EndpointType>(param::CLUSTER_PREFERRED_ENDPOINT_TYPE);
    let (word, host) = match (word, client.endpoint_of(node, kind)) {
        (RedirectWord::Ask, NodeEndpoint::At(host)) => ("ASK", host),
        (RedirectWord::Ask, NodeEndpoint::Nameless | NodeEndpoint::WhereAsked) => ("ASK", client.ip_of(node)),
        (RedirectWord::Moved, NodeEndpoint::At(host)) => ("MOVED", host),
        (RedirectWord::Moved, NodeEndpoint::Nameless) => ("MOVED", Cow::Borrowed("?")),
        (RedirectWord::Moved, NodeEndpoint::WhereAsked) => ("MOVED", Cow::Borrowed("")),
    };
    format!("{word} {} {host}:{}", slot.number(), client.port_of(node)).into()
}

/// The command of a client that waits for keys, and the error for the client, if this node no longer serves
/// the keys' slot or the cluster is down; `None` if the client continues to wait.
pub(super) fn end_of_wait(
    mode: &ClusterMode,
    config: &Config,
    session: &Session,
) -> Option<(&'static Spec, CmdError)> {
    let waiting = session.waiting.as_deref()?;
    let (WaitFor::Keys(on), Named::Command(spec)) = (waiting.on, waiting.prepared.named) else { return None };
    let (slot, map) = (slot_of_name(waiting.keys(on).next()?), &mode.map);
    if map.state == ClusterState::Fail {
        return Some((spec, CmdError::Slot(Cow::Borrowed(DOWN))));
    }
    let request = SlotRequest {
        slot,
        is_shard_pubsub: false,
        writes: spec.flags.has(Flags::WRITE),
        is_migrate: false,
        leaves_db: false,
        // A client that waits in a slot that is being imported was admitted by ASKING, so it counts as
        // asking.
        is_asking: true,
        is_readonly: session.caller.flags.read_only,
    };
    let verdict = map.answer(&request, DownRules::default(), KeyCounts::default);
    if matches!(verdict, SlotVerdict::LocalLater) {
        return None;
    }
    Some((spec, CmdError::Slot(text_of(verdict, slot, &session.caller, config)?)))
}

/// Error for keys of several slots.
const CROSSES: &str = "CROSSSLOT Keys in request don't hash to the same slot";
/// Error for a slot without an owner.
const UNBOUND: &str = "CLUSTERDOWN Hash slot not served";
/// Error while the cluster serves no requests.
const DOWN: &str = "CLUSTERDOWN The cluster is down";
/// Error for a script's call for keys of another node.
const NOT_LOCAL: &str = "Attempted to access a non local key in a cluster node";
