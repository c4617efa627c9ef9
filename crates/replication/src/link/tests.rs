use super::*;
use LinkOutput::{Decision, Order};

const ID: &str = "0123456789012345678901234567890123456789";
const OTHER_ID: &str = "abcdefabcdefabcdefabcdefabcdefabcdefabcd";
const SECOND: u64 = SECOND_NS;
const TIMEOUT: u64 = 60 * SECOND;

/// A link, and the replica's state that each step gets, such as the time and the position to resume from.
struct Bed {
    link: ReplicaLink,
    now_ns: u64,
    last_activity_ns: u64,
    resume: Option<HistoryPoint>,
    password: Option<&'static [u8]>,
    address: &'static [u8],
    skips_checksum: bool,
    codecs: &'static [&'static [u8]],
    dual_channel: bool,
    may_connect: bool,
}

impl Bed {
    fn new() -> Bed {
        let link = ReplicaLink::new(primary(), 3, 0);
        Bed {
            link,
            now_ns: SECOND,
            last_activity_ns: 0,
            resume: None,
            password: None,
            address: b"",
            dual_channel: false,
            skips_checksum: false,
            codecs: &[],
            may_connect: true,
        }
    }

    fn step(&mut self, input: Input<'_>) -> Vec<LinkOutput> {
        let around = Surroundings {
            now_ns: self.now_ns,
            timeout_ns: TIMEOUT,
            last_activity_ns: self.last_activity_ns,
            credentials: self.password.map(|password| Credentials { user: None, password }),
            port: 7000,
            address: self.address,
            dual_channel: self.dual_channel,
            skips_checksum: self.skips_checksum,
            codecs: self.codecs,
            node_id: None,
            version: "9.1.2",
            may_connect: self.may_connect,
            resume: self.resume.as_ref(),
        };
        self.link.step(input, &around);
        self.link.take_outputs()
    }

    /// Makes a step; returns its outputs except those for the log.
    fn deeds(&mut self, input: Input<'_>) -> Vec<LinkOutput> {
        let outputs = self.step(input);
        outputs.into_iter().filter(|output| !matches!(output, Decision(LinkDecision::Log(..)))).collect()
    }

    fn receive(&mut self, bytes: &[u8]) -> Vec<LinkOutput> {
        let attempt = self.link.attempt();
        self.deeds(Input::Received(attempt, bytes))
    }

    fn after(&mut self, ns: u64) -> Vec<LinkOutput> {
        self.now_ns += ns;
        self.deeds(Input::Tick)
    }

    /// A link whose connection is established.
    fn open() -> Bed {
        let mut bed = Bed::new();
        bed.deeds(Input::Tick);
        let attempt = bed.link.attempt();
        bed.deeds(Input::Opened(attempt));
        bed
    }

    /// A link that has asked for the data.
    fn asking(resume: Option<HistoryPoint>) -> Bed {
        let mut bed = Bed::open();
        bed.resume = resume;
        bed.receive(b"+PONG\r\n");
        bed.receive(b"+OK\r\n+OK\r\n+OK\r\n");
        bed
    }

    /// A link that receives a snapshot.
    fn receiving() -> Bed {
        let mut bed = Bed::asking(None);
        bed.receive(format!("+FULLRESYNC {ID} 17\r\n").as_bytes());
        assert_eq!(
            bed.receive(b"$100\r\nREDIS"),
            [Order(TransportOrder::Receive(b"$100\r\nREDIS".to_vec()))]
        );
        bed.last_activity_ns = bed.now_ns;
        bed
    }

    /// A link that is loading its file.
    fn loading() -> Bed {
        let mut bed = Bed::receiving();
        let attempt = bed.link.attempt();
        assert_eq!(bed.deeds(Input::Saved(attempt)), [Decision(LinkDecision::Commit)]);
        assert_eq!(bed.deeds(Input::InForce(attempt)), [Decision(LinkDecision::Load)]);
        bed
    }

