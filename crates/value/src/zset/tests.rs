use super::edge::Edge;
use super::leaf::ROW_BYTES_FILLED;
use super::*;
use sluice_base::Rng;
use std::collections::BTreeMap;

/// A simple model of a sorted set: scores by member.
#[derive(Clone, Default)]
struct Twin(BTreeMap<Vec<u8>, f64>);

impl Twin {
    fn sorted(&self) -> Vec<(Vec<u8>, f64)> {
        let mut all: Vec<_> = self.0.iter().map(|(member, score)| (member.clone(), *score)).collect();
        all.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
        all
    }
}

fn check(zset: &Zset, twin: &Twin) {
    let wanted = twin.sorted();
    let view = zset.view();
    let found: Vec<_> = view.iter_all().map(|(member, score)| (member.to_vec(), score)).collect();
    assert_eq!(found, wanted);
    let mut back: Vec<_> =
        view.iter(0..usize::MAX, Direction::Down).map(|(member, score)| (member.to_vec(), score)).collect();
    back.reverse();
    assert_eq!(back, wanted);
    assert_eq!(zset.len(), wanted.len());
    for (rank, (member, score)) in wanted.iter().enumerate() {
        assert_eq!(view.rank(member), Some((rank, *score)));
    }
    if let Body::Small(leaf) = &zset.0.body {
        leaf.check();
    }
    if let Body::Large(large) = &zset.0.body {
        large.check();
    }
}

/// The distribution of scores and members in a random test.
#[derive(Clone, Copy, Debug)]
struct Shape {
    scores: u64,
    members: u64,
    member_len: usize,
}

fn member(shape: Shape, rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(shape.members);
    let pad = if number.is_multiple_of(7) { shape.member_len } else { 0 };
    format!("{number:0pad$}").into_bytes()
}

fn score(shape: Shape, rng: &mut Rng) -> f64 {
    let number = rng.below(shape.scores) as f64;
    if rng.below(4) == 0 { number / 8.0 - 3.0 } else { number }
}

fn random_operations(seed: u64, shape: Shape, steps: usize) {
    let mut rng = Rng::new(seed);
    let seed_of_members = HashSeed { k0: seed, k1: 7 };
    let mut context = ZsetContext::new(ZsetLimits::default(), seed_of_members);
    let mut zset = Zset::default();
    let mut twin = Twin::default();
    let mut shares: Vec<(Zset, Twin)> = Vec::new();
    for step in 0..steps {
        let of = member(shape, &mut rng);
        match rng.below(100) {
            0..70 => {
                let score = score(shape, &mut rng);
                zset.change(&of, &mut context, |old| {
                    assert_eq!(old, twin.0.get(&of).copied());
                    (old != Some(score)).then_some(score)
                });
                twin.0.insert(of, score);
            }
            70..97 => assert_eq!(zset.remove(&of, &mut context), twin.0.remove(&of)),
            97 => {
                let len = zset.len() as u64;
                let start = rng.below(len + 1);
                let most = match rng.below(20) {
                    0 => len,
                    1 => len / 2,
                    _ => 40.min(len),
                };
                let end = (start + rng.below(most + 1)).min(len);
                let ranks = start as usize..end as usize;
                for (member, _) in twin.sorted()[ranks.clone()].iter() {
                    twin.0.remove(member);
                }
                zset.remove_ranks(ranks, &mut context);
            }
            98 => shares.push((zset.share(), twin.clone())),
            _ => {
                if !shares.is_empty() {
                    let at = rng.below(shares.len() as u64) as usize;
                    let (share, then) = shares.swap_remove(at);
                    check(&share, &then);
                }
            }
        }
        if step.is_multiple_of(steps / 20) {
            check(&zset, &twin);
            context.take_garbage();
        }
    }
    check(&zset, &twin);
    shares.iter().for_each(|(share, then)| check(share, then));
    drop(shares);
    context.take_garbage();
    check(&zset, &twin);
    if let Body::Large(large) = &zset.0.body {
        large.check_heap();
    }
}

#[test]
fn sets_do_what_naive_ones_do() {
    let shapes = [
        Shape { scores: 1 << 40, members: 3000, member_len: 20 },
        // Equal scores span several leaves and inner nodes.
        Shape { scores: 1, members: 6000, member_len: 9 },
        Shape { scores: 5, members: 20_000, member_len: 60 },
        Shape { scores: 1000, members: 600, member_len: 1500 },
        Shape { scores: 100, members: 60, member_len: 10 },
    ];
    for (seed, shape) in shapes.into_iter().enumerate() {
        random_operations(seed as u64 + 1, shape, 12_000);
    }
}

