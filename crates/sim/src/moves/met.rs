//! Counters of moves, faults and writes, which reveal a run in which nothing happens.

/// The counts of a run's events.
#[derive(Clone, Copy, Debug, Default)]
pub struct MovesMet {
    /// Moves that a source has begun.
    pub begun: u64,
    /// Moves that have succeeded, failed or been cancelled, according to the logs of the sources.
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Moves whose source's process ended first, so that no log has their end.
    pub forgotten: u64,
    /// MIGRATESLOTS commands that were refused.
    pub refused: u64,
    pub answered: u64,
    /// Writes that count: answered and, where there are replicas, acknowledged by one.
    pub confirmed: u64,
    /// Confirmed writes that may be lost, in six fields by the reason.
    pub lost_by_failover: u64,
    pub lost_by_force: u64,
    pub lost_by_left_out: u64,
    pub lost_by_flush: u64,
    pub lost_by_claims: u64,
    pub lost_by_base: u64,
    pub redirected: u64,
    pub crashes: u64,
    /// Crashes of nodes that had just claimed slots.
    pub claimants_crashed: u64,
    pub cuts: u64,
    pub kills: u64,
    /// Connections of moves that were killed.
    pub killed_moves: u64,
    pub stalls: u64,
    pub node_file_faults: u64,
    pub flushes: u64,
    pub rewrites: u64,
    pub failovers: u64,
    pub promotions: u64,
    pub calms: u64,
}

impl MovesMet {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: MovesMet) {
        self.begun += other.begun;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.forgotten += other.forgotten;
        self.refused += other.refused;
        self.answered += other.answered;
        self.confirmed += other.confirmed;
        self.lost_by_failover += other.lost_by_failover;
        self.lost_by_force += other.lost_by_force;
        self.lost_by_left_out += other.lost_by_left_out;
        self.lost_by_flush += other.lost_by_flush;
        self.lost_by_claims += other.lost_by_claims;
        self.lost_by_base += other.lost_by_base;
        self.redirected += other.redirected;
        self.crashes += other.crashes;
        self.claimants_crashed += other.claimants_crashed;
        self.cuts += other.cuts;
        self.kills += other.kills;
        self.killed_moves += other.killed_moves;
        self.stalls += other.stalls;
        self.node_file_faults += other.node_file_faults;
        self.flushes += other.flushes;
        self.rewrites += other.rewrites;
        self.failovers += other.failovers;
        self.promotions += other.promotions;
        self.calms += other.calms;
    }
}
