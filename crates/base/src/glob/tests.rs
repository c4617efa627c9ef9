use super::*;
use crate::Rng;

/// The definition of a match: an empty text only matches the empty pattern, and any other text is matched by
/// plain recursion.
fn oracle(pattern: &[u8], text: &[u8], fold: fn(&u8) -> u8) -> bool {
    if text.is_empty() { pattern.is_empty() } else { oracle_rest(pattern, text, fold) }
}

fn exact(byte: &u8) -> u8 {
    *byte
}

fn oracle_rest(pattern: &[u8], text: &[u8], fold: fn(&u8) -> u8) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skip| oracle_rest(rest, &text[skip..], fold)),
        _ => {
            let Some((&byte, tail)) = text.split_first() else { return false };
            let (matched, rest) = oracle_element(pattern, byte, fold);
            matched && oracle_rest(rest, tail, fold)
        }
    }
}

fn oracle_element(pattern: &[u8], byte: u8, fold: fn(&u8) -> u8) -> (bool, &[u8]) {
    match pattern {
        [b'?', rest @ ..] => (true, rest),
        [b'\\', escaped, rest @ ..] => (fold(escaped) == fold(&byte), rest),
        [b'[', b'^', class @ ..] => {
            let (held, rest) = oracle_class(class, byte, fold);
            (!held, rest)
        }
        [b'[', class @ ..] => oracle_class(class, byte, fold),
        [literal, rest @ ..] => (fold(literal) == fold(&byte), rest),
        [] => (false, pattern),
    }
}

fn oracle_class(mut class: &[u8], byte: u8, fold: fn(&u8) -> u8) -> (bool, &[u8]) {
    let mut held = false;
    loop {
        class = match class {
            [b'\\', escaped, rest @ ..] => {
                held |= *escaped == byte;
                rest
            }
            [b']', rest @ ..] => return (held, rest),
            [a, b'-', b, rest @ ..] => {
                held |= (fold(a.min(b))..=fold(a.max(b))).contains(&fold(&byte));
                rest
            }
            [one, rest @ ..] => {
                held |= fold(one) == fold(&byte);
                rest
            }
            [] => return (held, class),
        }
    }
}

#[test]
fn agrees_with_the_definition_on_random_patterns() {
    let mut rng = Rng::new(7);
    let mut matched = 0;
    for _ in 0..400_000 {
        let pattern = random(&mut rng, b"aB*?[]^-\\c", 9);
        let text = random(&mut rng, b"aBc-]\\^[b", 7);
        let expected = oracle(&pattern, &text, exact);
        matched += u32::from(expected);
        let shown = (String::from_utf8_lossy(&pattern), String::from_utf8_lossy(&text));
        assert_eq!(matches(&pattern, &text), expected, "{shown:?}");
        every_way_agrees(&pattern, &text);
        let expected = oracle(&pattern, &text, u8::to_ascii_lowercase);
        assert_eq!(matches_nocase(&pattern, &text), expected, "without case {shown:?}");
    }
    assert!(matched > 10_000, "the patterns must match now and then, not {matched} times");
}

/// Tests random patterns of every form with texts so short that a match never takes steps from its allowance.
#[test]
fn every_form_agrees_with_the_definition_without_an_allowance() {
    let mut rng = Rng::new(11);
    let mut met = [[0_u32; 2]; 5];
    let element = |rng: &mut Rng| {
        [&b"a"[..], b"a", b"b", b"b", b"?", b"[ab]", b"[^a]", b"\\*", b"[b-a"][rng.below(9) as usize]
    };
    for _ in 0..100_000 {
        let mut pattern = Vec::new();
        for _ in 0..=rng.below(2) {
            let plain = rng.below(2) == 0;
            for _ in 0..rng.below(4) {
                pattern.extend_from_slice(if plain { b"a" } else { element(&mut rng) });
            }
            pattern.extend_from_slice([&b""[..], b"*", b"*", b"**"][rng.below(4) as usize]);
        }
        let text = random(&mut rng, b"aaab*", 7);
        let expected = oracle(&pattern, &text, exact);
        let compiled = Pattern::new(&pattern);
        let form = match compiled.form {
            PatternForm::Plain => 0,
            PatternForm::Prefix { .. } => 1,
            PatternForm::Infix(_) => 2,
            PatternForm::OneStar { .. } => 3,
            PatternForm::Stars => 4,
        };
        met[form][usize::from(expected)] += 1;
        let allowance = &mut Allowance::of_steps(0);
        let shown = (String::from_utf8_lossy(&pattern), String::from_utf8_lossy(&text));
        assert_eq!(compiled.matches_within(&text, allowance), Some(expected), "{shown:?}");
    }
    assert!(met.as_flattened().iter().all(|count| *count > 100), "{met:?}");
}

