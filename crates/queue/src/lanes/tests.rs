use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{Lane, Notified, collector};
use crate::Full;
use crate::twin::{Counted, Numbers, Twin, capacity, check_stamps, stamp};

#[test]
fn random_operations_agree_with_twins() {
    for seed in 1..100 {
        let mut numbers = Numbers::new(seed);
        let lanes_max = [1, 3, 64, 65, 130][numbers.below(5)];
        let mut collector = collector(lanes_max);
        let mut lanes: Vec<Lane<(usize, usize)>> = Vec::new();
        let mut twins: Vec<Twin> = Vec::new();
        // Each value is a pair: the lane's index in `lanes`, and a running number. Before each collection all
        // lanes are published, so the first values of `visible` must come out.
        for next in 0..2000 {
            match numbers.below(8) {
                0 => match collector.open(capacity(2)) {
                    Some(lane) => {
                        lanes.push(lane);
                        twins.push(Twin::new(2));
                    }
                    None => assert_eq!(lanes.len(), lanes_max),
                },
                1..=5 if !lanes.is_empty() => {
                    let index = numbers.below(lanes.len());
                    let ours = lanes[index].send((index, next)).map_err(|Full((_, value))| Full(value));
                    assert_eq!(ours, twins[index].push(next));
                    if numbers.below(2) == 0 {
                        let _ = lanes[index].publish();
                    }
                }
                6 => {
                    for lane in &mut lanes {
                        let _ = lane.publish();
                    }
                    let visible: Vec<VecDeque<usize>> =
                        twins.iter().map(|twin| twin.values.clone()).collect();
                    let count_max = 1 + numbers.below(3);
                    let mut got: Vec<Vec<usize>> = vec![Vec::new(); lanes.len()];
                    collector
                        .collect(count_max, &mut |(index, value): (usize, usize)| got[index].push(value));
                    for (index, got) in got.iter().enumerate() {
                        let wanted = visible[index].iter().copied().take(count_max);
                        assert!(got.iter().copied().eq(wanted), "lane {index} of {lanes_max}");
                        twins[index].values.drain(..got.len());
                    }
                }
                _ => assert_eq!(collector.lanes(), lanes.len()),
            }
        }
    }
}

#[test]
fn the_first_ring_after_a_look_says_so() {
    let mut collector = collector(2);
    let mut one = collector.open(capacity(2)).expect("a lane");
    let mut other = collector.open(capacity(2)).expect("a lane");
    assert_eq!(one.publish(), Notified::Already, "nothing was sent");
    one.send(1).expect("room");
    assert!(collector.is_quiet());
    assert_eq!(one.publish(), Notified::First);
    assert!(!collector.is_quiet());
    other.send(2).expect("room");
    assert_eq!(other.publish(), Notified::Already, "the collector knows");
    assert_eq!(collector.collect(9, &mut drop), 2);
    assert!(collector.is_quiet());
    one.send(3).expect("room");
    assert_eq!(one.publish(), Notified::First);
}

#[test]
fn a_refusal_shows_what_was_staged_and_owes_a_ring() {
    let mut collector = collector(1);
    let mut lane = collector.open(capacity(2)).expect("a lane");
    assert_eq!((lane.send(1), lane.send(2), lane.send(3)), (Ok(()), Ok(()), Err(Full(3))));
    assert_eq!(lane.publish(), Notified::First);
    assert_eq!(collector.collect(9, &mut drop), 2);
    assert_eq!(lane.send(3), Ok(()));
}

#[test]
fn a_lane_left_half_gathered_is_not_forgotten() {
    let mut collector = collector(1);
    let mut lane = collector.open(capacity(4)).expect("a lane");
    for value in 0..3 {
        lane.send(value).expect("room");
    }
    let _ = lane.publish();
    let mut got = Vec::new();
    assert_eq!(collector.collect(2, &mut |value| got.push(value)), 2);
    assert!(!collector.is_quiet());
    assert_eq!(collector.collect(2, &mut |value| got.push(value)), 1);
    assert!(collector.is_quiet());
    assert_eq!(got, [0, 1, 2]);
}

#[test]
fn a_dropped_lane_is_gathered_and_its_number_given_again() {
    let alive = Arc::new(AtomicUsize::new(0));
    let mut collector = collector(1);
    let mut lane = collector.open(capacity(2)).expect("a lane");
    lane.send(Counted::new(7, &alive)).expect("room");
    drop(lane);
    assert!(collector.open(capacity(2)).is_none());
    let mut got = Vec::new();
    assert_eq!(collector.collect(9, &mut |value: Counted| got.push(*value.value)), 1);
    assert_eq!((got, alive.load(Ordering::Relaxed)), (vec![7], 0));
    let mut lane = collector.open(capacity(2)).expect("the number is free again");
    assert_eq!(lane.number(), 0);
    lane.send(Counted::new(8, &alive)).expect("room");
    drop(collector);
    drop(lane);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn between_threads_all_arrive_and_each_lanes_in_order() {
    const EACH: usize = 10_000;
    for count in [2, 64] {
        let mut collector = collector(70);
        let mut lanes: Vec<_> = (0..70).map(|_| collector.open(capacity(count)).expect("a lane")).collect();
        let chosen = [lanes.remove(66), lanes.remove(63), lanes.remove(0)];
        let got = thread::scope(|scope| {
            for (number, mut lane) in chosen.into_iter().enumerate() {
                scope.spawn(move || {
                    for nth in 0..EACH {
                        let mut value = stamp(number, nth);
                        while let Err(Full(back)) = lane.send(value) {
                            value = back;
                            thread::yield_now();
                        }
                        if nth % 7 == 0 {
                            let _ = lane.publish();
                        }
                    }
                });
            }
            let mut got = Vec::new();
            while got.len() < 3 * EACH {
                if collector.collect(5, &mut |value| got.push(value)) == 0 {
                    thread::yield_now();
                }
            }
            got
        });
        check_stamps(&[got], 3, EACH);
        assert_eq!(collector.lanes(), 67, "three lanes have ended");
    }
}
