//! Tests of numbers and patterns.

use sluice_base::num::parse_i64;

use crate::Config;
use crate::number::{decimal_text, lenient_int, memory, memory_text};

#[test]
fn memory_sizes_have_units() {
    let cases: [(&str, Option<u64>); 18] = [
        ("0", Some(0)),
        ("", Some(0)),
        ("mb", Some(0)),
        ("100", Some(100)),
        ("100b", Some(100)),
        ("1k", Some(1000)),
        ("1KB", Some(1024)),
        ("2m", Some(2_000_000)),
        ("2Mb", Some(2 << 20)),
        ("3g", Some(3_000_000_000)),
        ("3gB", Some(3 << 30)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("18446744073709551615kb", None),
        ("-1", None),
        ("1tb", None),
        ("1 mb", None),
        ("1.5gb", None),
    ];
    for (text, expected) in cases {
        assert_eq!(memory(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn memory_is_written_in_the_largest_unit_that_divides() {
    for (bytes, text) in [
        (0, "0"),
        (1, "1"),
        (1023, "1023"),
        (1024, "1kb"),
        (1536, "1536"),
        (3 << 20, "3mb"),
        (5 << 30, "5gb"),
    ] {
        assert_eq!(memory_text(bytes), text);
        assert_eq!(memory(text.as_bytes()), Some(bytes));
    }
}

#[test]
fn integers_are_strict_or_lenient() {
    for (text, strict, lenient) in [
        ("0", Some(0), Some(0)),
        ("-1", Some(-1), Some(-1)),
        ("007", None, Some(7)),
        ("+5", None, Some(5)),
        (" 5", None, Some(5)),
        ("5 ", None, None),
        ("-0", None, Some(0)),
        ("", None, Some(0)),
        ("-", None, None),
        (" ", None, None),
        ("1e3", None, None),
        ("9223372036854775808", None, Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN), Some(i64::MIN)),
        ("-99999999999999999999999", None, Some(i64::MIN)),
    ] {
        assert_eq!(parse_i64(text.as_bytes()), strict, "{text:?}");
        assert_eq!(lenient_int(text.as_bytes(), 10), lenient, "{text:?}");
    }
    assert_eq!(lenient_int(b"777", 8), Some(0o777));
    assert_eq!(lenient_int(b"778", 8), None);
}

#[test]
fn decimals_lose_their_zeros() {
    for (value, text) in [(50.0, "50"), (99.9, "99.9"), (0.001, "0.001"), (100.0, "100"), (0.0, "0")] {
        assert_eq!(decimal_text(value), text);
    }
}

#[test]
fn patterns_of_config_get_ignore_case_as_the_reference_does() {
    let config = Config::default();
    for (pattern, names) in [
        ("POR[T]", &["port"][..]),
        ("[O-P]ort", &["port"]),
        // The ends are swapped before they are lowercased, so this range is `p` to `o`, which is empty.
        ("[o-P]ort", &[]),
        ("\\Por[t]", &["port"]),
        ("[\\p]ort", &["port"]),
        ("[\\P]ort", &[]),
        ("por[^T]", &[]),
        ("por[t", &["port"]),
        ("port[]", &[]),
    ] {
        let found = config.get(&[pattern.as_bytes()]);
        let found: Vec<&str> =
            found.iter().map(|(name, _)| std::str::from_utf8(name).expect("text")).collect();
        assert_eq!(found, names, "{pattern}");
    }
}
