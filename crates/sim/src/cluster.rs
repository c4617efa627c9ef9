//! Simulation of clusters: nodes of ours and stock nodes, which are a plain model of Valkey 9.1.2, over a
//! network, disks and clocks that fail, in virtual time.
//!
//! ```text
//!  build ─► a storm, calm or a scene ─► nothing goes wrong any more ─► an operator repairs
//!        ─► all agree ─► one dies, and is back
//! ```
//!
//! The checks have the numbers of the specification of the bus (S-20 to S-40): `cluster/ledger.rs`
//! checks each message that a node of ours sends, `cluster/look.rs` all nodes several times a second, and
//! `cluster/agreement.rs` the nodes' agreement at the end.
//!
//! Invariants: (1) the only part of this module that implements rules of the bus is the stock model, which is
//! written from the specification; of our crate `cluster` it uses only the parser and the writer of messages;
//! (2) a run is a function of its seed.

mod act;
mod agreement;
mod build;
mod by_hand;
mod clock;
#[cfg(test)]
mod directed;
mod disk;
mod faults;
mod file;
mod host;
mod ledger;
mod look;
mod looks;
mod met;
mod net;
mod operator;
mod plan;
mod queue;
mod replication;
mod scenes;
mod sets;
mod stock;
mod view;
mod votes;
mod world;

pub use met::ClusterMet;

use crate::SimOptions;
use plan::{Plan, Season};
use sluice_base::Rng;
use world::World;

/// Runs the cluster of a seed. Errors: the check that failed.
pub fn run_cluster(seed: u64, options: SimOptions) -> Result<ClusterMet, String> {
    let plan = Plan::new(seed, &mut Rng::new(seed ^ 0xC105_7E12));
    let season = plan.season;
    let (nodes, stock) = (plan.hosts.len(), plan.hosts.iter().filter(|host| host.is_stock).count());
    let mut world = World::new(plan, seed, options.is_traced);
    if let Err(why) = world.play() {
        world.show_views();
        return Err(format!("{season:?}, {stock} of {nodes} nodes stock: {why}"));
    }
    world.met.votes = world.ledger.votes_given;
    world.met.fails = world.ledger.fails_told;
    world.met.updates = world.ledger.updates_told;
    Ok(world.met)
}

impl World {
    fn play(&mut self) -> Result<(), String> {
        self.build()?;
        match self.plan.season {
            Season::Storm => self.storm(),
            Season::Calm => self.calm(),
            Season::Votes => self.votes(),
            season => self.scene(season),
        }
    }
}
