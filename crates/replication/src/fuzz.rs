//! Entry point of a fuzzer that sends a replica arbitrary bytes as its primary.

use crate::{
    Framing, HistoryPoint, Input, LinkDecision, LinkOutput, LinkState, Primary, ReplicaLink, Surroundings,
    TransportOrder,
};
use std::convert::Infallible;

/// Simulates a primary that sends `data` without its first byte. The first byte sets the size of the pieces
/// in which the other bytes arrive, whether the replica has data of a history, and the capabilities that
/// the replica announces.
pub fn fuzz_primary(data: &[u8]) {
    let Some((how, said)) = data.split_first() else { return };
    let point = HistoryPoint { replid: "a".repeat(40), offset: u64::from(*how) };
    let mut around = Surroundings {
        now_ns: 0,
        timeout_ns: 1_000_000_000,
        last_activity_ns: 0,
        credentials: None,
        port: 1,
        address: b"",
        node_id: None,
        version: "9.0.0",
        resume: (how & 1 > 0).then_some(&point),
        dual_channel: how & 2 > 0,
        skips_checksum: how & 4 > 0,
        codecs: if how & 8 > 0 { &[b"lz4", b"zstd"] } else { &[] },
        may_connect: true,
    };
    let primary = Primary { host: "primary".to_owned(), port: 1 };
    let mut link = ReplicaLink::new(primary, 7, 0);
    link.step(Input::Tick, &around);
    link.step(Input::Opened(link.attempt()), &around);
    link.take_outputs();
    for piece in said.chunks(1 + usize::from(how >> 1)) {
        around.now_ns += 1_000;
        let attempt = link.attempt();
        link.step(Input::Received(attempt, piece), &around);
        link.step(Input::Tick, &around);
        for output in link.take_outputs() {
            match output {
                // The requests of the link have a bounded size, because they do not repeat the primary's
                // bytes.
                LinkOutput::Order(TransportOrder::Send(bytes)) => assert!(bytes.len() < 1000),
                LinkOutput::Decision(LinkDecision::Log(_, line)) => assert!(line.len() < 2000),
                LinkOutput::Order(TransportOrder::Receive(first)) => {
                    unframe(&first, 1 + usize::from(how >> 1));
                    assert_eq!(link.state(), LinkState::Transfer);
                }
                LinkOutput::Order(TransportOrder::Stream(rest)) => {
                    assert!(rest.len() <= said.len() && link.state() == LinkState::Connected)
                }
                _ => {}
            }
        }
    }
    link.step(Input::Ended(link.attempt()), &around);
}

/// Checks that the framing never yields more bytes than have arrived.
fn unframe(bytes: &[u8], piece: usize) {
    let (mut framing, mut given, mut extent) = (Framing::default(), 0, None);
    for mut piece in bytes.chunks(piece) {
        if extent.is_none() {
            let Ok((used, found)) = framing.line(piece) else { return };
            (piece, extent) = (&piece[used..], found);
        }
        assert!(framing.welcome(10) <= 10);
        let mut give = |bytes: &[u8]| {
            given += bytes.len();
            Ok::<(), Infallible>(())
        };
        framing.payload(piece, &mut give).unwrap_or(0);
    }
    assert!(given <= bytes.len());
}
