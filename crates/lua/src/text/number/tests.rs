use super::*;

fn text(n: f64) -> String {
    let mut out = Vec::new();
    push_number(&mut out, n);
    String::from_utf8(out).expect("digits")
}

#[test]
fn numbers_become_text_as_printf_prints_them() {
    let cases: &[(f64, &str)] = &[
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-7.0, "-7"),
        (0.1, "0.1"),
        (1e14, "1e+14"),
        (99_999_999_999_999.0, "99999999999999"),
        (-99_999_999_999_999.0, "-99999999999999"),
        (1e15, "1e+15"),
        (1e100, "1e+100"),
        (123_456_789_012_345_680.0, "1.2345678901235e+17"),
        (std::f64::consts::PI, "3.1415926535898"),
        (1e-5, "1e-05"),
        (0.0001, "0.0001"),
        (0.00012345, "0.00012345"),
        (1.0 / 3.0, "0.33333333333333"),
        (2.0 / 3.0, "0.66666666666667"),
        (0.999_999_999_999_999_9, "1"),
        (9.999_999_999_999_99e22, "1e+23"),
        (5e-324, "4.9406564584125e-324"),
        (f64::MAX, "1.7976931348623e+308"),
        (f64::MIN_POSITIVE, "2.2250738585072e-308"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN.copysign(1.0), "nan"),
        (f64::NAN.copysign(-1.0), "-nan"),
        (1.5, "1.5"),
        (12345.678, "12345.678"),
        (0.100_000_000_000_005, "0.10000000000001"),
        (1.000_000_000_000_05, "1"),
    ];
    for (n, expected) in cases {
        assert_eq!(text(*n), *expected, "{n:e}");
    }
}

#[test]
fn rounding_the_shortest_digits_is_rounding_the_exact_value() {
    let mut rng = sluice_base::Rng::new(14);
    for _ in 0..200_000 {
        let n = f64::from_bits(rng.next_u64() >> 1);
        if !n.is_finite() {
            continue;
        }
        let (mut fast, mut slow) = (Vec::new(), Vec::new());
        push_general(&mut fast, n, DIGITS, Case::Lower, Alternate::Yes);
        let exact = format!("{n:.13e}");
        let (mantissa, exponent) = exact.split_once('e').expect("an exponent");
        let exponent: i32 = exponent.parse().expect("digits");
        if (-4..14).contains(&exponent) {
            continue;
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        slow.extend_from_slice(format!("{mantissa}e{sign}{:02}", exponent.abs()).as_bytes());
        assert_eq!(fast, slow, "{n:e}");
    }
}

#[test]
fn text_becomes_the_numbers_of_strtod() {
    let cases: &[(&str, Option<f64>)] = &[
        ("10", Some(10.0)),
        (" \t\n\x0b\x0c\r10 ", Some(10.0)),
        ("-10", Some(-10.0)),
        ("+10", Some(10.0)),
        ("- 10", None),
        ("--10", None),
        ("", None),
        (" ", None),
        ("1 2", None),
        ("0x10", Some(16.0)),
        ("-0X1f", Some(-31.0)),
        ("0x1.8", Some(1.5)),
        ("0x.8", Some(0.5)),
        ("0x8.", Some(8.0)),
        ("0x1p4", Some(16.0)),
        ("0x1p-1", Some(0.5)),
        ("0x1p", None),
        ("0x", None),
        ("0x.", None),
        ("0xg", None),
        ("1e", None),
        ("1e+", None),
        ("1e5", Some(1e5)),
        ("1E-5", Some(1e-5)),
        (".5", Some(0.5)),
        ("5.", Some(5.0)),
        (".", None),
        ("1.5.2", None),
        ("inf", Some(f64::INFINITY)),
        ("-INFINITY", Some(f64::NEG_INFINITY)),
        ("infinit", None),
        ("1e999", Some(f64::INFINITY)),
        ("1e-999", Some(0.0)),
        ("0x1p1024", Some(f64::INFINITY)),
        ("0x1p-1074", Some(5e-324)),
        ("0x1p-1075", Some(0.0)),
        ("0x1.8p-1075", Some(5e-324)),
        ("0x1p99999999999999999999", Some(f64::INFINITY)),
        ("0x1p-99999999999999999999", Some(0.0)),
        ("0x0p99999999999999999999", Some(0.0)),
        ("0x1fffffffffffff", Some(9_007_199_254_740_991.0)),
        ("0x20000000000001", Some(9_007_199_254_740_992.0)),
        ("0x20000000000003", Some(9_007_199_254_740_996.0)),
        ("0x20000000000001000000000000000001", Some(9_007_199_254_740_994.0 * 2f64.powi(72))),
        ("123456789012345", Some(123_456_789_012_345.0)),
        ("1234567890123456", Some(1_234_567_890_123_456.0)),
        ("12345678901234567890123", Some(1.234_567_890_123_456_8e22)),
        ("1\u{0}x", Some(1.0)),
        ("\u{0}1", None),
        ("1_000", None),
        ("1,5", None),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_number(text.as_bytes()), *expected, "{text:?}");
    }
    for text in ["nan", "NaN", "nan(12_a)", "-nan"] {
        let n = parse_number(text.as_bytes()).expect("a number");
        assert!(n.is_nan());
        assert_eq!(n.is_sign_negative(), text.starts_with('-'));
    }
    assert_eq!(parse_number(b"nan("), None);
    assert_eq!(parse_number(b"-0").map(f64::to_bits), Some((-0.0f64).to_bits()));
}