fn filled(count: u64, score: impl Fn(u64) -> f64) -> (Zset, ZsetContext) {
    let mut context = ZsetContext::new(ZsetLimits::default(), HashSeed { k0: 1, k1: 2 });
    let mut zset = Zset::default();
    for number in 0..count {
        zset.insert(format!("member:{number:06}").as_bytes(), score(number), &mut context);
    }
    (zset, context)
}

#[test]
fn edges_are_found_where_one_score_spans_leaves() {
    let (zset, _) = filled(20_000, |number| f64::from((number / 7000) as u32));
    let view = zset.view();
    assert_eq!(view.count_before(Edge::Score(0.0)), 0);
    assert_eq!(view.count_before(Edge::AfterScore(0.0)), 7000);
    assert_eq!(view.count_before(Edge::Score(1.0)), 7000);
    assert_eq!(view.count_before(Edge::AfterScore(1.0)), 14_000);
    assert_eq!(view.count_before(Edge::Score(1.5)), 14_000);
    assert_eq!(view.count_before(Edge::AfterScore(9.0)), 20_000);
    for number in (0..20_000).step_by(97) {
        let name = format!("member:{number:06}");
        assert_eq!(view.rank(name.as_bytes()), Some((number, f64::from((number / 7000) as u32))));
    }
    let (zset, _) = filled(20_000, |_| 0.5);
    let view = zset.view();
    for number in (0..20_000).step_by(97) {
        let name = format!("member:{number:06}");
        assert_eq!(view.count_before(Edge::Member(name.as_bytes())), number);
        assert_eq!(view.count_before(Edge::AfterMember(name.as_bytes())), number + 1);
    }
}

#[test]
fn scores_take_their_narrowest_form_and_come_back() {
    let scores = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        32_767.0,
        32_768.0,
        -32_768.0,
        -32_769.0,
        2_147_483_647.0,
        2_147_483_648.0,
        140_737_488_355_327.0,
        140_737_488_355_328.0,
        -140_737_488_355_328.0,
        0.5,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE,
    ];
    for score in scores {
        for len in [0, 1, 61, 62, 63, 65_535, 65_536] {
            let member = vec![b'm'; len];
            let mut row = vec![0; row::entry_len(&member, score)];
            assert_eq!(row::write(&mut row, &member, score), row.len());
            let entry = row::read(&row).expect("it was written");
            assert_eq!(
                (entry.member, entry.score.to_bits(), entry.len),
                (&member[..], score.to_bits(), row.len())
            );
            assert!(row::read(&row[..row.len() - 1]).is_none(), "a row that is cut off has no such element");
        }
    }
    assert_eq!(row::entry_len(b"0123456789abcdef", 1_700_000_000.0), 21);
}

#[test]
fn a_scan_visits_what_stays_while_the_set_grows_shrinks_and_changes_scores() {
    for seed in 0..12u64 {
        let mut rng = Rng::new(seed);
        let (mut zset, mut context) = filled(3000, |number| (number % 3) as f64);
        let mut seen = std::collections::BTreeSet::new();
        let (mut cursor, mut step) = (0, 0u64);
        loop {
            cursor = zset.view().scan(cursor, &mut |member, _| {
                seen.insert(member.to_vec());
            });
            if cursor == 0 {
                break;
            }
            step += 1;
            for _ in 0..rng.below(60) {
                let name = format!("more:{}", rng.below(20_000));
                match (seed + step / 40) % 2 {
                    0 if zset.view().score(name.as_bytes()).is_none() => {
                        zset.insert(name.as_bytes(), rng.below(5) as f64, &mut context);
                    }
                    _ => drop(zset.remove(name.as_bytes(), &mut context)),
                }
                let name = format!("member:{:06}", rng.below(3000));
                zset.change(name.as_bytes(), &mut context, |_| Some(rng.below(1000) as f64));
            }
        }
        let missed =
            (0..3000).filter(|number| !seen.contains(format!("member:{number:06}").as_bytes())).count();
        assert_eq!(missed, 0, "seed {seed}");
    }
}

