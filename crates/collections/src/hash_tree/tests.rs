//! Compares random operations with those on a map of the standard library. Shares (copies that have nodes in
//! common, `HashTree::share`) are taken between writes.

use super::*;
use sluice_base::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

type Twin = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

const SEED: HashSeed = HashSeed { k0: 3, k1: 5 };

fn check(tree: &HashTree) {
    let (_, sums) = if tree.is_empty() {
        (1, tree.sums)
    } else {
        tree.root.check(0..1 << 64, &|name| siphash13(SEED, name))
    };
    assert_eq!(sums, tree.sums);
}

fn contents(tree: &HashTree) -> Twin {
    let pair = |field: Field<'_>| (field.name.bytes().to_vec(), (field.value.bytes().to_vec(), field.expiry));
    let all: Twin = tree.iter().map(pair).collect();
    assert_eq!(all.len(), tree.iter().count(), "no field twice");
    assert_eq!(all.len(), tree.len());
    let step = (all.len() / 7).max(1);
    for rank in (0..=all.len() + 1).step_by(step) {
        let names = |field: Field<'_>| field.name.bytes().to_vec();
        assert!(tree.iter_from(rank).map(names).eq(tree.iter().skip(rank).map(names)), "{rank}");
    }
    all
}

/// A string of random length, sometimes long, that repeats `bytes`.
fn text(rng: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    let len = match rng.below(40) {
        0 => 500 + rng.below(30) as usize,
        1 => 1000,
        2..8 => 120 + rng.below(20) as usize,
        _ => rng.below(20) as usize,
    };
    bytes.iter().copied().cycle().take(len).collect()
}

fn name_of(rng: &mut Rng, names: u64) -> Vec<u8> {
    let number = rng.below(names);
    let mut name = format!("f{number}").into_bytes();
    match number % 50 {
        0 => name.resize(30 + number as usize % 8, b'x'),
        1 => name.resize(510 + number as usize % 5, b'y'),
        _ => {}
    }
    name
}

fn step(rng: &mut Rng, tree: &mut HashTree, twin: &mut Twin, names: u64, growing: bool) {
    let mut garbage = Vec::new();
    let name = name_of(rng, names);
    let at = rng.below(1000) as i64;
    let op = rng.below(10);
    match op {
        0..5 if growing || op == 0 => {
            let value = text(rng, b"value");
            let (mode, kept) = match rng.below(3) {
                0 => (Expiry::Keep, twin.get(&name).and_then(|(_, at)| *at)),
                1 => (Expiry::Clear, None),
                _ => (Expiry::At(at), Some(at)),
            };
            let new = tree.insert(&name, &value, mode, &mut garbage);
            assert_eq!(new, twin.insert(name, (value, kept)).is_none());
        }
        5 => {
            let expiry = (at % 2 == 0).then_some(at);
            let found = twin.get_mut(&name).map(|(_, at)| *at = expiry).is_some();
            assert_eq!(tree.set_expiry(&name, expiry), found);
        }
        6 if rng.below(20) == 0 => {
            let mut seen = BTreeSet::new();
            let removed = tree.remove_expired(100, 3, &mut garbage, |name| {
                seen.insert(name.to_vec());
            });
            assert_eq!(removed, seen.len());
            let expired = twin.values().filter(|(_, at)| at.is_some_and(|at| at <= 100)).count();
            assert_eq!(removed, expired.min(3));
            for name in seen {
                assert!(twin.remove(&name).is_some_and(|(_, at)| at.is_some_and(|at| at <= 100)));
            }
        }
        7 => {
            let field = tree.get(&name);
            let read = field.map(|field| (field.value.bytes().to_vec(), field.expiry));
            assert_eq!(read.as_ref(), twin.get(&name));
        }
        _ => {
            let had = twin.remove(&name);
            assert_eq!(tree.remove(&name, &mut garbage), had.is_some());
            let long = had.map_or(0, |(value, _)| usize::from(value.len() > leaf::INSIDE_MAX));
            let long_name = usize::from(name.len() > leaf::INSIDE_MAX);
            assert!(garbage.is_empty() || garbage.len() == long + long_name);
        }
    }
    assert_eq!(tree.len(), twin.len());
    let earliest = twin.values().filter_map(|(_, at)| *at).min();
    assert_eq!(tree.earliest(), earliest);
}

