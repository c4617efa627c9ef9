//! Tests of messages in a stream that is split in different ways.

use crate::drawn::Drawn;
use crate::golden::MESSAGES;
use crate::messages::mutate;
use sluice_base::Rng;
use sluice_cluster::NodeId;
use sluice_cluster::wire::{BUFFER_MIN, MESSAGE_MAX, MessagePrefix, ReceiveBuffer, ReceivedMessage, write};

/// The greatest length of a published message that is received whole.
const PUBLISHED_MAX: usize = 100_000;

/// A text for each item that is received from `stream`, when the stream is split into pieces of the lengths
/// that `piece` returns.
fn receive(
    stream: &[u8],
    mut piece: impl FnMut() -> usize,
    is_known: impl Fn(Option<NodeId>) -> bool,
) -> Vec<String> {
    let mut buffer = ReceiveBuffer::new();
    let (mut out, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let (mut input, behind) = rest.split_at(piece().clamp(1, rest.len()));
        rest = behind;
        while let Some(received) = buffer.next(&mut input, PUBLISHED_MAX, &is_known) {
            out.push(match received {
                ReceivedMessage::BusMessage(bytes) => format!(
                    "{:x}",
                    bytes.iter().fold(bytes.len() as u64, |hash, byte| {
                        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
                    })
                ),
                ReceivedMessage::PassedOver(prefix) => format!("{prefix:?}"),
                ReceivedMessage::Bad(_) => "bad".to_owned(),
            });
        }
        assert!(input.is_empty(), "what was given is taken");
        assert!(buffer.memory() <= 2 * stream.len() + BUFFER_MIN);
    }
    out
}

fn all_splits_agree(
    stream: &[u8],
    rng: &mut Rng,
    is_known: impl Fn(Option<NodeId>) -> bool + Copy,
) -> Vec<String> {
    let whole = receive(stream, || usize::MAX, is_known);
    for length in [1, 13, 14, 15, 16, 79, 80, 81, 1_000] {
        assert_eq!(receive(stream, || length, is_known), whole, "in pieces of {length} bytes");
    }
    assert_eq!(receive(stream, || rng.below(3_000) as usize, is_known), whole);
    whole
}

#[test]
fn cl_x9_messages_come_out_at_any_split() {
    let mut rng = Rng::new(1);
    let stream: Vec<u8> = MESSAGES.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    assert_eq!(all_splits_agree(&stream, &mut rng, |_| true).len(), MESSAGES.len());
    for _ in 0..10 {
        let mut stream = Vec::new();
        for _ in 0..10 {
            write(&Drawn::new(&mut rng).message(), &mut stream).unwrap();
        }
        assert_eq!(all_splits_agree(&stream, &mut rng, |_| true).len(), 10);
    }
}

#[test]
fn cl_x2_published_messages_of_unknown_senders_are_passed_over() {
    let mut rng = Rng::new(2);
    let light = MESSAGES.iter().filter(|(name, _)| name.starts_with("publish")).map(|(_, bytes)| *bytes);
    let stream: Vec<u8> = light.chain([MESSAGES[0].1]).flatten().copied().collect();
    let out = all_splits_agree(&stream, &mut rng, |_| false);
    assert!(out[..3].iter().all(|line| line.starts_with("MessagePrefix")), "{out:?}");
    assert_eq!(out.len(), 4);
    assert!(!out[3].starts_with("MessagePrefix"), "a MEET of an unknown sender is kept");
    // A full header names the sender.
    let drawn = std::iter::repeat_with(|| Drawn::new(&mut rng));
    let mut stream = Vec::new();
    let mut sender = None;
    for drawn in drawn.take(200) {
        use sluice_cluster::wire::{BusMessage, MessageBody};
        if let message @ BusMessage::Full(header, MessageBody::Publish(_)) = &drawn.message() {
            sender = Some(header.sender);
            write(message, &mut stream).unwrap();
        }
    }
    let out = all_splits_agree(&stream, &mut Rng::new(3), |other| other == sender);
    let kept = out.iter().filter(|line| !line.starts_with("MessagePrefix")).count();
    assert_eq!(kept, 1, "the last one's sender is known: {out:?}");
    assert!(out.len() > 3);
}