#[test]
fn text_in_a_base_is_read_as_strtoul_reads_it() {
    let cases: &[(&str, u32, Option<f64>)] = &[
        ("zz", 36, Some(1295.0)),
        ("-7", 8, Some(18_446_744_073_709_551_609.0)),
        ("8", 8, None),
        (" 101 ", 2, Some(5.0)),
        ("-ff", 16, Some(18_446_744_073_709_551_361.0)),
        ("0xff", 16, Some(255.0)),
        ("0x", 16, None),
        ("0xg", 16, None),
        ("x1", 16, None),
        ("ffffffffffffffffffff", 16, Some(18_446_744_073_709_551_615.0)),
        ("-ffffffffffffffffffff", 16, Some(18_446_744_073_709_551_615.0)),
        ("", 16, None),
        ("7.5", 8, None),
        ("1\u{0}z", 2, Some(1.0)),
    ];
    for (text, base, expected) in cases {
        assert_eq!(parse_radix(text.as_bytes(), *base), *expected, "{text:?} in {base}");
    }
}

#[test]
fn numbers_become_integers_as_the_processor_converts_them() {
    assert_eq!(to_i64(-1.9), -1);
    assert_eq!(to_i64(f64::NAN), i64::MIN);
    assert_eq!(to_i64(1e300), i64::MIN);
    assert_eq!(to_i64(9_223_372_036_854_774_784.0), 9_223_372_036_854_774_784);
    assert_eq!(to_u64(-1.0), u64::MAX);
    assert_eq!(to_u64(18_446_744_073_709_549_568.0), 18_446_744_073_709_549_568);
    assert_eq!(to_u64(1e300), 0);
    assert_eq!(to_u64(f64::NAN), 1 << 63);
    assert_eq!(to_i32(2_147_483_647.9), i32::MAX);
    assert_eq!(to_i32(-2_147_483_648.9), i32::MIN);
    assert_eq!(to_i32(1e10), i32::MIN);
}

