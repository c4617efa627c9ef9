//! Counters of faults and events, which reveal a run in which nothing happens.

/// The counts of a cluster's run.
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
    /// Host names that were looked up.
    pub resolved: u64,
    pub pauses: u64,
    /// Elections that were won.
    pub won: u64,
    /// Elections that nodes of ours won; `won` includes them.
    pub won_by_ours: u64,
    /// Takeovers by nodes of ours in agreement with their living primary.
    pub agreed_failovers: u64,
    /// Full syncs that replicas of ours have begun to load.
    pub copies: u64,
    /// Votes that nodes of ours have sent; the next two fields count their FAIL messages and UPDATEs.
    pub votes: u64,
    pub fails: u64,
    pub updates: u64,
    pub emptied: u64,
    pub repairs: u64,
    /// Storms after which all nodes agreed; `drills` counts the nodes that then died and came back.
    pub agreed: u64,
    pub drills: u64,
    pub calms: u64,
    /// Nodes that restarted within eight tenths of the timeout.
    pub restarts: u64,
    pub scenes: u64,
    /// Replicas that moved to orphaned primaries.
    pub migrated: u64,
}

impl ClusterMet {
    /// Adds the counts of another run.
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
        self.won_by_ours += other.won_by_ours;
        self.agreed_failovers += other.agreed_failovers;
        self.copies += other.copies;
        self.votes += other.votes;
        self.fails += other.fails;
        self.updates += other.updates;
        self.emptied += other.emptied;
        self.repairs += other.repairs;
        self.agreed += other.agreed;
        self.drills += other.drills;
        self.calms += other.calms;
        self.restarts += other.restarts;
        self.scenes += other.scenes;
        self.migrated += other.migrated;
    }
}
