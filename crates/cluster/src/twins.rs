//! If one shard has two primaries, the primary without slots becomes a replica of the other (D-7).
//!
//! A shard gets a second primary when its old primary comes back after a failover, and no claim of a slot
//! makes it a replica, because the shard has no slots or the winner has given them away in the meantime. By
//! the reference's rules both stay primaries. The shard then lacks a replica that it seems to have, and no
//! node takes over when its primary fails.
//!
//! Invariants: (1) a node that has slots, keys or an open slot follows no other by this rule, nor does a node
//! that is not sure of its state, is in a manual failover or is about to end; (2) a primary with slots is
//! followed whatever its epoch is; among primaries without slots, the one with the lower configEpoch follows,
//! and epochs of primaries only rise, so no two nodes follow each other; (3) gossip and files do not count
//! here: the other primary itself must have sent a header to this process before the wait (the node timeout
//! T), and another header after it.

use crate::machine::{ClusterMachine, ManualFailover, Sureness, TwinPrimary, log};
use crate::node::{LinkOut, NodeIx};
use crate::output::Synchronisation;
use crate::roles::{self, OpenSlots};
use crate::wire::{BusHeader, Extension, Gossip};

/// Handles the sender's role and shard in a PING, PONG or MEET that is not stale.
pub(crate) fn heard(m: &mut ClusterMachine, sender: NodeIx, header: &BusHeader<'_>, gossip: &Gossip<'_>) {
    let shard = m.table.node(sender).shard;
    let names_it =
        |extension| matches!(extension, Extension::Shard(id) if shard.is_some_and(|known| known == id));
    let is_told = header.replica_of.is_none() && gossip.extensions().any(names_it);
    m.table.node_mut(sender).clocks.told_primary = is_told.then_some(m.time.now);
}

/// Follows the other primary of this node's shard, if there has been one for longer than the node timeout T
/// (but for at least 1 s), and this node has no keys. Called by the cron.
pub(crate) fn tick(m: &mut ClusterMachine) {
    let Some(other) = superior(m) else {
        m.cron.twin = None;
        return;
    };
    let (id, now) = (m.table.node(other).id, m.time.now);
    let known = m.cron.twin.filter(|twin| twin.id == id);
    let twin = *m.cron.twin.insert(known.unwrap_or(TwinPrimary { id, since: now, is_said: false }));
    // A header has to arrive after the wait, because an earlier header may have been under way for long and
    // be outdated.
    let end = twin.since.saturating_add(m.settings.handshake_ms());
    if m.table.node(other).clocks.told_primary.is_none_or(|at| at <= end) {
        return;
    }
    let (shard, epoch) = (m.table.me().shown_shard(), m.table.node(other).config_epoch);
    if m.keys.has_any {
        if !twin.is_said {
            log!(
                m,
                Warning,
                "Node {} is a primary of my shard {shard}, too, with configEpoch {epoch}. I have no slots, \
                 and do not become its replica because I have keys: they would be lost. Without keys (FLUSHALL) I \
                 become its replica.",
                m.name(other)
            );
            m.cron.twin = Some(TwinPrimary { is_said: true, ..twin });
        }
        return;
    }
    log!(
        m,
        Notice,
        "Node {} is a primary of my shard {shard}, too, with configEpoch {epoch}. I have no slots and no \
         keys. Reconfiguring myself as a replica of it.",
        m.name(other)
    );
    m.cron.twin = None;
    roles::follow(m, other, OpenSlots::Close, Synchronisation::Full);
    m.announce();
}

/// The primary that this node has to follow: it is reachable, its own headers name this shard, and it has
/// slots or a configEpoch above this node's. A primary with slots is preferred, then the highest epoch.
/// `None` if there is no such primary, or this node must not follow one (invariant 1).
fn superior(m: &ClusterMachine) -> Option<NodeIx> {
    let me = m.table.me();
    let is_free = me.is_primary()
        && me.slot_count == 0
        && m.rights.sureness == Sureness::Sure
        && !m.failover.is_leaving
        && m.failover.paused == ManualFailover::Off
        && m.table.importing.is_empty()
        && m.table.migrating.is_empty();
    if !is_free {
        return None;
    }
    let others = m.table.iter().filter(|(ix, node)| {
        *ix != m.table.my_ix()
            && node.is_primary()
            && node.is_up()
            && !node.is_handshake()
            && !node.is_without_address()
            && node.clocks.told_primary.is_some()
            && node.shares_shard_with(me)
            && (node.slot_count > 0 || node.config_epoch > me.config_epoch)
            && matches!(node.place.link_out, LinkOut::Open(_))
    });
    others.max_by_key(|(_, node)| (node.slot_count > 0, node.config_epoch)).map(|(ix, _)| ix)
}
