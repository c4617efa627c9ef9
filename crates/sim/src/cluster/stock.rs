//! A node of Valkey 9.1.2 as the specification describes it, without what Sluice does better: a plain model,
//! literal, and no faster than it has to be. Each file is a section of the specification; `order.rs` has the
//! order in which a message is processed (2.5). Messages are parsed and written by the crate `cluster`, and
//! nothing else of that crate's is used.
//!
//! Left out: published messages, TLS and open slots: the worlds have none.

mod claims;
mod election;
mod failure;
mod gossip;
mod links;
mod migration;
mod node;
mod operator;
mod order;
mod record;
mod state;

pub(super) use record::{StockFile, StockNode};
pub(super) use state::{Stock, StockSettings};
