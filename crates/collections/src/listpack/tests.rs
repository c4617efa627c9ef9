//! Compares listpacks with a vector of vectors, and with bytes of the reference.

use sluice_base::Rng;

use super::{
    Element, delete, entry, fuzz_listpack, get, insert, is_valid, iter, len, new, pop_back, pop_front,
    push_back, push_front, replace,
};

fn text(element: Element<'_>) -> Vec<u8> {
    match element {
        Element::Int(number) => number.to_string().into_bytes(),
        Element::Bytes(bytes) => bytes.to_vec(),
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let lens = [0, 1, 5, 63, 64, 120, 126, 127, 4095, 4096, 16_377, 16_378, 16_379];
    match rng.below(3) {
        0 => ((rng.next_u64() as i64) >> rng.below(64)).to_string().into_bytes(),
        1 => (0..rng.below(12)).map(|_| b"0123456789-+ "[rng.below(13) as usize]).collect(),
        _ => {
            // Long elements are rare, because the test is about the order of many elements.
            let at = if rng.below(20) == 0 { 13 } else { 6 };
            vec![b'a' + rng.below(3) as u8; lens[rng.below(at) as usize]]
        }
    }
}

#[test]
fn a_listpack_is_a_vector_of_strings() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (mut listpack, mut model) = (new(), Vec::<Vec<u8>>::new());
        for _ in 0..400 {
            let (some, at) = (value(&mut rng), rng.below(model.len() as u64 + 1) as usize);
            match rng.below(8) {
                0 => {
                    assert!(insert(&mut listpack, at, &some));
                    model.insert(at, some);
                }
                1 => {
                    let replaced = replace(&mut listpack, at, &some);
                    assert_eq!(replaced, model.get_mut(at).map(|element| *element = some).is_some());
                }
                2 => {
                    let count = rng.below(4) as usize;
                    delete(&mut listpack, at, count);
                    model.drain(at..(at + count).min(model.len()));
                }
                3 | 4 => {
                    assert!(push_front(&mut listpack, &some));
                    model.insert(0, some);
                }
                5 => {
                    assert!(push_back(&mut listpack, &some));
                    model.push(some);
                }
                6 => assert_eq!(pop_back(&mut listpack, text), model.pop()),
                _ => {
                    let first = (!model.is_empty()).then(|| model.remove(0));
                    assert_eq!(pop_front(&mut listpack, text), first);
                }
            }
            assert!(is_valid(&listpack));
            assert_eq!(len(&listpack), model.len());
            assert_eq!(get(&listpack, at).map(text).as_ref(), model.get(at));
        }
        assert_eq!(iter(&listpack).map(text).collect::<Vec<_>>(), model);
        assert_eq!(
            iter(&listpack).rev().map(text).collect::<Vec<_>>(),
            model.into_iter().rev().collect::<Vec<_>>()
        );
    }
}

/// A listpack of these elements has the bytes that Valkey 9.1.2 dumps.
#[test]
fn the_reference_s_bytes() {
    let mut listpack = new();
    let long = [b'x'; 64];
    let values: [&[u8]; 20] = [
        b"a",
        b"1",
        b"127",
        b"128",
        b"-1",
        b"4095",
        b"-4096",
        b"4096",
        b"-3000",
        b"32768",
        b"70000",
        b"8388608",
        b"-2147483648",
        b"2147483648",
        &long,
        b"hello",
        b"12345678901",
        b"-9223372036854775808",
        b"01",
        b"",
    ];
    for value in values {
        assert!(push_back(&mut listpack, value));
    }
    let wanted = b"\xa5\x00\x00\x00\x14\x00\x81a\x02\x01\x01\x7f\x01\xc0\x80\x02\xdf\xff\x02\xcf\xff\x02\xd0\x00\x02\xf1\x00\x10\x03\
        \xd4H\x02\xf2\x00\x80\x00\x04\xf2p\x11\x01\x04\xf3\x00\x00\x80\x00\x05\xf3\x00\x00\x00\x80\x05\xf4\x00\x00\x00\x80\x00\x00\x00\
        \x00\t\xe0@xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxB\x85hello\x06\xf45\x1c\xdc\xdf\x02\x00\x00\x00\
        \t\xf4\x00\x00\x00\x00\x00\x00\x00\x80\t\x8201\x03\x80\x01\xff";
    assert_eq!(listpack.escape_ascii().to_string(), wanted.escape_ascii().to_string());
}

