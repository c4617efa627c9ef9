//! The plan of a run, drawn from its seed: nodes, operators' commands, faults and their rates.

use crate::cluster::net::Delays;
use sluice_base::Rng;

/// The kind of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Season {
    /// A phase with all faults, then a phase without faults, then one node dies.
    Storm,
    /// Delays and late ticks below a quarter of the node timeout, slow disks, and wall clocks that jump. No
    /// node may become FAIL (S-29, S-30).
    Calm,
    /// All nodes restart, the `moved` ones at other addresses; the `named` nodes have a host name.
    Moved { named: Share, moved: Share },
    /// Two clusters exchange their addresses.
    Swapped,
    /// Half of the nodes of a cluster exchange their addresses.
    Shuffled,
    /// A node that all others have forgotten tries to come back, and may do so later.
    Forgotten,
    /// A node is forgotten, reset and met, all at once.
    Replaced,
    /// Voters crash between their vote and the write of their file, lose epochs, and are asked again.
    Votes,
    /// A replica's old messages arrive after the news of its promotion.
    LateWords,
    /// MEETs are lost, and the only stock node is of version 8.0.
    LostMeetings,
    /// Two primaries claim a slot with one epoch.
    OneEpoch,
    /// Two primaries lose their only replicas, and a third has three.
    Orphaned,
    /// Manual failovers: agreed ones with late messages, and forced ones with late votes.
    ByHand,
}

/// The share of the nodes that have a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    All,
    Half,
    None,
}

impl Share {
    pub(super) fn has(self, number: usize) -> bool {
        match self {
            Share::All => true,
            Share::Half => number.is_multiple_of(2),
            Share::None => false,
        }
    }
}

/// The role of a node in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Primary,
    ReplicaOf(usize),
}

/// The plan of one node.
#[derive(Clone, Debug)]
pub(super) struct HostPlan {
    pub(super) is_stock: bool,
    pub(super) part: Part,
    pub(super) group: usize,
    pub(super) has_name: bool,
    pub(super) is_best_effort: bool,
    /// Whether the node, as a replica of ours, may start elections.
    pub(super) stands: bool,
    pub(super) drift_ppm: i64,
}

/// Weights by which the kind of a fault is drawn; 0 for never.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FaultRates {
    pub(super) crash: u64,
    pub(super) cut: u64,
    pub(super) kill: u64,
    pub(super) freeze: u64,
    pub(super) disk: u64,
    pub(super) wall: u64,
    pub(super) operator: u64,
    pub(super) garbage: u64,
    pub(super) file: u64,
    pub(super) address: u64,
}

/// The plan of one run of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) season: Season,
    pub(super) hosts: Vec<HostPlan>,
    pub(super) timeout_ms: u64,
    pub(super) ping_interval_ms: u64,
    pub(super) delays: Delays,
    pub(super) late_tick_ms: u64,
    /// Longest duration of a write of the file, ms.
    pub(super) disk_ms: u64,
    pub(super) rates: FaultRates,
    pub(super) storm_ms: u64,
    pub(super) blacklist_ttl_s: u64,
    pub(super) sets_epochs: bool,
    pub(super) full_coverage: bool,
    pub(super) allow_migration: bool,
    pub(super) migration_barrier: usize,
}

impl Plan {
    /// Draws the plan of a seed: five seeds of ten are storms, one is calm, the others are the
    /// scenes in turn.
    pub(super) fn new(seed: u64, rng: &mut Rng) -> Plan {
        const SCENES: [Season; 16] = [
            Season::Votes,
            Season::LateWords,
            Season::Swapped,
            Season::LostMeetings,
            Season::Moved { named: Share::All, moved: Share::All },
            Season::Votes,
            Season::Forgotten,
            Season::Shuffled,
            Season::Moved { named: Share::Half, moved: Share::All },
            Season::Replaced,
            Season::Moved { named: Share::None, moved: Share::Half },
            Season::Votes,
            Season::OneEpoch,
            Season::Orphaned,
            Season::ByHand,
            Season::Orphaned,
        ];
        let season = match seed % 10 {
            0..=4 => Season::Storm,
            5 => Season::Calm,
            at => SCENES[((seed / 10 * 4 + at - 6) % SCENES.len() as u64) as usize],
        };
        let timeout_ms = [1_000, 2_000, 3_000][rng.below(3) as usize];
        let mut plan = Plan {
            season,
            hosts: hosts(season, rng),
            timeout_ms,
            ping_interval_ms: if rng.below(3) == 0 { 100 + rng.below(timeout_ms / 2) } else { 0 },
            delays: Delays { usual_ms: [2, 20, timeout_ms / 20][rng.below(3) as usize], ..Delays::default() },
            late_tick_ms: 0,
            disk_ms: [0, 20, timeout_ms / 4][rng.below(3) as usize],
            rates: FaultRates::default(),
            storm_ms: 12 * timeout_ms + rng.below(12) * timeout_ms,
            blacklist_ttl_s: 5 * timeout_ms / 1_000 + 2,
            sets_epochs: rng.below(2) == 0,
            full_coverage: rng.below(4) > 0,
            allow_migration: rng.below(2) == 0,
            migration_barrier: 1,
        };
        plan.delays.split_one_in = [0, 20, 4][rng.below(3) as usize];
        match season {
            Season::Storm => {
                plan.go_wrong(rng);
                // This is drawn from a generator of its own, so that all other parts of a seed's plan are
                // the same as before this draw existed.
                let stands = Rng::new(seed ^ 0x0057_A2D5).below(4) > 0;
                plan.hosts.iter_mut().for_each(|host| host.stands = stands);
            }
            Season::Calm => plan.stay_calm(),
            Season::LateWords => (plan.timeout_ms, plan.ping_interval_ms) = (1_000, 100),
            Season::Votes => plan.disk_ms = timeout_ms / 2,
            Season::Orphaned => {
                (plan.allow_migration, plan.migration_barrier) = (true, 1 + usize::from(rng.below(3) > 0))
            }
            _ => {}
        }
        plan
    }