    /// Takes a connecting link through the handshake to the stream.
    fn go_on(&mut self) {
        let attempt = self.link.attempt();
        self.deeds(Input::Opened(attempt));
        self.receive(b"+PONG\r\n");
        self.receive(b"+OK\r\n+OK\r\n+OK\r\n");
        self.receive(b"+CONTINUE\r\n");
        assert_eq!(self.link.state(), LinkState::Connected);
    }

    fn connected() -> Bed {
        let mut bed = Bed::loading();
        let attempt = bed.link.attempt();
        bed.deeds(Input::Loaded(attempt));
        assert_eq!(bed.link.state(), LinkState::Connected);
        bed.last_activity_ns = bed.now_ns;
        bed
    }
}

fn primary() -> Primary {
    Primary { host: "10.0.0.1".to_owned(), port: 6379 }
}

fn point(offset: u64) -> HistoryPoint {
    HistoryPoint { replid: ID.to_owned(), offset }
}

fn sent(outputs: &[LinkOutput]) -> String {
    let texts = outputs.iter().filter_map(|output| match output {
        Order(TransportOrder::Send(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    });
    let text: String = texts.collect();
    let words = text.split("\r\n").filter(|word| !word.is_empty() && !word.starts_with(['*', '$']));
    words.collect::<Vec<_>>().join(" ")
}

mod dual_channel;

#[test]
fn a_replica_introduces_itself_and_asks_for_everything() {
    let mut bed = Bed::new();
    assert_eq!(bed.deeds(Input::Tick), [Order(TransportOrder::Connect(2, primary()))]);
    assert_eq!(bed.link.state(), LinkState::Connecting);
    assert_eq!(sent(&bed.deeds(Input::Opened(2))), "PING");
    let introductions = bed.receive(b"+PO");
    assert_eq!(introductions, []);
    assert_eq!(
        sent(&bed.receive(b"NG\r\n")),
        "REPLCONF listening-port 7000 REPLCONF capa eof capa psync2 REPLCONF version 9.1.2"
    );
    assert_eq!(bed.receive(b"+OK\r\n+OK\r\n"), []);
    assert_eq!(sent(&bed.receive(b"+OK\r\n")), "PSYNC ? -1");
    assert_eq!(bed.link.state(), LinkState::Handshake);
}

#[test]
fn password_and_address_are_told_where_there_are_any() {
    let mut bed = Bed::open();
    bed.password = Some(b"secret");
    bed.address = b"10.1.1.1";
    assert_eq!(
        sent(&bed.receive(b"-NOAUTH Authentication required.\r\n")),
        "AUTH secret REPLCONF listening-port 7000 REPLCONF ip-address 10.1.1.1 REPLCONF capa eof capa psync2 \
         REPLCONF version 9.1.2"
    );
    let refused = bed.receive(b"-WRONGPASS no\r\n");
    assert_eq!(refused, [Order(TransportOrder::Close)]);
    assert_eq!(bed.link.state(), LinkState::Connect);
}

#[test]
fn a_link_says_that_it_checks_its_bytes_and_by_what_they_may_be_compressed() {
    let mut bed = Bed::open();
    bed.skips_checksum = true;
    bed.codecs = &[b"lz4", b"zstd"];
    assert_eq!(
        sent(&bed.receive(b"+PONG\r\n")),
        "REPLCONF listening-port 7000 REPLCONF capa eof capa psync2 capa skip-rdb-checksum capa lz4 \
         capa zstd REPLCONF version 9.1.2"
    );
}

#[test]
fn the_log_says_which_directive_a_primary_with_a_password_needs() {
    let hints = |answer: &[u8]| {
        let mut bed = Bed::open();
        bed.receive(b"+PONG\r\n");
        bed.receive(b"+OK\r\n+OK\r\n+OK\r\n");
        let attempt = bed.link.attempt();
        let outputs = bed.step(Input::Received(attempt, answer));
        let lines = outputs.into_iter().filter_map(|output| match output {
            Decision(LinkDecision::Log(_, text)) => Some(text),
            _ => None,
        });
        lines.collect::<Vec<_>>()
    };
    let told = hints(b"-NOAUTH Authentication required.\r\n");
    assert_eq!(
        told[0],
        "Primary does not support PSYNC or is in error state (reply: -NOAUTH Authentication required.)"
    );
    assert!(told[1].contains("set primaryauth"), "{told:?}");
    assert!(!hints(b"-ERR no\r\n").iter().any(|line| line.contains("primaryauth")));
}

#[test]
fn what_a_primary_does_not_understand_of_an_introduction_is_no_obstacle() {
    let mut bed = Bed::open();
    bed.receive(b"+PONG\r\n");
    let asked = bed.receive(b"-ERR unknown\r\n-ERR unknown\r\n-ERR unknown\r\n");
    assert_eq!(sent(&asked), "PSYNC ? -1");
}

#[test]
fn a_full_synchronisation_goes_by_disk_and_ends_in_the_stream() {
    let mut bed = Bed::asking(None);
    assert_eq!(bed.receive(format!("\n+FULLRESYNC {ID} 17\r\n").as_bytes()), []);
    assert_eq!(bed.link.state(), LinkState::Transfer);
    assert_eq!(bed.receive(b"\n\n"), [], "the primary makes the snapshot");
    assert_eq!(bed.receive(b"\n$5\r\n"), [Order(TransportOrder::Receive(b"$5\r\n".to_vec()))]);
    let attempt = bed.link.attempt();
    assert_eq!(bed.deeds(Input::Saved(attempt)), [Decision(LinkDecision::Commit)]);
    assert_eq!(bed.deeds(Input::InForce(attempt)), [Decision(LinkDecision::Load)]);
    assert_eq!(
        bed.deeds(Input::Loaded(attempt)),
        [
            Decision(LinkDecision::Adopt(point(17))),
            Order(TransportOrder::Stream(Vec::new())),
            Decision(LinkDecision::Acknowledge)
        ]
    );
    assert_eq!(bed.link.state(), LinkState::Connected);
}

#[test]
fn bytes_of_the_snapshot_that_came_with_the_answer_are_not_lost() {
    let mut bed = Bed::asking(None);
    let outputs = bed.receive(format!("+FULLRESYNC {ID} 17\r\n$5\r\nVAL").as_bytes());
    assert_eq!(outputs, [Order(TransportOrder::Receive(b"$5\r\nVAL".to_vec()))]);
}

#[test]
fn a_partial_resynchronisation_goes_on_with_what_came_behind_the_answer() {
    let mut bed = Bed::open();
    bed.resume = Some(point(41));
    bed.receive(b"+PONG\r\n");
    let asked = bed.receive(b"+OK\r\n+OK\r\n+OK\r\n");
    assert_eq!(sent(&asked), format!("PSYNC {ID} 42"));
    let outputs = bed.receive(b"+CONTINUE\r\n*1\r\n");
    let expected = [
        Decision(LinkDecision::Continue(None)),
        Order(TransportOrder::Stream(b"*1\r\n".to_vec())),
        Decision(LinkDecision::Acknowledge),
    ];
    assert_eq!(outputs, expected);
    let mut bed = Bed::asking(Some(point(41)));
    let outputs = bed.receive(format!("+CONTINUE {OTHER_ID}\r\n").as_bytes());
    assert_eq!(outputs[0], Decision(LinkDecision::Continue(Some(OTHER_ID.to_owned()))));
}

#[test]
fn a_continuation_that_nobody_asked_for_is_refused() {
    let mut bed = Bed::asking(None);
    assert_eq!(bed.receive(b"+CONTINUE\r\n"), [Order(TransportOrder::Close)]);
}

#[test]
fn nonsense_for_an_answer_ends_the_attempt() {
    for answer in ["+FULLRESYNC x 1\r\n", "+FULLRESYNC\r\n", "-ERR no\r\n", "hello\r\n", "-LOADING x\r\n"] {
        let mut bed = Bed::asking(None);
        assert_eq!(bed.receive(answer.as_bytes()), [Order(TransportOrder::Close)], "{answer}");
    }
    let mut bed = Bed::asking(None);
    assert_eq!(
        bed.receive(format!("+FULLRESYNC {ID} {}\r\n", u64::MAX).as_bytes()),
        [Order(TransportOrder::Close)]
    );
    let mut bed = Bed::asking(None);
    assert_eq!(bed.receive(&[b'x'; 20_000]), [Order(TransportOrder::Close)]);
}

#[test]
fn an_old_primary_is_asked_by_sync() {
    let mut bed = Bed::asking(None);
    assert_eq!(sent(&bed.receive(b"-ERR unknown command 'PSYNC'\r\n")), "SYNC");
    assert_eq!(bed.link.state(), LinkState::Transfer);
}

#[test]
fn d1_what_comes_of_an_attempt_before_is_ignored() {
    let mut bed = Bed::receiving();
    let old = bed.link.attempt();
    let other = Primary { port: 6380, ..primary() };
    bed.link = ReplicaLink::new(other.clone(), 3, old);
    assert_eq!(bed.deeds(Input::Tick), [Order(TransportOrder::Connect(old + 2, other))]);
    for input in
        [Input::Saved(old), Input::InForce(old), Input::Failed(old, SyncFailure::Transfer), Input::Ended(old)]
    {
        assert_eq!(bed.step(input.clone()), [], "{input:?}");
    }
    assert_eq!(bed.link.state(), LinkState::Connecting);
}

#[test]
fn d3_a_link_says_from_when_on_it_must_not_be_given_up() {
    let mut bed = Bed::receiving();
    let attempt = bed.link.attempt();
    assert!(!bed.link.is_committed() && bed.link.is_under_way());
    bed.deeds(Input::Saved(attempt));
    assert!(bed.link.is_committed());
    assert_eq!(bed.deeds(Input::InForce(attempt)), [Decision(LinkDecision::Load)]);
    assert!(bed.link.is_committed());
    let outputs = bed.deeds(Input::Loaded(attempt));
    assert_eq!(outputs[0], Decision(LinkDecision::Adopt(point(17))));
    assert!(!bed.link.is_committed());
}

#[test]
fn no_attempt_begins_while_data_are_loaded() {
    let mut bed = Bed::new();
    bed.may_connect = false;
    assert_eq!((bed.after(10 * SECOND), bed.link.is_under_way()), (vec![], false));
    bed.may_connect = true;
    assert!(matches!(bed.deeds(Input::Tick)[..], [Order(TransportOrder::Connect(..))]));
}

#[test]
fn d7_a_silent_primary_is_given_up_in_every_state() {
    for (name, mut bed) in [
        ("handshake", Bed::open()),
        ("awaited", {
            let mut bed = Bed::asking(None);
            bed.receive(format!("+FULLRESYNC {ID} 17\r\n").as_bytes());
            bed
        }),
        ("receiving", Bed::receiving()),
        ("connected", Bed::connected()),
    ] {
        let before = bed.link.attempt();
        bed.now_ns += TIMEOUT;
        let still = bed.deeds(Input::Tick);
        assert!(!still.contains(&Order(TransportOrder::Close)), "{name}: {still:?}");
        assert!(bed.after(1).contains(&Order(TransportOrder::Close)), "{name}");
        assert_ne!(bed.link.attempt(), before, "{name}");
    }
}

#[test]
fn d7_a_primary_that_sends_is_not_silent() {
    let mut bed = Bed::receiving();
    for _ in 0..10 {
        bed.last_activity_ns = bed.now_ns;
        assert_eq!(bed.after(TIMEOUT), []);
    }
    assert_eq!(bed.link.state(), LinkState::Transfer);
}

#[test]
fn a_load_has_no_bound_and_tells_the_primary_each_second_that_it_lives() {
    let mut bed = Bed::loading();
    for _ in 0..200 {
        assert_eq!(bed.after(SECOND), [Order(TransportOrder::KeepAlive)]);
    }
    assert_eq!(bed.after(SECOND / 2), []);
}

#[test]
fn offsets_are_acknowledged_each_second() {
    let mut bed = Bed::connected();
    assert_eq!(bed.after(SECOND / 2), []);
    assert_eq!(bed.after(SECOND / 2), [Decision(LinkDecision::Acknowledge)]);
    assert_eq!(bed.after(SECOND), [Decision(LinkDecision::Acknowledge)]);
}

/// CLIENT KILL may cut the link at the primary, and then again at the replica. The link must be made again at
/// once each time, so that a FAILOVER TO this replica does not find the replica disconnected.
#[test]
fn a_lost_link_is_made_again_at_once_though_it_was_lost_before() {
    let mut bed = Bed::connected();
    bed.now_ns += SECOND;
    bed.resume = Some(point(17));
    for loss in 0..3 {
        let attempt = bed.link.attempt();
        let outputs = bed.deeds(Input::Ended(attempt));
        assert_eq!(
            outputs,
            [Order(TransportOrder::Close), Order(TransportOrder::Connect(attempt + 2, primary()))],
            "{loss}"
        );
        bed.go_on();
    }
}

#[test]
fn a_link_that_is_lost_as_soon_as_it_is_up_is_made_later() {
    let mut bed = Bed::connected();
    bed.resume = Some(point(17));
    let mut paused = 0;
    for _ in 0..20 {
        let attempt = bed.link.attempt();
        if bed.deeds(Input::Ended(attempt)) == [Order(TransportOrder::Close)] {
            paused += 1;
            assert_eq!(bed.after(SECOND / 4), []);
            assert!(matches!(bed.after(SECOND)[..], [Order(TransportOrder::Connect(..))]));
        }
        bed.go_on();
    }
    assert_eq!(paused, 15);
}

#[test]
fn failed_synchronisations_are_tried_again_later_and_later() {
    let mut bed = Bed::asking(None);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        bed.receive(format!("+FULLRESYNC {ID} 17\r\n$5\r\n").as_bytes());
        let attempt = bed.link.attempt();
        assert_eq!(bed.deeds(Input::Failed(attempt, SyncFailure::Transfer)), [Order(TransportOrder::Close)]);
        let failed_ns = bed.now_ns;
        let mut connect = Vec::new();
        while connect.is_empty() {
            connect = bed.after(SECOND / 100);
        }
        pauses.push((bed.now_ns - failed_ns) / 1_000_000);
        let attempt = bed.link.attempt();
        bed.deeds(Input::Opened(attempt));
        bed.receive(b"+PONG\r\n");
        bed.receive(b"+OK\r\n+OK\r\n+OK\r\n");
    }
    assert!(pauses[0] <= 510, "{pauses:?}");
    assert!(pauses[8] >= 32_000, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= 64_010), "{pauses:?}");
}