#[test]
fn a_tree_and_its_shares_do_what_a_map_does() {
    for seed in 0..12u64 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut tree = HashTree::new(SEED, Content::Fields);
        let mut twin = Twin::new();
        let mut shares: Vec<(HashTree, Twin)> = Vec::new();
        let names = [20, 300, 5000][seed as usize % 3];
        for turn in 0..12_000 {
            // The tree grows and shrinks alternately, so that nodes are split and joined.
            step(&mut rng, &mut tree, &mut twin, names, (turn / 3000) % 2 == 0);
            if rng.below(400) == 0 {
                check(&tree);
                shares.push((tree.share(), twin.clone()));
                if shares.len() > 3 {
                    let (share, was) = shares.swap_remove(rng.below(4) as usize);
                    check(&share);
                    assert_eq!(contents(&share), was);
                }
            }
        }
        check(&tree);
        assert_eq!(contents(&tree), twin);
        for (share, was) in shares {
            assert_eq!(contents(&share), was);
        }
    }
}

fn numbered(count: u32, content: Content) -> HashTree {
    let mut tree = HashTree::new(SEED, content);
    for number in 0..count {
        tree.insert(format!("member:{number}").as_bytes(), b"", Expiry::Clear, &mut Vec::new());
    }
    tree
}

#[test]
fn a_scan_visits_what_stays_exactly_once_while_nodes_split_and_join() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut tree = numbered(3000, Content::Members);
        let mut seen: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        let (mut cursor, mut turn) = (0, 0);
        loop {
            let mut visited = 0;
            cursor = tree.scan(cursor, 10, |field| {
                *seen.entry(field.name.bytes().to_vec()).or_default() += 1;
                visited += 1;
            });
            assert!(visited <= 10 && (visited > 0 || cursor == 0));
            if cursor == 0 {
                break;
            }
            turn += 1;
            // Members beyond the first 500 are added and removed in groups of a hundred.
            for _ in 0..100 {
                let name = format!("member:{}", 500 + rng.below(6000));
                if seed % 2 == turn / 20 % 2 {
                    tree.insert(name.as_bytes(), b"", Expiry::Clear, &mut Vec::new());
                } else {
                    tree.remove(name.as_bytes(), &mut Vec::new());
                }
            }
        }
        for number in 0..500 {
            assert_eq!(seen.get(format!("member:{number}").as_bytes()), Some(&1));
        }
    }
}

#[test]
fn fields_are_cut_out_by_their_ranks() {
    for count in [2, 63, 64, 65, 500, 5000, 40_000] {
        // Each kind of length is combined with each kind of start; small trees get more cases.
        for seed in 0..if count < 40_000 { 20 } else { 12 } {
            let mut rng = Rng::new(seed);
            let mut tree = HashTree::new(SEED, Content::Fields);
            for number in 0..count {
                let value = vec![b'v'; if number % 50 == 0 { 600 } else { number % 7 }];
                let expiry = if number % 9 == 0 { Expiry::At(number as i64) } else { Expiry::Clear };
                tree.insert(format!("f{number}").as_bytes(), &value, expiry, &mut Vec::new());
            }
            let share = tree.share();
            let before: Vec<Vec<u8>> = tree.iter().map(|field| field.name.bytes().to_vec()).collect();
            // The ranges are short and long, at the beginning, at the end, and between.
            let len =
                1 + rng.below([1, 70, count as u64 - 1][seed as usize % 3].min(count as u64 - 1)) as usize;
            let start = match seed % 4 {
                0 => 0,
                1 => count - len,
                _ => rng.below((count - len) as u64 + 1) as usize,
            };
            let pieces = tree.take_ranks(start..start + len);
            pieces.iter().for_each(check);
            check(&tree);
            let names =
                |tree: &HashTree| tree.iter().map(|field| field.name.bytes().to_vec()).collect::<Vec<_>>();
            let gone: Vec<Vec<u8>> = pieces.iter().flat_map(names).collect();
            assert_eq!(gone, before[start..start + len], "{count} fields, seed {seed}");
            let twin = contents(&share);
            let mut together = contents(&tree);
            assert_eq!(together.len(), count - len);
            pieces.iter().for_each(|piece| together.extend(contents(piece)));
            assert_eq!(together, twin);
            // The rest of the tree must behave like any other tree.
            let mut twin = contents(&tree);
            for _ in 0..200 {
                step(&mut rng, &mut tree, &mut twin, count as u64, seed % 2 == 0);
            }
            check(&tree);
            assert_eq!(contents(&tree), twin);
            check(&share);
        }
    }
}

