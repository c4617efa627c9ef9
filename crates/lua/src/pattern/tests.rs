use super::*;

/// The first match and its captures as a text. The result must be the same with unlimited fuel and with one
/// unit of fuel at a time.
fn find(text: &str, pattern: &str) -> Result<Option<String>, &'static str> {
    let whole = search(text.as_bytes(), pattern.as_bytes(), u64::MAX);
    let stepped = search(text.as_bytes(), pattern.as_bytes(), 1);
    assert_eq!(whole, stepped, "{pattern:?} on {text:?} with little fuel");
    whole
}

fn search(text: &[u8], pattern: &[u8], steps: u64) -> Result<Option<String>, &'static str> {
    let (pattern, anchor) = match pattern.strip_prefix(b"^") {
        Some(rest) => (rest, Anchor::Here),
        None => (pattern, Anchor::Anywhere),
    };
    let mut matcher = Matcher::new(pattern);
    matcher.begin(0, anchor);
    let (start, end) = loop {
        match matcher.search(text, &mut { steps }).map_err(PatternError::text)? {
            PatternSearch::Found(start, end) => break (start, end),
            PatternSearch::Nothing => return Ok(None),
            PatternSearch::OutOfFuel => {}
        }
    };
    let mut out = String::new();
    for index in 0..matcher.capture_count().max(1) {
        match matcher.capture(index, start, end).map_err(PatternError::text)? {
            Capture::Text(from, to) => out.push_str(&text[from..to].escape_ascii().to_string()),
            Capture::Position(position) => out.push_str(&format!("@{position}")),
        }
        out.push('|');
    }
    Ok(Some(out))
}

#[test]
fn patterns_match_as_in_puc() {
    let cases: &[(&str, &str, Option<&str>)] = &[
        ("hello", "l+", Some("ll|")),
        ("hello", "^l+", None),
        ("hello", "^h", Some("h|")),
        ("hello", "o$", Some("o|")),
        ("hello", "l$", None),
        ("a$b", "a$b", Some("a$b|")),
        ("hello world", "(%a+) (%a+)", Some("hello|world|")),
        ("hello", "()ll()", Some("@3|@5|")),
        ("abc", "", Some("|")),
        ("", ".-", Some("|")),
        ("aXb", "%u", Some("X|")),
        ("THE (quick) fox", "%((%a+)%)", Some("quick|")),
        ("f(a(b)c)d", "%b()", Some("(a(b)c)|")),
        ("f(a(bc", "%b()", None),
        ("((x)", "%b()", Some("(x)|")),
        ("aaa", "%baa", Some("aa|")),
        ("THE (quick) fox", "%f[%a]%a+", Some("THE|")),
        ("the end", "%f[%s]", Some("|")),
        ("foo", "%f[%z]", Some("|")),
        ("abab", "(ab)%1", Some("ab|")),
        ("abac", "(ab)%1", None),
        ("x=x", "(.)=%1", Some("x|")),
        ("aaab", "a-b", Some("aaab|")),
        ("aaab", "^a-$", None),
        ("ab", "a?b?c?", Some("ab|")),
        ("aaa", "a*a", Some("aaa|")),
        ("aaa", "a*aaaa", None),
        ("]", "[]]", Some("]|")),
        ("^", "[%^]", Some("^|")),
        ("-", "[a%-z]", Some("-|")),
        ("b", "[a-]", None),
        ("-", "[a-]", Some("-|")),
        ("m", "[a-z]", Some("m|")),
        ("M", "[^a-z]", Some("M|")),
        ("]", "[^]]", None),
        ("\u{1}", "%c", Some("\\x01|")),
        ("a.b", "%.", Some(".|")),
        ("key = value", "^(%w+)%s*=%s*(%w+)$", Some("key|value|")),
        ("aXXbXXc", "(.-)XX", Some("a|")),
        ("abc\u{0}", "c%z", Some("c\\x00|")),
        ("ab", "a\u{0}[", Some("a|")),
        ("[x]", "%[(.)%]", Some("x|")),
        ("  trim  ", "^%s*(.-)%s*$", Some("trim|")),
        ("xyz", "x(y(z))", Some("yz|z|")),
        ("xyz", "(()y())", Some("y|@2|@3|")),
        ("a", "(a)(b?)", Some("a||")),
        ("aab", "(a-)b", Some("aa|")),
        ("x%", "%%", Some("%|")),
        ("0123", "[0-24-9]+", Some("012|")),
    ];
    for (text, pattern, expected) in cases {
        assert_eq!(find(text, pattern), Ok(expected.map(String::from)), "{pattern:?} on {text:?}");
    }
}

