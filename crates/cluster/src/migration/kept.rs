//! A word of a target that waits for its replicas: one of them may be elected as soon as the slots are
//! this node's, and has to have what WAIT has confirmed at the source.

use super::SyncWord;
use crate::id::NodeId;

/// How late a replica's answer may be when writers are about to be held back, ns: they wait for as long.
const LAG_NS_MAX: u64 = 50_000_000;
/// How long replicas are waited for before the source is asked to hold writes back, ns. Those that lag still
/// are left out.
pub const AWAITED_NS_MAX: u64 = 3_000_000_000;
/// How long replicas are waited for while the source holds writes back, ns.
const HELD_NS_MAX: u64 = 500_000_000;

/// A word to the source that waits until the replicas have acknowledged what has come.
#[derive(Clone, Copy, Debug)]
pub struct KeptWord {
    /// The word.
    pub word: SyncWord,
    /// The offset of the stream that they are asked for.
    pub offset: u64,
    /// When they were asked, ns of the monotonic clock.
    pub asked_ns: u64,
    /// Since when the word waits, ns of the monotonic clock.
    pub since_ns: u64,
}

/// What is to be done about a word that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptStep {
    /// Wait on.
    Wait,
    /// Ask the replicas anew: their answer came so late that writers would wait for as long.
    AskAnew,
    /// The word leaves. Replicas that have not acknowledged by now are left out.
    Say,
    /// The job fails: writers wait at the source, and no longer.
    Fail,
}

impl KeptWord {
    /// The step at this time; `lag`: replicas that are waited for and have not acknowledged the offset.
    pub fn step(&self, lag: usize, now_ns: u64) -> KeptStep {
        let (waited_ns, late_ns) =
            (now_ns.saturating_sub(self.since_ns), now_ns.saturating_sub(self.asked_ns));
        match self.word {
            SyncWord::RequestFailover if lag == 0 => KeptStep::Say,
            SyncWord::RequestFailover if waited_ns >= HELD_NS_MAX => KeptStep::Fail,
            SyncWord::RequestFailover => KeptStep::Wait,
            _ if waited_ns >= AWAITED_NS_MAX => KeptStep::Say,
            _ if lag > 0 => KeptStep::Wait,
            _ if late_ns <= LAG_NS_MAX => KeptStep::Say,
            _ => KeptStep::AskAnew,
        }
    }
}

/// Whether a replica is one that a word waits for: while the source holds writes back only those that had all
/// of it before. One that takes a snapshot meanwhile, or lags for long, does not keep slots from moving.
pub fn is_awaited(word: SyncWord, in_sync: &[NodeId], replica: &NodeId) -> bool {
    word != SyncWord::RequestFailover || in_sync.contains(replica)
}
