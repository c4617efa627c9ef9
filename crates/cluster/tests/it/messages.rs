//! Written messages are read back, and every rule about bad messages is tested.

use crate::drawn::Drawn;
use crate::golden::MESSAGES;
use sluice_base::Rng;
use sluice_cluster::wire::{
    AnnouncedLabels, Breach, BusMessage, Extension, ForgottenNode, GossipBuffer, HEADER_LEN, InvalidMessage,
    LIGHT_HEADER_LEN, LightBody, MessageBody, NodeFlags, PassedOver, parse, write,
};
use sluice_cluster::{ClusterEpoch, NodeId, ShardId};

fn golden(name: &str) -> Vec<u8> {
    MESSAGES.iter().find(|(other, _)| *other == name).unwrap().1.to_vec()
}

/// `bytes` with their length in the header.
fn sized(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = bytes.len() as u32;
    bytes[4..8].copy_from_slice(&length.to_be_bytes());
    bytes
}

fn refused(bytes: &[u8]) -> InvalidMessage {
    parse(bytes).expect_err("a message that breaks a rule")
}

fn gossip_of<'a>(message: &BusMessage<'a>) -> Option<sluice_cluster::wire::Gossip<'a>> {
    match message {
        BusMessage::Full(
            _,
            MessageBody::Ping(gossip) | MessageBody::Pong(gossip) | MessageBody::Meet(gossip),
        ) => Some(gossip.clone()),
        _ => None,
    }
}

#[test]
fn cl_x9_what_is_written_is_read_back() {
    let mut rng = Rng::new(7);
    let mut kinds = std::collections::BTreeSet::new();
    for _ in 0..3_000 {
        let drawn = Drawn::new(&mut rng);
        let message = drawn.message();
        let mut bytes = vec![0xaa; 3];
        write(&message, &mut bytes).unwrap();
        let read = parse(&bytes[3..]).unwrap_or_else(|invalid| panic!("{message:?}: {invalid}"));
        assert_eq!(read, message);
        kinds.insert((bytes[3 + 12], bytes[3 + 13].min(11)));
        let Some(gossip) = gossip_of(&read) else { continue };
        assert_eq!(gossip.entries().collect::<Vec<_>>(), drawn.entries);
        let extensions: Vec<_> = gossip.extensions().collect();
        let Some(announced) = drawn.announced else {
            assert_eq!(extensions, []);
            continue;
        };
        assert_eq!(extensions, expected_extensions(&announced, &drawn.forgotten));
    }
    assert_eq!(kinds.len(), 15, "each type, full and light: {kinds:?}");
}

