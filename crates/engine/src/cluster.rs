//! Cluster mode: this server as a node of a cluster. The node is the state machine of `sluice_cluster`.
//! This folder steps the machine, carries out its decisions about the engine, and queues its orders about
//! the bus (connections, messages, `nodes.conf`) until the process takes them.
//!
//! ```text
//!  bytes, dials, saved files ──step_cluster──► machine ──outputs──► role, slots, replies, messages (here)
//!  CLUSTER …, PUBLISH, cron  ──────────────►                   └──► BusOrder ──next_bus_order──► the process
//! ```
//!
//! Invariants: (1) the machine is stepped between two commands, and by commands that concern it; its
//! decisions about the engine are carried out once no transaction or script is in progress, before the next
//! command of a client is executed; (2) orders leave in the machine's order; (3) a command that changes the
//! cluster is answered when the machine answers the command's ticket, never when its handler returns.

pub(crate) mod driver;
pub(crate) mod driving;
mod emptying;
pub(crate) mod export_links;
pub(crate) mod exports;
pub(crate) mod imports;
pub(crate) mod lost_keys;
mod lost_waits;
mod messages;
mod move_audit;
pub(crate) mod publishing;
pub(crate) mod redirect;
pub(crate) mod slot_costs;
mod slot_moves;