/// The expected ends are those that Valkey 9.1.2 writes for strings of 16,378 and 16,379 bytes.
#[test]
fn the_length_at_the_end_takes_a_byte_more_from_the_reference_s_edge_on() {
    for (len, end) in [(16_378, &b"x\x7f\xff"[..]), (16_379, b"x\x01\x80\x80")] {
        let bytes = vec![b'x'; len];
        let mut row = vec![0; entry::len(Element::Bytes(&bytes))];
        entry::write(&mut row, Element::Bytes(&bytes));
        assert!(row.ends_with(end), "{len}");
    }
}

#[test]
fn canonical_integers_are_integers_and_nothing_else_is() {
    for (text, number) in
        [("0", 0), ("-1", -1), ("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)]
    {
        assert_eq!(Element::of(text.as_bytes()), Element::Int(number));
    }
    for text in ["", "-", "-0", "01", "+1", " 1", "1 ", "9223372036854775808", "1.0", "a"] {
        assert_eq!(Element::of(text.as_bytes()), Element::Bytes(text.as_bytes()));
    }
}

#[test]
fn every_integer_comes_back_at_the_edges_of_its_encoding() {
    let mut edges: Vec<i64> = vec![0, i64::MIN, i64::MAX];
    for bits in [7, 12, 13, 15, 23, 31, 63] {
        let edge = 1i64 << (bits - 1);
        edges.extend([
            edge - 1,
            edge,
            edge + 1,
            -edge - 1,
            -edge,
            -edge + 1,
            2 * (edge - 1) + 1,
            edge.wrapping_mul(2),
        ]);
    }
    for number in edges {
        let mut row = vec![0; entry::len(Element::Int(number))];
        assert_eq!(entry::write(&mut row, Element::Int(number)), row.len());
        assert_eq!(entry::read(&row), Some((Element::Int(number), row.len())));
        assert_eq!(entry::read_back(&row), Some((Element::Int(number), row.len())));
        assert_eq!(entry::checked_len(&row), Some(row.len()));
    }
}

#[test]
fn many_elements_are_counted_by_walking() {
    let mut listpack = new();
    for number in 0..65_600 {
        assert!(push_back(&mut listpack, (number % 100).to_string().as_bytes()));
        if number % 20_000 == 0 || number > 65_530 && number < 65_540 {
            assert!(is_valid(&listpack));
            assert_eq!(len(&listpack), number + 1);
        }
    }
    assert_eq!(get(&listpack, 65_599).map(text), Some(b"99".to_vec()));
    delete(&mut listpack, 0, 65_590);
    assert_eq!(len(&listpack), 10);
    assert!(is_valid(&listpack));
}

#[test]
fn what_is_no_listpack_is_refused() {
    let mut good = new();
    for value in [&b"one"[..], b"2", b"-3000", b"70000", &[b'x'; 100], &[b'y'; 5000]] {
        push_back(&mut good, value);
    }
    assert!(is_valid(&good));
    for cut in 0..good.len() {
        assert!(!is_valid(&good[..cut]));
    }
    let mut wrong = 0;
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x80;
        wrong += usize::from(!is_valid(&bad));
        fuzz_listpack(&bad);
    }
    // A changed byte within a string is not an error.
    assert!(wrong >= 6 + 6, "{wrong}");
    let mut rng = Rng::new(3);
    for _ in 0..20_000 {
        let noise: Vec<u8> = (0..rng.below(60)).map(|_| rng.next_u64() as u8).collect();
        fuzz_listpack(&noise);
    }
}
