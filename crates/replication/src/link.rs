//! A replica's link to its primary, from the first connection to the stream of commands.
//!
//! ```text
//!  new ──► connect ──► connecting ──► handshake ──+CONTINUE──────────────────────────────► connected
//!             ▲             │              └──+FULLRESYNC──► transfer ──loaded──────────────►  │
//!             │             │                                   │                             │
//!             └── pause ◄───┴───────────── fails, ends, is silent ◄──────────────────────────────┘
//!
//!  transfer, to disk:    Awaited ──first bytes──► Receiving ──Saved──► Committing ──InForce──► Loading ──Loaded──►
//!  transfer, to memory:  Awaited ──first bytes──► Receiving ──Accepted──────────────────────► Loading ──Loaded──►
//!
//!  over two channels:    +DUALCHANNELSYNC ──► second channel ──$ENDOFF──► transfer ──► ... ──► Loading ──► Unanswered ──+CONTINUE──►
//! ```
//!
//! Receiving a snapshot to disk and receiving it to memory differ only between the first bytes and the
//! load, so one state machine handles both.
//!
//! Invariants: (1) every input about a connection names its attempt, and inputs of earlier attempts are
//! ignored, because an attempt can be given up before its connections and jobs have ended (D-1); (2) a
//! received snapshot file replaces the earlier file only after `Commit`, and is then loaded in any case: as
//! long as [`ReplicaLink::is_committed`], the owner does not drop the link (D-3); (3) in each state that
//! waits for the primary, the primary may be silent only for a limited time; (4) a link leads to one
//! primary. For another primary a new link is made, and the attempts of the new link have higher numbers.

mod handshake;
mod messages;
mod second_channel;

pub use messages::{
    Credentials, HistoryPoint, Input, LinkDecision, LinkOutput, LinkState, Primary, Surroundings,
    SyncFailure, TransportOrder,
};

use crate::backoff::Backoff;
use handshake::{Answer, HandsOver, Handshake};
use second_channel::{Greeted, MainChannel, SnapshotGreeting, StreamAnswer, StreamRequest};
use sluice_base::LogLevel;
use sluice_base::mistake::{self, Mistake};

/// The stage of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferStage {
    /// The primary makes the snapshot, and none of the snapshot's bytes has arrived.
    Awaited,
    Receiving,
    Committing,
    Loading,
    /// The snapshot is loaded, but the primary has not answered the request for the stream that follows the
    /// snapshot.
    Unanswered,
}

#[derive(Debug)]
enum LinkPhase {
    /// No attempt is under way. The next one is due at `at_ns`.
    Connect {
        at_ns: u64,
        is_again: bool,
    },
    Connecting {
        since_ns: u64,
    },
    Handshake {
        last_activity_ns: u64,
        handshake: Handshake,
    },
    /// The connection for the snapshot is being made (`greeting` is `None`), or the snapshot's position
    /// is awaited on that connection.
    SecondChannel {
        last_activity_ns: u64,
        greeting: Option<SnapshotGreeting>,
    },
    Transfer {
        stage: TransferStage,
        point: HistoryPoint,
        said_ns: u64,
        main: MainChannel,
    },
    Connected {
        since_ns: u64,
        said_ns: u64,
    },
}

/// A replica's link to its primary.
#[derive(Debug)]
pub struct ReplicaLink {
    state: LinkPhase,
    primary: Primary,
    attempt: u64,
    /// Whether the next PSYNC asks the other server to become the primary.
    hands_over: HandsOver,
    backoff: Backoff,
    outputs: Vec<LinkOutput>,
}

impl ReplicaLink {
    /// A link to this primary; the first tick begins the first attempt. `seed` decides the jitter of the
    /// pauses. `attempt` is the number of the previous link's last attempt. New attempts get higher
    /// numbers, so that late inputs of the previous link are ignored.
    pub fn new(primary: Primary, seed: u64, attempt: u64) -> ReplicaLink {
        ReplicaLink {
            state: LinkPhase::Connect { at_ns: 0, is_again: false },
            primary,
            attempt: attempt + 1,
            hands_over: HandsOver::No,
            backoff: Backoff::new(seed),
            outputs: Vec::new(),
        }
    }

    /// Makes the first PSYNC ask the other server to become the primary, for FAILOVER.
    pub fn handing_over(mut self) -> ReplicaLink {
        self.hands_over = HandsOver::Yes;
        self
    }

