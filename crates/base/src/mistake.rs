//! Mistakes that are made on purpose, to test that the simulations of replication, of clusters and of slot
//! moves find them. Only a build with `--cfg sluice_mistakes` can make one; in every other build [`is_made`]
//! is the constant `false` and costs nothing. Ids such as K-1 are numbers of mistakes in
//! `docs/design/cluster-arrows.md`; ids with other letters name the rule of the cluster that a mistake
//! breaks.

/// A mistake that a simulation must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mistake {
    /// No mistake: the program as it is.
    None,
    /// After a promotion, the id of the former history is accepted for later positions, too.
    SecondIdForever,
    /// A promotion keeps the id of the former history.
    KeptReplid,
    /// A snapshot states that the stream has selected database 0.
    SnapshotOfDbZero,
    /// WAIT counts replicas to which the write was sent, whether they have acknowledged the write or not.
    AckOfSent,
    /// A replica acknowledges everything as durable.
    UnsyncedAck,
    /// A replica acknowledges increments of the append-only file as durable although their base is not
    /// installed yet.
    AckWithoutBase,
    /// A replica that has acknowledged nothing counts as one that has reached offset 0.
    SilentReplicaCounts,
    /// A replica deletes expired keys by itself.
    ReplicaExpires,
    /// A replica that continues the stream (+CONTINUE) does not adopt the new id of the history.
    IdNotContinued,
    /// A server that starts continues with the history id in its files.
    IdOfLastRun,
    /// A replica that continues the stream (+CONTINUE) begins in database 0.
    LinkOfDbZero,
    /// A replica adds the commands of a transaction to its replication offset before the transaction ends.
    TransactionByParts,
    /// The append-only file of a primary does not name the database that the stream has selected.
    DbNotNoted,
    /// A replica that has reconnected is counted twice, because its former connection is counted, too.
    CountedTwice,
    /// FAILOVER hands the primary's role over to a replica that may lack writes.
    HandedOverEarly,
    /// A failover that fails leaves the writes of clients paused.
    PausedForGood,
    /// A rewrite of the append-only file whose new base cannot be installed counts as successful.
    FailedRewriteCounts,
    /// A replica that cannot load a received snapshot continues as if it had loaded it.
    UnreadSnapshotCounts,
    /// Stream bytes that arrive together with `+CONTINUE` on the main channel are dropped.
    StreamForgotten,
    /// Under `appendfsync always` a reply does not wait for the disk.
    AnsweredEarly,
    /// Changes of a script are published while the script is suspended.
    RunByParts,
    /// A server changes its role while a script is suspended.
    RoleInsideRun,
    /// The effects of a suspended script are lost when its client has disconnected.
    RunDropped,
    /// A replica whose link is lost within a second of connecting waits before it connects again even after
    /// the first such loss.
    ShortLinkPaused,
    /// A vote is sent before the file that records it is durable (K-1).
    VoteBeforeFile,
    /// A node that starts does not know the epoch in which it voted last (K-2).
    VoteNotReadBack,
    /// After its epochs were lost, a node votes again after some time, no matter from which voters it has
    /// received messages (K-5).
    EpochByTimeAlone,
    /// The node counts itself among the voters that it needs messages from after its epochs were lost (K-6).
    EpochHeardFromMyself,
    /// A slot goes to a claimant whose epoch equals that of its owner (K-7).
    ReboundAtEqualEpoch,
    /// Both of two primaries with equal epochs advance their epochs (K-8).
    GreaterIdMovesToo,
    /// A message that a primary has become a replica is accepted although its epoch is older than the
    /// known one (K-10).
    StaleRoleTaken,
    /// UPDATE messages include slots that their subject, the described node, does not claim any more (K-11).
    UnclaimedSlotsTold,
    /// Keys of slots that went to another shard are kept (K-12).
    LostKeysKept,
    /// Gossip of unknown senders is accepted (K-13).
    StrangersBelieved,
    /// Replicas, and primaries without slots, count as reporters of failures (K-14).
    ReportsOfAnybody,
    /// Reports of failures do not expire (K-15).
    ReportsForever,
    /// Half of the voters suffice for a decision (K-16).
    HalfDecides,
    /// Failed voters are left out when the majority is computed (K-17).
    FailedVotersLeftOut,
    /// A primary serves clients as soon as the state of the cluster is ok (K-19).
    ServesAtOnce,
    /// The wall clock measures how long a node has been silent (K-24).
    SilenceByWallClock,
    /// No PONG is sent while the file is written (K-25).
    NoPongWhileWriting,
    /// A MEET that was sent counts as received (K-26).
    MeetNotRepeated,
    /// A node that does not dial back is sent MEETs without end (G-13).
    MeetsWithoutEnd,
    /// A forgotten node that still knows this cluster returns by its own MEET (G-21).
    ForgottenNodeMet,
    /// A header counts for the node of its link, whichever node sent it.
    StrangeHeaderBelieved,
    /// A voter without replicas that could take over stays FAIL for twice the node timeout (D22).
    HeirlessStaysFailed,
    /// Headers announce changes that are not in the file yet (K-9).
    SentBeforeFile,
    /// A replica moves to another primary although its own primary then has too few replicas (S-37).
    BarrierIgnored,
    /// A primary serves without a majority (K-18).
    MinorityServes,
    /// A replica whose primary has failed once announces the failure for ever (K-23).
    MournsForever,
    /// After a suspension of its process, a node serves clients before any other node has answered (S-24).
    ServesAfterStandstill,
    /// A vote counts for the present election, whatever epoch it was given for (K-3).
    VotesOfAnyEpoch,
    /// A manual failover takes the end of the stream from a primary that has not paused (K-20).
    GoalWithoutPause,
    /// A primary resumes writes when its replica asks for votes, and not when it is demoted (K-21).
    PauseEndsEarly,
    /// A replica that loads a full copy announces the offset that it had before (K-22).
    OldOffsetTold,
    /// The end of a failed move is announced before the deletions of its keys.
    FinishAheadOfUnlinks,
    /// In the stream of a slot move, the command that changes an entry comes before the entry itself.
    CommandAheadOfImage,
    /// Writers are not held after PAUSED was sent, and their writes are sent to no target.
    WrittenAfterPaused,
    /// Writers of slots that move away resume when the target may claim the slots, and not when it has
    /// claimed them.
    HoldEndsAtGrant,
    /// Slots are claimed with the epoch that the target already has.
    ClaimedWithoutEpoch,
    /// Slots are claimed with the epoch of their source.
    ClaimedByEpochOfSource,
    /// Keys of slots that are being imported are not hidden (G-13).
    ShownWhileImported,
    /// The stream of a move selects a database only once.
    StreamOfOneDatabase,
    /// A connection that is lost after the grant fails the move.
    LostLinkEndsGrant,
    /// A source that has advanced its epoch before it learns of a claim gets its slots back because of the
    /// higher epoch.
    SourceOutbidsClaim,
}

