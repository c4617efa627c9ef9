//! Tests of a snapshot that arrives on a connection of its own.

use super::*;
use LinkOutput::{Decision, Order};

const CLIENT: &str = "23";

impl Bed {
    /// A link whose primary wants to send the snapshot on another connection.
    fn introduced() -> Bed {
        let mut bed = Bed::open();
        bed.dual_channel = true;
        bed.receive(b"+PONG\r\n");
        bed.receive(b"+OK\r\n+OK\r\n+OK\r\n");
        let attempt = bed.link.attempt();
        assert_eq!(
            bed.receive(b"+DUALCHANNELSYNC\r\n"),
            [Order(TransportOrder::ConnectSecond(attempt, primary()))]
        );
        assert_eq!(bed.link.state(), LinkState::Handshake);
        bed
    }

    /// A link with two channels that knows the snapshot's position.
    fn positioned() -> Bed {
        let mut bed = Bed::introduced();
        let attempt = bed.link.attempt();
        bed.deeds(Input::Opened(attempt));
        assert_eq!(bed.receive(b"+OK\r\n"), [Order(TransportOrder::Send(b"SYNC\r\n".to_vec()))]);
        let outputs = bed.receive(format!("\n\n$ENDOFF:17 {ID} 0 {CLIENT}\r\n").as_bytes());
        let [Order(TransportOrder::SendMain(bytes))] = &outputs[..] else { panic!("{outputs:?}") };
        assert_eq!(words(bytes), "REPLCONF set-rdb-client-id 23");
        assert_eq!(bed.link.point(), Some(&point(17)));
        bed
    }

    fn main(&mut self, bytes: &[u8]) -> Vec<LinkOutput> {
        let attempt = self.link.attempt();
        self.deeds(Input::MainReceived(attempt, bytes))
    }

    fn end_main(&mut self) -> Vec<LinkOutput> {
        let attempt = self.link.attempt();
        self.deeds(Input::MainEnded(attempt))
    }

    fn accept_main(&mut self) -> Vec<LinkOutput> {
        let outputs = self.main(b"+OK\r\n");
        let [Order(TransportOrder::SendMain(bytes))] = &outputs[..] else { panic!("{outputs:?}") };
        assert_eq!(words(bytes), format!("PSYNC {ID} 18"));
        self.main(format!("+CONTINUE {ID}\r\n*1\r\n").as_bytes())
    }

    fn receive_snapshot(&mut self) {
        assert_eq!(self.receive(b"\n$5\r\nR"), [Order(TransportOrder::Receive(b"$5\r\nR".to_vec()))]);
        self.last_activity_ns = self.now_ns;
    }

    fn commit(&mut self) {
        let attempt = self.link.attempt();
        assert_eq!(self.deeds(Input::Saved(attempt)), [Decision(LinkDecision::Commit)]);
        assert_eq!(self.deeds(Input::InForce(attempt)), [Decision(LinkDecision::Load)]);
    }

    fn load(&mut self) -> Vec<LinkOutput> {
        let attempt = self.link.attempt();
        self.deeds(Input::Loaded(attempt))
    }
}

fn words(bytes: &[u8]) -> String {
    sent(&[Order(TransportOrder::Send(bytes.to_vec()))])
}

/// Whether the attempt was given up and the next one is due after a pause.
fn is_given_up(bed: &Bed, outputs: &[LinkOutput]) -> bool {
    outputs == [Order(TransportOrder::Close)] && bed.link.state() == LinkState::Connect
}

#[test]
fn it_is_asked_for_only_where_it_is_enabled() {
    for dual_channel in [false, true] {
        let mut bed = Bed::open();
        bed.dual_channel = dual_channel;
        let outputs = bed.receive(b"+PONG\r\n");
        assert_eq!(sent(&outputs).contains("capa dual-channel"), dual_channel);
        bed.receive(b"+OK\r\n+OK\r\n+OK\r\n");
        let outputs = bed.receive(b"+DUALCHANNELSYNC\r\n");
        assert_eq!(
            matches!(outputs[..], [Order(TransportOrder::ConnectSecond(..))]),
            dual_channel,
            "{outputs:?}"
        );
    }
}