    fn go_wrong(&mut self, rng: &mut Rng) {
        let timeout = self.timeout_ms;
        let mut rate = |weight: u64| if rng.below(3) == 0 { 0 } else { weight };
        self.rates = FaultRates {
            crash: rate(6),
            cut: rate(8),
            kill: rate(12),
            freeze: rate(4),
            disk: rate(3),
            wall: rate(4),
            operator: rate(14),
            garbage: rate(4),
            file: rate(2),
            address: rate(2),
        };
        if rng.below(2) == 0 {
            self.delays.late_one_in = 40;
            self.delays.late_ms = [timeout / 2, 3 * timeout][rng.below(2) as usize];
        }
        if rng.below(3) == 0 {
            (self.delays.slow_one_in, self.delays.slow_ms) = (8, timeout * 2);
        }
        self.late_tick_ms = [0, 50, 2 * timeout][rng.below(3) as usize];
        self.disk_ms = [0, 20, timeout, 2 * timeout][rng.below(4) as usize];
    }

    fn stay_calm(&mut self) {
        let quarter = self.timeout_ms / 4;
        self.delays.usual_ms = quarter / 4;
        (self.delays.late_one_in, self.delays.late_ms) = (10, quarter);
        self.late_tick_ms = quarter - 100;
        self.disk_ms = 2 * self.timeout_ms;
        self.rates = FaultRates { wall: 4, operator: 4, ..FaultRates::default() };
    }
}

/// The nodes of a run, primaries first.
fn hosts(season: Season, rng: &mut Rng) -> Vec<HostPlan> {
    let (primaries, replicas) = match season {
        Season::Storm => match rng.below(20) {
            0 => (5 + rng.below(6) as usize, 10),
            _ => (3 + rng.below(3) as usize, 1 + rng.below(4) as usize),
        },
        Season::Votes => (3 + 2 * rng.below(2) as usize, 3),
        Season::LateWords => (4, 3),
        Season::Orphaned => (3, 5),
        Season::ByHand => (3, 3),
        Season::Swapped => (6, 0),
        // There are no replicas, because a voter that has replicas stays FAIL for two node timeouts (F-8).
        Season::Shuffled => (3 + rng.below(3) as usize, 0),
        _ => (3 + rng.below(3) as usize, rng.below(3) as usize),
    };
    let share = rng.below(4);
    let mut hosts = Vec::new();
    for number in 0..primaries + replicas {
        let part = if number < primaries { Part::Primary } else { Part::ReplicaOf(number % primaries) };
        let drawn = rng.below(3) < share;
        hosts.push(HostPlan {
            is_stock: is_stock(season, part, number, primaries, drawn),
            part: match season {
                Season::LateWords if part != Part::Primary => Part::ReplicaOf(0),
                Season::Orphaned if number < primaries + 3 && part != Part::Primary => Part::ReplicaOf(0),
                Season::Orphaned if part != Part::Primary => Part::ReplicaOf(number - primaries - 2),
                Season::Votes if part != Part::Primary => Part::ReplicaOf((number - primaries) % 2),
                _ => part,
            },
            group: usize::from(season == Season::Swapped && number >= primaries / 2),
            has_name: match season {
                Season::Moved { named, .. } => named.has(number),
                Season::Swapped => true,
                _ => rng.below(2) == 0,
            },
            is_best_effort: rng.below(3) == 0,
            stands: false,
            drift_ppm: rng.below(20_001) as i64 - 10_000,
        });
    }
    hosts
}

/// Whether a node is a stock one, as the season requires or as was drawn; other seasons have only nodes of
/// ours.
fn is_stock(season: Season, part: Part, number: usize, primaries: usize, drawn: bool) -> bool {
    match season {
        Season::Storm => drawn || (part != Part::Primary && number.is_multiple_of(2)),
        Season::Calm => drawn,
        Season::Votes => part != Part::Primary,
        Season::LateWords => number == primaries || (part == Part::Primary && number > 1 && drawn),
        Season::LostMeetings => number == 1,
        Season::ByHand => drawn && !number.is_multiple_of(primaries),
        Season::OneEpoch | Season::Orphaned | Season::Replaced => drawn,
        _ => false,
    }
}
