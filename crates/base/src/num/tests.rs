use super::*;
use crate::Rng;

fn print_i64(value: i64) -> Vec<u8> {
    let mut out = Vec::new();
    push_i64(&mut out, value);
    out
}

fn print_f64(value: f64) -> String {
    let mut out = Vec::new();
    push_f64(&mut out, value);
    String::from_utf8(out).expect("doubles print as ASCII")
}

#[test]
fn integers_parse_only_when_they_print_back_to_the_same_bytes() {
    let mut rng = Rng::new(1);
    let alphabet = b"0123456789-+ 19";
    for _ in 0..300_000 {
        let len = rng.below(22) as usize;
        let text: Vec<u8> =
            (0..len).map(|_| alphabet[rng.below(if len > 3 { 10 } else { 15 }) as usize]).collect();
        for text in [text.clone(), [b"-", &text[..]].concat(), [b"1", &text[..]].concat()] {
            let oracle = std::str::from_utf8(&text)
                .ok()
                .and_then(|text| text.parse::<i64>().ok())
                .filter(|&value| print_i64(value) == text);
            assert_eq!(parse_i64(&text), oracle, "{:?}", String::from_utf8_lossy(&text));
        }
    }
}

#[test]
fn the_ends_of_the_integer_range_parse_and_one_beyond_does_not() {
    assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
    assert_eq!(parse_i64(b"9223372036854775808"), None);
    assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
    assert_eq!(parse_i64(b"-9223372036854775809"), None);
    assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
    assert_eq!(parse_u64(b"18446744073709551616"), None);
    assert_eq!(parse_u64(b"99999999999999999999"), None);
    for text in ["", "-", "-0", "00", "01", "+1", " 1", "1 ", "1\0", "0x1", "--1", "-01"] {
        assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn digits_counts_what_is_printed() {
    for value in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1]).chain([9, 10, 99, 100, u64::MAX]) {
        let mut out = Vec::new();
        push_u64(&mut out, value);
        assert_eq!(digits(value), out.len(), "{value}");
    }
}

#[test]
fn doubles_parse_as_scores_do() {
    let valid = [
        ("1", 1.0),
        ("+1", 1.0),
        ("1e5", 1e5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-.5", -0.5),
        ("007", 7.0),
        ("1e-320", 1e-320),
        ("4.9e-324", 5e-324),
        ("0e10000000000", 0.0),
        ("1e0000000000000005", 1e5),
        ("inf", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
    ];
    for (text, value) in valid {
        assert_eq!(parse_f64(text.as_bytes()), Some(value), "{text}");
    }
    let invalid = [
        "", ".", " 1", "1 ", "\t1", "1\0", "1a", "1e", "1e+", "--1", "+-1", "0x10", "0x", "nan", "-nan",
        "nan(1)", "infinit", "1e400", "-1e400", "1e-400", "2.4e-324", "1_0", "1,5", "1e5.5",
    ];
    for text in invalid {
        assert_eq!(parse_f64(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn whole_numbers_are_the_doubles_that_the_standard_library_reads() {
    let digits = "9007199254740993".repeat(2);
    for len in 1..=20 {
        for text in [&digits[..len], &"0".repeat(len), &format!("{}1", "0".repeat(len)), &"9".repeat(len)] {
            for text in [text.to_owned(), format!("-{text}")] {
                let oracle: f64 = text.parse().unwrap();
                let read = parse_f64(text.as_bytes()).unwrap();
                assert_eq!(read.to_bits(), oracle.to_bits(), "{text}");
            }
        }
    }
}

#[test]
fn bounds_of_score_ranges_are_read_as_c_strings() {
    assert_eq!(parse_f64_bound(b""), Some(0.0));
    assert_eq!(parse_f64_bound(b"16\0junk"), Some(16.0));
    assert_eq!(parse_f64_bound(b"1e400"), Some(f64::INFINITY));
    assert_eq!(parse_f64_bound(b"1e-400"), Some(0.0));
    for text in ["nan", " 1", "1 ", "0x10", "("] {
        assert_eq!(parse_f64_bound(text.as_bytes()), None, "{text:?}");
    }
}

#[test]
fn doubles_print_in_the_layout_of_the_wire() {
    let table = [
        (0.0, "0"),
        (-0.0, "-0"),
        (1e15, "1000000000000000"),
        (2305843009213693952.0, "2305843009213693952"),
        (4611686018427387904.0, "4611686018427387904"),
        (4611686018427388928.0, "4611686018427389000"),
        (-4611686018427388928.0, "-4611686018427389000"),
        (9223372036854775808.0, "9223372036854776000"),
        (1e20, "1e+20"),
        (1.2345678901234568e20, "123456789012345680000"),
        (1e21, "1e+21"),
        (1e-4, "0.0001"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1.5, "-1.5"),
        (0.1, "0.1"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
        // Here Grisu2's result is not the shortest, or not the closest among the shortest.
        (743059790718056.2, "743059790718056.3"),
        (1.9311904907226562e-05, "1.9311904907226563e-5"),
        (6.195626866399892e-221, "6.1956268663998915e-221"),
        (-817795108552830.8, "-817795108552830.7"),
        (8.473342511035414e+307, "8.4733425110354135e+307"),
        (5.807372774326351e-47, "5.8073727743263505e-47"),
    ];
    for (value, text) in table {
        assert_eq!(print_f64(value), text);
    }
}

#[test]
fn printed_doubles_read_back_to_the_same_bits() {
    let mut rng = Rng::new(2);
    let mut longer = 0;
    for _ in 0..500_000 {
        let value = f64::from_bits(rng.next_u64());
        if value.is_nan() {
            continue;
        }
        let text = print_f64(value);
        assert!(text.len() <= 25, "{text}");
        assert_eq!(text.parse::<f64>().expect("a number").to_bits(), value.to_bits(), "{text}");
        longer += usize::from(text.len() > print_shortest(value).len());
    }
    assert!(longer < 2500, "not the shortest in {longer} of 500,000");
}

fn print_shortest(value: f64) -> String {
    format!("{value:e}").replace("e", "e+").replace("e+-", "e-")
}

#[test]
fn seventeen_digits_are_those_of_c() {
    let cases = [
        (0.1, "0.10000000000000001"),
        (54.623, "54.622999999999998"),
        (-2.5, "-2.5"),
        (3.0, "3"),
        (1e15, "1000000000000000"),
        (1e16, "10000000000000000"),
        (1e17, "1e+17"),
        (1.5e300, "1.5000000000000001e+300"),
        (0.0001, "0.0001"),
        (0.00001, "1.0000000000000001e-05"),
        (-0.0, "-0"),
        (f64::INFINITY, "inf"),
        (f64::MAX, "1.7976931348623157e+308"),
        (5e-324, "4.9406564584124654e-324"),
    ];
    for (value, wanted) in cases {
        let mut out = Vec::new();
        push_f64_17(&mut out, value);
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }
}