impl Mistake {
    /// Mistakes that the simulation of replication must find.
    pub const ALL: [Mistake; 24] = [
        Mistake::SecondIdForever,
        Mistake::KeptReplid,
        Mistake::SnapshotOfDbZero,
        Mistake::AckOfSent,
        Mistake::UnsyncedAck,
        Mistake::AckWithoutBase,
        Mistake::SilentReplicaCounts,
        Mistake::ReplicaExpires,
        Mistake::IdNotContinued,
        Mistake::IdOfLastRun,
        Mistake::LinkOfDbZero,
        Mistake::TransactionByParts,
        Mistake::DbNotNoted,
        Mistake::CountedTwice,
        Mistake::HandedOverEarly,
        Mistake::PausedForGood,
        Mistake::FailedRewriteCounts,
        Mistake::UnreadSnapshotCounts,
        Mistake::StreamForgotten,
        Mistake::AnsweredEarly,
        Mistake::RunByParts,
        Mistake::RoleInsideRun,
        Mistake::RunDropped,
        Mistake::ShortLinkPaused,
    ];

    /// Mistakes that the simulation of slot moves must find.
    pub const OF_MOVES: [Mistake; 11] = [
        Mistake::SentBeforeFile,
        Mistake::FinishAheadOfUnlinks,
        Mistake::CommandAheadOfImage,
        Mistake::WrittenAfterPaused,
        Mistake::HoldEndsAtGrant,
        Mistake::ClaimedWithoutEpoch,
        Mistake::ClaimedByEpochOfSource,
        Mistake::ShownWhileImported,
        Mistake::StreamOfOneDatabase,
        Mistake::LostLinkEndsGrant,
        Mistake::SourceOutbidsClaim,
    ];

    /// Mistakes that the simulation of clusters must find.
    pub const OF_CLUSTERS: [Mistake; 31] = [
        Mistake::VoteBeforeFile,
        Mistake::VoteNotReadBack,
        Mistake::EpochByTimeAlone,
        Mistake::EpochHeardFromMyself,
        Mistake::ReboundAtEqualEpoch,
        Mistake::GreaterIdMovesToo,
        Mistake::StaleRoleTaken,
        Mistake::UnclaimedSlotsTold,
        Mistake::LostKeysKept,
        Mistake::StrangersBelieved,
        Mistake::ReportsOfAnybody,
        Mistake::ReportsForever,
        Mistake::HalfDecides,
        Mistake::FailedVotersLeftOut,
        Mistake::ServesAtOnce,
        Mistake::SilenceByWallClock,
        Mistake::NoPongWhileWriting,
        Mistake::MeetNotRepeated,
        Mistake::MeetsWithoutEnd,
        Mistake::ForgottenNodeMet,
        Mistake::StrangeHeaderBelieved,
        Mistake::HeirlessStaysFailed,
        Mistake::SentBeforeFile,
        Mistake::BarrierIgnored,
        Mistake::MinorityServes,
        Mistake::MournsForever,
        Mistake::ServesAfterStandstill,
        Mistake::VotesOfAnyEpoch,
        Mistake::GoalWithoutPause,
        Mistake::PauseEndsEarly,
        Mistake::OldOffsetTold,
    ];
}

/// Whether this mistake is to be made: never in this build.
#[cfg(not(sluice_mistakes))]
#[inline(always)]
pub const fn is_made(_: Mistake) -> bool {
    false
}

/// The mistake to be made, as the number of a [`Mistake`]. Each test that uses it runs in one thread.
#[cfg(sluice_mistakes)]
static MADE: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Whether this mistake is to be made.
#[cfg(sluice_mistakes)]
pub fn is_made(mistake: Mistake) -> bool {
    // Relaxed: the value is set before a run begins, by the thread that runs it.
    MADE.load(std::sync::atomic::Ordering::Relaxed) == mistake as u8
}

/// Makes this mistake from now on, and no other.
#[cfg(sluice_mistakes)]
pub fn make(mistake: Mistake) {
    // Relaxed, for the same reason as in [`is_made`].
    MADE.store(mistake as u8, std::sync::atomic::Ordering::Relaxed);
}
