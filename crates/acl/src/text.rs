//! Text of rules: most words end at a zero byte, patterns and passwords do not.

use std::borrow::Cow;

/// The bytes before the first zero byte.
pub(crate) fn word(text: &[u8]) -> &[u8] {
    match text.iter().position(|&byte| byte == 0) {
        Some(end) => &text[..end],
        None => text,
    }
}

/// Whether `text` contains white space of any kind or a zero byte.
pub(crate) fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|&byte| matches!(byte, 0 | b' ' | b'\t'..=b'\r'))
}

/// `text` without leading and trailing bytes of `set`.
pub(crate) fn trim<'a>(mut text: &'a [u8], set: &[u8]) -> &'a [u8] {
    while let [first, rest @ ..] = text
        && set.contains(first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && set.contains(last)
    {
        text = rest;
    }
    text
}

/// Joins the words of each selector: from a word that begins with `(` and does not end with `)` to the next
/// word that ends with `)`. `Err` is the position of the first word of a selector that is not closed. Cost:
/// linear in the bytes of the rules.
pub(crate) fn merge_selectors<'a>(
    rules: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<Cow<'a, [u8]>>, usize> {
    let mut merged = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, rule) in rules.enumerate() {
        match &mut open {
            None if rule.first() == Some(&b'(') && rule.last() != Some(&b')') => {
                open = Some((at, rule.to_vec()))
            }
            None => merged.push(Cow::Borrowed(rule)),
            Some((_, selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(word(rule));
                if rule.last() == Some(&b')') {
                    merged.extend(open.take().map(|(_, selector)| Cow::Owned(selector)));
                }
            }
        }
    }
    match open {
        Some((at, _)) => Err(at),
        None => Ok(merged),
    }
}
