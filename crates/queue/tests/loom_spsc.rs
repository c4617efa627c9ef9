//! Models of the private inbox, explored by loom. Every model begins right before the indexes wrap around.
#![cfg(loom)]

use loom::thread;
use sluice_queue::{Capacity, Full, spsc};

const START: usize = usize::MAX;

/// Pushes `value`, letting other threads run while the ring is full.
fn push(producer: &mut spsc::Producer<Box<usize>>, value: usize) {
    let mut value = Box::new(value);
    while let Err(Full(back)) = producer.push(value) {
        value = back;
        thread::yield_now();
    }
}

#[test]
fn values_arrive_in_order_through_reused_slots() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::channel_at(Capacity::MIN, START);
        let other = thread::spawn(move || (0..3).for_each(|value| push(&mut producer, value)));
        for wanted in 0..3 {
            let value = loop {
                match consumer.pop() {
                    Some(value) => break value,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(*value, wanted);
        }
        other.join().expect("no panic");
    });
}

#[test]
fn batches_arrive_whole_and_their_slots_come_back() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::channel_at(Capacity::MIN, START);
        let other = thread::spawn(move || {
            let mut values = (0..4).map(Box::new);
            let mut sent = 0;
            while sent < 4 {
                match producer.push_batch(&mut values) {
                    0 => thread::yield_now(),
                    count => sent += count,
                }
            }
        });
        let mut got: Vec<Box<usize>> = Vec::new();
        while got.len() < 4 {
            let before = got.len();
            got.extend(consumer.drain(2));
            if got.len() == before {
                thread::yield_now();
            }
        }
        assert!(got.into_iter().map(|value| *value).eq(0..4));
        other.join().expect("no panic");
    });
}

#[test]
fn finished_comes_after_the_last_value() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::channel_at(Capacity::MIN, START);
        let other = thread::spawn(move || {
            producer.stage(Box::new(1)).expect("room");
        });
        let mut got = 0;
        while !consumer.is_finished() {
            match consumer.pop() {
                Some(value) => got += *value,
                None => thread::yield_now(),
            }
        }
        assert_eq!(got, 1);
        other.join().expect("no panic");
    });
}

#[test]
fn whoever_goes_first_nothing_leaks() {
    loom::model(|| {
        let (mut producer, mut consumer) = spsc::channel_at(Capacity::MIN, START);
        // Loom counts references to its own `Arc` and complains about references that remain.
        let counted = loom::sync::Arc::new(());
        let values = [counted.clone(), counted.clone()];
        let other = thread::spawn(move || {
            producer.push_batch(&mut values.into_iter());
        });
        drop(consumer.pop());
        drop(consumer);
        other.join().expect("no panic");
        assert_eq!(loom::sync::Arc::strong_count(&counted), 1);
    });
}
