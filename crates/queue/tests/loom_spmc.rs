//! Models of the shared queue, explored by loom. Every model begins right before the indexes wrap around.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::thread;
use sluice_queue::{Capacity, Full, spmc};

const START: usize = usize::MAX;

/// Explores all interleavings with at most three preemptions.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// Pushes `value`, letting other threads run while the ring is full.
fn push(producer: &mut spmc::Producer<Box<usize>>, value: usize) {
    let mut value = Box::new(value);
    while let Err(Full(back)) = producer.push(value) {
        value = back;
        thread::yield_now();
    }
}

/// Asserts that two consumers together received `0..count`, each of them in ascending order.
fn check(mut one: Vec<Box<usize>>, other: Vec<Box<usize>>, count: usize) {
    assert!(one.is_sorted() && other.is_sorted());
    one.extend(other);
    one.sort_unstable();
    assert!(one.into_iter().map(|value| *value).eq(0..count), "lost or doubled");
}

#[test]
fn one_consumer_gets_all_in_order_through_reused_slots() {
    model(|| {
        let (mut producer, mut consumer) = spmc::channel_at(Capacity::MIN, START);
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
fn two_consumers_share_without_loss_or_doubling() {
    model(|| {
        let (mut producer, mut consumer) = spmc::channel_at(Capacity::MIN, START);
        producer.push(Box::new(0)).expect("room");
        let mut second = consumer.clone();
        let other = thread::spawn(move || [second.pop(), second.pop()].into_iter().flatten().collect());
        producer.push(Box::new(1)).expect("room");
        let refused = producer.push(Box::new(2)).is_err();
        let other: Vec<_> = other.join().expect("no panic");
        let own = std::iter::from_fn(|| consumer.pop()).collect();
        check(own, other, if refused { 2 } else { 3 });
    });
}

#[test]
fn batches_and_single_values_do_not_overlap() {
    model(|| {
        let (mut producer, mut consumer) = spmc::channel_at(Capacity::MIN, START);
        assert_eq!(producer.push_batch(&mut (0..2).map(Box::new)), 2);
        let mut second = consumer.clone();
        let other = thread::spawn(move || {
            let mut got = Vec::new();
            second.pop_batch(&mut got, 2);
            got
        });
        let filler = thread::spawn(move || producer.push(Box::new(2)).is_err());
        let mut own: Vec<_> = consumer.pop().into_iter().collect();
        let other = other.join().expect("no panic");
        let refused = filler.join().expect("no panic");
        own.extend(std::iter::from_fn(|| consumer.pop()));
        check(own, other, if refused { 2 } else { 3 });
    });
}

#[test]
fn whoever_goes_last_nothing_leaks() {
    model(|| {
        let (mut producer, mut consumer) = spmc::channel_at(Capacity::MIN, START);
        let counted = Arc::new(());
        let values = [counted.clone(), counted.clone()];
        let other = thread::spawn(move || {
            producer.push_batch(&mut values.into_iter());
        });
        drop(consumer.pop());
        drop(consumer);
        other.join().expect("no panic");
        assert_eq!(Arc::strong_count(&counted), 1);
    });
}

/// Tests the handshake that the crate's documentation requires of a consumer that sleeps.
#[test]
fn a_worker_that_looks_again_never_sleeps_beside_a_job() {
    model(|| {
        let (mut producer, consumer) = spmc::channel_at(Capacity::MIN, START);
        let sleepy = Arc::new(AtomicBool::new(false));
        let announced = sleepy.clone();
        let worker = thread::spawn(move || {
            announced.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            consumer.is_empty()
        });
        producer.push(Box::new(0)).expect("room");
        fence(Ordering::SeqCst);
        let wakes = sleepy.load(Ordering::Relaxed);
        let sleeps = worker.join().expect("no panic");
        assert!(wakes || !sleeps, "asleep with a job waiting and nobody to wake it");
    });
}