    /// The primary to which the link leads.
    pub fn primary(&self) -> &Primary {
        &self.primary
    }

    /// Whether an attempt has connections or jobs, which have to be closed when the link is dropped.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.state, LinkPhase::Connect { .. })
    }

    /// The state of the link, as ROLE reports it.
    pub fn state(&self) -> LinkState {
        match self.state {
            LinkPhase::Connect { .. } => LinkState::Connect,
            LinkPhase::Connecting { .. } => LinkState::Connecting,
            LinkPhase::Handshake { .. } => LinkState::Handshake,
            LinkPhase::SecondChannel { .. } => LinkState::Handshake,
            LinkPhase::Transfer { .. } => LinkState::Transfer,
            LinkPhase::Connected { .. } => LinkState::Connected,
        }
    }

    /// The number of the attempt under way; during a pause, a number that no connection has.
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// The position, in the primary's history, of the snapshot that is awaited, received or loaded; `None`
    /// outside of a transfer.
    pub fn point(&self) -> Option<&HistoryPoint> {
        match &self.state {
            LinkPhase::Transfer { point, .. } => Some(point),
            LinkPhase::Connect { .. }
            | LinkPhase::Connecting { .. }
            | LinkPhase::Handshake { .. }
            | LinkPhase::SecondChannel { .. }
            | LinkPhase::Connected { .. } => None,
        }
    }

    /// Whether a snapshot was committed as a file or accepted into memory, but is not loaded yet. A change of
    /// the primary has to wait until it is loaded.
    pub fn is_committed(&self) -> bool {
        matches!(
            self.state,
            LinkPhase::Transfer { stage: TransferStage::Committing | TransferStage::Loading, .. }
        )
    }

    /// The outputs since the last call, in order.
    pub fn take_outputs(&mut self) -> Vec<LinkOutput> {
        std::mem::take(&mut self.outputs)
    }

    /// Handles an event. The outputs are collected by [`ReplicaLink::take_outputs`].
    pub fn step(&mut self, input: Input<'_>, around: &Surroundings<'_>) {
        match input {
            Input::Tick => self.tick(around),
            Input::Opened(attempt)
            | Input::Refused(attempt, _)
            | Input::Received(attempt, _)
            | Input::Ended(attempt)
            | Input::MainReceived(attempt, _)
            | Input::MainEnded(attempt)
            | Input::Saved(attempt)
            | Input::InForce(attempt)
            | Input::Accepted(attempt)
            | Input::Loaded(attempt)
            | Input::Failed(attempt, _)
                if attempt != self.attempt => {}
            Input::Opened(_) => self.opened(around),
            Input::Refused(_, reason) => self.refused(reason, around),
            Input::Received(_, bytes) => self.received(bytes, around),
            Input::Ended(_) => self.ended(around),
            Input::MainReceived(_, bytes) => self.main_received(bytes, around),
            Input::MainEnded(_) => self.main_ended(around),
            Input::Saved(_) => self.saved(),
            Input::InForce(_) => self.in_force(),
            Input::Accepted(_) => self.accepted(),
            Input::Loaded(_) => self.loaded(around),
            Input::Failed(_, failure) => self.failed(&failure, around),
        }
    }

    fn decide(&mut self, decision: LinkDecision) {
        self.outputs.push(decision.into());
    }

    fn order(&mut self, order: TransportOrder) {
        self.outputs.push(order.into());
    }

    fn log(&mut self, level: LogLevel, text: impl Into<String>) {
        self.decide(LinkDecision::Log(level, text.into()));
    }

    /// Begins the next attempt, if it is due and allowed.
    fn connect_if_due(&mut self, around: &Surroundings<'_>) {
        let LinkPhase::Connect { at_ns, is_again } = self.state else { return };
        if around.now_ns < at_ns || !around.may_connect {
            return;
        }
        let primary = self.primary.clone();
        let verb = if is_again { "Reconnecting" } else { "Connecting" };
        self.log(LogLevel::Notice, format!("{verb} to PRIMARY {}:{}", primary.host, primary.port));
        self.log(LogLevel::Notice, "PRIMARY <-> REPLICA sync started");
        self.attempt += 1;
        self.state = LinkPhase::Connecting { since_ns: around.now_ns };
        self.order(TransportOrder::Connect(self.attempt, primary));
    }

    /// Gives the attempt up; the next one begins after `pause_ns`.
    fn retry(&mut self, pause_ns: u64, is_again: bool, around: &Surroundings<'_>) {
        self.order(TransportOrder::Close);
        // Later inputs of the ended attempt have the old number and are ignored.
        self.attempt += 1;
        self.state = LinkPhase::Connect { at_ns: around.now_ns.saturating_add(pause_ns), is_again };
        self.connect_if_due(around);
    }

    fn retry_after_refusal(&mut self, around: &Surroundings<'_>) {
        let pause_ns = self.backoff.after_refusal();
        self.retry(pause_ns, false, around);
    }

    fn retry_after_failed_sync(&mut self, around: &Surroundings<'_>) {
        let pause_ns = self.backoff.after_failed_sync();
        self.retry(pause_ns, false, around);
    }

    fn opened(&mut self, around: &Surroundings<'_>) {
        if let LinkPhase::SecondChannel { last_activity_ns, greeting: greeting @ None } = &mut self.state {
            let mut bytes = Vec::new();
            *greeting = Some(SnapshotGreeting::begin(around, &mut bytes));
            *last_activity_ns = around.now_ns;
            return self.order(TransportOrder::Send(bytes));
        }
        let LinkPhase::Connecting { .. } = self.state else { return };
        self.log(LogLevel::Notice, "Non blocking connect for SYNC fired the event.");
        let mut bytes = Vec::new();
        let handshake = Handshake::begin(&mut bytes);
        self.state = LinkPhase::Handshake { last_activity_ns: around.now_ns, handshake };
        self.order(TransportOrder::Send(bytes));
    }

    fn refused(&mut self, reason: &str, around: &Surroundings<'_>) {
        if let LinkPhase::SecondChannel { greeting: None, .. } = self.state {
            let text = format!("Dual channel replication: Unable to connect to Primary: {reason}");
            self.log(LogLevel::Warning, text);
            return self.retry_after_failed_sync(around);
        }
        let LinkPhase::Connecting { .. } = self.state else { return };
        self.log(LogLevel::Warning, format!("Error condition on socket for SYNC: {reason}"));
        self.retry_after_refusal(around);
    }

    fn received(&mut self, bytes: &[u8], around: &Surroundings<'_>) {
        match &mut self.state {
            LinkPhase::Handshake { last_activity_ns, handshake } => {
                *last_activity_ns = around.now_ns;
                handshake.feed(bytes);
                self.shake_hands(around);
            }
            LinkPhase::SecondChannel { last_activity_ns, greeting: Some(greeting) } => {
                *last_activity_ns = around.now_ns;
                greeting.feed(bytes);
                self.greet(around);
            }
            LinkPhase::Transfer { stage: stage @ TransferStage::Awaited, .. } => {
                // Until the snapshot begins, a primary sends empty lines as a sign of life.
                let begins = bytes.iter().position(|byte| !b"\r\n".contains(byte));
                if let Some(begins) = begins {
                    *stage = TransferStage::Receiving;
                    self.order(TransportOrder::Receive(bytes[begins..].to_vec()));
                }
            }
            LinkPhase::Connect { .. }
            | LinkPhase::Connecting { .. }
            | LinkPhase::SecondChannel { greeting: None, .. }
            | LinkPhase::Transfer { .. }
            | LinkPhase::Connected { .. } => {}
        }
    }

    /// Handles the bytes that have arrived on the snapshot's own connection.
    fn greet(&mut self, around: &Surroundings<'_>) {
        while let LinkPhase::SecondChannel { greeting: Some(greeting), .. } = &mut self.state {
            match greeting.next() {
                Greeted::More => return,
                Greeted::Ask(bytes) => self.order(TransportOrder::Send(bytes)),
                Greeted::Refused(reason) => {
                    self.log(LogLevel::Warning, format!("Dual channel replication: {reason}"));
                    return self.retry_after_failed_sync(around);
                }
                Greeted::Position { point, client, rest } => {
                    let mut bytes = Vec::new();
                    let main = MainChannel::Asked(StreamRequest::begin(client, &mut bytes));
                    let (stage, said_ns) = (TransferStage::Awaited, around.now_ns);
                    self.state = LinkPhase::Transfer { stage, point, said_ns, main };
                    self.order(TransportOrder::SendMain(bytes));
                    if !rest.is_empty() {
                        self.received(&rest, around);
                    }
                }
            }
        }
    }

    fn main_received(&mut self, bytes: &[u8], around: &Surroundings<'_>) {
        // Before the primary is asked for the stream, it sends nothing but signs of life on the main channel.
        let LinkPhase::Transfer { main: MainChannel::Asked(request), .. } = &mut self.state else { return };
        request.feed(bytes);
        while let LinkPhase::Transfer { stage, point, main, .. } = &mut self.state
            && let MainChannel::Asked(request) = main
        {
            match request.next(point) {
                StreamAnswer::More => return,
                StreamAnswer::Ask(bytes) => {
                    let text = format!(
                        "Dual channel replication: Trying a partial resynchronization using main channel (request {}:{}).",
                        point.replid,
                        point.offset.saturating_add(1)
                    );
                    self.log(LogLevel::Notice, text);
                    self.order(TransportOrder::SendMain(bytes));
                }
                StreamAnswer::Refused(answer) => {
                    let text = format!(
                        "Dual channel replication: Aborting dual channel sync. Main channel psync result: {answer}"
                    );
                    self.log(LogLevel::Warning, text);
                    return self.retry_after_failed_sync(around);
                }
                StreamAnswer::Accepted { replid, rest } => {
                    // The primary may name a new id of the history; the offset of the snapshot stays the
                    // same.
                    point.replid = replid.clone().unwrap_or_else(|| point.replid.clone());
                    *main = MainChannel::Buffered { told_ns: around.now_ns };
                    let is_loaded = *stage == TransferStage::Unanswered;
                    self.accept_main(replid, rest, is_loaded, around);
                }
            }
        }
    }

    /// Handles the primary's consent: from now on the main channel carries the stream that follows the
    /// snapshot.
    fn accept_main(
        &mut self,
        replid: Option<String>,
        rest: Vec<u8>,
        is_loaded: bool,
        around: &Surroundings<'_>,
    ) {
        let background = if is_loaded { "" } else { ", RDB load in background" };
        let text = format!(
            "Dual channel replication: PRIMARY <-> REPLICA sync: Primary accepted a Partial Resynchronization{background}."
        );
        self.log(LogLevel::Notice, text);
        let rest = if mistake::is_made(Mistake::StreamForgotten) { Vec::new() } else { rest };
        self.order(TransportOrder::Buffer(rest));
        if is_loaded {
            self.log(LogLevel::Notice, "Dual channel replication: Psync established after rdb load");
            if replid.is_some() {
                self.decide(LinkDecision::Continue(replid));
            }
            self.finish(around);
        }
    }

    fn main_ended(&mut self, around: &Surroundings<'_>) {
        let is_dual = match &self.state {
            LinkPhase::SecondChannel { .. } => true,
            LinkPhase::Transfer { main, .. } => !matches!(main, MainChannel::HasSnapshot),
            LinkPhase::Connect { .. }
            | LinkPhase::Connecting { .. }
            | LinkPhase::Handshake { .. }
            | LinkPhase::Connected { .. } => false,
        };
        if !is_dual {
            return;
        }
        self.log(LogLevel::Warning, "Dual channel replication: Provisional primary closed connection");
        // The attempt continues if a file was committed or data are being loaded, because after the load the
        // data can be brought up to date from their position.
        if let LinkPhase::Transfer {
            stage: TransferStage::Committing | TransferStage::Loading, main, ..
        } = &mut self.state
        {
            *main = match main {
                MainChannel::Buffered { .. } | MainChannel::Ended => MainChannel::Ended,
                MainChannel::HasSnapshot | MainChannel::Asked(_) | MainChannel::Lost => MainChannel::Lost,
            };
            return;
        }
        self.retry_after_failed_sync(around);
    }

    /// Handles those answers of the primary that have arrived.
    fn shake_hands(&mut self, around: &Surroundings<'_>) {
        while let LinkPhase::Handshake { handshake, .. } = &mut self.state {
            let answer = handshake.next(around, self.hands_over, &mut self.outputs);
            if self.hands_over == HandsOver::Yes {
                match answer {
                    Answer::Continue { .. } | Answer::Full { .. } | Answer::DualChannel => {
                        self.hands_over = HandsOver::No;
                        self.decide(LinkDecision::HandedOver);
                    }
                    // After a refusal this server ends the failover, and then has no primary.
                    Answer::Refused if self.has_asked() => {
                        self.hands_over = HandsOver::No;
                        self.decide(LinkDecision::NotHandedOver);
                        return;
                    }
                    Answer::Refused | Answer::More | Answer::GoOn => {}
                }
            }
            match answer {
                Answer::More => return,
                Answer::GoOn => {}
                Answer::Refused => return self.retry_after_refusal(around),
                Answer::Continue { replid, rest } => {
                    self.log(
                        LogLevel::Notice,
                        "PRIMARY <-> REPLICA sync: Primary accepted a Partial Resynchronization.",
                    );
                    self.decide(LinkDecision::Continue(replid));
                    return self.stream(rest, around);
                }
                Answer::DualChannel => {
                    self.state = LinkPhase::SecondChannel { last_activity_ns: around.now_ns, greeting: None };
                    self.order(TransportOrder::ConnectSecond(self.attempt, self.primary.clone()));
                    return;
                }
                Answer::Full { point, rest } => {
                    self.state = LinkPhase::Transfer {
                        stage: TransferStage::Awaited,
                        point,
                        said_ns: around.now_ns,
                        main: MainChannel::HasSnapshot,
                    };
                    if !rest.is_empty() {
                        self.received(&rest, around);
                    }
                    return;
                }
            }
        }
    }

    /// Whether PSYNC, the request for the data, was sent.
    fn has_asked(&self) -> bool {
        matches!(&self.state, LinkPhase::Handshake { handshake, .. } if handshake.has_asked())
    }

    fn stream(&mut self, rest: Vec<u8>, around: &Surroundings<'_>) {
        self.backoff.succeed();
        self.state = LinkPhase::Connected { since_ns: around.now_ns, said_ns: around.now_ns };
        self.order(TransportOrder::Stream(rest));
        self.decide(LinkDecision::Acknowledge);
    }

    fn saved(&mut self) {
        let LinkPhase::Transfer { stage: stage @ TransferStage::Receiving, .. } = &mut self.state else {
            return;
        };
        *stage = TransferStage::Committing;
        self.log(LogLevel::Notice, "Replica main thread detected RDB download completion in Bio thread");
        self.decide(LinkDecision::Commit);
    }

    fn in_force(&mut self) {
        let LinkPhase::Transfer { stage: stage @ TransferStage::Committing, .. } = &mut self.state else {
            return;
        };
        *stage = TransferStage::Loading;
        self.log(LogLevel::Notice, "Loading the RDB and finalizing primary-replica sync...");
        self.decide(LinkDecision::Load);
        self.log(LogLevel::Notice, "PRIMARY <-> REPLICA sync: Loading DB in memory");
    }

    fn accepted(&mut self) {
        if let LinkPhase::Transfer { stage: stage @ TransferStage::Receiving, .. } = &mut self.state {
            *stage = TransferStage::Loading;
        }
    }

    fn loaded(&mut self, around: &Surroundings<'_>) {
        let LinkPhase::Transfer { stage: stage @ TransferStage::Loading, point, main, said_ns } =
            &mut self.state
        else {
            return;
        };
        let point = point.clone();
        let is_lost = matches!(main, MainChannel::Lost);
        let is_answered = !matches!(main, MainChannel::Asked(_) | MainChannel::Lost);
        (*stage, *said_ns) = (TransferStage::Unanswered, around.now_ns);
        self.decide(LinkDecision::Adopt(point));
        if is_answered {
            self.finish(around);
        }
        if is_lost {
            self.retry_after_failed_sync(around);
        }
    }

    /// Ends the synchronisation. The data are loaded, and the main channel, if there is one, has the stream
    /// that follows the snapshot.
    fn finish(&mut self, around: &Surroundings<'_>) {
        self.log(LogLevel::Notice, "PRIMARY <-> REPLICA sync: Finished with success");
        self.stream(Vec::new(), around);
    }

    fn failed(&mut self, failure: &SyncFailure, around: &Surroundings<'_>) {
        let LinkPhase::Transfer { .. } = self.state else { return };
        if *failure == SyncFailure::Load && mistake::is_made(Mistake::UnreadSnapshotCounts) {
            return self.loaded(around);
        }
        match failure {
            SyncFailure::Transfer => {
                self.log(
                    LogLevel::Warning,
                    "Replica main thread detected RDB download failure in Bio thread",
                );
            }
            SyncFailure::Stream => self.log(
                LogLevel::Warning,
                "Failed trying to load the PRIMARY synchronization DB from socket, check server logs.",
            ),
            SyncFailure::Load => self.log(
                LogLevel::Warning,
                "Failed trying to load the PRIMARY synchronization DB from disk, check server logs.",
            ),
        }
        self.retry_after_failed_sync(around);
    }

    fn ended(&mut self, around: &Surroundings<'_>) {
        match self.state {
            LinkPhase::Connect { .. } | LinkPhase::Connecting { .. } => {}
            LinkPhase::Handshake { .. } => {
                self.log(LogLevel::Warning, "The connection with the primary ended during the handshake");
                self.retry_after_refusal(around);
            }
            LinkPhase::SecondChannel { .. } | LinkPhase::Transfer { stage: TransferStage::Awaited, .. } => {
                self.log(
                    LogLevel::Warning,
                    "The connection with the primary ended before the snapshot began",
                );
                self.retry_after_failed_sync(around);
            }
            // The receiver of the snapshot reports the end of the connection.
            LinkPhase::Transfer { .. } => {}
            LinkPhase::Connected { since_ns, .. } => {
                self.log(LogLevel::Notice, "Connection with primary lost.");
                self.log(LogLevel::Notice, "Caching the disconnected primary state.");
                let pause_ns = self.backoff.after_loss(around.now_ns.saturating_sub(since_ns));
                self.retry(pause_ns, true, around);
            }
        }
    }

    fn tick(&mut self, around: &Surroundings<'_>) {
        let now_ns = around.now_ns;
        let is_silent = |since_ns: u64| now_ns.saturating_sub(since_ns) > around.timeout_ns;
        let is_due = |said_ns: &mut u64| {
            let is_due = now_ns.saturating_sub(*said_ns) >= SECOND_NS;
            if is_due {
                *said_ns = now_ns;
            }
            is_due
        };
        match &mut self.state {
            LinkPhase::Connect { .. } => self.connect_if_due(around),
            LinkPhase::Connecting { since_ns: last_activity_ns }
            | LinkPhase::Handshake { last_activity_ns, .. } => {
                if is_silent(*last_activity_ns) {
                    self.log(LogLevel::Warning, "Timeout connecting to the PRIMARY...");
                    self.retry_after_refusal(around);
                }
            }
            LinkPhase::SecondChannel { last_activity_ns: said_ns, .. }
            | LinkPhase::Transfer { stage: TransferStage::Unanswered, said_ns, .. } => {
                if is_silent(*said_ns) {
                    self.log(LogLevel::Warning, TRANSFER_TIMEOUT);
                    self.retry_after_failed_sync(around);
                }
            }
            LinkPhase::Transfer {
                stage: TransferStage::Awaited | TransferStage::Receiving,
                said_ns,
                main,
                ..
            } => {
                let since_ns = around.last_activity_ns.max(*said_ns);
                if is_silent(since_ns) {
                    self.log(LogLevel::Warning, TRANSFER_TIMEOUT);
                    self.retry_after_failed_sync(around);
                } else if let MainChannel::Buffered { told_ns } = main
                    && is_due(told_ns)
                {
                    self.order(TransportOrder::KeepAlive);
                }
            }
            LinkPhase::Transfer {
                stage: TransferStage::Committing | TransferStage::Loading,
                said_ns,
                ..
            } => {
                if is_due(said_ns) {
                    self.order(TransportOrder::KeepAlive);
                }
            }
            LinkPhase::Connected { since_ns, said_ns } => {
                if is_silent(around.last_activity_ns.max(*since_ns)) {
                    self.log(LogLevel::Warning, "PRIMARY timeout: no data nor PING received...");
                    self.ended(around);
                } else if is_due(said_ns) {
                    self.decide(LinkDecision::Acknowledge);
                }
            }
        }
    }
}

const SECOND_NS: u64 = 1_000_000_000;

const TRANSFER_TIMEOUT: &str = "Timeout receiving bulk data from PRIMARY... If the problem persists try to set the \
                                'repl-timeout' parameter in valkey.conf to a larger value.";

#[cfg(test)]
mod tests;