#[test]
fn the_forms_of_patterns() {
    let form = |pattern: &'static [u8]| format!("{:?}", Pattern::new(pattern).form);
    assert_eq!(form(b"user:1"), "Plain");
    assert_eq!(form(b"user:*"), "Prefix { end: 5 }");
    assert!(form(b"*:id:**").starts_with("Infix"));
    assert_eq!(form(b"h[ae]llo"), "OneStar { star: 8, after_stars: 8, elements_after: 0 }");
    assert_eq!(form(b"h[ae]*[lo]o"), "OneStar { star: 5, after_stars: 6, elements_after: 2 }");
    assert_eq!(form(b"[*"), "OneStar { star: 2, after_stars: 2, elements_after: 0 }");
    assert_eq!(form(b"*\\:*"), "Stars");
    let long = [b"*".to_vec(), b"a".repeat(5000), b"*".to_vec()].concat();
    assert!(matches!(Pattern::new(&long).form, PatternForm::Stars));
    assert!(Pattern::new(&long).matches(&b"a".repeat(5000)));
}

/// Asserts that plain matching, the search in blocks, and compiled classes give the same result, with and
/// without case.
fn every_way_agrees(pattern: &[u8], text: &[u8]) {
    fn ways<C: LetterCase>(pattern: &[u8], text: &[u8]) -> [Option<bool>; 3] {
        let compiled = Compiled::with_long_classes::<C>(pattern, 0);
        let prepared = compiled.as_ref().map(PreparedPattern::<C>::new);
        let blocks = run(Raw::<C>::new(pattern), text, &mut AlwaysInBlocks);
        let compiled = prepared.map_or(blocks, |prepared| run(prepared, text, &mut Unbounded));
        [blocks, compiled, prepared.map_or(blocks, |prepared| run(prepared, text, &mut AlwaysInBlocks))]
    }
    let shown = (String::from_utf8_lossy(pattern), String::from_utf8_lossy(text));
    assert_eq!(ways::<Exact>(pattern, text), [Some(matches(pattern, text)); 3], "{shown:?}");
    assert_eq!(ways::<NoCase>(pattern, text), [Some(matches_nocase(pattern, text)); 3], "{shown:?}");
    assert_eq!(Pattern::new(pattern).matches(text), matches(pattern, text), "{shown:?}");
    assert_eq!(Pattern::nocase(pattern).matches(text), matches_nocase(pattern, text), "{shown:?}");
}

struct AlwaysInBlocks;
impl MatchWork for AlwaysInBlocks {
    const CREDIT: usize = 0;
    fn take(&mut self, _steps: usize) -> bool {
        true
    }
}

#[derive(Default)]
struct Counted {
    steps: usize,
}

impl MatchWork for Counted {
    fn count(&mut self, steps: usize) {
        self.steps += steps;
    }
    fn take(&mut self, _steps: usize) -> bool {
        true
    }
}

/// Elements of several kinds stand between stars, and the text nearly matches. Some patterns have more
/// elements than a 64-bit word has bits and than an `ElementPart` has room for, and some texts have more
/// positions than the search looks at in one run.
#[test]
fn long_elements_between_stars_are_found_wherever_they_stand() {
    let mut rng = Rng::new(16);
    let (mut matched, mut missed) = (0, 0);
    for round in 0..3000 {
        let (mut pattern, mut text) = (Vec::new(), Vec::new());
        for _ in 0..=rng.below(3) {
            let around = rng.below([4, 300, 20_000][round % 3]);
            text.extend(random(&mut rng, b"ab", around));
            for _ in 0..rng.below([5, 70, 600][round / 3 % 3]) {
                let byte = b"aabc"[rng.below(4) as usize];
                text.push(byte);
                match rng.below(6) {
                    0 => pattern.push(b'?'),
                    1 => pattern.extend_from_slice(b"[a-c]"),
                    2 => pattern.extend_from_slice(b"[^x]"),
                    3 => pattern.extend_from_slice(&[b'[', byte, b'Q', b']']),
                    4 => pattern.extend_from_slice(&[b'\\', byte]),
                    _ => pattern.push(byte),
                }
            }
            pattern.push(b'*');
        }
        pattern.truncate(pattern.len() - usize::from(rng.below(2) == 0));
        if rng.below(2) == 0 && !text.is_empty() {
            let at = rng.below(text.len() as u64) as usize;
            text[at] = b"abcx"[rng.below(4) as usize];
        }
        pattern.insert(0, b'*');
        let expected = matches(&pattern, &text);
        (matched, missed) = (matched + usize::from(expected), missed + usize::from(!expected));
        every_way_agrees(&pattern, &text);
    }
    assert!(matched > 500 && missed > 200, "{matched} {missed}");
}