#[test]
fn bulk_bytes_are_those_of_every_field_written_as_a_bulk_string() {
    let lengths = [0, 1, 9, 10, 11, 99, 100, 101, 511, 512, 513, 999, 1000, 9999, 10_000, 70_000];
    let written = |field: Field<'_>| {
        let name = field.name.bytes();
        format!("${}\r\n\r\n", name.len()).len() + name.len()
    };
    for content in [Content::Members, Content::Fields] {
        let mut tree = HashTree::new(SEED, content);
        for number in 0..3000_usize {
            let mut name = format!("{number}:").into_bytes();
            let len = if number % 9 == 0 { lengths[number / 9 % lengths.len()] } else { number % 120 };
            name.resize(len.max(name.len()), b'x');
            tree.insert(&name, b"", Expiry::Clear, &mut Vec::new());
        }
        for name in [&b""[..], b"x"] {
            tree.insert(name, b"", Expiry::Clear, &mut Vec::new());
        }
        check(&tree);
        assert_eq!(tree.bulk_bytes(), tree.iter().map(written).sum::<usize>());
        while let Some(field) = tree.nth(tree.len() / 2) {
            let name = field.name.bytes().to_vec();
            tree.remove(&name, &mut Vec::new());
            if tree.len().is_multiple_of(300) {
                assert_eq!(tree.bulk_bytes(), tree.iter().map(written).sum::<usize>());
            }
        }
    }
}

/// The rest of a tree may begin at any hash. An element inserted into the gap must be found after the nodes
/// around the gap are joined.
#[test]
fn what_comes_into_a_gap_is_found_when_nodes_are_joined() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut tree = HashTree::new(SEED, Content::Members);
        let mut twin = BTreeSet::new();
        let mut number = 0;
        for _ in 0..4 {
            while tree.len() < 20_000 {
                let name = format!("m{number}").into_bytes();
                number += 1;
                assert!(tree.insert(&name, b"", Expiry::Clear, &mut Vec::new()));
                twin.insert(name);
            }
            for _ in 0..4 {
                let start = rng.below(tree.len() as u64 - 4000) as usize;
                for piece in tree.take_ranks(start..start + 3000) {
                    piece.iter().for_each(|member| assert!(twin.remove(member.name.bytes())));
                }
            }
        }
        check(&tree);
        let mut all: Vec<Vec<u8>> = twin.into_iter().collect();
        while !all.is_empty() {
            let name = all.swap_remove(rng.below(all.len() as u64) as usize);
            assert!(tree.remove(&name, &mut Vec::new()), "seed {seed}, {} are left", tree.len());
            if all.len().is_multiple_of(500) {
                assert!(all.iter().all(|name| tree.contains(name)), "seed {seed}, {} are left", tree.len());
            }
        }
        assert!(tree.is_empty());
    }
}

#[test]
fn a_million_members_are_cut_in_as_many_steps_as_a_thousand() {
    let tree = numbered(100_000, Content::Members);
    let mut large = tree.share();
    let pieces = large.take_ranks(17..80_017);
    assert!(pieces.len() < 400, "{} pieces", pieces.len());
    // The copied nodes are those on the paths to both ends, and their leaves.
    let copied: usize = pieces.iter().map(HashTree::own_bytes).sum();
    assert!(copied < 40_000, "{copied} bytes were copied");
    assert_eq!(pieces.iter().map(HashTree::len).sum::<usize>() + large.len(), tree.len());
}

#[test]
fn every_rank_names_another_member() {
    let tree = numbered(5000, Content::Members);
    let names: BTreeSet<&[u8]> =
        (0..tree.len()).filter_map(|rank| tree.nth(rank)).map(|m| m.name.bytes()).collect();
    assert_eq!(names.len(), 5000);
    assert!(tree.nth(5000).is_none());
}

#[test]
fn a_write_beside_a_share_copies_one_path() {
    let mut tree = numbered(100_000, Content::Members);
    let share = tree.share();
    assert_eq!(tree.own_bytes(), 0);
    assert!(tree.is_shared() && share.is_shared());
    tree.remove(b"member:77", &mut Vec::new());
    let copied = tree.own_bytes();
    assert!(copied > 0 && copied < 20_000, "{copied} bytes copied");
    assert!(share.contains(b"member:77") && !tree.contains(b"member:77"));
    drop(share);
    assert_eq!(tree.own_bytes(), tree.heap_bytes());
}

