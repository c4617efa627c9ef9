//! Patterns of CONFIG GET: `*`, `?`, `[a-z]`, `[^a]` and `\` before a byte that stands for itself; any case matches.

/// Whether `text` matches `pattern`. Cost: at most their lengths multiplied.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Where to go on when a mismatch follows a star: the star's successor, and how much text the star holds.
    let mut retry: Option<(usize, usize)> = None;
    while seen < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            retry = Some((at, seen));
            continue;
        }
        match single(&pattern[at.min(pattern.len())..], text[seen]) {
            Some(used) => {
                at += used;
                seen += 1;
            }
            None => {
                let Some((after_star, held)) = retry else { return false };
                retry = Some((after_star, held + 1));
                (at, seen) = (after_star, held + 1);
            }
        }
    }
    pattern[at.min(pattern.len())..].iter().all(|byte| *byte == b'*')
}

/// How many bytes of the pattern match `byte`; `None` when they do not.
fn single(pattern: &[u8], byte: u8) -> Option<usize> {
    let same = |other: u8| other.eq_ignore_ascii_case(&byte);
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => class(rest, byte).map(|used| used + 1),
        [b'\\', escaped, ..] => same(*escaped).then_some(2),
        [literal, ..] => same(*literal).then_some(1),
    }
}

/// As [`single`], after the opening bracket. A class that is not closed ends with the pattern.
fn class(rest: &[u8], byte: u8) -> Option<usize> {
    let negated = rest.first() == Some(&b'^');
    let byte = byte.to_ascii_lowercase();
    let mut at = usize::from(negated);
    let mut found = false;
    while let Some(first) = rest.get(at) {
        match (*first, rest.get(at + 1), rest.get(at + 2)) {
            (b']', _, _) => {
                at += 1;
                break;
            }
            (b'\\', Some(escaped), _) => {
                found |= escaped.to_ascii_lowercase() == byte;
                at += 2;
            }
            (low, Some(b'-'), Some(high)) => {
                let (low, high) = (low.to_ascii_lowercase(), high.to_ascii_lowercase());
                found |= (low.min(high)..=low.max(high)).contains(&byte);
                at += 3;
            }
            (literal, _, _) => {
                found |= literal.to_ascii_lowercase() == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}
