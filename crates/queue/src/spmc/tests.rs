use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::channel_at;
use crate::Full;
use crate::twin::{Counted, Twin, capacity, check_stamps, everywhere, stamp};

#[test]
fn random_operations_agree_with_a_twin() {
    everywhere(|start, count, numbers| {
        let (mut producer, consumer) = channel_at(capacity(count), start);
        let mut consumers = [consumer.clone(), consumer.clone(), consumer];
        let (mut twin, mut next) = (Twin::new(count), 0);
        for _ in 0..2000 {
            let consumer = &mut consumers[numbers.below(3)];
            assert_eq!(consumer.is_empty(), twin.values.is_empty());
            match numbers.below(4) {
                0 => {
                    assert_eq!(producer.push(next), twin.push(next));
                    next += 1;
                }
                1 => {
                    let wanted = numbers.below(count + 2);
                    let mut values = next..next + wanted;
                    let taken = producer.push_batch(&mut values);
                    let room = (0..wanted).take_while(|nth| twin.push(next + nth).is_ok()).count();
                    assert_eq!(taken, room);
                    assert_eq!(values.start, next + taken, "a value was taken without room for it");
                    next += taken;
                }
                2 => assert_eq!(consumer.pop(), twin.pop()),
                _ => {
                    let (wanted, mut got) = (numbers.below(count + 2), Vec::new());
                    let taken = consumer.pop_batch(&mut got, wanted);
                    assert_eq!(taken, wanted.min(twin.values.len()));
                    assert_eq!(taken, got.len());
                    assert!(got.iter().all(|&value| Some(value) == twin.pop()));
                }
            }
            assert_eq!(producer.len(), twin.values.len());
        }
    });
}

#[test]
fn a_full_ring_gives_back_the_value() {
    let (mut producer, mut consumer) = channel_at(capacity(2), usize::MAX);
    assert_eq!(producer.push_batch(&mut (1..3)), 2);
    assert_eq!(producer.push(3), Err(Full(3)));
    assert_eq!(consumer.pop(), Some(1));
    assert_eq!(producer.push(3), Ok(()));
}

#[test]
fn whoever_goes_first_every_value_is_dropped_once() {
    everywhere(|start, count, numbers| {
        let alive = Arc::new(AtomicUsize::new(0));
        let (mut producer, mut consumer) = channel_at(capacity(count), start);
        for value in 0..3 * count {
            if producer.push(Counted::new(value, &alive)).is_err() {
                consumer.pop_batch(&mut Vec::new(), 1 + numbers.below(count));
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
fn between_threads_each_value_goes_to_one_consumer_in_order() {
    const EACH: usize = 20_000;
    for count in [2, 64] {
        let (mut producer, consumer) = channel_at(capacity(count), usize::MAX - 100);
        let left = AtomicUsize::new(EACH);
        let got: Vec<_> = thread::scope(|scope| {
            let workers: Vec<_> = (0..3)
                .map(|number| {
                    let (mut consumer, left) = (consumer.clone(), &left);
                    scope.spawn(move || {
                        let mut got = Vec::new();
                        while left.load(Ordering::Relaxed) != 0 {
                            let before = got.len();
                            match number {
                                0 => got.extend(consumer.pop()),
                                number => drop(consumer.pop_batch(&mut got, number * 2)),
                            }
                            match got.len() - before {
                                0 => thread::yield_now(),
                                count => drop(left.fetch_sub(count, Ordering::Relaxed)),
                            }
                        }
                        got
                    })
                })
                .collect();
            let mut values = (0..EACH).map(|nth| stamp(0, nth));
            let mut sent = 0;
            while sent < EACH {
                match producer.push_batch(&mut values.by_ref().take(7)) {
                    0 => thread::yield_now(),
                    count => sent += count,
                }
            }
            workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
        });
        check_stamps(&got, 1, EACH);
    }
}