#[test]
fn cl_x2_lengths_beyond_the_bounds_are_passed_over_without_memory() {
    let mut too_long = MESSAGES[0].1.to_vec();
    too_long[4..8].copy_from_slice(&(MESSAGE_MAX as u32 + 1).to_be_bytes());
    let mut published = MESSAGES.iter().find(|(name, _)| *name == "publish-light").unwrap().1.to_vec();
    published[4..8].copy_from_slice(&(PUBLISHED_MAX as u32 + 1).to_be_bytes());
    for bytes in [too_long, published] {
        let mut buffer = ReceiveBuffer::new();
        let length = u32::from_be_bytes(bytes[4..8].try_into().unwrap()) as usize;
        let chunk = vec![0_u8; 10_000];
        let mut input = &bytes[..];
        assert_eq!(buffer.next(&mut input, PUBLISHED_MAX, |_| true), None);
        let mut left = length - bytes.len();
        while left > 0 {
            assert!(buffer.memory() <= BUFFER_MIN);
            let mut input = &chunk[..left.min(chunk.len())];
            left -= input.len();
            match buffer.next(&mut input, PUBLISHED_MAX, |_| true) {
                None => assert!(left > 0),
                Some(ReceivedMessage::PassedOver(prefix)) => {
                    assert_eq!((prefix.length as usize, left), (length, 0))
                }
                other => panic!("{other:?}"),
            }
        }
        // The next message is received as usual.
        let mut input = MESSAGES[0].1;
        assert_eq!(
            buffer.next(&mut input, PUBLISHED_MAX, |_| true),
            Some(ReceivedMessage::BusMessage(MESSAGES[0].1))
        );
    }
}

#[test]
fn cl_x2_memory_follows_what_came_and_is_given_back() {
    let mut bytes = MESSAGES[0].1.to_vec();
    bytes[4..8].copy_from_slice(&(6_000_000_u32).to_be_bytes());
    bytes.resize(6_000_000, 0);
    let mut buffer = ReceiveBuffer::new();
    for (index, chunk) in bytes.chunks(4_000).enumerate() {
        let mut input = chunk;
        let received = buffer.next(&mut input, PUBLISHED_MAX, |_| true);
        let so_far = (index + 1) * 4_000;
        assert_eq!(received.is_some(), so_far >= bytes.len());
        assert!(buffer.memory() <= so_far * 2, "{} bytes after {so_far}", buffer.memory());
    }
    assert_eq!(buffer.next(&mut &[][..], PUBLISHED_MAX, |_| true), None);
    assert!(buffer.memory() <= BUFFER_MIN);
}

#[test]
fn cl_x9_what_is_no_message_closes_the_connection_at_fourteen_bytes() {
    let golden = MESSAGES[0].1;
    for (at, byte) in [(0, b'r'), (6, 7)] {
        let mut bytes = golden.to_vec();
        bytes[at] = byte;
        let mut buffer = ReceiveBuffer::new();
        let mut input = &bytes[..13];
        assert_eq!(buffer.next(&mut input, PUBLISHED_MAX, |_| true), None);
        let mut input = &bytes[13..14];
        assert!(matches!(buffer.next(&mut input, PUBLISHED_MAX, |_| true), Some(ReceivedMessage::Bad(_))));
        let mut input = golden;
        assert_eq!(buffer.next(&mut input, PUBLISHED_MAX, |_| true), None, "nothing comes after");
        assert!(input.is_empty());
    }
    let mut light = [0; 16];
    light[..4].copy_from_slice(b"RCmb");
    light[7] = 15;
    light[12] = 0x80;
    assert!(matches!(MessagePrefix::of(&light), Some(Err(_))));
    light[7] = 16;
    assert_eq!(MessagePrefix::of(&light), Some(Ok(MessagePrefix { length: 16, number: 0, is_light: true })));
    assert_eq!(MessagePrefix::of(&light[..13]), None);
}

#[test]
fn cl_s40_any_bytes_at_any_split_come_to_the_same() {
    let mut rng = Rng::new(4);
    let mut bad = 0;
    for _ in 0..500 {
        let mut stream = Vec::new();
        for _ in 0..=rng.below(3) {
            let mut bytes = MESSAGES[rng.below(MESSAGES.len() as u64) as usize].1.to_vec();
            mutate(&mut bytes, &mut rng);
            stream.extend_from_slice(&bytes);
        }
        let whole = receive(&stream, || usize::MAX, |sender| sender.is_none());
        let split = receive(&stream, || 1 + rng.below(100) as usize, |sender| sender.is_none());
        assert_eq!(split, whole);
        bad += usize::from(whole.iter().any(|line| line == "bad"));
    }
    assert!(bad > 50, "{bad}");
}