#[test]
fn the_second_connection_introduces_itself() {
    let mut bed = Bed::introduced();
    bed.password = Some(b"secret");
    bed.address = b"5.5.5.5";
    let attempt = bed.link.attempt();
    let outputs = bed.deeds(Input::Opened(attempt));
    let introduction =
        "REPLCONF capa eof rdb-only 1 rdb-channel 1 ip-address 5.5.5.5 listening-port 7000 version 9.1.2";
    assert_eq!(sent(&outputs), format!("AUTH secret {introduction}"));
    assert_eq!(bed.receive(b"+OK\r\n"), []);
    assert_eq!(bed.receive(b"+OK\r\n"), [Order(TransportOrder::Send(b"SYNC\r\n".to_vec()))]);
}

#[test]
fn the_stream_is_buffered_while_the_snapshot_comes_and_executed_behind_it() {
    let mut bed = Bed::positioned();
    assert_eq!(bed.accept_main(), [Order(TransportOrder::Buffer(b"*1\r\n".to_vec()))]);
    bed.receive_snapshot();
    bed.commit();
    let expected = [
        Decision(LinkDecision::Adopt(point(17))),
        Order(TransportOrder::Stream(Vec::new())),
        Decision(LinkDecision::Acknowledge),
    ];
    assert_eq!(bed.load(), expected);
    assert_eq!(bed.link.state(), LinkState::Connected);
}

#[test]
fn the_snapshot_may_be_loaded_before_the_primary_has_answered() {
    let mut bed = Bed::positioned();
    bed.receive_snapshot();
    bed.commit();
    assert_eq!(bed.load(), [Decision(LinkDecision::Adopt(point(17)))]);
    assert_eq!(bed.link.state(), LinkState::Transfer);
    let expected = [
        Order(TransportOrder::Buffer(b"*1\r\n".to_vec())),
        Order(TransportOrder::Stream(Vec::new())),
        Decision(LinkDecision::Acknowledge),
    ];
    assert_eq!(bed.accept_main(), expected);
    assert_eq!(bed.link.state(), LinkState::Connected);
}

#[test]
fn a_primary_that_never_answers_is_left_after_the_timeout() {
    for steps in 0..3 {
        let mut bed = if steps == 0 { Bed::introduced() } else { Bed::positioned() };
        if steps == 2 {
            bed.receive_snapshot();
            bed.commit();
            bed.load();
        }
        assert_eq!(bed.after(TIMEOUT), [], "{steps}");
        let outputs = bed.after(1);
        assert!(is_given_up(&bed, &outputs), "{steps}: {outputs:?}");
    }
}

#[test]
fn an_id_that_has_changed_is_adopted() {
    let mut bed = Bed::positioned();
    bed.main(b"+OK\r\n");
    bed.main(format!("+CONTINUE {OTHER_ID}\r\n").as_bytes());
    bed.receive_snapshot();
    bed.commit();
    let renamed = HistoryPoint { replid: OTHER_ID.to_owned(), offset: 17 };
    assert_eq!(bed.load()[0], Decision(LinkDecision::Adopt(renamed)));
    let mut late = Bed::positioned();
    late.receive_snapshot();
    late.commit();
    assert_eq!(late.load(), [Decision(LinkDecision::Adopt(point(17)))]);
    late.main(b"+OK\r\n");
    let outputs = late.main(format!("+CONTINUE {OTHER_ID}\r\n").as_bytes());
    assert_eq!(outputs[1], Decision(LinkDecision::Continue(Some(OTHER_ID.to_owned()))));
}

