use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::channel_at;
use crate::Full;
use crate::twin::{Counted, Twin, capacity, check_stamps, everywhere, stamp};

#[test]
fn random_operations_agree_with_a_twin() {
    everywhere(|start, count, numbers| {
        let (mut producer, mut consumer) = channel_at(capacity(count), start);
        // `twin` contains the staged values, too, and `staged` counts them, because the consumer may take all
        // but these values.
        let (mut twin, mut staged, mut next) = (Twin::new(count), 0, 0);
        for _ in 0..2000 {
            match numbers.below(6) {
                0 | 1 => {
                    let (ours, theirs) = (producer.stage(next), twin.push(next));
                    assert_eq!(ours, theirs);
                    staged = if ours.is_ok() { staged + 1 } else { 0 };
                    // Looking for room commits the values that were staged before.
                    staged = if producer.has_staged() { staged } else { 0 };
                    next += 1;
                }
                2 => {
                    assert_eq!(producer.push(next), twin.push(next));
                    (staged, next) = (0, next + 1);
                }
                3 => {
                    let wanted = numbers.below(count + 2);
                    let mut values = next..next + wanted;
                    let taken = producer.push_batch(&mut values);
                    let room = (0..wanted).take_while(|nth| twin.push(next + nth).is_ok()).count();
                    assert_eq!(taken, room);
                    assert_eq!(values.start, next + taken, "a value was taken without room for it");
                    (staged, next) = (0, next + taken);
                }
                4 => {
                    producer.commit();
                    staged = 0;
                    assert_eq!(consumer.pop(), twin.pop());
                }
                _ => {
                    let wanted = numbers.below(count + 2);
                    let got: Vec<_> = consumer.drain(wanted).collect();
                    assert!(got.len() <= wanted);
                    assert!(
                        got.len() >= wanted.min(twin.values.len() - staged),
                        "something visible was withheld"
                    );
                    assert!(got.iter().all(|&value| Some(value) == twin.pop()));
                    staged = staged.min(twin.values.len());
                }
            }
            assert_eq!(producer.len(), twin.values.len());
        }
    });
}

#[test]
fn staged_values_are_invisible_until_committed() {
    let (mut producer, mut consumer) = channel_at(capacity(8), usize::MAX - 1);
    for value in 0..3 {
        producer.stage(value).expect("room");
    }
    assert_eq!(consumer.pop(), None);
    assert!(!producer.is_empty());
    producer.commit();
    assert_eq!(consumer.drain(8).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(producer.is_empty());
}

#[test]
fn a_full_ring_gives_back_the_value_and_shows_what_was_staged() {
    let (mut producer, mut consumer) = channel_at(capacity(2), 0);
    assert_eq!(producer.stage(1), Ok(()));
    assert_eq!(producer.stage(2), Ok(()));
    assert_eq!(producer.stage(3), Err(Full(3)));
    assert_eq!(consumer.pop(), Some(1));
    assert_eq!(producer.stage(3), Ok(()));
}

#[test]
fn an_interrupted_drain_keeps_the_rest() {
    let (mut producer, mut consumer) = channel_at(capacity(4), usize::MAX);
    assert_eq!(producer.push_batch(&mut (0..9)), 4);
    assert_eq!(consumer.drain(4).next(), Some(0));
    assert_eq!(producer.push_batch(&mut (4..9)), 1, "the slot of the one that was taken");
    assert_eq!(consumer.drain(9).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[test]
fn whoever_goes_first_every_value_is_dropped_once() {
    everywhere(|start, count, numbers| {
        let alive = Arc::new(AtomicUsize::new(0));
        let (mut producer, mut consumer) = channel_at(capacity(count), start);
        for value in 0..3 * count {
            if producer.stage(Counted::new(value, &alive)).is_err() {
                let mut drain = consumer.drain(numbers.below(count));
                drop(drain.next());
                if numbers.below(2) == 0 {
                    std::mem::forget(drain);
                }
            }
        }
        if numbers.below(2) == 0 {
            drop(producer);
            let left = alive.load(Ordering::Relaxed);
            assert_eq!(consumer.drain(count).count(), left, "staged values were lost");
            assert!(consumer.is_finished());
        } else {
            drop(consumer);
            drop(producer);
        }
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn finished_means_gone_and_empty() {
    let (mut producer, mut consumer) = channel_at(capacity(2), 0);
    assert!(!consumer.is_finished());
    producer.stage(1).expect("room");
    drop(producer);
    assert!(!consumer.is_finished());
    assert_eq!(consumer.pop(), Some(1));
    assert!(consumer.is_finished());
}

#[test]
fn between_threads_all_arrive_in_order() {
    const EACH: usize = 20_000;
    for count in [2, 64] {
        let (mut producer, mut consumer) = channel_at(capacity(count), usize::MAX - 100);
        let got = thread::scope(|scope| {
            scope.spawn(move || {
                let mut values = (0..EACH).map(|nth| stamp(0, nth));
                let mut sent = 0;
                while sent < EACH {
                    match producer.push_batch(&mut values.by_ref().take(7)) {
                        0 => thread::yield_now(),
                        count => sent += count,
                    }
                }
            });
            let mut got = Vec::new();
            while !consumer.is_finished() {
                let before = got.len();
                got.extend(consumer.drain(5));
                got.extend(consumer.pop());
                if got.len() == before {
                    thread::yield_now();
                }
            }
            got
        });
        check_stamps(&[got], 1, EACH);
    }
}
