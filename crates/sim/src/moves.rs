//! Atomic moves of slots under a simulation: a cluster of whole nodes, each an engine with its files, its
//! bus, its replicas and its clients.
//!
//! ```text
//!  nodes as their files say ─► moves at random, under writes and faults ─► nothing goes wrong any more ─► all is looked at
//! ```
//!
//! What must hold: (1) a write that was confirmed is at the slot's owner at the end, once and in its place
//! ([`Ledger`](ledger::Ledger) says which ones an operator or the bus may lose); (2) no two nodes own a slot
//! at one epoch once these have told each other; (3) at the end each slot has an owner, on which all agree,
//! and a replica has its primary's data; (4) each job ends, and no slot stays hidden, held or exported
//! without a job; (5) where nothing goes wrong but delays, cancels and lost connections of jobs, nothing that
//! was answered is excused at all.
//!
//! Invariants: (1) no word of a move, of the bus or of replication is known here; (2) a run is a function of
//! its seed.

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

/// Runs the moves of a seed. Errors: what does not hold.
pub fn run_moves(seed: u64, options: SimOptions) -> Result<MovesMet, String> {
    let mut world = MovesWorld::new(seed, options.is_traced)?;
    let played = world.play();
    if played.is_err() {
        world.show();
    }
    let season = world.plan.season;
    played.map(|()| world.met).map_err(|why| format!("{season:?}: {why}"))
}
