//! Forms of patterns whose match is linear in any text; most patterns have one. Such a match never goes
//! back to a star and needs no allowance.
//!
//! ```text
//!  name         Plain       the text itself
//!  user:*       Prefix      the text begins with plain bytes
//!  *:id:*       Infix       plain bytes are searched for in it
//!  h[ae]llo*    OneStar     elements at the text's start and at its end, each compared with one byte
//!  a*b*c        Stars       none of these: `glob::run`
//! ```

use super::source::PatternSource;
use memchr::memmem::Finder;

/// The form of a pattern. Positions are offsets in the pattern.
#[derive(Clone, Debug)]
pub(super) enum PatternForm<'a> {
    Plain,
    Prefix {
        end: usize,
    },
    Infix(Box<Finder<'a>>),
    /// One run of stars, from `star` to `after_stars`, with `elements_after` elements after it. Without a
    /// star, both positions are the pattern's end.
    OneStar {
        star: usize,
        after_stars: usize,
        elements_after: usize,
    },
    Stars,
}

impl<'a> PatternForm<'a> {
    /// The form of a pattern that distinguishes upper and lower case. O(1): patterns longer than
    /// [`FORM_BYTES_MAX`] count as `Stars`.
    pub(super) fn of(pattern: &'a [u8], source: impl PatternSource) -> PatternForm<'a> {
        if pattern.len() > FORM_BYTES_MAX {
            return PatternForm::Stars;
        }
        let end = plain_bytes(pattern);
        if end == pattern.len() {
            return PatternForm::Plain;
        }
        if end > 0 && is_stars(&pattern[end..]) {
            return PatternForm::Prefix { end };
        }
        let begin = stars(pattern);
        if begin > 0 {
            let inner = &pattern[begin..];
            let plain = plain_bytes(inner);
            if plain > 0 && plain < inner.len() && is_stars(&inner[plain..]) {
                return PatternForm::Infix(Box::new(Finder::new(&inner[..plain])));
            }
        }
        let (star, _) = elements_to_star(source, 0);
        let after_stars = star + stars(&pattern[star..]);
        match elements_to_star(source, after_stars) {
            (end, elements_after) if end == pattern.len() => {
                PatternForm::OneStar { star, after_stars, elements_after }
            }
            _ => PatternForm::Stars,
        }
    }
}

/// Whether `text` matches a pattern of one star, see [`PatternForm::OneStar`].
pub(super) fn matches_one_star(
    source: impl PatternSource,
    (star, after_stars, elements_after): (usize, usize, usize),
    text: &[u8],
) -> bool {
    let (mut p, mut t) = (0, 0);
    while p < star {
        let Some(&byte) = text.get(t) else { return false };
        let (matched, next) = source.step(p, byte);
        if !matched {
            return false;
        }
        (p, t) = (next, t + 1);
    }
    if star == after_stars {
        return t == text.len();
    }
    let rest = &text[t..];
    let Some(skipped) = rest.len().checked_sub(elements_after) else { return false };
    // A star does not match the empty text.
    !text.is_empty() && matches_all(source, after_stars, &rest[skipped..])
}

/// Whether the elements from `p` on match the bytes of `text`, one element for each byte.
pub(super) fn matches_all(source: impl PatternSource, mut p: usize, text: &[u8]) -> bool {
    text.iter().all(|&byte| {
        let (matched, next) = source.step(p, byte);
        p = next;
        matched
    })
}

/// The position of the first star from `p` on, or of the pattern's end, and the number of elements before it.
pub(super) fn elements_to_star(source: impl PatternSource, mut p: usize) -> (usize, usize) {
    let mut elements = 0;
    while source.pattern().get(p).is_some_and(|&byte| byte != b'*') {
        p = source.after(p);
        elements += 1;
    }
    (p, elements)
}

/// Whether this byte alone is an element, which matches itself.
#[inline(always)]
pub(super) fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'*' | b'?' | b'[' | b'\\')
}

/// The number of bytes at the start that are elements matching themselves.
fn plain_bytes(pattern: &[u8]) -> usize {
    pattern.iter().take_while(|&&byte| is_plain(byte)).count()
}

fn stars(pattern: &[u8]) -> usize {
    pattern.iter().take_while(|&&byte| byte == b'*').count()
}

fn is_stars(pattern: &[u8]) -> bool {
    stars(pattern) == pattern.len()
}

/// Longest pattern that is examined: making a [`Finder`] of a longer one would take longer than a match.
const FORM_BYTES_MAX: usize = 4096;
