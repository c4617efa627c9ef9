use super::*;
use crate::Rng;

/// The definition: an empty text is special, any other is matched by plain recursion.
fn oracle(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() { pattern.is_empty() } else { oracle_rest(pattern, text) }
}

fn oracle_rest(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skip| oracle_rest(rest, &text[skip..])),
        _ => {
            let Some((&byte, tail)) = text.split_first() else { return false };
            let (matched, rest) = oracle_element(pattern, byte);
            matched && oracle_rest(rest, tail)
        }
    }
}

fn oracle_element(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    match pattern {
        [b'?', rest @ ..] => (true, rest),
        [b'\\', escaped, rest @ ..] => (*escaped == byte, rest),
        [b'[', b'^', class @ ..] => {
            let (set, rest) = oracle_class(class);
            (!set.contains(&byte), rest)
        }
        [b'[', class @ ..] => {
            let (set, rest) = oracle_class(class);
            (set.contains(&byte), rest)
        }
        [literal, rest @ ..] => (*literal == byte, rest),
        [] => (false, pattern),
    }
}

fn oracle_class(mut class: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut set = Vec::new();
    loop {
        class = match class {
            [b'\\', escaped, rest @ ..] => {
                set.push(*escaped);
                rest
            }
            [b']', rest @ ..] => return (set, rest),
            [a, b'-', b, rest @ ..] => {
                set.extend(*a.min(b)..=*a.max(b));
                rest
            }
            [one, rest @ ..] => {
                set.push(*one);
                rest
            }
            [] => return (set, class),
        }
    }
}

#[test]
fn agrees_with_the_definition_on_random_patterns() {
    let mut rng = Rng::new(7);
    let mut matched = 0;
    for _ in 0..400_000 {
        let pattern = random(&mut rng, b"ab*?[]^-\\c", 9);
        let text = random(&mut rng, b"abc-]\\^[", 7);
        let expected = oracle(&pattern, &text);
        matched += u32::from(expected);
        let shown = (String::from_utf8_lossy(&pattern), String::from_utf8_lossy(&text));
        assert_eq!(matches(&pattern, &text), expected, "{shown:?}");
        assert!(matches_nocase(&pattern, &text) || !expected || pattern.contains(&b'['), "{shown:?}");
    }
    assert!(matched > 10_000, "the patterns must match now and then, not {matched} times");
}

fn random(rng: &mut Rng, alphabet: &[u8], len_max: u64) -> Vec<u8> {
    (0..rng.below(len_max + 1)).map(|_| alphabet[rng.below(alphabet.len() as u64) as usize]).collect()
}

#[test]
fn odd_patterns_mean_what_the_reference_makes_of_them() {
    let table: [(&str, &str, bool); 20] = [
        ("", "", true),
        ("", "a", false),
        ("*", "", false),
        ("**", "", false),
        ("?", "", false),
        ("[", "a", false),
        ("[", "", false),
        ("[^", "a", true),
        ("[^", "", false),
        ("[p", "p", true),
        ("por[T", "port", false),
        ("[z-a]", "m", true),
        ("[a-]", "b", false),
        ("[a-]", "]", true),
        ("[]", "]", false),
        ("[^]", "]", true),
        ("a\\", "a\\", true),
        ("\\", "\\", true),
        ("[\\]]", "]", true),
        ("\\*", "x", false),
    ];
    for (pattern, text, expected) in table {
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} {text:?}");
    }
}

#[test]
fn without_case_a_range_is_ordered_before_it_is_folded() {
    for (pattern, expected) in
        [("[O-R]ort", true), ("[o-R]ort", false), ("[\\P]ort", false), ("[\\p]ort", true), ("P[O]RT", true)]
    {
        assert_eq!(matches_nocase(pattern.as_bytes(), b"port"), expected, "{pattern}");
    }
    assert!(matches_nocase(b"\\Port", b"port"));
    assert!(matches_nocase(b"PORT", b"port"));
    assert!(!matches(b"PORT", b"port"));
}

#[test]
fn regress_cve_2022_36021_stars_do_not_blow_up() {
    let pattern = b"a*".repeat(500);
    let pattern = [&pattern[..], b"b"].concat();
    assert!(!matches(&pattern, &b"a".repeat(20_000)));
    assert!(!matches(b"*?*?*?*?*?*?*?*?*?*?*?*?*?*?*?*?x", &b"a".repeat(100_000)));
}

#[test]
fn regress_cve_2024_31228_deep_patterns_neither_recurse_nor_match() {
    let text = b"a".repeat(1200);
    assert!(matches(&b"*a".repeat(1000), &text));
    assert!(!matches(&b"*a".repeat(1001), &text));
    assert!(matches(&b"a*".repeat(1001), &text));
    assert!(!matches(&b"a*".repeat(1002), &text));
    assert!(!matches(&b"*a".repeat(500_000), &text));
}

#[test]
fn regress_unclosed_ranges_at_the_end_stay_inside_the_pattern() {
    for pattern in ["[a-", "[-", "[^-", "[\\", "[^\\", "[a-\\", "[[", "*["] {
        for text in ["", "a", "-", "\\", "["] {
            let expected = oracle(pattern.as_bytes(), text.as_bytes());
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} {text:?}");
        }
    }
}

#[test]
fn any_bytes_may_be_fuzzed() {
    let mut rng = Rng::new(3);
    for _ in 0..20_000 {
        fuzz_glob(&random(&mut rng, b"\x03\x05ab*?[]^-\\\xff", 24));
    }
}
