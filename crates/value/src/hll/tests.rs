use super::*;
use sluice_base::Rng;

fn hll_of(elements: &[&str]) -> Hll {
    let mut hll = Hll::empty();
    for element in elements {
        hll.add(RegisterMark::of(element.as_bytes()), 3000).expect("it is made here");
    }
    hll
}

fn registers(hll: &Hll) -> Registers {
    let mut registers = [0; REGISTERS];
    hll.merge_into(&mut registers).expect("it is made here");
    registers
}

#[test]
fn the_bytes_are_those_of_the_reference() {
    let mut hll = hll_of(&["a", "b", "c", "hello", "world", "12345678", "1234567890123456789"]);
    assert_eq!(
        hll.decoded().expect("few elements are sparse"),
        "Z:2742 v:3,1 Z:123 v:1,1 Z:5569 v:1,1 Z:779 v:1,1 Z:1362 v:3,1 Z:2131 v:2,1 Z:3068 v:1,1 Z:603"
    );
    let estimate = hll.estimate().expect("it is made here");
    hll.0[ESTIMATE].copy_from_slice(&estimate.to_le_bytes());
    let expected = b"HYLL\x01\0\0\0\x07\0\0\0\0\0\0\0\
        \x4a\xb5\x88\x40\x7a\x80\x55\xc0\x80\x43\x0a\x80\x45\x51\x88\x48\x52\x84\x4b\xfb\x80\x42\x5a";
    assert_eq!(hll.bytes(), expected);
}

#[test]
fn sparse_and_dense_registers_follow_a_plain_array() {
    let mut rng = Rng::new(3);
    for round in 0..60 {
        let mut naive = [0; REGISTERS];
        let mut hll = Hll::empty();
        let bytes_max = [100, 3000, 100_000][round % 3];
        // The changed registers are neighbours, so that the run-length opcodes of the sparse form are split
        // and joined.
        let (from, width) = (rng.below(REGISTERS as u64 - 300) as usize, 1 + rng.below(300));
        for _ in 0..400 {
            let mark = RegisterMark::new(
                from + rng.below(width) as usize,
                1 + rng.below(4) as u8 * (1 + rng.below(10)) as u8,
            );
            let raises = naive[mark.register] < mark.value;
            naive[mark.register] = naive[mark.register].max(mark.value);
            assert_eq!(hll.add(mark, bytes_max), Ok(raises));
            assert!(hll.encoding() == HllEncoding::Dense || hll.bytes().len() <= bytes_max.max(23));
        }
        assert_eq!(registers(&hll), naive);
        let before = hll.estimate();
        hll.make_dense().expect("it is made here");
        assert_eq!(registers(&hll), naive);
        assert_eq!(hll.estimate(), before);
    }
}

#[test]
fn a_large_value_makes_it_dense() {
    let mut hll = Hll::empty();
    assert_eq!(hll.add(RegisterMark::new(5, 32), 3000), Ok(true));
    assert_eq!(hll.encoding(), HllEncoding::Sparse);
    assert_eq!(hll.add(RegisterMark::new(6, 33), 3000), Ok(true));
    assert_eq!(hll.encoding(), HllEncoding::Dense);
    assert_eq!((registers(&hll)[5], registers(&hll)[6]), (32, 33));
}

#[test]
fn merging_takes_the_larger_of_each_register() {
    let mut rng = Rng::new(4);
    for dense in [false, true] {
        let mut hlls = [Hll::empty(), Hll::empty()];
        for n in 0..400 {
            let mark = RegisterMark::of(&rng.next_u64().to_le_bytes());
            hlls[n % 2].add(mark, 3000).expect("it is made here");
        }
        let [mut to, from] = hlls;
        if dense {
            to.make_dense().expect("it is made here");
        }
        let (ours, theirs) = (registers(&to), registers(&from));
        to.merge_from(&theirs, 3000).expect("it is made here");
        for (at, value) in registers(&to).iter().enumerate() {
            assert_eq!(*value, ours[at].max(theirs[at]));
        }
    }
}

#[test]
fn estimates_are_near_the_truth() {
    let mut rng = Rng::new(5);
    let mut hll = Hll::empty();
    for n in 1..=100_000_u32 {
        hll.add(RegisterMark::of(&rng.next_u64().to_le_bytes()), 3000).expect("it is made here");
        if [10, 100, 1000, 10_000, 100_000].contains(&n) {
            let estimate = hll.estimate().expect("it is made here") as f64;
            let error = (estimate / f64::from(n) - 1.0).abs();
            assert!(error < 0.04, "{n} elements are estimated as {estimate}");
        }
    }
}

#[test]
fn what_is_no_hyperloglog_is_refused() {
    for bytes in [
        &b""[..],
        b"HYLL",
        b"HYLL\0\0\0\0\0\0\0\0\0\0\0\0",
        b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\0",
        b"XYLL\x01\0\0\0\0\0\0\0\0\0\0\0",
    ] {
        assert_eq!(Hll::read(bytes.to_vec()), Err(NotHll));
    }
}

#[test]
fn any_operations_are_survived() {
    let mut rng = Rng::new(6);
    for _ in 0..2000 {
        let mut bytes = Hll::empty().into_bytes();
        bytes.truncate(HEADER_BYTES);
        bytes.extend((0..rng.below(400)).map(|_| rng.next_u64() as u8));
        let Ok(mut hll) = Hll::read(bytes) else { panic!("the header is right") };
        let whole = hll.estimate();
        for _ in 0..20 {
            let mark = RegisterMark::new(rng.below(REGISTERS as u64) as usize, 1 + rng.below(50) as u8);
            if hll.add(mark, 3000).is_ok() && whole.is_ok() {
                assert!(hll.estimate().is_ok());
            }
        }
        hll.decoded();
        assert_eq!(hll.clone().make_dense().is_ok(), hll.estimate().is_ok());
    }
}
