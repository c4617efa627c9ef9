//! Hashes in every form, compared with a map of the standard library after random operations. Between writes
//! the test takes shares (second owners of the value), which must not change.

use super::*;
use sluice_base::rng::Rng;
use sluice_collections::listpack::entry;
use std::collections::BTreeMap;

type Twin = BTreeMap<Vec<u8>, (Vec<u8>, Option<i64>)>;

fn contents(hash: HashRef<'_>) -> Twin {
    let mut all = Twin::new();
    for field in hash.iter() {
        let (mut name, mut value) = (IntBuffer::new(), IntBuffer::new());
        let value = field.value.bytes(&mut value).to_vec();
        all.insert(field.name.bytes(&mut name).to_vec(), (value, field.expiry));
    }
    assert_eq!(all.len(), hash.len());
    all
}

fn text(rng: &mut Rng, prefix: u8, long: u64) -> Vec<u8> {
    match rng.below(long) {
        0 => vec![prefix; 60 + rng.below(10) as usize],
        1 => vec![prefix; 1 + rng.below(1500) as usize],
        2..5 => rng.below(100_000).to_string().into_bytes(),
        _ => [&[prefix][..], rng.below(1000).to_string().as_bytes()].concat(),
    }
}

#[test]
fn a_hash_and_its_shares_do_what_a_map_does() {
    for seed in 0..30u64 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let limits = HashLimits { max_entries: [8, 200][seed as usize % 2], ..HashLimits::default() };
        let mut context = HashContext { limits, ..HashContext::default() };
        let (mut hash, mut twin) = (Hash::new(), Twin::new());
        let mut shares = Vec::new();
        let (names, long) = ([10, 300][seed as usize / 2 % 2], [1000, 40][seed as usize / 4 % 2]);
        let volatile = seed % 3 == 0;
        for _ in 0..1500 {
            let name = format!("f{}", rng.below(names)).into_bytes();
            let was = hash.encoding();
            match rng.below(10) {
                0..4 => {
                    let value = text(&mut rng, b'v', long);
                    let is_new = hash.set(&name, &value, Expiry::Keep, &mut context);
                    let kept = twin.get(&name).and_then(|(_, at)| *at);
                    assert_eq!(is_new, twin.insert(name, (value, kept)).is_none());
                }
                4 if volatile && rng.below(30) == 0 => {
                    let at = Some(rng.below(500) as i64).filter(|at| at % 3 > 0);
                    let found = twin.get_mut(&name).map(|(_, expiry)| *expiry = at).is_some();
                    assert_eq!(hash.set_expiry(&name, at, &mut context), found);
                }
                5 if rng.below(50) == 0 => {
                    let mut removed = Vec::new();
                    hash.remove_expired(100, usize::MAX, &mut context, |name| removed.push(name.to_vec()));
                    twin.retain(|name, (_, at)| {
                        let expired = at.is_some_and(|at| at < 100);
                        assert_eq!(expired, removed.contains(name));
                        !expired
                    });
                }
                6 => {
                    let read = hash
                        .view()
                        .get(&name)
                        .map(|field| (field.value.bytes(&mut IntBuffer::new()).to_vec(), field.expiry));
                    assert_eq!(read.as_ref(), twin.get(&name));
                }
                7 if rng.below(30) == 0 => shares.push((hash.share(), twin.clone())),
                8 if hash.inline_len().is_some() => {
                    let mut bytes = vec![0; hash.inline_len().unwrap_or(0)];
                    hash.write_inline(&mut bytes);
                    hash = Hash::from_inline(&bytes, hash.encoding());
                }
                _ => assert_eq!(hash.remove(&name, &mut context), twin.remove(&name).is_some()),
            }
            assert!(was == HashEncoding::Listpack || hash.encoding() == HashEncoding::Hashtable, "it sticks");
            let small = hash.len() <= limits.max_entries;
            assert!(small || hash.encoding() == HashEncoding::Hashtable);
            assert_eq!(hash.len(), twin.len());
            assert_eq!(hash.view().earliest(), twin.values().filter_map(|(_, at)| *at).min());
        }
        assert_eq!(contents(hash.view()), twin);
        for (share, was) in shares {
            assert_eq!(contents(share.view()), was);
        }
    }
}

#[test]
fn a_listpack_becomes_a_hash_table_beyond_the_thresholds() {
    let mut context = HashContext::default();
    let mut hash = Hash::new();
    for number in 0..512 {
        hash.set(format!("field{number}").as_bytes(), b"value", Expiry::Keep, &mut context);
    }
    assert_eq!(hash.encoding(), HashEncoding::Listpack);
    hash.set(b"one more", b"value", Expiry::Keep, &mut context);
    assert_eq!(hash.encoding(), HashEncoding::Hashtable);
    for (name, value, wanted) in
        [(64, 64, HashEncoding::Listpack), (65, 1, HashEncoding::Hashtable), (1, 65, HashEncoding::Hashtable)]
    {
        let mut hash = Hash::new();
        hash.set(&vec![b'n'; name], &vec![b'v'; value], Expiry::Keep, &mut context);
        assert_eq!(hash.encoding(), wanted, "{name} {value}");
        assert!(hash.inline_len().is_some(), "it stays in its entry");
    }
}

#[test]
fn an_expiry_makes_a_hash_table_for_good() {
    let mut context = HashContext::default();
    let mut hash = Hash::new();
    hash.set(b"f", b"v", Expiry::At(5), &mut context);
    assert_eq!((hash.encoding(), hash.view().volatile_len()), (HashEncoding::Hashtable, 1));
    hash.set_expiry(b"f", None, &mut context);
    assert_eq!((hash.encoding(), hash.view().volatile_len()), (HashEncoding::Hashtable, 0));
}

fn row_of(elements: &[&[u8]]) -> Vec<u8> {
    let mut row = Vec::new();
    for element in elements {
        let element = listpack::Element::of(element);
        let at = row.len();
        row.resize(at + entry::len(element), 0);
        entry::write(&mut row[at..], element);
    }
    row
}

#[test]
fn a_row_with_a_field_twice_or_without_a_value_is_refused() {
    for bad in [
        &[&b"a"[..], b"1", b"a", b"2"][..],
        &[b"a"],
        &[b"7", b"x", b"7", b"y"],
        &[b"a", b"1", b"b"],
        &[b"", b"1", b"", b"2"],
    ] {
        assert!(Hash::from_row(&row_of(bad)).is_none());
    }
    for good in [
        &[][..],
        &[&b"a"[..], b"a", b"b", b"a"],
        &[b"7", b"7", b"\x07\0\0\0\0\0\0\0", b"1"],
        &[b"", b"", b"\0", b""],
    ] {
        let hash = Hash::from_row(&row_of(good)).expect("no field stands twice");
        assert_eq!(hash.len(), good.len() / 2);
    }
}