#[test]
fn a_primary_that_cannot_be_reached_is_tried_within_a_second() {
    let mut bed = Bed::new();
    bed.deeds(Input::Tick);
    for _ in 0..20 {
        let attempt = bed.link.attempt();
        assert_eq!(bed.deeds(Input::Refused(attempt, "Connection refused")), [Order(TransportOrder::Close)]);
        assert!(matches!(bed.after(SECOND)[..], [Order(TransportOrder::Connect(..))]));
    }
}

#[test]
fn any_order_of_inputs_is_survived() {
    let mut rng = sluice_base::Rng::new(11);
    for seed in 0..200 {
        let mut bed = Bed::new();
        bed.link = ReplicaLink::new(primary(), seed, 0);
        for _ in 0..200 {
            let attempt = bed.link.attempt() - rng.below(2).min(bed.link.attempt());
            let text = format!("+FULLRESYNC {ID} 1\r\n$3\r\n");
            let input = match rng.below(14) {
                2 => Input::Opened(attempt),
                3 => Input::Refused(attempt, "no"),
                4 => Input::Received(attempt, text.as_bytes()),
                5 => Input::Received(attempt, b"+PONG\r\n"),
                6 => Input::Received(attempt, b"+OK\r\n+OK\r\n"),
                7 if rng.below(4) == 0 => Input::Ended(attempt),
                8 => Input::Saved(attempt),
                9 => Input::InForce(attempt),
                10 => Input::Loaded(attempt),
                11 if rng.below(4) == 0 => Input::Failed(attempt, SyncFailure::Transfer),
                12 => Input::Accepted(attempt),
                _ => Input::Tick,
            };
            bed.now_ns += rng.below(SECOND);
            bed.last_activity_ns = bed.now_ns;
            bed.may_connect = rng.below(4) > 0;
            let was_committed = bed.link.is_committed();
            let outputs = bed.step(input.clone());
            let gives_up = outputs.contains(&Order(TransportOrder::Close));
            let may_give_up = matches!(input, Input::Loaded(_) | Input::Failed(..));
            assert!(!was_committed || !gives_up || may_give_up, "D-3: {input:?} {outputs:?}");
        }
    }
}

