use super::*;
use crate::Rng;

fn print(value: LongDouble) -> String {
    let mut out = Vec::new();
    value.push(&mut out);
    String::from_utf8(out).expect("numbers print as ASCII")
}

fn parse(text: &str) -> LongDouble {
    LongDouble::parse(text.as_bytes()).expect(text)
}

#[test]
fn texts_print_as_the_reference_prints_them() {
    let table = [
        ("1", "1"),
        ("-1.50", "-1.5"),
        ("0.1", "0.1"),
        ("1e5", "100000"),
        ("1E+5", "100000"),
        (".5", "0.5"),
        ("5.", "5"),
        ("007", "7"),
        ("-0", "0"),
        ("-1e-20", "0"),
        ("-0.000000000000000009", "-0.00000000000000001"),
        ("0x10", "16"),
        ("0X1P-2", "0.25"),
        ("0x1.8p1", "3"),
        ("0x.8", "0.5"),
        ("0x1.fffffffffffff8p0", "1.99999999999999989"),
        ("0x1.00000000000008p0", "1.00000000000000011"),
        ("0e10000000000", "0"),
        ("1e0000000000000005", "100000"),
        ("3.6e-4951", "0"),
        ("1e-4950", "0"),
        ("9223372036854775807.5", "9223372036854775807.5"),
        ("9223372036854775808.5", "9223372036854775808"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551617", "18446744073709551616"),
        ("18446744073709551619", "18446744073709551620"),
        ("1e22", "10000000000000000000000"),
    ];
    for (text, expected) in table {
        assert_eq!(print(parse(text)), expected, "{text}");
    }
    let huge = print(parse("1e4932"));
    assert_eq!(huge.len(), 4933);
    assert!(huge.starts_with("100000000000000000000601894938"));
    assert!(huge.ends_with("1886622720"));
}

#[test]
fn differences_and_comparisons_are_those_of_numbers() {
    assert_eq!(print(parse("0.3") - parse("0.1")), "0.2");
    assert_eq!(print(-parse("2.5")), "-2.5");
    assert!(parse("1e4932") > parse("1") && parse("-inf") < -LongDouble::largest());
    assert!(parse("inf") > LongDouble::largest() && LongDouble::largest().is_finite());
    assert!(!(LongDouble::largest() + LongDouble::largest()).is_finite());
    assert_eq!(LongDouble::ZERO, parse("-0"));
    let nan = parse("inf") - parse("inf");
    assert!(!nan.is_finite() && nan.partial_cmp(&nan).is_none());
}

#[test]
fn what_is_no_number_or_out_of_range_is_refused() {
    for text in [
        "",
        ".",
        "-",
        "+",
        " 1",
        "1 ",
        "\t1",
        "1\0",
        "1a",
        "1e",
        "1e+",
        "--1",
        "+-1",
        "0x",
        "0x.",
        "0x.p1",
        "0x1p",
        "0x1g",
        "1.2.3",
        "infinit",
        "in",
        "nan",
        "-nan",
        "nan(1)",
        "1e4933",
        "1.2e4932",
        "-1e9999999999999999999",
        "1e-5000",
        "1e-10000000000",
        "0x1p16384",
        "0x1p-16500",
        "1p5",
        "1,5",
        "e5",
        "0x1e+5",
    ] {
        assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
    }
    assert!(LongDouble::parse(&b"0".repeat(5119)).is_some());
    assert!(LongDouble::parse(&b"0".repeat(5120)).is_none());
    assert!(LongDouble::parse(&b"1".repeat(4932)).is_some());
    assert!(LongDouble::parse(&b"1".repeat(4934)).is_none());
}

#[test]
fn infinities_are_read_and_are_not_finite() {
    for text in ["inf", "+INF", "-inf", "Infinity", "-infinity"] {
        assert!(!parse(text).is_finite(), "{text}");
    }
    let max = parse("1.18e4932");
    assert!(!(max + max).is_finite());
    assert!(!(parse("inf") + parse("-inf")).is_finite());
}

#[test]
fn sums_round_once() {
    assert_eq!(print(parse("0.1") + parse("0.2")), "0.3");
    assert_eq!(print(parse("5.0e3") + parse("2.0e2")), "5200");
    assert_eq!(print(parse("18446744073709551615") + parse("0.5")), "18446744073709551616");
    assert_eq!(print(parse("18446744073709551615") + parse("0.49")), "18446744073709551615");
}

#[test]
fn seconds_become_milliseconds_rounded_up() {
    for (text, millis) in [
        ("0", Some(0)),
        ("1", Some(1000)),
        ("0.0001", Some(1)),
        ("-0.0001", Some(0)),
        ("1.0001", Some(1001)),
        ("9223372036854775", Some(9_223_372_036_854_775_000)),
        ("9223372036854776", None),
        ("1e4000", None),
        ("inf", None),
    ] {
        assert_eq!(parse(text).ceil_millis(), millis, "{text}");
    }
}

#[test]
fn the_short_way_reads_what_the_long_way_reads() {
    let mut rng = Rng::new(31);
    let mut short = 0;
    for _ in 0..100_000 {
        let number = rng.next_u64() >> rng.below(64);
        let text = match rng.below(3) {
            0 => format!("{number}e{}", rng.below(60) as i64 - 30),
            1 => format!("{}.{number:0width$}", rng.below(1000), width = rng.below(20) as usize),
            _ => format!("{number}.5"),
        };
        let Some(parts) = split(text.as_bytes(), b'e', u8::is_ascii_digit) else { panic!("{text}") };
        if parts.zero {
            continue;
        }
        if let Some(value) = parse_short(&parts) {
            short += 1;
            assert_eq!(Some(value), parse_long("", &parts, 'e'), "{text}");
        }
    }
    assert!(short > 50_000);
}

#[test]
fn printed_integers_read_back() {
    let mut rng = Rng::new(32);
    for _ in 0..2000 {
        let text = format!("{:#x}p{}", rng.next_u64() | 1, rng.below(2000));
        let value = parse(&text);
        assert_eq!(parse(&print(value)), value, "{text}");
    }
}

#[test]
fn any_bytes_may_be_fuzzed() {
    let mut rng = Rng::new(33);
    const BYTES: &[u8] = b"0123456789....eepPxX--++infaf";
    for _ in 0..50_000 {
        let len = rng.below(24);
        let text: Vec<u8> = (0..len).map(|_| BYTES[rng.below(BYTES.len() as u64) as usize]).collect();
        fuzz_long_double(&text);
    }
}
