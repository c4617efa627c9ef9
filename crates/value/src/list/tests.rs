//! Lists against a deque of vectors, with shares taken between any two writes.

use std::collections::VecDeque;

use sluice_base::Rng;
use sluice_base::num::IntBuffer;

use super::{List, ListContext, ListRef};

type Model = VecDeque<Vec<u8>>;

fn read(list: ListRef<'_>) -> Vec<Vec<u8>> {
    let mut iter = list.iter(0..usize::MAX);
    let mut all = Vec::new();
    while let Some(item) = iter.next() {
        all.push(item.bytes(&mut IntBuffer::new()).to_vec());
    }
    all
}

fn read_backwards(list: ListRef<'_>) -> Vec<Vec<u8>> {
    let mut iter = list.iter_rev(0..usize::MAX);
    let mut all = Vec::new();
    while let Some(item) = iter.next() {
        all.push(item.bytes(&mut IntBuffer::new()).to_vec());
    }
    all.reverse();
    all
}

/// Some element: the lengths of one list are equal, alike or of all kinds, as `style` says.
fn element(rng: &mut Rng, style: u64) -> Vec<u8> {
    let len = match style {
        0 => 16,
        1 => rng.below(30),
        2 => return ((rng.next_u64() as i64) >> rng.below(64)).to_string().into_bytes(),
        _ => match rng.below(20) {
            0 => rng.below(10_000),
            1 => rng.below(1000),
            2 => return rng.below(10).to_string().into_bytes(),
            _ => rng.below(70),
        },
    };
    let letter = b'a' + rng.below(4) as u8;
    (0..len).map(|at| if at == len / 2 { b'0' + rng.below(10) as u8 } else { letter }).collect()
}

fn step(rng: &mut Rng, style: u64, list: &mut List, model: &mut Model, context: &mut ListContext) {
    let value = element(rng, style);
    let at = rng.below(model.len() as u64 + 1) as usize;
    match rng.below(24) {
        0..6 => {
            list.push_back(&value, context);
            model.push_back(value);
        }
        6..12 => {
            list.push_front(&value, context);
            model.push_front(value);
        }
        12..14 => {
            let popped = list.pop_front(context, |item| item.bytes(&mut IntBuffer::new()).to_vec());
            assert_eq!(popped, model.pop_front());
        }
        14..16 => {
            let popped = list.pop_back(context, |item| item.bytes(&mut IntBuffer::new()).to_vec());
            assert_eq!(popped, model.pop_back());
        }
        16..19 => {
            list.insert(at, &value, context);
            model.insert(at, value);
        }
        19..21 => {
            let set = list.set(at, &value, context);
            assert_eq!(set, model.get_mut(at).map(|place| *place = value).is_some());
        }
        21 => {
            let wanted = model.get(at).cloned().unwrap_or(value);
            let count = rng.below(7) as i64 - 3;
            let mut left = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
            let mut indexes: Vec<usize> = (0..model.len()).filter(|&index| model[index] == wanted).collect();
            if count < 0 {
                indexes.reverse();
            }
            left = left.min(indexes.len());
            indexes.truncate(left);
            indexes.sort_unstable();
            indexes.iter().rev().for_each(|&index| drop(model.remove(index)));
            assert_eq!(list.remove_equal(count, &wanted, context), left);
        }
        22 => {
            let (front, back) = (rng.below(4) as usize, rng.below(4) as usize);
            list.remove_front(front, context);
            model.drain(..front.min(model.len()));
            list.remove_back(back, context);
            model.truncate(model.len().saturating_sub(back));
        }
        _ if rng.below(40) == 0 => {
            let end = at + rng.below(model.len() as u64 + 1) as usize;
            list.trim(at..end, context);
            model.truncate(end.min(model.len()));
            model.drain(..at.min(model.len()));
        }
        _ => {}
    }
}

fn check(list: ListRef<'_>, model: &Model) {
    assert_eq!(list.len(), model.len());
    assert!(*model == read(list));
    assert!(*model == read_backwards(list));
}

#[test]
fn a_list_is_a_deque_and_shares_keep_what_they_had() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let style = seed % 4;
        let (mut list, mut model, mut context) = (List::new(), Model::new(), ListContext::default());
        let mut shares: Vec<(List, Model)> = Vec::new();
        for round in 0..1500 {
            if rng.below(30) == 0 {
                shares.push((list.share(), model.clone()));
            }
            if shares.len() > 8 {
                drop(shares.swap_remove(rng.below(8) as usize));
            }
            step(&mut rng, style, &mut list, &mut model, &mut context);
            if round % 50 == 0 {
                check(list.view(), &model);
                let at = rng.below(model.len() as u64 + 1) as usize;
                let found = list.view().get(at, |item| item.bytes(&mut IntBuffer::new()).to_vec());
                assert_eq!(found.as_ref(), model.get(at));
            }
        }
        check(list.view(), &model);
        shares.iter().for_each(|(list, model)| check(list.view(), model));
    }
}

#[test]
fn an_inline_list_is_the_list() {
    let mut rng = Rng::new(4);
    let mut inlined = 0;
    for style in 0..4 {
        for len in 0..60 {
            let (mut list, mut model, mut context) = (List::new(), Model::new(), ListContext::default());
            for _ in 0..len {
                let value = element(&mut rng, style);
                list.push_back(&value, &mut context);
                model.push_back(value);
            }
            let Some(size) = list.inline_len() else { continue };
            inlined += 1;
            let mut bytes = vec![0; size];
            list.write_inline(&mut bytes);
            check(ListRef::Inline { bytes: &bytes, encoding: list.encoding() }, &model);
            let mut again = List::from_inline(&bytes, list.encoding());
            check(again.view(), &model);
            step(&mut rng, style, &mut again, &mut model, &mut context);
            check(again.view(), &model);
        }
    }
    assert!(inlined > 60);
}
