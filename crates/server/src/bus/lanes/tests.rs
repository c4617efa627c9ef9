use super::*;
use sluice_base::Rng;

fn message(byte: u8, len: usize) -> Arc<[u8]> {
    vec![byte; len].into()
}

#[test]
fn small_messages_leave_together() {
    let mut lanes = OutputLanes::default();
    lanes.push(message(b'a', 3), BusLane::Control);
    lanes.push(message(b'b', 2), BusLane::Control);
    lanes.push(message(b'p', 4), BusLane::Publish);
    let mut out = Vec::new();
    assert_eq!(lanes.take(100, &mut out), LaneBytes { control: 5, publish: 4 });
    assert_eq!(out, b"aaabbpppp");
    assert!(lanes.is_empty());
    assert_eq!(lanes.take(100, &mut out), LaneBytes::default());
}

#[test]
fn a_message_that_has_begun_is_not_overtaken_and_all_others_are() {
    let mut lanes = OutputLanes::default();
    lanes.push(message(b'p', 5), BusLane::Publish);
    lanes.push(message(b'q', 5), BusLane::Publish);
    let mut out = Vec::new();
    assert_eq!(lanes.take(2, &mut out), LaneBytes { control: 0, publish: 2 });
    lanes.push(message(b'c', 1), BusLane::Control);
    assert_eq!(lanes.take(100, &mut out), LaneBytes { control: 1, publish: 8 });
    assert_eq!(out, b"pppppcqqqqq");
}

#[test]
fn a_message_at_the_end_of_the_room_has_not_begun() {
    let mut lanes = OutputLanes::default();
    lanes.push(message(b'p', 4), BusLane::Publish);
    lanes.push(message(b'q', 4), BusLane::Publish);
    let mut out = Vec::new();
    lanes.take(4, &mut out);
    lanes.push(message(b'c', 2), BusLane::Control);
    lanes.take(100, &mut out);
    assert_eq!(out, b"ppppccqqqq");
}

#[test]
fn an_empty_message_is_none() {
    let mut lanes = OutputLanes::default();
    lanes.push(message(b'p', 0), BusLane::Publish);
    assert!(lanes.is_empty());
}

/// However much room there is each time, each lane's bytes are sent in order, message by message.
#[test]
fn drawn_rooms_and_messages_keep_borders_and_order() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (mut lanes, mut out, mut counted) = (OutputLanes::default(), Vec::new(), LaneBytes::default());
        let mut pushed = [0_u8; 2];
        for _ in 0..60 {
            if rng.below(2) == 0 {
                let lane = if rng.below(2) == 0 { BusLane::Control } else { BusLane::Publish };
                let number = &mut pushed[lane as usize];
                *number += 1;
                // Each message begins with its lane, number and length, so that the sent bytes can be parsed.
                let len = 3 + rng.below(20) as usize;
                let mut bytes = vec![0; len];
                bytes[..3].copy_from_slice(&[lane as u8, *number, len as u8]);
                lanes.push(bytes.into(), lane);
            } else {
                let taken = lanes.take(rng.below(30) as usize, &mut out);
                counted.control += taken.control;
                counted.publish += taken.publish;
            }
        }
        let rest = lanes.take(usize::MAX, &mut out);
        counted.control += rest.control;
        counted.publish += rest.publish;
        let (mut seen, mut lengths, mut at) = ([0_u8; 2], [0_usize; 2], 0);
        while at < out.len() {
            let [lane, number, len] = [out[at], out[at + 1], out[at + 2]];
            seen[lane as usize] += 1;
            assert_eq!(seen[lane as usize], number, "seed {seed}");
            assert!(out[at + 3..at + len as usize].iter().all(|byte| *byte == 0), "seed {seed}: torn");
            lengths[lane as usize] += len as usize;
            at += len as usize;
        }
        assert_eq!(seen, pushed, "seed {seed}");
        assert_eq!([counted.control, counted.publish], lengths, "seed {seed}");
    }
}