/// A link to the replica that is to take over the role, and the outputs of the request for the data.
fn handing_over() -> (Bed, Vec<LinkOutput>) {
    let mut bed = Bed::new();
    bed.resume = Some(HistoryPoint { replid: ID.to_owned(), offset: 17 });
    bed.link = ReplicaLink::new(primary(), 3, 0).handing_over();
    bed.deeds(Input::Tick);
    let attempt = bed.link.attempt();
    bed.deeds(Input::Opened(attempt));
    bed.receive(b"+PONG\r\n");
    let asked = bed.receive(b"+OK\r\n+OK\r\n+OK\r\n");
    (bed, asked)
}

#[test]
fn the_request_for_the_data_hands_the_role_over() {
    let (mut bed, asked) = handing_over();
    let words = format!("*4\r\n$5\r\nPSYNC\r\n$40\r\n{ID}\r\n$2\r\n18\r\n$8\r\nFAILOVER\r\n");
    assert_eq!(asked, [Order(TransportOrder::Send(words.into_bytes()))]);
    let outputs = bed.receive(format!("+CONTINUE {OTHER_ID}\r\n").as_bytes());
    let renamed = Decision(LinkDecision::Continue(Some(OTHER_ID.to_owned())));
    assert_eq!(outputs[..2], [Decision(LinkDecision::HandedOver), renamed]);
    assert_eq!(bed.link.state(), LinkState::Connected);
}

