//! Clusters under a simulation: nodes of ours and of a plain model of Valkey 9.1.2, over a network, disks and
//! clocks that fail, in virtual time.
//!
//! ```text
//!  build ─► a storm, calm or a scene ─► nothing goes wrong any more ─► an operator repairs ─► all agree ─► one dies, and is back
//! ```
//!
//! What must hold has the numbers of the specification of the bus (S-20 to S-40): asked of each message that
//! a node of ours sends in `cluster/ledger.rs`, of all nodes five times a second in `cluster/look.rs`, at the
//! end in `cluster/agreement.rs`.
//!
//! Invariants: (1) no rule of the bus is known here but for the stock model's, which is written from the
//! specification and shares the parser and writer of messages alone; (2) a run is a function of its seed.

mod act;
mod agreement;
mod build;
mod clock;
mod disk;
mod faults;
mod file;
mod host;
mod ledger;
mod look;
mod net;
mod operator;
mod plan;
mod queue;
mod scenes;
mod sets;
mod stock;
mod view;
mod votes;
mod world;

use crate::SimOptions;
use plan::{Plan, Season};
use sluice_base::Rng;
use world::World;

/// What a run of a cluster has come to meet.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterMet {
    pub messages: u64,
    pub crashes: u64,
    pub cuts: u64,
    pub kills: u64,
    pub freezes: u64,
    pub failed_writes: u64,
    pub wall_jumps: u64,
    pub damaged_files: u64,
    pub moves: u64,
    pub garbage: u64,
    pub orders: u64,
    pub forgotten: u64,
    pub resets: u64,
    pub contested: u64,
    /// Names that were asked for.
    pub resolved: u64,
    pub pauses: u64,
    /// Elections that stock nodes won.
    pub won: u64,
    /// Votes, FAIL messages and UPDATEs of nodes of ours.
    pub votes: u64,
    pub fails: u64,
    pub updates: u64,
    pub emptied: u64,
    pub repairs: u64,
    /// Storms at whose end all agreed, and nodes that died and came back then.
    pub agreed: u64,
    pub drills: u64,
    pub calms: u64,
    pub scenes: u64,
}

impl ClusterMet {
    /// Adds what another run has met.
    pub fn add(&mut self, other: ClusterMet) {
        self.messages += other.messages;
        self.crashes += other.crashes;
        self.cuts += other.cuts;
        self.kills += other.kills;
        self.freezes += other.freezes;
        self.failed_writes += other.failed_writes;
        self.wall_jumps += other.wall_jumps;
        self.damaged_files += other.damaged_files;
        self.moves += other.moves;
        self.garbage += other.garbage;
        self.orders += other.orders;
        self.forgotten += other.forgotten;
        self.resets += other.resets;
        self.contested += other.contested;
        self.resolved += other.resolved;
        self.pauses += other.pauses;
        self.won += other.won;
        self.votes += other.votes;
        self.fails += other.fails;
        self.updates += other.updates;
        self.emptied += other.emptied;
        self.repairs += other.repairs;
        self.agreed += other.agreed;
        self.drills += other.drills;
        self.calms += other.calms;
        self.scenes += other.scenes;
    }
}

/// Runs the cluster of a seed. Errors: what does not hold.
pub fn run_cluster(seed: u64, options: SimOptions) -> Result<ClusterMet, String> {
    let plan = Plan::new(seed, &mut Rng::new(seed ^ 0xC105_7E12));
    let season = plan.season;
    let mut world = World::new(plan, seed, options.is_traced);
    world.play().map_err(|why| format!("{season:?}: {why}"))?;
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