/// The elements of a removed range disappear for every reader at once, and can be added again. Their old
/// leaves are cleared by later changes and by `clear_remains`.
#[test]
fn a_long_range_is_gone_before_its_leaves_are_cleared() {
    for scores in [1, 7, 100_000] {
        let (mut zset, mut context) = filled(20_000, |number| (number * scores / 20_000) as f64);
        let share = zset.share();
        let before: Vec<Vec<u8>> = zset.view().iter_all().map(|(member, _)| member.to_vec()).collect();
        context.take_garbage();
        zset.remove_ranks(3000..15_000, &mut context);
        assert!(zset.has_remains(), "some leaves are left to be cleared");
        assert_eq!(zset.len(), 8000);
        let left: Vec<&Vec<u8>> = before[..3000].iter().chain(&before[15_000..]).collect();
        assert!(zset.view().iter_all().map(|(member, _)| member).eq(left.iter().map(|name| name.as_slice())));
        assert!(before[3000..15_000].iter().all(|gone| zset.view().score(gone).is_none()));
        assert!(
            left.iter().enumerate().all(|(rank, name)| zset.view().rank(name).unwrap_or_default().0 == rank)
        );
        let mut seen = std::collections::BTreeSet::new();
        let mut cursor = 0;
        loop {
            cursor = zset.view().scan(cursor, &mut |member, _| {
                seen.insert(member.to_vec());
            });
            if cursor == 0 {
                break;
            }
        }
        assert!(seen.iter().eq(left.iter().copied().collect::<std::collections::BTreeSet<_>>()));
        check_quickly(&zset);
        // Removed members are added again while their old leaves still exist.
        for name in before[3000..15_000].iter().step_by(100) {
            assert_eq!(zset.remove(name, &mut context), None);
            zset.insert(name, 3.5, &mut context);
            assert_eq!(zset.view().score(name), Some(3.5));
            zset.change(name, &mut context, |_| Some(-1.0));
        }
        check_quickly(&zset);
        zset.remove_ranks(10..5000, &mut context);
        check_quickly(&zset);
        while zset.clear_remains(8, &mut context) {}
        assert!(share.view().iter_all().map(|(member, _)| member).eq(before.iter().map(Vec::as_slice)));
        drop((share, context.take_garbage()));
        assert!(!zset.has_remains());
        check_quickly(&zset);
        if let Body::Large(large) = &zset.0.body {
            large.check_heap();
        }
    }
}

#[test]
fn what_two_sets_share_is_not_freed_by_the_one_that_changes() {
    let (mut zset, mut context) = filled(5000, |number| number as f64);
    context.take_garbage();
    let share = zset.share();
    let before = leaf::FREED.get();
    for number in (0..5000).step_by(3) {
        zset.remove(format!("member:{number:06}").as_bytes(), &mut context);
    }
    zset.remove_ranks(0..3000, &mut context);
    drop(share);
    let elsewhere = context.take_garbage();
    let own = leaf::FREED.get() - before;
    drop(elsewhere);
    let all = leaf::FREED.get() - before;
    // The set itself frees its unshared copies of leaves, which grew and were joined.
    assert!(all > own + 100, "{own} of {all}");
    let Body::Large(large) = &zset.0.body else { panic!("a third of 5,000 is not small") };
    large.check();
}

#[test]
fn a_large_set_takes_few_bytes_for_an_element() {
    let mut context = ZsetContext::new(ZsetLimits::default(), HashSeed { k0: 1, k1: 2 });
    let mut zset = Zset::default();
    let mut rng = Rng::new(1);
    for number in 0..100_000 {
        zset.insert(format!("member:{number:09}").as_bytes(), rng.below(1 << 31) as f64, &mut context);
    }
    let each = zset.heap_bytes() / 100_000;
    // The reference's skip list and hash table take about 80 bytes for such an element.
    assert!(each < 46, "{each} bytes for an element of 16 bytes");
    check_quickly(&zset);
}