#[test]
fn a_refusal_to_take_over_is_told_once_and_nothing_is_tried_again() {
    for refusal in ["-NOPERM no", "-ERR unknown command 'PSYNC'", "-NOMASTERLINK later", "+what"] {
        let (mut bed, _) = handing_over();
        assert_eq!(
            bed.receive(format!("{refusal}\r\n").as_bytes()),
            [Decision(LinkDecision::NotHandedOver)],
            "{refusal}"
        );
        assert_eq!(bed.after(SECOND), []);
    }
}

#[test]
fn a_target_that_cannot_be_reached_is_asked_to_take_over_when_it_can() {
    let mut bed = Bed::new();
    bed.resume = Some(HistoryPoint { replid: ID.to_owned(), offset: 17 });
    bed.link = ReplicaLink::new(primary(), 3, 0).handing_over();
    bed.deeds(Input::Tick);
    let attempt = bed.link.attempt();
    bed.deeds(Input::Refused(attempt, "Connection refused"));
    assert!(matches!(bed.after(SECOND)[..], [Order(TransportOrder::Connect(..))]));
    let attempt = bed.link.attempt();
    bed.deeds(Input::Opened(attempt));
    bed.receive(b"+PONG\r\n");
    let asked = bed.receive(b"+OK\r\n+OK\r\n+OK\r\n");
    assert!(
        matches!(&asked[..], [Order(TransportOrder::Send(bytes))] if bytes.ends_with(b"FAILOVER\r\n")),
        "{asked:?}"
    );
    assert_eq!(
        bed.receive(format!("+FULLRESYNC {ID} 17\r\n").as_bytes()),
        [Decision(LinkDecision::HandedOver)]
    );
    // The next attempt connects as a plain replica.
    let attempt = bed.link.attempt();
    bed.deeds(Input::Ended(attempt));
    bed.after(2 * SECOND);
    let attempt = bed.link.attempt();
    bed.deeds(Input::Opened(attempt));
    bed.receive(b"+PONG\r\n");
    let asked = bed.receive(b"+OK\r\n+OK\r\n+OK\r\n");
    assert!(
        matches!(&asked[..], [Order(TransportOrder::Send(bytes))] if !bytes.ends_with(b"FAILOVER\r\n")),
        "{asked:?}"
    );
}