/// The steps to match a pattern with a text stay below [`STEPS_PER_BYTE`] for each byte of both, plus the
/// product of their lengths divided by 250.
#[test]
fn hostile_pairs_take_steps_that_are_nearly_linear() {
    for bytes in [16 << 10, 60_000] {
        for (pattern, text) in hostile_pairs(bytes) {
            for pattern in [pattern.clone(), [&pattern[..], b"*"].concat()] {
                let bound = (pattern.len() + text.len()) * STEPS_PER_BYTE + pattern.len() * text.len() / 250;
                let mut counted = Counted::default();
                run(Raw::<Exact>::new(&pattern), &text, &mut counted);
                let start = String::from_utf8_lossy(&pattern[..20]);
                assert!(counted.steps < bound, "{start}: {} of {bound}", counted.steps);
                let Some(compiled) = Compiled::where_needed::<Exact>(&pattern) else { continue };
                let mut counted = Counted::default();
                run(PreparedPattern::<Exact>::new(&compiled), &text, &mut counted);
                assert!(counted.steps < bound, "{start}, compiled: {} of {bound}", counted.steps);
            }
        }
    }
}

/// Many short texts are matched with a pattern that has one long class; the class is read only once.
#[test]
fn a_long_class_is_read_once_for_many_texts() {
    for pattern in [b"[".to_vec(), b"*[".to_vec(), b"a*[^".to_vec()] {
        let pattern = [&pattern[..], &b"bc".repeat(30_000), b"]x*"].concat();
        let compiled = Compiled::where_needed::<Exact>(&pattern).expect("the class is long");
        let mut counted = Counted::default();
        for _ in 0..1000 {
            run(PreparedPattern::<Exact>::new(&compiled), b"aaaaaaaaaa", &mut counted);
        }
        assert!(counted.steps < 1000 * 10 * 50, "{}", counted.steps);
        assert!(compiled.pattern.len() < 20);
    }
}

#[test]
fn what_is_too_much_for_an_allowance_is_left_undecided() {
    let (pattern, text) = ([&b"*"[..], &b"[^b]".repeat(15_000), b"b*"].concat(), b"a".repeat(60_000));
    let pattern = Pattern::new(&pattern);
    assert_eq!(pattern.matches_within(&text, &mut Allowance::of_steps(100_000)), None);
    assert_eq!(pattern.matches_within(&text, &mut Allowance::of_steps(10_000_000)), Some(false));
    assert_eq!(Pattern::new(b"*a*").matches_within(&text, &mut Allowance::of_steps(0)), Some(true));
}

fn hostile_pairs(bytes: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let of = |part: &[u8]| part.repeat(bytes / part.len());
    let all_a = of(b"a");
    let middle = [&all_a[..bytes / 2], b"c", &all_a[..bytes / 2]].concat();
    let between =
        |element: &[u8], end: &[u8]| [b"*", &element.repeat(bytes / element.len() / 2)[..], end].concat();
    vec![
        ([b"*[", &of(b"bc")[..], b"]x"].concat(), all_a.clone()),
        ([b"*[^", &of(b"bc")[..], b"]x"].concat(), all_a.clone()),
        ([b"*a[", &of(b"b-c")[..], b"]*x"].concat(), all_a.clone()),
        ([&b"*a".repeat(999)[..], b"*b"].concat(), all_a.clone()),
        ([&b"*[^a]".repeat(999)[..], b"*b"].concat(), all_a.clone()),
        ([&b"*[^b]".repeat(999)[..], b"*b"].concat(), all_a.clone()),
        ([&b"*[ab]?a".repeat(900)[..], b"*b"].concat(), all_a.clone()),
        ([&b"*[ab]a\\ab".repeat(900)[..], b"*b"].concat(), of(b"aaaaac")),
        (between(b"a", b"b*"), all_a.clone()),
        (between(b"?", b"b*"), all_a.clone()),
        (between(b"?", b"b*b"), all_a.clone()),
        (between(b"[^b]", b"b*"), all_a.clone()),
        (between(b"[^c]", b"*"), middle.clone()),
        (between(b"[^c]", b"*c*c*"), middle),
        (between(b"[ab]", b"b*"), of(b"ab")),
        (between(b"a?", b"b*"), of(b"ab")),
    ]
}

/// The number of steps that each byte of a pattern and of its text may take.
const STEPS_PER_BYTE: usize = 40;

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
            let expected = oracle(pattern.as_bytes(), text.as_bytes(), exact);
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
