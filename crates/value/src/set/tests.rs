use super::*;
use sluice_base::Rng;
use sluice_base::num::IntBuffer;
use std::collections::BTreeSet;

fn members(set: SetRef<'_>) -> Vec<Vec<u8>> {
    set.iter().map(|item| item.bytes(&mut IntBuffer::new()).to_vec()).collect()
}

/// A random member of any kind: a small or large integer, a text, a text that is nearly an integer, or a long
/// text.
fn member(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0..5 => rng.below(60).to_string().into_bytes(),
        5 => (rng.next_u64() as i64 >> rng.below(64)).to_string().into_bytes(),
        6 => format!("0{}", rng.below(9)).into_bytes(),
        7 => vec![b'x'; 60 + rng.below(10) as usize],
        8 => vec![b'y'; 500 + rng.below(40) as usize],
        _ => format!("m{}", rng.below(200)).into_bytes(),
    }
}

fn check(set: &Set, naive: &BTreeSet<Vec<u8>>) {
    let all = members(set.view());
    assert_eq!(all.len(), naive.len());
    assert_eq!(set.len(), naive.len());
    assert_eq!(all.iter().cloned().collect::<BTreeSet<_>>(), *naive);
    for (rank, member) in all.iter().enumerate() {
        let nth = set.view().nth(rank).expect("the rank is below the length");
        assert_eq!(nth.bytes(&mut IntBuffer::new()), member);
    }
    if let Some(len) = set.inline_len() {
        let mut bytes = vec![0; len];
        set.write_inline(&mut bytes);
        let inline = SetRef::Inline { bytes: &bytes, encoding: set.encoding() };
        assert_eq!(members(inline), all);
        let back = Set::from_inline(&bytes, set.encoding());
        assert_eq!(members(back.view()), all);
        assert_eq!(back.encoding(), set.encoding());
    }
}

#[test]
fn it_agrees_with_an_ordered_set_while_shares_are_taken() {
    let mut rng = Rng::new(1);
    for round in 0..120_u64 {
        let limits = SetLimits {
            max_intset: [4, 30, 512][round as usize % 3],
            max_entries: 20,
            ..SetLimits::default()
        };
        let mut context = SetContext { limits, ..SetContext::default() };
        let (mut set, mut naive) = (Set::default(), BTreeSet::new());
        let mut shares: Vec<(Set, BTreeSet<Vec<u8>>)> = Vec::new();
        let ints_only = round % 4 == 0;
        for step in 0..400 {
            let member = if ints_only { rng.below(300).to_string().into_bytes() } else { member(&mut rng) };
            let before = set.encoding();
            if rng.below(5) < 3 {
                assert_eq!(set.add(&member, &mut context), naive.insert(member.clone()));
            } else {
                assert_eq!(set.remove(&member, &mut context), naive.remove(&member));
                assert_eq!(set.encoding(), before, "removing converts nothing");
            }
            assert_eq!(set.view().contains(&member), naive.contains(&member));
            let expected = match set.encoding() {
                SetEncoding::Intset => set.len() <= limits.max_intset,
                SetEncoding::Listpack => set.len() <= limits.max_entries,
                SetEncoding::Hashtable => true,
            };
            assert!(expected, "{} members in {:?}", set.len(), set.encoding());
            assert!(before != SetEncoding::Hashtable || set.encoding() == before, "conversions stick");
            if step % 50 == 0 {
                shares.push((set.share(), naive.clone()));
                check(&set, &naive);
            }
        }
        check(&set, &naive);
        shares.iter().for_each(|(set, naive)| check(set, naive));
    }
}

#[test]
fn a_scan_visits_everything_that_stays() {
    let mut context = SetContext::default();
    let mut set = Set::default();
    let mut rng = Rng::new(2);
    let stays: Vec<Vec<u8>> = (0..3000).map(|n| format!("stays{n}").into_bytes()).collect();
    stays.iter().for_each(|member| assert!(set.add(member, &mut context)));
    let (mut cursor, mut seen) = (0, BTreeSet::new());
    loop {
        cursor = set.view().scan(cursor, 10, |item| {
            seen.insert(item.bytes(&mut IntBuffer::new()).to_vec());
        });
        if cursor == 0 {
            break;
        }
        for _ in 0..20 {
            let other = format!("other{}", rng.below(2000)).into_bytes();
            if !set.add(&other, &mut context) {
                set.remove(&other, &mut context);
            }
        }
    }
    assert!(stays.iter().all(|member| seen.contains(member)));
}

#[test]
fn rows_with_a_member_twice_are_refused_and_digits_become_integers() {
    let row = |elements: &[Element<'_>]| {
        let mut row = Vec::new();
        for element in elements {
            let start = row.len();
            row.resize(start + entry::len(*element), 0);
            entry::write(&mut row[start..], *element);
        }
        row
    };
    assert!(Set::from_row(&row(&[Element::Bytes(b"a"), Element::Bytes(b"a")])).is_none());
    assert!(Set::from_row(&row(&[Element::Int(5), Element::Bytes(b"5")])).is_none());
    let set = Set::from_row(&row(&[Element::Bytes(b"5"), Element::Bytes(b"a")])).expect("each is there once");
    assert!(set.view().contains(b"5"));
    assert_eq!(set.view().row().map(|(_, len)| len), Some(2));
}

#[test]
fn copies_are_made_of_what_is_shared_alone() {
    let mut context = SetContext::default();
    let mut set = Set::default();
    for n in 0..20_000 {
        set.add(format!("member{n}").as_bytes(), &mut context);
    }
    let all = set.heap_bytes();
    assert!(set.own_bytes() > all / 10 * 9);
    let share = set.share();
    assert!(set.is_shared());
    set.add(b"one more", &mut context);
    assert!(set.own_bytes() < all / 20, "{} of {all} bytes were copied for one member", set.own_bytes());
    assert_eq!(share.len() + 1, set.len());
}
