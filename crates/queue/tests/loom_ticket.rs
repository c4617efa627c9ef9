//! Interleavings of the ticketed ring. Every model begins before the wrap of the indexes.
#![cfg(loom)]

use loom::thread;
use sluice_queue::{Capacity, Collect, Full, ticket};

const START: usize = usize::MAX;

/// Explores all interleavings with at most two forced switches.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(check);
}

/// Pushes `value`, letting others run while the ring is full.
fn push(producer: &mut ticket::Producer<Box<usize>>, value: usize) {
    let mut value = Box::new(value);
    while let Err(Full(back)) = producer.push(value) {
        value = back;
        thread::yield_now();
    }
}

/// Collects until `count` values came.
fn collect(consumer: &mut ticket::Consumer<Box<usize>>, count: usize) -> Vec<usize> {
    let mut got = Vec::new();
    while got.len() < count {
        if consumer.collect(2, &mut |value: Box<usize>| got.push(*value)) == 0 {
            thread::yield_now();
        }
    }
    got
}

#[test]
fn one_producers_values_arrive_in_order_through_reused_places() {
    model(|| {
        let (mut producer, mut consumer) = ticket::channel_at(Capacity::MIN, START);
        let other = thread::spawn(move || (0..3).for_each(|value| push(&mut producer, value)));
        assert_eq!(collect(&mut consumer, 3), [0, 1, 2]);
        other.join().expect("no panic");
    });
}

#[test]
fn two_producers_lose_and_double_nothing() {
    model(|| {
        let (mut producer, mut consumer) = ticket::channel_at(Capacity::MIN, START);
        push(&mut producer, 0);
        let workers: Vec<_> = (1..3)
            .map(|value| {
                let mut producer = producer.clone();
                thread::spawn(move || {
                    let refused = producer.push(Box::new(value)).err();
                    (producer, refused)
                })
            })
            .collect();
        let mut got = Vec::new();
        consumer.collect(1, &mut |value: Box<usize>| got.push(*value));
        assert_eq!(got, [0]);
        for worker in workers {
            // Whoever was refused comes back, as the ring asks.
            let (mut producer, refused) = worker.join().expect("no panic");
            if let Some(Full(value)) = refused {
                push(&mut producer, *value);
            }
        }
        got.extend(collect(&mut consumer, 2));
        got.sort_unstable();
        assert_eq!(got, [0, 1, 2]);
    });
}

#[test]
fn an_abandoned_ticket_is_skipped() {
    model(|| {
        let (mut producer, mut consumer) = ticket::channel_at(Capacity::MIN, START);
        (0..2).for_each(|value| push(&mut producer, value));
        let mut second = producer.clone();
        let other = thread::spawn(move || second.push(Box::new(2)).is_ok());
        let mut got = collect(&mut consumer, 2);
        let arrived = other.join().expect("no panic");
        push(&mut producer, 3);
        got.extend(collect(&mut consumer, if arrived { 2 } else { 1 }));
        assert_eq!(got, if arrived { vec![0, 1, 2, 3] } else { vec![0, 1, 3] });
    });
}

#[test]
fn whoever_goes_last_nothing_leaks() {
    model(|| {
        let (mut producer, mut consumer) = ticket::channel_at(Capacity::MIN, START);
        let counted = loom::sync::Arc::new(());
        let values = [counted.clone(), counted.clone()];
        let other = thread::spawn(move || values.into_iter().for_each(|value| drop(producer.push(value))));
        drop(consumer.pop());
        drop(consumer);
        other.join().expect("no panic");
        assert_eq!(loom::sync::Arc::strong_count(&counted), 1);
    });
}