#[test]
fn elements_between_those_of_a_set_filled_in_order_split_no_leaf() {
    let count = 20_000;
    let (mut zset, mut context) = filled(count, |number| number as f64);
    let leaves = |zset: &Zset| match &zset.0.body {
        Body::Large(large) => large.leaf_numbers(),
        Body::Small(_) | Body::Garbage(_) => panic!("it is large"),
    };
    let filled_leaves = leaves(&zset);
    // Each leaf gets about five new elements.
    for number in (0..count).step_by(6) {
        zset.insert(format!("between:{number:06}").as_bytes(), number as f64 + 0.5, &mut context);
    }
    assert_eq!(leaves(&zset), filled_leaves, "of {} elements", zset.len());
    check_quickly(&zset);
    // Elements added in order again make leaves that are as full as the first ones.
    let in_order = |number: u64| (count + number) as f64;
    for number in 0..count {
        zset.insert(format!("behind:{number:06}").as_bytes(), in_order(number), &mut context);
    }
    let more = leaves(&zset) - filled_leaves;
    assert!(more.abs_diff(filled_leaves) < filled_leaves / 8, "{more} leaves after {filled_leaves}");
    check_quickly(&zset);
    // The members get rising scores, like times of last use. They fill new leaves, and the leaves that they
    // have left become free.
    let in_order = |number: u64| (3 * count + number) as f64;
    for number in 0..count {
        let member = format!("member:{number:06}");
        zset.change(member.as_bytes(), &mut context, |_| Some(in_order(number)));
    }
    let Body::Large(large) = &zset.0.body else { panic!("it is large") };
    let from = large.count_before(Edge::Element(in_order(0), b""));
    assert_eq!(zset.len() - from, count as usize);
    let bytes = |rank: usize| large.leaf_at(rank).map_or(0, |(leaf, _)| leaf.row().len());
    assert!((from..zset.len()).all(|rank| bytes(rank) <= ROW_BYTES_FILLED));
    check_quickly(&zset);
}

fn check_quickly(zset: &Zset) {
    let Body::Large(large) = &zset.0.body else { panic!("it is large") };
    large.check();
}

#[test]
fn encodings_follow_the_thresholds_and_stick() {
    let limits = ZsetLimits { entries_max: 3, value_max: 4 };
    let mut context = ZsetContext::new(limits, HashSeed::default());
    let mut zset = Zset::default();
    for (name, encoding) in [
        ("a", ZsetEncoding::Listpack),
        ("bbbb", ZsetEncoding::Listpack),
        ("c", ZsetEncoding::Listpack),
        ("d", ZsetEncoding::Skiplist),
    ] {
        zset.insert(name.as_bytes(), 1.0, &mut context);
        assert_eq!(zset.encoding(), encoding, "{name}");
    }
    zset.remove_ranks(0..3, &mut context);
    assert_eq!((zset.len(), zset.encoding()), (1, ZsetEncoding::Skiplist));
    let mut zset = Zset::default();
    zset.insert(b"bbbbb", 1.0, &mut context);
    assert_eq!(zset.encoding(), ZsetEncoding::Skiplist);
    let mut inline = vec![0; zset.inline_len().expect("it is small")];
    zset.write_inline(&mut inline);
    assert_eq!(Zset::from_inline(&inline, ZsetEncoding::Skiplist).view().score(b"bbbbb"), Some(1.0));
}

#[test]
fn members_that_appear_twice_are_found() {
    let mut context = ZsetContext::new(ZsetLimits::default(), HashSeed { k0: 1, k1: 2 });
    for count in [2, 100, 5000] {
        let names: Vec<String> = (0..count).map(|number| format!("m:{number}")).collect();
        for twice in [false, true] {
            let last = if twice { &names[count / 3] } else { &names[count - 1] };
            let names = names[..count - 1].iter().chain([last]);
            let elements: Vec<(&[u8], f64)> =
                names.enumerate().map(|(at, name)| (name.as_bytes(), at as f64)).collect();
            let zset = Zset::from_sorted(elements.iter().copied(), ZsetEncoding::Skiplist, &mut context);
            assert_eq!(zset.has_duplicates(), twice, "{count}");
            assert_eq!(zset.is_small(), count < 1000);
        }
    }
}

#[test]
fn members_of_one_command_have_the_scores_of_single_ones() {
    for count in [0, 1, 100, 5000] {
        let mut context = ZsetContext::new(ZsetLimits::default(), HashSeed { k0: 1, k1: 7 });
        let mut zset = Zset::new(ZsetEncoding::Skiplist);
        for number in 0..count {
            zset.change(format!("m{number}").as_bytes(), &mut context, |_| Some(f64::from(number * 7 % 512)));
        }
        // Some names are absent, and some occur twice.
        let names: Vec<String> = (0..40).map(|number| format!("m{}", number / 2 * 173)).collect();
        for asked in [0, 1, 15, 16, 17, 40] {
            let names = || names[..asked].iter().map(|name| name.as_bytes());
            let view = zset.view();
            let mut scores = Vec::new();
            view.score_each(names(), |score| scores.push(score));
            assert_eq!(scores, names().map(|name| view.score(name)).collect::<Vec<_>>());
            let mut taken = 0;
            view.prefetch(names().inspect(|_| taken += 1));
            assert!(taken == asked || taken == 0, "a small set asks for nothing");
        }
    }
}
