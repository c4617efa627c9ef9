//! Lists compared with a deque of vectors. Between writes the tests take shares (second owners of the value),
//! which must not change.

use std::collections::VecDeque;

use sluice_base::Rng;
use sluice_base::num::IntBuffer;

use super::chunk::FREED;
use super::{List, ListContext, ListEncoding, ListItem, ListLimits, ListRef};

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

/// A random element. Depending on `style`, the lengths of the elements in one list are equal, similar, or of
/// all kinds.
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
            let popped = list
                .view()
                .iter_rev(0..usize::MAX)
                .next()
                .map(|item| item.bytes(&mut IntBuffer::new()).to_vec());
            list.remove_back(1, context);
            assert_eq!(popped, model.pop_back());
        }
        16..19 => {
            list.insert(at, &value, context);
            model.insert(at, value);
        }
        19..21 => {
            let set = list.set(at, &value, context);
            assert_eq!(set, model.get_mut(at).map(|element| *element = value).is_some());
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

fn context(max_listpack_size: i32, compress_depth: u32) -> ListContext {
    ListContext {
        limits: ListLimits { max_listpack_size, compress_depth, packed_threshold: 0 },
        garbage: Vec::new(),
    }
}

#[test]
fn a_list_is_a_deque_and_shares_keep_what_they_had() {
    let mut deepest = 0;
    for seed in 0..96 {
        let mut rng = Rng::new(seed);
        let style = seed % 4;
        // Half of the seeds have limits that allow only one or three elements in a chunk, so that the tree
        // has many nodes.
        let mut context = context([-2, 1, 3, -1][(seed / 4 % 4) as usize], (seed / 16 % 3) as u32);
        let (mut list, mut model) = (List::new(), Model::new());
        if seed % 5 == 0 {
            list.0.encoding = ListEncoding::Quicklist;
        }
        for _ in 0..rng.below(2) * rng.below(3000) {
            let value = element(&mut rng, style);
            list.push_back(&value, &mut context);
            model.push_back(value);
        }
        let mut shares: Vec<(List, Model)> = Vec::new();
        for round in 0..1500 {
            if rng.below(30) == 0 {
                shares.push((list.share(), model.clone()));
            }
            if shares.len() > 8 {
                drop(shares.swap_remove(rng.below(8) as usize));
            }
            if rng.below(50) == 0 {
                context.garbage.clear();
            }
            if rng.below(100) == 0 {
                context.limits.packed_threshold = [0, 1, 20, 300, 100_000][rng.below(5) as usize];
            }
            step(&mut rng, style, &mut list, &mut model, &mut context);
            deepest = deepest.max(list.0.middle.check());
            assert_eq!(list.len(), model.len());
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
    assert!(deepest >= 4, "{deepest}");
}

/// The lists have many chunks; in style 0 all elements of a chunk have the same length.
#[test]
fn ranges_begin_and_end_anywhere() {
    let mut rng = Rng::new(8);
    for style in 0..4 {
        let (mut list, mut model, mut context) = (List::new(), Model::new(), context(-2, style as u32 % 2));
        for _ in 0..5000 {
            let value = element(&mut rng, style);
            list.push_front(&value, &mut context);
            model.push_front(value);
        }
        for _ in 0..200 {
            let from = rng.below(5200) as usize;
            let to = from + rng.below(600) as usize;
            let wanted: Vec<_> = model.iter().take(to).skip(from).cloned().collect();
            let (mut ahead, mut back) = (list.view().iter(from..to), list.view().iter_rev(from..to));
            for value in &wanted {
                assert_eq!(
                    ahead.next().map(|item| item.bytes(&mut IntBuffer::new()).to_vec()).as_ref(),
                    Some(value)
                );
            }
            for value in wanted.iter().rev() {
                assert_eq!(
                    back.next().map(|item| item.bytes(&mut IntBuffer::new()).to_vec()).as_ref(),
                    Some(value)
                );
            }
            assert!(ahead.next().is_none() && back.next().is_none());
        }
        let wanted = model[2500].clone();
        let indexes: Vec<usize> = (0..5000).filter(|&at| model[at] == wanted).collect();
        let mut found = Vec::new();
        let mut iter = list.view().iter(0..5000);
        while let Some(index) = iter.find_equal(&wanted) {
            found.push(index);
        }
        assert_eq!(found, indexes);
        let mut iter = list.view().iter_rev(0..5000);
        for index in indexes.iter().rev() {
            assert_eq!(iter.find_equal(&wanted), Some(*index));
        }
    }
}

/// When `max_listpack_size` is lowered, a full chunk becomes thousands of leaves, which are more than one
/// node of the tree can hold.
#[test]
fn a_setting_may_be_lowered_under_a_full_list() {
    for chunks in [1, 2, 3, 4, 70, 400] {
        for depth in 0..2 {
            let (mut list, mut model, mut context) = (List::new(), Model::new(), context(-2, depth));
            for number in 0..chunks * 2700 {
                let value = (number % 100).to_string().into_bytes();
                list.push_back(&value, &mut context);
                model.push_back(value);
            }
            context.limits.max_listpack_size = 1;
            for part in 0..5 {
                let at = model.len() * part / 5;
                list.insert(at, b"new", &mut context);
                model.insert(at, b"new".to_vec());
                let at = model.len() - 1 - model.len() * part / 50;
                list.set(at, b"other", &mut context);
                model[at] = b"other".to_vec();
                list.0.middle.check();
            }
            check(list.view(), &model);
            while model.len() > 10 {
                let cut = model.len() / 3 + 1;
                list.trim(cut..cut * 2, &mut context);
                model.truncate(cut * 2);
                model.drain(..cut);
                list.0.middle.check();
                list.insert(model.len() / 2, b"new", &mut context);
                model.insert(model.len() / 2, b"new".to_vec());
            }
            check(list.view(), &model);
        }
    }
}

/// Another thread holds shares of the list and its garbage, and drops them before, between or after the
/// changes.
#[test]
fn the_thread_that_changes_a_list_frees_no_chunk() {
    for order in 0..3 {
        let (sender, receiver) = std::sync::mpsc::channel::<List>();
        let freeing = std::thread::spawn(move || {
            let mut held = Vec::new();
            for list in receiver {
                match order {
                    0 => drop(list),
                    1 => held.push(list),
                    _ => {
                        held.push(list);
                        if held.len() > 5 {
                            held.remove(2);
                        }
                    }
                }
            }
            drop(held);
            FREED.get()
        });
        let mut rng = Rng::new(order);
        let (mut list, mut model, mut context) = (List::new(), Model::new(), context(3, 0));
        let before = FREED.get();
        for round in 0..4000 {
            step(&mut rng, 1, &mut list, &mut model, &mut context);
            if rng.below(20) == 0 {
                sender.send(list.share()).expect("the thread runs");
            }
            context.garbage.drain(..).for_each(|part| sender.send(part).expect("the thread runs"));
            if round == 3000 {
                list.trim(1..1, &mut context);
                model.clear();
            }
        }
        check(list.view(), &model);
        sender.send(list).expect("the thread runs");
        assert_eq!(FREED.get(), before);
        drop(sender);
        assert!(freeing.join().expect("the thread ends") > 500);
    }
}

#[test]
fn trimming_a_million_touches_a_path() {
    let (mut list, mut context) = (List::new(), context(-2, 0));
    for number in 0..1_000_000 {
        list.push_back(format!("element:{number:08}").as_bytes(), &mut context);
    }
    // The garbage of the pushes is not counted below.
    context.garbage.clear();
    let share = list.share();
    list.trim(499_990..500_010, &mut context);
    // The garbage has at most one part for each level of the tree at each end, the nodes above the elements
    // that are left, and the two end chunks.
    assert!(context.garbage.len() < 24, "{}", context.garbage.len());
    assert_eq!(list.len(), 20);
    assert_eq!(share.len(), 1_000_000);
    assert_eq!(read(list.view())[10], b"element:00500000");
    assert!(list.inline_len().is_some());
}

/// The reference needs a listpack entry of 18 bytes for each element, and 40 bytes and more for each
/// node of 8 KiB.
#[test]
fn elements_of_one_length_take_little_more_than_their_bytes() {
    let (mut list, mut context) = (List::new(), context(-2, 0));
    for number in 0..2_200_000 {
        list.push_front(format!("element:{number:08}").as_bytes(), &mut context);
    }
    let per_element = list.heap_bytes() as f64 / 2_200_000.0;
    assert!((16.0..16.3).contains(&per_element), "{per_element}");
}

/// A list that outgrows the inline form is at first a chunk of listpack entries. It then becomes a uniform
/// chunk, which stores the common length of its elements once.
#[test]
fn a_list_that_grew_out_of_its_entry_keeps_one_length_once() {
    let mut context = context(-2, 0);
    let mut list = List::new();
    let values: Vec<Vec<u8>> = (0..100).map(|number| format!("element:{number:08}").into_bytes()).collect();
    for value in &values {
        if let Some(len) = list.inline_len() {
            let mut bytes = vec![0; len];
            list.write_inline(&mut bytes);
            list = List::from_inline(&bytes, list.encoding());
        }
        list.push_back(value, &mut context);
    }
    assert_eq!(read(list.view()), values);
    assert!(list.heap_bytes() < 1792 + 128, "{}", list.heap_bytes());
    list.push_back(b"1", &mut context);
    assert_eq!(list.view().get(100, |item| matches!(item, ListItem::Int(1))), Some(true));
    assert_eq!(list.view().get(99, |item| matches!(item, ListItem::Bytes(b"element:00000099"))), Some(true));
}

#[test]
fn inner_chunks_are_compressed_and_the_ends_are_not() {
    let bytes = |depth| {
        let (mut list, mut context) = (List::new(), context(-2, depth));
        for number in 0..50_000 {
            list.push_back(format!("element:{number:08}").as_bytes(), &mut context);
        }
        let middle = list.len() / 2;
        list.set(middle, b"another", &mut context);
        list.view().get(middle, |item| assert_eq!(item.bytes(&mut IntBuffer::new()), b"another"));
        list.heap_bytes()
    };
    let (none, one, three) = (bytes(0), bytes(1), bytes(3));
    assert!(one < none / 2, "{one} of {none}");
    assert!(one + 3 * 4096 < three && three < one + 5 * 8192, "{one} {three}");
}

/// Which leaves are compressed, in a list with one element in each leaf.
fn compressed(list: &List) -> Vec<bool> {
    (0..list.len()).map(|index| list.0.find(index).is_some_and(|(leaf, _)| leaf.is_compressed())).collect()
}

#[test]
fn as_many_leaves_as_the_setting_says_are_not_compressed_at_either_end() {
    for depth in [1, 2, 3, 40, 100] {
        for leaves in [1, 3, 79, 80, 81, 82, 2000] {
            for ends in 1..4 {
                let (mut list, mut context) = (List::new(), context(1, depth));
                for number in 0..leaves {
                    let to_back = if ends == 3 { number % 2 == 0 } else { ends == 1 };
                    let push = if to_back { List::push_back } else { List::push_front };
                    push(&mut list, &[b'x'; 100], &mut context);
                }
                list.0.middle.check();
                let left_alone = |at: usize| at.min(leaves - 1 - at) < depth as usize;
                let wanted: Vec<bool> = (0..leaves).map(|at| !left_alone(at)).collect();
                assert_eq!(compressed(&list), wanted, "{depth} of {leaves}, {ends}");
            }
        }
    }
}

/// Pushing a new leaf must not visit all leaves.
#[test]
fn a_depth_that_no_list_reaches_costs_nothing() {
    let (mut list, mut context) = (List::new(), context(1, 100_000_000));
    (0..100_000).for_each(|_| list.push_back(b"x", &mut context));
    assert!(!compressed(&list).contains(&true));
    context.limits.compress_depth = 40_000;
    (0..100_000).for_each(|_| list.push_back(&[b'x'; 100], &mut context));
    assert!(compressed(&list)[100_000..160_000].iter().all(|compressed| *compressed));
}

#[test]
fn encodings_follow_thresholds_and_stick() {
    use ListEncoding::{Listpack, Quicklist};
    let (mut list, mut context) = (List::new(), context(3, 0));
    let limits = context.limits;
    list.convert_before_adding(3, 3, limits);
    (0..3).for_each(|_| list.push_back(b"1", &mut context));
    assert_eq!(list.encoding(), Listpack);
    list.convert_before_adding(1, 1, limits);
    assert_eq!(list.encoding(), Quicklist);
    list.convert_after_removing(limits);
    list.remove_front(1, &mut context);
    list.convert_after_removing(limits);
    assert_eq!((list.len(), list.encoding()), (2, Quicklist));
    list.remove_front(1, &mut context);
    list.convert_after_removing(limits);
    assert_eq!(list.encoding(), Listpack);

    let four = ListLimits { max_listpack_size: -1, compress_depth: 0, packed_threshold: 0 };
    let fitting = 4096 - 7 - 2;
    list.convert_before_adding(1, fitting, four);
    assert_eq!(list.encoding(), Listpack);
    list.convert_before_adding(1, fitting + 1, four);
    assert_eq!(list.encoding(), Quicklist);
    let counted = ListLimits { max_listpack_size: 1000, compress_depth: 0, packed_threshold: 0 };
    list.convert_after_removing(counted);
    assert_eq!(list.encoding(), Listpack);
    list.convert_before_adding(1, 8192 - 7 - 2 + 1, counted);
    assert_eq!(list.encoding(), Quicklist);
}

#[test]
fn an_element_from_the_threshold_on_has_a_leaf_of_its_own() {
    let mut context = ListContext::default();
    context.limits.packed_threshold = 10;
    let mut list = List::new();
    let leaves = |list: &List| list.0.sums().heap - list.0.middle.sums().heap;
    list.push_back(&[b'x'; 10], &mut context);
    list.push_back(b"a", &mut context);
    assert!(list.inline_len().is_some(), "a listpack has one leaf");
    list.0.encoding = ListEncoding::Quicklist;
    list.set(1, &[b'y'; 9], &mut context);
    assert!(list.inline_len().is_some(), "9 bytes are below the threshold");
    let before = leaves(&list);
    list.set(1, &[b'y'; 10], &mut context);
    assert!(list.inline_len().is_none() && leaves(&list) > before);
    list.push_front(&[b'z'; 10], &mut context);
    list.insert(1, b"b", &mut context);
    assert_eq!(read(list.view()), [&[b'z'; 10][..], b"b", &[b'x'; 10], &[b'y'; 10]]);
    // A list whose only node is not a listpack stays a quicklist. When the threshold is raised above the
    // element's length, the node counts as a listpack, and the list becomes one again.
    list.remove_front(3, &mut context);
    list.convert_after_removing(context.limits);
    assert_eq!(list.encoding(), ListEncoding::Quicklist);
    context.limits.packed_threshold = 11;
    list.convert_after_removing(context.limits);
    assert_eq!(list.encoding(), ListEncoding::Listpack);
}

#[test]
fn an_element_larger_than_our_chunk_and_smaller_than_the_references_node_is_packed() {
    let wide = ListLimits { max_listpack_size: -3, ..ListLimits::default() };
    let mut context = ListContext { limits: wide, garbage: Vec::new() };
    let mut list = List::new();
    list.0.encoding = ListEncoding::Quicklist;
    list.push_back(&[b'x'; 8000], &mut context);
    list.convert_after_removing(wide);
    assert_eq!(list.encoding(), ListEncoding::Listpack);
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