#[test]
fn members_of_ten_bytes_take_less_than_twenty_two() {
    let tree = numbered(100_000, Content::Members);
    let names: usize = tree.iter().map(|member| member.name.bytes().len()).sum();
    let beside = (tree.heap_bytes() - names) as f64 / tree.len() as f64;
    assert!(beside < 10.0, "{beside} bytes beside each member");
}

#[test]
fn a_value_is_replaced_by_longer_and_shorter_ones() {
    let mut tree = HashTree::new(SEED, Content::Fields);
    let mut garbage = Vec::new();
    for len in [0, 1, 63, 64, 127, 128, 511, 512, 513, 5000, 513, 512, 64, 63, 0] {
        let value = vec![b'v'; len];
        for name in [b"a", b"b", b"c"] {
            tree.insert(name, &value, Expiry::At(len as i64), &mut garbage);
        }
        for name in [b"a", b"b", b"c"] {
            let field = tree.get(name).expect("the field was just stored");
            assert_eq!((field.value.bytes(), field.expiry), (&value[..], Some(len as i64)));
        }
        check(&tree);
    }
    // Each of three fields had a value of more than 512 bytes three times.
    assert_eq!(garbage.len(), 9);
}

#[test]
fn a_finder_finds_what_is_there_in_any_order() {
    let mut rng = Rng::new(11);
    let (mut tree, mut other) =
        (HashTree::new(SEED, Content::Members), HashTree::new(SEED, Content::Members));
    let mut twin = BTreeSet::new();
    for number in 0..9000 {
        let name = format!("m{number}").into_bytes();
        if rng.below(3) > 0 {
            tree.insert(&name, b"", Expiry::Clear, &mut Vec::new());
            twin.insert(name.clone());
        }
        other.insert(&name, b"", Expiry::Clear, &mut Vec::new());
    }
    let (mut in_order, mut in_disorder) = (tree.finder(), tree.finder());
    for field in other.iter() {
        let name = field.name.bytes();
        assert_eq!(in_order.contains(name), twin.contains(name));
        let name = format!("m{}", rng.below(10_000)).into_bytes();
        assert_eq!(in_disorder.contains(&name), twin.contains(&name));
    }
}

#[test]
fn fields_are_asked_for_of_trees_of_every_size() {
    for count in [0, 1, 20, 63, 64, 65, 5000] {
        let tree = numbered(count, Content::Members);
        let names: Vec<String> = (0..40).map(|number| format!("member:{}", number * 97)).collect();
        for asked in [0, 1, 15, 16, 17, 32, 40] {
            let mut taken = 0;
            let names = names[..asked].iter().map(|name| name.as_bytes());
            tree.prefetch(names.inspect(|_| taken += 1));
            assert_eq!(taken, asked, "each name once");
        }
        let mut taken = 0;
        tree.prefetch_group(names.iter().map(|name| name.as_bytes()).inspect(|_| taken += 1));
        assert_eq!(taken, 0, "the cache holds it");
        check(&tree);
    }
}

#[test]
fn fields_of_one_command_are_found_and_removed_as_single_ones_are() {
    for count in [0, 1, 20, 65, 5000] {
        let (mut tree, mut single) = (numbered(count, Content::Members), numbered(count, Content::Members));
        let before = tree.share();
        // Some names are absent, some occur twice, and some are neighbours in one leaf.
        let names: Vec<String> = (0..3000).map(|number| format!("member:{}", number * 7 % 2600)).collect();
        for asked in [0, 1, 2, 15, 16, 17, 33, 3000] {
            let asked = || names[..asked].iter().map(|name| name.as_bytes());
            let mut there = Vec::new();
            tree.contains_each(asked(), |is_there| there.push(is_there));
            assert_eq!(there, asked().map(|name| single.contains(name)).collect::<Vec<_>>());
            let mut found = Vec::new();
            tree.get_each(asked(), |field| found.push(field.map(|field| field.name.bytes().to_vec())));
            let alone = asked().map(|name| single.get(name).map(|field| field.name.bytes().to_vec()));
            assert_eq!(found, alone.collect::<Vec<_>>());
            let removed = tree.remove_each(asked(), &mut Vec::new());
            assert_eq!(removed, asked().filter(|name| single.remove(name, &mut Vec::new())).count());
            check(&tree);
            assert_eq!(tree.len(), single.len());
        }
        assert_eq!(before.len(), count as usize);
        check(&before);
    }
}