#[test]
fn what_the_primary_refuses_ends_the_attempt() {
    for answer in ["-ERR unknown\r\n", "-NOAUTH\r\n"] {
        let mut bed = Bed::introduced();
        let attempt = bed.link.attempt();
        bed.deeds(Input::Opened(attempt));
        let outputs = bed.receive(answer.as_bytes());
        assert!(is_given_up(&bed, &outputs), "{answer}: {outputs:?}");
    }
    for answer in ["+FULLRESYNC x 1", "$ENDOFF:1", "$ENDOFF:x y 0 1", "$ENDOFF:-1 ID 0 1", "$EOF:1"] {
        let mut bed = Bed::introduced();
        let attempt = bed.link.attempt();
        bed.deeds(Input::Opened(attempt));
        bed.receive(b"+OK\r\n");
        let outputs = bed.receive(format!("{}\r\n", answer.replace("ID", ID)).as_bytes());
        assert!(is_given_up(&bed, &outputs), "{answer}: {outputs:?}");
    }
    for answers in
        ["-ERR Unrecognized RDB client id 23\r\n", "+OK\r\n-ERR no\r\n", "+OK\r\n+DUALCHANNELSYNC\r\n"]
    {
        let mut bed = Bed::positioned();
        let outputs = bed.main(answers.as_bytes());
        assert_eq!(outputs.last(), Some(&Order(TransportOrder::Close)), "{answers}");
        assert_eq!(bed.link.state(), LinkState::Connect, "{answers}");
    }
    let mut bed = Bed::introduced();
    let attempt = bed.link.attempt();
    let outputs = bed.deeds(Input::Refused(attempt, "Connection refused"));
    assert!(is_given_up(&bed, &outputs));
}

#[test]
fn lines_without_end_are_refused() {
    let long = vec![b'x'; 20_000];
    let mut bed = Bed::introduced();
    let attempt = bed.link.attempt();
    bed.deeds(Input::Opened(attempt));
    let outputs = bed.receive(&long);
    assert!(is_given_up(&bed, &outputs));
    let mut bed = Bed::positioned();
    let outputs = bed.main(&long);
    assert!(is_given_up(&bed, &outputs));
}

#[test]
fn either_connection_ends_the_attempt_before_the_file_is_committed() {
    let mut introduced = Bed::introduced();
    let outputs = introduced.end_main();
    assert!(is_given_up(&introduced, &outputs));
    let mut positioned = Bed::positioned();
    positioned.accept_main();
    let attempt = positioned.link.attempt();
    let outputs = positioned.deeds(Input::Ended(attempt));
    assert!(is_given_up(&positioned, &outputs));
    let mut receiving = Bed::positioned();
    receiving.accept_main();
    receiving.receive_snapshot();
    let outputs = receiving.end_main();
    assert!(is_given_up(&receiving, &outputs));
}

/// If the main channel ends after the commit, the file is still loaded, and its data can be brought up to
/// date from their position.
#[test]
fn a_main_channel_that_ends_behind_the_commit_costs_no_snapshot() {
    let mut bed = Bed::positioned();
    bed.accept_main();
    bed.receive_snapshot();
    bed.commit();
    assert_eq!(bed.end_main(), []);
    let expected = [
        Decision(LinkDecision::Adopt(point(17))),
        Order(TransportOrder::Stream(Vec::new())),
        Decision(LinkDecision::Acknowledge),
    ];
    assert_eq!(bed.load(), expected, "what was buffered is executed, and the end is met behind it");
    let mut unanswered = Bed::positioned();
    unanswered.receive_snapshot();
    unanswered.commit();
    assert_eq!(unanswered.end_main(), []);
    assert_eq!(unanswered.load(), [Decision(LinkDecision::Adopt(point(17))), Order(TransportOrder::Close)]);
    assert_eq!(unanswered.link.state(), LinkState::Connect);
}

#[test]
fn the_primary_is_told_each_second_that_this_server_lives() {
    let mut bed = Bed::positioned();
    bed.accept_main();
    bed.receive_snapshot();
    assert_eq!(bed.after(SECOND / 2), []);
    assert_eq!(bed.after(SECOND / 2), [Order(TransportOrder::KeepAlive)]);
    bed.commit();
    assert_eq!(bed.after(SECOND), [Order(TransportOrder::KeepAlive)]);
}

#[test]
fn inputs_of_an_attempt_that_was_given_up_are_ignored() {
    let mut bed = Bed::positioned();
    let attempt = bed.link.attempt();
    bed.deeds(Input::Ended(attempt));
    assert_eq!(bed.deeds(Input::MainReceived(attempt, b"+OK\r\n")), []);
    assert_eq!(bed.deeds(Input::MainEnded(attempt)), []);
    assert_eq!(bed.link.state(), LinkState::Connect);
}
