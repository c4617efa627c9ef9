//! Glob patterns, as KEYS, SCAN, PSUBSCRIBE, CONFIG GET and ACL rules match them.
//!
//! `*` any run, `?` any byte, `[a-c]` `[^a]` a class, `\x` the byte x. A class that is not closed ends with
//! the pattern; its ranges may be given either way round; a backslash at the end is itself. An empty text
//! matches the empty pattern only, not even `*`: callers for which `*` means everything (KEYS, SCAN) look for
//! it themselves.
//!
//! Invariants: (1) the cost is O(pattern × text) whatever the pattern: a mismatch goes back to the last `*`
//! only, since an earlier one can reach nothing that the last cannot; (2) no recursion.

/// Whether all of `text` matches `pattern`. Cost: O(pattern × text).
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    run::<Exact>(pattern, text)
}

/// As [`matches()`], with ASCII letters equal in both cases, but for a byte escaped within a class.
pub fn matches_nocase(pattern: &[u8], text: &[u8]) -> bool {
    run::<NoCase>(pattern, text)
}

/// What the fuzzer calls: `data` is a length byte, a pattern of that length and a text.
pub fn fuzz_glob(data: &[u8]) {
    let Some((&len, rest)) = data.split_first() else { return };
    let (pattern, text) = rest.split_at(usize::from(len).min(rest.len()));
    let exact = matches(pattern, text);
    let nocase = matches_nocase(pattern, text);
    if !pattern.contains(&b'[') {
        assert!(nocase || !exact, "a match stays one without case");
    }
    assert_eq!(matches(b"*", text), !text.is_empty());
}

fn run<F: Fold>(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let mut p = 0;
    let mut t = 0;
    let mut retry: Option<(usize, usize)> = None;
    let mut stars = 0;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            while pattern.get(p) == Some(&b'*') {
                p += 1;
            }
            if p == pattern.len() {
                return true;
            }
            stars += 1;
            if stars > STARS_MAX {
                return false;
            }
            retry = Some((p, t));
            continue;
        }
        if let Some(next) = step::<F>(pattern, p, text[t]) {
            p = next;
            t += 1;
            continue;
        }
        let Some((star, from)) = &mut retry else { return false };
        *from += 1;
        // Where the star's next element is a plain byte, the positions without that byte are passed over.
        if let Some(&byte) = pattern.get(*star)
            && F::EXACT
            && !matches!(byte, b'?' | b'[' | b'\\')
        {
            match text[*from..].iter().position(|&other| other == byte) {
                Some(distance) => *from += distance,
                None => return false,
            }
        }
        p = *star;
        t = *from;
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// The position after the element at `p` if it matches `byte`; the element is not a star.
#[inline]
fn step<F: Fold>(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    let (matched, next) = match *pattern.get(p)? {
        b'?' => (true, p + 1),
        b'[' => class::<F>(pattern, p + 1, byte),
        b'\\' if p + 1 < pattern.len() => (F::fold(pattern[p + 1]) == F::fold(byte), p + 2),
        literal => (F::fold(literal) == F::fold(byte), p + 1),
    };
    matched.then_some(next)
}

/// Whether the class that begins at `p`, after its bracket, holds `byte`, and the position after it.
fn class<F: Fold>(pattern: &[u8], mut p: usize, byte: u8) -> (bool, usize) {
    let negated = pattern.get(p) == Some(&b'^');
    if negated {
        p += 1;
    }
    let mut found = false;
    loop {
        match pattern[p..] {
            [] => return (found != negated, p),
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                p += 2;
            }
            [b']', ..] => return (found != negated, p + 1),
            [a, b'-', b, ..] => {
                let (low, high) = (F::fold(a.min(b)), F::fold(a.max(b)));
                found |= (low..=high).contains(&F::fold(byte));
                p += 3;
            }
            [one, ..] => {
                found |= F::fold(one) == F::fold(byte);
                p += 1;
            }
        }
    }
}

/// How two bytes are brought together before they are compared.
trait Fold {
    /// Every byte equals itself alone.
    const EXACT: bool;
    fn fold(byte: u8) -> u8;
}

struct Exact;
impl Fold for Exact {
    const EXACT: bool = true;
    #[inline]
    fn fold(byte: u8) -> u8 {
        byte
    }
}

struct NoCase;
impl Fold for NoCase {
    const EXACT: bool = false;
    #[inline]
    fn fold(byte: u8) -> u8 {
        byte.to_ascii_lowercase()
    }
}

/// Beyond this many stars with something after them nothing matches: the reference bounds its recursion so.
const STARS_MAX: usize = 1000;

#[cfg(test)]
mod tests;
