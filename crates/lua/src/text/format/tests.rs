use super::*;

/// Formats one number or text by one directive.
fn one(format: &str, number: f64, text: &[u8]) -> Result<String, String> {
    let directive =
        scan(&format.as_bytes()[1..]).map_err(|error| String::from_utf8(error.text()).expect("text"))?;
    let mut out = Vec::new();
    let layout = &directive.layout;
    match directive.conversion {
        Conversion::Byte => push_byte(&mut out, layout, number),
        Conversion::Signed => push_signed(&mut out, layout, number),
        Conversion::Unsigned(radix) => push_unsigned(&mut out, layout, radix, number),
        Conversion::Float(letter) => push_float(&mut out, layout, letter, number),
        Conversion::Quoted => push_quoted(&mut out, text),
        Conversion::Text => push_text(&mut out, layout, text),
    }
    out.extend_from_slice(&format.as_bytes()[1 + directive.len..]);
    Ok(String::from_utf8(out).expect("text"))
}

#[test]
fn numbers_are_laid_out_as_printf_does() {
    let cases: &[(&str, f64, &str)] = &[
        ("%#x", 5.0, "0x5"),
        ("%#x", 0.0, "0"),
        ("%#X", -5.0, "0XFFFFFFFFFFFFFFFB"),
        ("%#o", 0.0, "0"),
        ("%#o", 5.0, "05"),
        ("%#.3o", 5.0, "005"),
        ("%#.0o", 0.0, "0"),
        ("%+d", 0.0, "+0"),
        ("% d", 5.0, " 5"),
        ("%05d", -5.0, "-0005"),
        ("%-05d|", 5.0, "5    |"),
        ("%05.3d", 5.0, "  005"),
        ("%.0d", 0.0, ""),
        ("%5.d", 0.0, "     "),
        ("%#05x", 5.0, "0x005"),
        ("%+u", 5.0, "5"),
        ("%d", f64::NAN, "-9223372036854775808"),
        ("%d", 3.99, "3"),
        ("%u", 1e300, "0"),
        ("%x", -1.0, "ffffffffffffffff"),
        ("%05f", f64::INFINITY, "  inf"),
        ("%+05f", f64::INFINITY, " +inf"),
        ("%010f", 1.5, "001.500000"),
        ("%G", f64::NEG_INFINITY, "-INF"),
        ("%#g", 1.5, "1.50000"),
        ("%#.0f", 2.5, "2."),
        ("%.0f", 2.5, "2"),
        ("%#.0e", 2.5, "2.e+00"),
        ("%.0g", 123_456_789.0, "1e+08"),
        ("%10.3g|", -1e300, "   -1e+300|"),
        ("%010g", -1e300, "-0001e+300"),
        ("% g", 1e-5, " 1e-05"),
        ("%.20g", 1e-5, "1.0000000000000000818e-05"),
        ("%g", 100_000.0, "100000"),
        ("%g", 1_000_000.0, "1e+06"),
        ("%#g", 100_000.0, "100000."),
        ("%g", 0.0, "0"),
        ("%#g", 0.0, "0.00000"),
        ("%e", 0.0, "0.000000e+00"),
        ("%.3f", 0.0005, "0.001"),
        ("%5c|", 65.0, "    A|"),
        ("%-5c|", 65.0, "A    |"),
        ("%c|", 0.0, "|"),
        ("%3c|", 0.0, "  |"),
        ("%-3c|", 0.0, "|"),
        ("%c", 321.0, "A"),
    ];
    for (format, n, expected) in cases {
        assert_eq!(one(format, *n, b"").as_deref(), Ok(*expected), "{format} of {n}");
    }
}

#[test]
fn texts_end_at_a_zero_byte_unless_they_are_long() {
    assert_eq!(one("%s", 0.0, b"a\0b").as_deref(), Ok("a"));
    assert_eq!(one("%.3s|", 0.0, b"abcd").as_deref(), Ok("abc|"));
    assert_eq!(one("%05s", 0.0, b"ab").as_deref(), Ok("   ab"));
    assert_eq!(one("%-5s|", 0.0, b"ab").as_deref(), Ok("ab   |"));
    assert_eq!(one("%.s|", 0.0, b"ab").as_deref(), Ok("|"));
    let long = [&[b'x'; 100][..], b"\0y"].concat();
    assert_eq!(one("%5s", 0.0, &long).map(|text| text.len()), Ok(102));
    assert_eq!(one("%.99s", 0.0, &long).map(|text| text.len()), Ok(99));
    assert_eq!(one("%q", 0.0, b"a\n\0\r\"\\\x01").as_deref(), Ok("\"a\\\n\\000\\r\\\"\\\\\x01\""));
}

#[test]
fn malformed_directives_are_told_as_puc_tells_them() {
    let error = |format: &str| one(format, 0.0, b"").expect_err("an error");
    assert_eq!(error("%------d"), "invalid format (repeated flags)");
    assert_eq!(one("%-----d", 1.0, b"").as_deref(), Ok("1"));
    assert_eq!(error("%123d"), "invalid format (width or precision too long)");
    assert_eq!(error("%1.123d"), "invalid format (width or precision too long)");
    assert_eq!(error("%1.2.3d"), "invalid option '%.' to 'format'");
    assert_eq!(error("%"), "invalid option '%' to 'format'");
    assert_eq!(error("%5"), "invalid option '%' to 'format'");
    assert_eq!(error("%y"), "invalid option '%y' to 'format'");
    assert_eq!(error("%5%"), "invalid option '%%' to 'format'");
}