/// The expected values are those of Rust's own parser, which reads all digits.
#[test]
fn a_long_number_is_what_all_of_its_digits_say() {
    let mut seed = 0x5eed_u64;
    let mut below = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    for _ in 0..600 {
        let mut text = String::new();
        let push = |text: &mut String, longest: u64, below: &mut dyn FnMut(u64) -> u64| {
            let (len, kind) = (below(longest), below(4));
            for _ in 0..len {
                let digit = match kind {
                    0 => 0,
                    1 => 9,
                    _ => below(10),
                };
                text.push(char::from(b'0' + digit as u8));
            }
        };
        for _ in 0..below(3) {
            push(&mut text, 1_500, &mut below);
        }
        if below(3) > 0 {
            text.push('.');
            for _ in 0..below(3) {
                push(&mut text, 1_500, &mut below);
            }
        }
        if below(2) > 0 {
            text += &format!("e{}{}", ["", "-", "+"][below(3) as usize], below(4_000));
        }
        let Ok(wanted) = text.parse::<f64>() else { continue };
        assert_eq!(
            long_decimal(text.as_bytes(), digits(text.as_bytes())).map(f64::to_bits),
            Some(wanted.to_bits()),
            "{text}"
        );
        assert_eq!(parse_number(text.as_bytes()).map(f64::to_bits), Some(wanted.to_bits()), "{text}");
    }
    // The number lies halfway between two doubles, so the last of many digits decides.
    let tie = format!("9007199254740993{}", "0".repeat(3_000));
    for (last, wanted) in [("0", 9_007_199_254_740_992.0), ("1", 9_007_199_254_740_994.0)] {
        let text = format!("{tie}{last}e-3001");
        assert_eq!(parse_number(text.as_bytes()), Some(wanted), "{last}");
    }
    assert_eq!(parse_number(format!("1e{}", "9".repeat(5_000)).as_bytes()), Some(f64::INFINITY));
    assert_eq!(parse_number(format!("1e-{}", "9".repeat(5_000)).as_bytes()), Some(0.0));
    assert_eq!(parse_number(format!("{}x", "1".repeat(5_000)).as_bytes()), None);
}

#[test]
fn long_runs_of_blanks_zeros_and_digits_are_read_as_short_ones() {
    let of = |text: &str| parse_number(text.as_bytes());
    for len in [1, 15, 63, 64, 65, 200, 5_000] {
        let (zeros, blanks, ones) = ("0".repeat(len), " \t\n".repeat(len), "1".repeat(len));
        assert_eq!(of(&format!("{zeros}12.5")), Some(12.5), "{len}");
        assert_eq!(of(&format!("{blanks}-12.5{blanks}")), Some(-12.5), "{len}");
        assert_eq!(of(&format!("{blanks}7{blanks}\0x")), Some(7.0), "{len}");
        assert_eq!(of(&format!("{blanks}7{blanks}x")), None, "{len}");
        assert_eq!(of(&blanks), None, "{len}");
        assert_eq!(of(&format!("0x{zeros}1F.8p1")), Some(63.0), "{len}");
        assert_eq!(of(&format!("0x0.{zeros}8p{}", 4 * len + 1)), Some(1.0), "{len}");
        assert_eq!(of(&format!("0x1{zeros}p-{}", 4 * len)), Some(1.0), "{len}");
        // The number lies halfway between two doubles. It is tested without and with a further bit far to the
        // right, which decides the rounding.
        assert_eq!(of(&format!("0x20000000000001{zeros}p-{}", 4 * len)), Some(9_007_199_254_740_992.0));
        assert_eq!(of(&format!("0x20000000000001{zeros}8p-{}", 4 * len + 4)), Some(9_007_199_254_740_994.0));
        assert!(of(&format!("nan({ones})")).is_some_and(f64::is_nan), "{len}");
        assert_eq!(of(&format!("nan({ones}")), None, "{len}");
        for base in [2, 3, 10, 11, 16, 36] {
            let radix = |text: String| parse_radix(text.as_bytes(), base);
            assert_eq!(radix(format!("{blanks}{zeros}101{blanks}\0?")), radix("101".into()), "{len}, {base}");
            assert_eq!(radix(format!("{zeros}?")), None, "{len}, {base}");
            assert_eq!(radix(zeros.clone()), Some(0.0), "{len}, {base}");
            if len > 64 {
                assert_eq!(radix(ones.clone()), Some(u64::MAX as f64), "{len}, {base}");
                assert_eq!(radix(format!("-{ones}  ")), Some(u64::MAX as f64), "{len}, {base}");
                let digit = char::from_digit(base - 1, base).unwrap().to_ascii_uppercase();
                assert_eq!(radix(format!("{ones}{digit}")), Some(u64::MAX as f64), "{len}, {base}");
                let other = if base < 36 { char::from_digit(base, 36).unwrap() } else { '_' };
                assert_eq!(radix(format!("{ones}{other}")), None, "{len}, {base}");
            }
        }
    }
}