fn expected_extensions<'a>(
    announced: &AnnouncedLabels<'a>,
    forgotten: &[ForgottenNode],
) -> Vec<Extension<'a>> {
    let some = |extension, is_there: bool| is_there.then_some(extension);
    let mut expected: Vec<_> = [
        some(Extension::HostName(announced.host_name), !announced.host_name.is_empty()),
        some(Extension::HumanName(announced.human_name), !announced.human_name.is_empty()),
        announced.client_ipv4.map(Extension::ClientIpv4),
        announced.client_ipv6.map(Extension::ClientIpv6),
        some(Extension::ClientPort(announced.client_port), announced.client_port != 0),
        some(Extension::ClientTlsPort(announced.client_tls_port), announced.client_tls_port != 0),
        some(
            Extension::AvailabilityZone(announced.availability_zone),
            !announced.availability_zone.is_empty(),
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    expected.extend(forgotten.iter().map(|entry| Extension::Forgotten(*entry)));
    expected.push(Extension::Shard(announced.shard));
    expected
}

#[test]
fn cl_x1_lengths_that_do_not_add_up_are_named_as_the_reference_names_them() {
    let mut bytes = golden("ping-all-names");
    let length = bytes.len();
    bytes[14..16].copy_from_slice(&9_u16.to_be_bytes());
    let invalid = refused(&bytes);
    let text = format!(
        "Received invalid ping packet with gossip count 9 that exceeds total packet length ({length})"
    );
    assert_eq!((invalid.at, invalid.rule(), invalid.to_string()), (14, "X-1", text));

    let mut longer = golden("meet-first");
    longer.push(0);
    let invalid = refused(&sized(longer));
    assert_eq!(invalid.to_string(), "Received invalid meet packet of length 2257 but expected length 2256");
    for (name, expected) in
        [("fail", 2296), ("auth-req-manual", 2256), ("auth-ack", 2256), ("mfstart", 2256), ("update", 4352)]
    {
        let bytes = golden(name);
        let mut shorter = bytes[..bytes.len() - 1].to_vec();
        let mut longer = bytes;
        longer.push(0);
        if shorter.len() < HEADER_LEN {
            shorter = longer.clone();
        }
        for bytes in [shorter, longer] {
            let length = bytes.len();
            assert_eq!(refused(&sized(bytes)).breach, Breach::Length { length, expected }, "{name}");
        }
    }
}

#[test]
fn cl_x1_published_messages_whose_parts_do_not_fit() {
    for light in ["publish-light", "publishshard"] {
        let bytes = golden(light);
        let length = bytes.len();
        for (at, part) in [(LIGHT_HEADER_LEN, "channel"), (LIGHT_HEADER_LEN + 4, "message")] {
            for wrong in [200_u32, u32::MAX] {
                let mut bytes = bytes.clone();
                bytes[at..at + 4].copy_from_slice(&wrong.to_be_bytes());
                let invalid = refused(&bytes);
                let text = format!("packet with {part} length that exceeds total packet length ({length})");
                assert!(invalid.to_string().ends_with(&text), "{invalid}");
                assert_eq!(invalid.at, at);
            }
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(refused(&sized(longer)).breach, Breach::Length { length: length + 1, expected: length });
        for len in LIGHT_HEADER_LEN..LIGHT_HEADER_LEN + 8 {
            let expected = LIGHT_HEADER_LEN + 8;
            assert_eq!(
                refused(&sized(bytes[..len].to_vec())).breach,
                Breach::Length { length: len, expected }
            );
        }
    }
}

#[test]
fn cl_x1_a_modules_payload_has_to_fit() {
    let mut bytes = Vec::new();
    write(&BusMessage::Light(LightBody::Module), &mut bytes).unwrap();
    bytes.extend_from_slice(b"abc");
    let mut bytes = sized(bytes);
    bytes[LIGHT_HEADER_LEN + 11] = 3;
    assert_eq!(parse(&bytes), Ok(BusMessage::Light(LightBody::Module)));
    bytes[LIGHT_HEADER_LEN + 11] = 4;
    let text =
        "Received invalid module packet with module payload length that exceeds total packet length (32)";
    assert_eq!(refused(&bytes).to_string(), text);
    bytes[LIGHT_HEADER_LEN + 11] = 2;
    assert_eq!(refused(&bytes).breach, Breach::Length { length: 32, expected: 31 });
}

/// A MEET with one extension, which has `kind`, `payload`, and `length` in its length field.
fn with_extension(kind: u16, length: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = golden("meet-first");
    bytes[2215] = 1;
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(payload);
    sized(bytes)
}

#[test]
fn cl_x3_extensions_that_are_too_short_or_have_no_end() {
    let at = HEADER_LEN;
    for (length, payload, breach) in [
        (12_u32, 8_usize, Breach::ExtensionPadding(12)),
        (0, 8, Breach::ExtensionShort { kind: 6 }),
        (8, 0, Breach::ExtensionShort { kind: 6 }),
        (24, 8, Breach::ExtensionOverrun { length: HEADER_LEN + 16 }),
        (u32::MAX - 7, 8, Breach::ExtensionOverrun { length: HEADER_LEN + 16 }),
        (16, 16, Breach::Length { length: HEADER_LEN + 24, expected: HEADER_LEN + 16 }),
    ] {
        let invalid = refused(&with_extension(6, length, &vec![0; payload]));
        let expected_at = if matches!(breach, Breach::Length { .. }) { 4 } else { at };
        assert_eq!((invalid.at, invalid.breach), (expected_at, breach), "{length} {payload}");
    }
    for kind in [0, 1, 4, 5, 8] {
        assert_eq!(refused(&with_extension(kind, 16, b"abcdefgh")).breach, Breach::ExtensionText { kind });
        assert_eq!(refused(&with_extension(kind, 8, b"")).breach, Breach::ExtensionText { kind });
    }
    for (kind, least) in [(2, 48), (3, 40)] {
        let short = vec![b'a'; least - 8];
        assert_eq!(
            refused(&with_extension(kind, least as u32, &short)).breach,
            Breach::ExtensionShort { kind }
        );
        let mut none = vec![b'a'; least];
        none[39] = b'A';
        assert_eq!(refused(&with_extension(kind, least as u32 + 8, &none)).breach, Breach::Id, "X-4");
    }
    let text = "Received a meet packet without proper padding (12 bytes)";
    assert_eq!(refused(&with_extension(6, 12, &[0; 8])).to_string(), text);
    let text = "Received invalid meet packet with extension data that exceeds total packet length (2272)";
    assert_eq!(refused(&with_extension(6, 24, &[0; 8])).to_string(), text);
}

/// Redis 8 sends a secret in extension 4, which in Valkey has an IPv4 address for clients.
#[test]
fn cl_w8_the_secret_of_a_redis_8_says_nothing_and_drops_no_message() {
    let bytes = with_extension(4, 48, &[b'a'; 40]);
    let message = parse(&bytes).unwrap();
    let gossip = gossip_of(&message).unwrap();
    assert_eq!((gossip.extensions().count(), gossip.passed_over().count()), (0, 0));
    let longer = refused(&with_extension(4, 56, &[b'a'; 48])).breach;
    let no_digit = refused(&with_extension(4, 48, &[b'z'; 40])).breach;
    let of_another_type = refused(&with_extension(5, 48, &[b'a'; 40])).breach;
    let breach = |kind| Breach::ExtensionText { kind };
    assert_eq!([longer, no_digit, of_another_type], [breach(4), breach(4), breach(5)]);
}

#[test]
fn cl_x3_extensions_need_the_flag_that_announces_them() {
    let mut bytes = golden("ping-all-names");
    bytes[2253] = 0;
    assert_eq!(refused(&bytes).breach, Breach::ExtensionsUnannounced);
}

#[test]
fn cl_x4_texts_that_may_not_be_stored_count_as_absent() {
    for (kind, text) in
        [(0, b"a b\0...."), (1, b"a,b\0...."), (8, b"a=b\0...."), (4, b"1.2.3\0.."), (5, b"fd00\0...")]
    {
        let bytes = with_extension(kind, 16, text);
        let message = parse(&bytes).unwrap();
        let gossip = gossip_of(&message).unwrap();
        assert_eq!(gossip.extensions().count(), 0, "{kind}");
        assert_eq!(gossip.passed_over().collect::<Vec<_>>(), [PassedOver::Refused(kind)]);
        assert!(gossip.has_extensions(), "W-10: the message has one");
    }
    // The address in a header counts as absent if it contains a blank or has no end.
    let mut bytes = golden("meet-first");
    bytes[2168..2172].copy_from_slice(b"1 2\0");
    let ip = |bytes: &[u8]| match parse(bytes) {
        Ok(BusMessage::Full(header, _)) => header.ip.to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(ip(&bytes), "");
    bytes[2168..2168 + 46].fill(b'1');
    assert_eq!(ip(&bytes), "");
    bytes[2168 + 45] = 0;
    assert_eq!(ip(&bytes).len(), 45);
}

#[test]
fn cl_w8_unknown_extensions_are_passed_over() {
    let bytes = with_extension(9, 16, &[7; 8]);
    let message = parse(&bytes).unwrap();
    let gossip = gossip_of(&message).unwrap();
    assert_eq!(gossip.passed_over().collect::<Vec<_>>(), [PassedOver::Unknown(9)]);
    let mut out = Vec::new();
    write(&message, &mut out).unwrap();
    assert_eq!(out, bytes);
}

#[test]
fn cl_x4_ids_that_are_none_drop_the_message() {
    for (name, at, breach) in [
        ("ping-all-names", 40, Breach::SenderId),
        ("pong-replica", 2128, Breach::Id),
        ("fail", HEADER_LEN, Breach::Id),
        ("update", HEADER_LEN + 8, Breach::Id),
    ] {
        let mut bytes = golden(name);
        bytes[at + 5] = b'_';
        let invalid = refused(&bytes);
        assert_eq!((invalid.at, invalid.breach, invalid.rule()), (at, breach, "X-4"), "{name}");
    }
}

#[test]
fn cl_g11_an_entry_whose_id_is_none_hides_all_entries() {
    let mut bytes = golden("ping-all-names");
    bytes[HEADER_LEN + 104] = b'!';
    let message = parse(&bytes).unwrap();
    let gossip = gossip_of(&message).unwrap();
    assert_eq!((gossip.count(), gossip.invalid_ids, gossip.entries().count()), (3, 1, 0));
    assert_eq!(gossip.invalid_id().unwrap()[0], b'!');
    assert_eq!(gossip.extensions().count(), 8);
}

#[test]
fn cl_x6_entries_without_a_usable_address_are_left_out() {
    let count = |bytes: &[u8]| gossip_of(&parse(bytes).unwrap()).unwrap().entries().count();
    let bytes = golden("ping-all-names");
    assert_eq!(count(&bytes), 3);
    let entry = HEADER_LEN + 104;
    let mut endless = bytes.clone();
    endless[entry + 48..entry + 94].fill(b'1');
    assert_eq!(count(&endless), 2);
    let mut blank = bytes.clone();
    blank[entry + 48] = b' ';
    assert_eq!(count(&blank), 2);
    let mut without_port = bytes;
    without_port[entry + 94..entry + 96].fill(0);
    assert_eq!(count(&without_port), 2);
    without_port[entry + 99] |= NodeFlags::NOADDR.0 as u8;
    assert_eq!(count(&without_port), 3);
}

#[test]
fn cl_x7_epochs_that_could_come_to_an_end_drop_the_message() {
    for (name, at) in [("auth-ack", 16), ("auth-ack", 24), ("update", HEADER_LEN)] {
        let mut bytes = golden(name);
        bytes[at..at + 8].copy_from_slice(&(ClusterEpoch::END.0 - 1).to_be_bytes());
        assert!(parse(&bytes).is_ok());
        bytes[at..at + 8].copy_from_slice(&ClusterEpoch::END.0.to_be_bytes());
        let invalid = refused(&bytes);
        assert_eq!((invalid.at, invalid.breach, invalid.rule()), (at, Breach::ClusterEpoch(1 << 63), "X-7"));
    }
}

#[test]
fn cl_w4_a_light_header_on_another_type() {
    let mut bytes = golden("ping-all-names");
    bytes[12] = 0x80;
    let text = "Packet of type 'ping' (0) does not support light cluster header. Marking packet as invalid.";
    assert_eq!(refused(&bytes).to_string(), text);
    bytes[13] = 11;
    assert_eq!(refused(&bytes).breach, Breach::Light);
}

#[test]
fn cl_w11_another_version_is_dropped_in_silence() {
    let mut bytes = golden("ping-all-names");
    bytes[9] = 2;
    let invalid = refused(&bytes);
    assert_eq!((invalid.breach, invalid.is_logged()), (Breach::Version(2), false));
}

#[test]
fn cl_w12_w13_the_header_of_an_unknown_type_counts_whatever_follows() {
    for (number, more) in [(11_u16, 16), (12, 0), (0x7fff, 5)] {
        let mut bytes = golden("auth-ack");
        bytes[12..14].copy_from_slice(&number.to_be_bytes());
        bytes.resize(HEADER_LEN + more, 0xff);
        let bytes = sized(bytes);
        let Ok(BusMessage::Full(header, body)) = parse(&bytes) else { panic!("type {number}") };
        assert_eq!((body, header.current_epoch), (MessageBody::Unknown(number), ClusterEpoch(6)));
    }
}

#[test]
fn cl_x2_extensions_are_written_within_their_bound() {
    let mut rng = Rng::new(3);
    let mut gossip = GossipBuffer::new();
    let name = [b'n'; sluice_cluster::text::NAME_MAX];
    let announced = AnnouncedLabels {
        host_name: &"h".repeat(255),
        human_name: &name,
        client_ipv4: Some([10, 0, 0, 1].into()),
        client_ipv6: Some(std::net::Ipv6Addr::from([0xfd00; 8]).into()),
        client_port: 1,
        client_tls_port: 2,
        availability_zone: &name,
        shard: ShardId::random(&mut rng),
    };
    let mut forget = |count| {
        gossip.announce(
            &announced,
            (0..count).map(|seconds| ForgottenNode { node: NodeId::random(&mut rng), seconds }),
        );
        let extensions = gossip.gossip();
        let forgotten =
            extensions.extensions().filter(|extension| matches!(extension, Extension::Forgotten(_))).count();
        assert_eq!(extensions.extensions().last(), Some(Extension::Shard(announced.shard)));
        forgotten as u64
    };
    assert_eq!(forget(1_024), 1_024, "X-10: a full blacklist");
    assert!(forget(5_000) < 1_200);
}

#[test]
fn cl_s40_any_bytes_are_read_or_refused() {
    let mut rng = Rng::new(40);
    let (mut read, mut refused) = (0, 0);
    for round in 0..20_000 {
        let mut bytes = MESSAGES[rng.below(MESSAGES.len() as u64) as usize].1.to_vec();
        for _ in 0..=rng.below(4) {
            mutate(&mut bytes, &mut rng);
        }
        if round % 2 == 0 {
            if bytes.len() < 8 {
                continue;
            }
            bytes = sized(bytes);
        }
        match parse(&bytes) {
            Ok(message) => {
                read += 1;
                let mut out = Vec::new();
                write(&message, &mut out).unwrap();
                assert_eq!(parse(&out), Ok(message), "round {round}");
            }
            Err(invalid) => {
                refused += 1;
                assert!(
                    invalid.at <= bytes.len()
                        && !invalid.to_string().is_empty()
                        && !invalid.rule().is_empty()
                );
            }
        }
    }
    assert!(read > 1_000 && refused > 1_000, "{read} {refused}");
}

/// Truncates or lengthens `bytes`, or changes one of them; every second time on average near a field with a
/// meaning.
pub(crate) fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    const FIELDS: [u64; 12] = [0, 4, 8, 12, 14, 16, 40, 2_128, 2_168, 2_214, 2_250, 2_256];
    if bytes.is_empty() {
        return;
    }
    let near = FIELDS[rng.below(12) as usize] + rng.below(8);
    let at = if rng.below(2) == 0 { near } else { rng.below(bytes.len() as u64) };
    let at = (at as usize).min(bytes.len() - 1);
    match rng.below(6) {
        0 => bytes.truncate(at),
        1 => bytes.resize(bytes.len() + rng.below(200) as usize, rng.next_u64() as u8),
        2 => bytes[at] = 0xff,
        3 => bytes[at] = 0,
        4 => bytes[at] ^= 1 << rng.below(8),
        _ => bytes[at] = rng.next_u64() as u8,
    }
}
