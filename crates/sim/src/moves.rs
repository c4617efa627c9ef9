//! Simulation of atomic moves of slots: a cluster of whole nodes, each an engine with its files, its
//! bus, its replicas and its clients.
//!
//! ```text
//!  nodes start from their files ─► random moves, under writes and faults ─► all faults end ─► checks
//! ```
//!
//! The simulation checks that (1) a confirmed write is at the slot's owner at the end, once and in order
//! ([`Ledger`](ledger::Ledger) has the writes that an operator or the bus may lose); (2) no two nodes
//! own a slot at one epoch after they have exchanged messages; (3) at the end each slot has an owner
//! that all nodes agree on, and a replica has its primary's data; (4) each job ends, and no slot stays
//! hidden, held or exported without a job; (5) where the only faults are delays, cancels and lost
//! connections of jobs, every answered write is kept.
//!
//! Invariants: (1) this module does not know the protocols of moves, of the bus or of replication; (2) a
//! run is a function of its seed.

mod clients;
mod faults;
mod judge;
mod ledger;
mod met;
mod operator;
mod orders;
mod plan;
mod view;
mod world;
mod writer;

pub use met::MovesMet;

use crate::SimOptions;
use world::MovesWorld;

/// Runs the moves of a seed. Errors: the check that failed.
pub fn run_moves(seed: u64, options: SimOptions) -> Result<MovesMet, String> {
    let mut world = MovesWorld::new(seed, options.is_traced)?;
    let played = world.play();
    if played.is_err() {
        world.show();
    }
    let season = world.plan.season;
    played.map(|()| world.met).map_err(|why| format!("{season:?}: {why}"))
}
