use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::channel_at;
use crate::twin::{Counted, Twin, capacity, check_stamps, everywhere, stamp};
use crate::{Collect, Full, Respond, Rung};

#[test]
fn random_operations_agree_with_a_twin() {
    everywhere(|start, count, numbers| {
        let (producer, mut consumer) = channel_at(capacity(count), start);
        let mut producers = [producer.clone(), producer];
        let (mut twin, mut next) = (Twin::new(count), 0);
        for _ in 0..2000 {
            match numbers.below(4) {
                0 | 1 => {
                    // A ticket is a place in the order, so only its holder is tried until it is used up.
                    let holder = producers.iter().position(super::Producer::holds_ticket);
                    let producer = &mut producers[holder.unwrap_or(numbers.below(2))];
                    assert_eq!(producer.push(next), twin.push(next));
                    next += 1;
                }
                2 => assert_eq!(consumer.pop(), twin.pop()),
                _ => {
                    let (wanted, mut got) = (numbers.below(count + 2), Vec::new());
                    let taken = consumer.collect(wanted, &mut |value| got.push(value));
                    assert_eq!(taken, wanted.min(twin.values.len()));
                    assert!(got.into_iter().all(|value| Some(value) == twin.pop()));
                }
            }
        }
    });
}

#[test]
fn a_refused_producer_keeps_its_place_in_the_order() {
    let (mut early, mut consumer) = channel_at(capacity(2), usize::MAX);
    let mut late = early.clone();
    assert_eq!((early.push(1), early.push(2), early.push(3)), (Ok(()), Ok(()), Err(Full(3))));
    assert_eq!(consumer.pop(), Some(1));
    assert_eq!(late.push(4), Err(Full(4)), "the free place is the other's");
    assert_eq!(early.push(3), Ok(()));
    assert_eq!((consumer.pop(), consumer.pop(), consumer.pop()), (Some(2), Some(3), None));
    assert_eq!(late.push(4), Ok(()));
    assert_eq!(consumer.pop(), Some(4));
}

#[test]
fn an_abandoned_ticket_holds_up_nobody() {
    let (mut first, mut consumer) = channel_at(capacity(2), usize::MAX - 1);
    let (mut second, mut third) = (first.clone(), first.clone());
    assert_eq!((first.push(1), first.push(2)), (Ok(()), Ok(())));
    assert_eq!((second.push(3), third.push(4)), (Err(Full(3)), Err(Full(4))));
    drop(second);
    let mut got = Vec::new();
    consumer.collect(9, &mut |value| got.push(value));
    assert_eq!(third.push(4), Ok(()));
    drop(first);
    consumer.collect(9, &mut |value| got.push(value));
    assert_eq!(got, [1, 2, 4]);
}

#[test]
fn only_a_publication_of_something_rings() {
    let (mut producer, _consumer) = channel_at(capacity(2), 0);
    assert_eq!(producer.publish(), Rung::Already);
    producer.send(1).expect("room");
    assert_eq!((producer.publish(), producer.publish()), (Rung::First, Rung::Already));
}

#[test]
fn whoever_goes_first_every_value_is_dropped_once() {
    everywhere(|start, count, numbers| {
        let alive = Arc::new(AtomicUsize::new(0));
        let (mut producer, mut consumer) = channel_at(capacity(count), start);
        for value in 0..3 * count {
            if producer.push(Counted::new(value, &alive)).is_err() {
                consumer.collect(1 + numbers.below(count), &mut drop);
            }
        }
        drop(consumer.pop());
        producer.push(Counted::new(0, &alive)).expect("there was room or one was taken");
        assert_ne!(alive.load(Ordering::Relaxed), 0);
        if numbers.below(2) == 0 {
            drop(producer);
            drop(consumer);
        } else {
            drop(consumer);
            drop(producer);
        }
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn between_threads_all_arrive_and_each_producers_in_order() {
    const EACH: usize = 10_000;
    for count in [2, 64] {
        let (producer, mut consumer) = channel_at(capacity(count), usize::MAX - 100);
        let got = thread::scope(|scope| {
            for number in 0..3 {
                let mut producer = producer.clone();
                scope.spawn(move || {
                    for nth in 0..EACH {
                        let mut value = stamp(number, nth);
                        while let Err(Full(back)) = producer.push(value) {
                            value = back;
                            thread::yield_now();
                        }
                    }
                });
            }
            let mut got = Vec::new();
            while got.len() < 3 * EACH {
                if consumer.collect(5, &mut |value| got.push(value)) == 0 {
                    thread::yield_now();
                }
            }
            got
        });
        check_stamps(&[got], 3, EACH);
    }
}
