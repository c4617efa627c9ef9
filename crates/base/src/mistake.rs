//! Mistakes that are made on purpose, to see that the simulations of replication and of clusters find them.
//! Only a build with `--cfg sluice_mistakes` can make one; in every other the question costs nothing, because
//! its answer is known to the compiler.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mistake {
    /// None.
    None,
    /// A history's id before a promotion is accepted for positions after the promotion.
    SecondIdForever,
    /// A promotion goes on with the id of the history before.
    KeptReplid,
    /// A snapshot says that the stream has selected database 0.
    SnapshotOfDbZero,
    /// WAIT counts replicas that were sent the write.
    AckOfSent,
    /// A replica says of everything that it is on disk.
    UnsyncedAck,
    /// A replica says that what lies beside a base which is not in force is on disk.
    AckWithoutBase,
    /// A replica that has said nothing counts as one that has the write.
    SilentReplicaCounts,
    /// A replica deletes expired keys by itself.
    ReplicaExpires,
    /// A replica that goes on does not take up the new id of the history.
    IdNotContinued,
    /// A server that starts goes on with the id that its files have.
    IdOfLastRun,
    /// A replica that goes on begins in database 0.
    LinkOfDbZero,
    /// A replica counts the commands of a transaction before its end.
    TransactionByParts,
    /// The append-only file of a primary does not say which database the stream has selected.
    DbNotNoted,
    /// A replica that has come back counts for its connection of before, too.
    CountedTwice,
    /// FAILOVER hands over to a replica that may lack something.
    HandedOverEarly,
    /// A failover that comes to nothing leaves the writes of clients waiting.
    PausedForGood,
    /// A rewrite of the append-only file whose base cannot be put in force counts as one that is.
    FailedRewriteCounts,
    /// A replica that cannot read the snapshot which it has received goes on as if it had loaded it.
    UnreadSnapshotCounts,
    /// What comes on the main channel with the promise of the stream is forgotten.
    StreamForgotten,
    /// Under `appendfsync always` a reply does not wait for the disk.
    AnsweredEarly,
    /// What a script has changed so far is published while it stands still.
    RunByParts,
    /// A server changes its role while a script stands still.
    RoleInsideRun,
    /// A script whose client has gone ends though it has written, and nobody is told of that.
    RunDropped,
    /// A replica whose link is lost twice within a second waits before it connects again.
    ShortLinkPaused,
    /// A vote leaves before its file is durable (K-1).
    VoteBeforeFile,
    /// A node that starts does not know in which epoch it voted last (K-2).
    VoteNotReadBack,
    /// Votes are given again some time after the epochs were lost, whoever was heard since (K-5).
    EpochByTimeAlone,
    /// The node itself counts as one of the voters that have to be heard after epochs were lost (K-6).
    EpochHeardFromMyself,
    /// A slot goes to a claimant with the epoch of its owner (K-7).
    ReboundAtEqualEpoch,
    /// Both of two primaries with one epoch move on (K-8).
    GreaterIdMovesToo,
    /// A role that was told before a newer one counts (K-10).
    StaleRoleTaken,
    /// UPDATEs have slots that their subject does not claim any more (K-11).
    UnclaimedSlotsTold,
    /// Keys of slots that went to another shard are kept (K-12).
    LostKeysKept,
    /// Gossip of senders that nobody knows is believed (K-13).
    StrangersBelieved,
    /// Replicas, and primaries without slots, count as reporters of failures (K-14).
    ReportsOfAnybody,
    /// Reports of failures do not expire (K-15).
    ReportsForever,
    /// Half of the voters decide (K-16).
    HalfDecides,
    /// Voters that failed are none of those whose majority decides (K-17).
    FailedVotersLeftOut,
    /// A primary serves as soon as the cluster looks well (K-19).
    ServesAtOnce,
    /// The wall clock says how long a node has been silent (K-24).
    SilenceByWallClock,
    /// A PONG does not leave while the file is written (K-25).
    NoPongWhileWriting,
    /// A MEET that was sent counts as one that came (K-26).
    MeetNotRepeated,
    /// A node that does not dial back is met again and again (G-13).
    MeetsWithoutEnd,
    /// A forgotten node comes back by a MEET of its own (G-21).
    ForgottenNodeMet,
    /// A header counts for the node of its link, whoever sent it.
    StrangeHeaderBelieved,
    /// A voter that nobody could take over from stays FAIL for 2T (D22).
    HeirlessStaysFailed,
    /// Headers show what is not in the file yet (K-9).
    ToldBeforeFile,
    /// A replica moves to another primary though its own keeps too few (S-37).
    BarrierIgnored,
    /// A primary serves without a majority (K-18).
    MinorityServes,
    /// A replica whose primary has failed once says so for good (K-23).
    MournsForever,
    /// A node that has stood still serves before anybody has answered (S-24).
    ServesAfterStandstill,
    /// A vote counts for the election that is open, whatever epoch it was given for (K-3).
    VotesOfAnyEpoch,
    /// A failover by hand takes the end of the stream from a primary that does not pause (K-20).
    GoalWithoutPause,
    /// A primary lets writes go on when its replica asks for votes, and not when it is demoted (K-21).
    PauseEndsEarly,
    /// A replica that loads a full copy tells the offset that it had before (K-22).
    OldOffsetTold,
    /// The end of a failed move is told ahead of the deletions of its keys.
    FinishAheadOfUnlinks,
    /// Entries that a walk has captured follow the command that changes them.
    CommandAheadOfImage,
    /// Writers are not held once PAUSED was said, and what they write is sent to nobody.
    WrittenAfterPaused,
    /// Writers go on when the target may claim the slots, and not when it has.
    HoldEndsAtGrant,
    /// Slots are claimed by the epoch that the target has.
    ClaimedWithoutEpoch,
    /// Slots are claimed by the epoch of their source.
    ClaimedByEpochOfSource,
    /// Slots on their way are not hidden (G-13).
    ShownWhileImported,
    /// A stream of a move selects a database once.
    StreamOfOneDatabase,
    /// A connection that is lost after the grant ends the move.
    LostLinkEndsGrant,
    /// A source that has made an epoch ahead of the news of a claim gets its slots back by that.
    SourceOutbidsClaim,
}

impl Mistake {
    /// Mistakes that the simulation of replication finds.
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

    /// Mistakes that the simulation of moves of slots finds.
    pub const OF_MOVES: [Mistake; 11] = [
        Mistake::ToldBeforeFile,
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

    /// Mistakes that the simulation of clusters finds.
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
        Mistake::ToldBeforeFile,
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

/// Whether this mistake is to be made.
#[cfg(not(sluice_mistakes))]
#[inline(always)]
pub const fn is_made(_: Mistake) -> bool {
    false
}

/// The one that is made: [`Mistake`] as a number. Read and written by tests of one thread each.
#[cfg(sluice_mistakes)]
static MADE: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Whether this mistake is to be made.
#[cfg(sluice_mistakes)]
pub fn is_made(mistake: Mistake) -> bool {
    // Relaxed: set before a run begins, by whoever runs it.
    MADE.load(std::sync::atomic::Ordering::Relaxed) == mistake as u8
}

/// Has this mistake be made from now on, and no other.
#[cfg(sluice_mistakes)]
pub fn make(mistake: Mistake) {
    // Relaxed: as above.
    MADE.store(mistake as u8, std::sync::atomic::Ordering::Relaxed);
}
