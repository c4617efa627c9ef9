//! Compares the heap with an ordered map.

use std::collections::BTreeMap;

use sluice_base::Rng;

use super::*;

fn check(timers: &Timers) {
    for (index, entry) in timers.heap.iter().enumerate() {
        assert_eq!(timers.slots[entry.slot as usize].heap_index as usize, index);
        if index > 0 {
            assert!(!entry.before(&timers.heap[(index - 1) / ARITY]));
        }
    }
}

#[test]
fn fires_and_cancels_as_an_ordered_map_would() {
    let mut rng = Rng::new(11);
    let mut timers = Timers::default();
    let mut model: BTreeMap<(u64, u64), TimerId> = BTreeMap::new();
    let mut ids: Vec<(u64, u64, TimerId)> = Vec::new();
    for step in 0..60_000_u64 {
        match rng.below(4) {
            0 | 1 => {
                let at = rng.below(1000);
                let id = timers.insert(at, Token(step));
                model.insert((at, step), id);
                ids.push((at, step, id));
            }
            2 if !ids.is_empty() => {
                let (at, order, id) = ids[rng.below(ids.len() as u64) as usize];
                let there = model.remove(&(at, order)).is_some();
                assert_eq!(timers.cancel(id), there.then_some(Token(order)));
            }
            _ => {
                let now = rng.below(1000);
                let due =
                    model.first_key_value().filter(|(key, _)| key.0 <= now).map(|(key, id)| (*key, *id));
                let got = timers.pop_due(now);
                assert_eq!(got, due.map(|(key, id)| (id, Token(key.1))));
                if let Some((key, _)) = due {
                    model.remove(&key);
                }
            }
        }
        assert_eq!(timers.len(), model.len());
        assert_eq!(timers.next_ns(), model.first_key_value().map(|(key, _)| key.0));
        if step % 64 == 0 {
            check(&timers);
        }
    }
}

#[test]
fn cancelling_a_fired_timer_spares_the_one_that_took_its_place() {
    let mut timers = Timers::default();
    let old = timers.insert(1, Token(1));
    assert!(timers.pop_due(1).is_some());
    timers.insert(5, Token(2));
    assert_eq!(timers.cancel(old), None);
    assert_eq!(timers.len(), 1);
}