#[test]
fn an_error_is_told_where_the_match_reaches_it() {
    let many = "(a)".repeat(33);
    let many_positions = "()".repeat(33);
    let cases: &[(&str, &str, &str)] = &[
        ("a", "%", "malformed pattern (ends with '%')"),
        ("a", "[", "malformed pattern (missing ']')"),
        ("a", "[]", "malformed pattern (missing ']')"),
        ("a", "[^]", "malformed pattern (missing ']')"),
        ("a", "[a%]", "malformed pattern (missing ']')"),
        ("a", "[a\u{0}]", "malformed pattern (missing ']')"),
        ("a", "(", "unfinished capture"),
        ("a", "(a", "unfinished capture"),
        ("a", ".)", "invalid pattern capture"),
        ("a", "%b", "unbalanced pattern"),
        ("a", "%bx", "unbalanced pattern"),
        ("a", "%1", "invalid capture index"),
        ("a", "%0", "invalid capture index"),
        ("a", "(%1)", "invalid capture index"),
        ("a", "%f", "missing '[' after '%f' in pattern"),
        ("a", "%fx", "missing '[' after '%f' in pattern"),
        (&"a".repeat(40), &many, "too many captures"),
        ("a", &many_positions, "too many captures"),
    ];
    for (text, pattern, expected) in cases {
        assert_eq!(find(text, pattern), Err(*expected), "{pattern:?}");
    }
    assert_eq!(find("", "a["), Ok(None), "the set is never reached");
    assert_eq!(find("a", "b%"), Ok(None));
    assert_eq!(find("a", "()%1"), Ok(None), "a position matches nothing");
}

#[test]
fn a_pattern_that_never_matches_ends_with_the_fuel_and_needs_no_stack() {
    let text = "a".repeat(5_000);
    let mut matcher = Matcher::new(b"(.-)-(.-)-(.-)-b");
    matcher.begin(0, Anchor::Anywhere);
    let mut fuel = 100_000;
    assert_eq!(matcher.search(text.as_bytes(), &mut fuel), Ok(PatternSearch::OutOfFuel));
    assert_eq!(fuel, 0);
    assert_eq!(find(&"a".repeat(8), &("a?".repeat(8) + "b")), Ok(None));
    let many = "a?".repeat(compile::ITEMS_MAX + 1);
    assert_eq!(
        search("a".repeat(compile::ITEMS_MAX + 2).as_bytes(), many.as_bytes(), u64::MAX),
        Err("pattern too complex")
    );
    let long = "x".repeat(1 << 20);
    assert_eq!(find(&long, &("^".to_string() + &long + "$")).map(|found| found.is_some()), Ok(true));
    assert_eq!(find(&long[..5_000], "x*y"), Ok(None));
}

#[test]
fn searches_go_on_behind_a_match() {
    let text = b"one two  three";
    let mut matcher = Matcher::new(b"%a+");
    let (mut from, mut words) = (0, Vec::new());
    loop {
        matcher.begin(from, Anchor::Anywhere);
        let Ok(PatternSearch::Found(start, end)) = matcher.search(text, &mut { u64::MAX }) else { break };
        words.push(&text[start..end]);
        from = end;
    }
    assert_eq!(words, [&b"one"[..], b"two", b"three"]);
}

#[test]
fn bytes_and_texts_are_found_where_a_plain_search_finds_them() {
    let mut rng = sluice_base::Rng::new(3);
    for _ in 0..2_000 {
        let len = rng.below(200) as usize;
        let text: Vec<u8> = (0..len).map(|_| b"ab"[rng.below(2) as usize]).collect();
        let needle: Vec<u8> = (0..rng.below(80)).map(|_| b"ab"[rng.below(2) as usize]).collect();
        let from = rng.below(len as u64 + 1) as usize;
        let expected = if needle.is_empty() {
            Some(from)
        } else {
            text[from..].windows(needle.len()).position(|window| window == needle).map(|at| at + from)
        };
        let mut at = from;
        let found = loop {
            match scan::find_text(&text, &needle, at, &mut { 1 }) {
                scan::ScanProgress::Found(at) => break Some(at),
                scan::ScanProgress::Nothing => break None,
                scan::ScanProgress::OutOfFuel(next) => at = next,
            }
        };
        assert_eq!(found, expected);
        assert_eq!(scan::find_byte(&text, b'b'), text.iter().position(|&byte| byte == b'b'));
        assert_eq!(scan::find_other(&text, b'b'), text.iter().position(|&byte| byte != b'b'));
    }
}

#[test]
fn what_is_special_stands_before_a_zero_byte() {
    assert!(!is_special(b"abc)]"));
    assert!(is_special(b"a.c"));
    assert!(!is_special(b"a\0."));
}
