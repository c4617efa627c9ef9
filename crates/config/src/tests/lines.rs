//! Words, numbers and patterns.

use sluice_base::Rng;

use crate::number::{decimal_text, lenient_int, memory, memory_text, strict_int};
use crate::{glob, quote, split_args};

#[test]
fn words_follow_the_quoting_rules() {
    let cases: [(&str, Option<&[&[u8]]>); 14] = [
        ("", Some(&[])),
        ("  \t ", Some(&[])),
        ("a b\tc", Some(&[b"a", b"b", b"c"])),
        (r#"a "b c" d"#, Some(&[b"a", b"b c", b"d"])),
        (r#""\n\r\t\b\a\x41\"\\\q""#, Some(&[b"\n\r\t\x08\x07A\"\\q"])),
        (r#""\xZZ""#, Some(&[b"xZZ"])),
        (r#"'a\'b\n'"#, Some(&[b"a'b\\n"])),
        (r#"'a "b" c'"#, Some(&[b"a \"b\" c"])),
        (r#"a"b c"d"#, Some(&[b"ab cd"])),
        (r#""" ''"#, Some(&[b"", b""])),
        ("\"open", None),
        ("'open", None),
        ("\"open\\\"", None),
        ("a\0b", Some(&[b"a"])),
    ];
    for (line, expected) in cases {
        let words = split_args(line.as_bytes());
        let words: Option<Vec<&[u8]>> = words.as_ref().map(|words| words.iter().map(Vec::as_slice).collect());
        assert_eq!(words.as_deref(), expected, "{line:?}");
    }
}

#[test]
fn any_bytes_survive_quoting() {
    let mut rng = Rng::new(1);
    for _ in 0..2000 {
        let word: Vec<u8> = (0..rng.below(20)).map(|_| rng.next_u64() as u8).collect();
        let mut line = b"name ".to_vec();
        quote(&word, &mut line);
        assert!(line.iter().all(|byte| (b' '..=b'~').contains(byte)), "quoted text is printable");
        assert_eq!(split_args(&line), Some(vec![b"name".to_vec(), word]));
    }
}

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
        assert_eq!(strict_int(text.as_bytes()), strict, "{text:?}");
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
fn patterns_match_as_globs() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("*max*", "maxmemory", true),
        ("MAX*", "maxmemory", true),
        ("m?x", "max", true),
        ("m?x", "mx", false),
        ("[a-c]x", "bx", true),
        ("[c-a]x", "bx", true),
        ("[^a-c]x", "bx", false),
        ("[^a-c]x", "dx", true),
        ("[a\\]]x", "]x", true),
        ("[ab", "a", true),
        ("\\*", "*", true),
        ("\\*", "x", false),
        ("a*b*c", "axxbyyc", true),
        ("a*b*c", "axxbyy", false),
        ("a***", "a", true),
        ("", "a", false),
    ] {
        assert_eq!(glob::matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
    }
}

#[test]
fn patterns_with_many_stars_end() {
    let pattern = "a*".repeat(200) + "b";
    assert!(!glob::matches(pattern.as_bytes(), "a".repeat(2000).as_bytes()));
}
