//! Messages of this node's clients to subscribers on other nodes.

use sluice_base::{Bytes, Now};
use sluice_cluster::{ClusterInput, PublishScope};
use sluice_command::specs::pubsub;
use sluice_commands::Args;
use sluice_control::cluster::mode::ClusterMode;

/// Sends a client's message to the other nodes, for their subscribers (T30): with PUBLISH to all nodes,
/// with SPUBLISH to those of the shard.
pub(crate) fn tell_other_nodes(mode: &mut ClusterMode, args: Args<'_>, now: Now) {
    let bytes = |at| args.shared(at).cloned().unwrap_or_else(|| Bytes::copy_from(args.at(at)));
    let is_shard = args.spec().is_some_and(|spec| spec.id == pubsub::SPUBLISH.id);
    let scope = if is_shard { PublishScope::Shard } else { PublishScope::All };
    mode.machine.step(now, &ClusterInput::Publish { channel: &bytes(1), message: &bytes(2), scope });
}
