//! Forms of patterns whose match takes steps that are linear in the text whatever the text: most patterns
//! have one. Neither the way back to a star nor an allowance is needed.
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

/// The parts of a pattern. Positions are of the pattern's bytes.
#[derive(Clone, Debug)]
pub(super) enum PatternForm<'a> {
    Plain,
    Prefix {
        end: usize,
    },
    Infix(Box<Finder<'a>>),
    /// Elements up to the stars, and so many after them; `after_stars` is the end of the pattern where it has
    /// no star.
    OneStar {
        star: usize,
        after_stars: usize,
        elements_after: usize,
    },
    Stars,
}

impl<'a> PatternForm<'a> {
    /// The form of a pattern in which every byte equals itself alone. O(1): longer patterns than
    /// [`FORM_BYTES_MAX`] have none.
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
    // The empty text matches no star.
    !text.is_empty() && matches_all(source, after_stars, &rest[skipped..])
}

/// Whether elements from `p` on match the bytes, one each.
pub(super) fn matches_all(source: impl PatternSource, mut p: usize, text: &[u8]) -> bool {
    text.iter().all(|&byte| {
        let (matched, next) = source.step(p, byte);
        p = next;
        matched
    })
}

/// The position of the first star from `p` on, or the end, and the elements up to there.
pub(super) fn elements_to_star(source: impl PatternSource, mut p: usize) -> (usize, usize) {
    let mut elements = 0;
    while source.pattern().get(p).is_some_and(|&byte| byte != b'*') {
        p = source.after(p);
        elements += 1;
    }
    (p, elements)
}

/// Whether an element of one byte begins with this one, which it equals.
#[inline(always)]
pub(super) fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'*' | b'?' | b'[' | b'\\')
}

/// Bytes at the start that are elements of one byte, which they equal.
fn plain_bytes(pattern: &[u8]) -> usize {
    pattern.iter().take_while(|&&byte| is_plain(byte)).count()
}

fn stars(pattern: &[u8]) -> usize {
    pattern.iter().take_while(|&&byte| byte == b'*').count()
}

fn is_stars(pattern: &[u8]) -> bool {
    stars(pattern) == pattern.len()
}

/// Bytes of a pattern that is looked at: making a [`Finder`] of more would take longer than a match.
const FORM_BYTES_MAX: usize = 4096;
