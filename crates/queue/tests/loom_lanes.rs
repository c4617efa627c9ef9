//! Models of the lanes and their notify bits, explored by loom.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::thread;
use sluice_queue::{Capacity, Notified, lanes};

/// Explores all interleavings with at most three preemptions.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn every_announced_value_is_collected() {
    model(|| {
        let mut collector = lanes::collector(1);
        let mut lane = collector.open(Capacity::MIN).expect("a lane");
        let other = thread::spawn(move || {
            for value in 0..2 {
                lane.send(value).expect("room");
                let _ = lane.publish();
            }
            // The lane is returned and not dropped here, because the drop would notify once more.
            lane
        });
        let mut got = Vec::new();
        let mut each = |value| got.push(value);
        collector.collect(1, &mut each);
        let lane = other.join().expect("no panic");
        // No notification follows, so a batch that an earlier collection missed would be lost.
        while !collector.is_quiet() {
            collector.collect(1, &mut each);
        }
        assert_eq!(got, [0, 1]);
        drop(lane);
    });
}

#[test]
fn a_bit_that_is_seen_announces_values_that_are_seen() {
    model(|| {
        let mut collector = lanes::collector(1);
        let mut lane = collector.open(Capacity::MIN).expect("a lane");
        let other = thread::spawn(move || {
            lane.send(1).expect("room");
            let _ = lane.publish();
            lane
        });
        if !collector.is_quiet() {
            assert_eq!(collector.collect(2, &mut drop), 1, "an announcement of nothing");
        }
        drop(other.join().expect("no panic"));
    });
}

#[test]
fn two_lanes_share_a_notification_word() {
    model(|| {
        let mut collector = lanes::collector(2);
        let workers: Vec<_> = (0..2)
            .map(|value| {
                let mut lane = collector.open(Capacity::MIN).expect("a lane");
                thread::spawn(move || {
                    lane.send(value).expect("room");
                    let _ = lane.publish();
                })
            })
            .collect();
        let mut got = Vec::new();
        let mut each = |value| got.push(value);
        collector.collect(2, &mut each);
        for worker in workers {
            worker.join().expect("no panic");
        }
        collector.collect(2, &mut each);
        got.sort_unstable();
        assert_eq!(got, [0, 1]);
        assert_eq!(collector.lanes(), 0, "both lanes are over");
    });
}

/// A collector that announces its sleep and then checks again is either awake or woken by the
/// producer that notified first.
#[test]
fn a_collector_that_looks_again_is_woken_by_the_first_notification() {
    model(|| {
        let mut collector = lanes::collector(1);
        let mut lane = collector.open(Capacity::MIN).expect("a lane");
        let sleepy = Arc::new(AtomicBool::new(false));
        let announced = sleepy.clone();
        let worker = thread::spawn(move || {
            lane.send(1).expect("room");
            let first = lane.publish() == Notified::First;
            fence(Ordering::SeqCst);
            let wakes = first && announced.load(Ordering::Relaxed);
            (wakes, lane)
        });
        sleepy.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let sleeps = collector.is_quiet();
        let (wakes, lane) = worker.join().expect("no panic");
        assert!(wakes || !sleeps, "asleep with a batch waiting");
        drop(lane);
    });
}
