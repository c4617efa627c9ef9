//! A node of Valkey 9.1.2 as the specification describes it, without our improvements: a plain, literal
//! model that is not optimised. Each file covers a part of the specification; `order.rs` has the order in
//! which a message is processed (section 2.5). The crate `cluster` parses and writes the messages; the model
//! uses only some basic types of that crate besides.
//!
//! Published messages, TLS and open slots are left out, because the simulations have none.

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
