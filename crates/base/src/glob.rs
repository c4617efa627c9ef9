//! Glob patterns, as KEYS, SCAN, PSUBSCRIBE, CONFIG GET and ACL rules match them.
//!
//! `*` matches any run, `?` any byte, `[a-c]` and `[^a]` a class, `\x` the byte x. A class that is not
//! closed ends with the pattern; the ends of a range may be in either order; a backslash at the end stands
//! for itself. An empty text is matched by the empty pattern only, not even by `*`: callers for which `*`
//! means everything (KEYS, SCAN) handle that case.
//!
//! Invariants: (1) a mismatch goes back to the last `*` only, because an earlier star can reach nothing
//! that the last cannot; (2) no recursion; (3) matching byte by byte takes a number of steps that is linear
//! in pattern and text; after these steps, the elements between two stars are searched 256 at a time
//! (`blocks.rs`), which adds at most elements × text ÷ 256 steps of a few nanoseconds; (4) a [`Pattern`]
//! that is matched with many texts reads each class of more than `CLASS_BYTES_MAX` bytes once, so that a byte
//! of a text never costs more than that many steps; (5) a [`Pattern`] in one of the simple forms of
//! `form.rs`, such as one with a single star, never goes back and takes nothing from an [`Allowance`].

mod blocks;
mod class;
mod form;
mod source;

use blocks::SegmentFound;
use class::{ByteSet, LetterCase};
use form::{PatternForm, is_plain, matches_one_star};
use source::{MatchWork, PatternSource};
use std::marker::PhantomData;

/// Whether all of `text` matches `pattern`. For many texts, make a [`Pattern`].
#[inline]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // The first byte is compared here, without a call, because most texts differ from the pattern in it.
    match (pattern, text) {
        ([first, ..], [other, ..]) if first != other && is_plain(*first) => false,
        _ => matches_from_start(pattern, text),
    }
}

fn matches_from_start(pattern: &[u8], text: &[u8]) -> bool {
    run(Raw::<Exact>::new(pattern), text, &mut Unbounded).unwrap_or(false)
}

/// Like [`matches()`], but ignores the case of ASCII letters, except for a byte escaped within a class.
pub(crate) fn matches_nocase(pattern: &[u8], text: &[u8]) -> bool {
    run(Raw::<NoCase>::new(pattern), text, &mut Unbounded).unwrap_or(false)
}

/// A pattern that is matched with many texts.
#[derive(Clone, Debug)]
pub struct Pattern<'a> {
    text: &'a [u8],
    is_nocase: bool,
    form: PatternForm<'a>,
    /// The compiled pattern, if it has long classes.
    compiled: Option<Box<Compiled>>,
}

impl<'a> Pattern<'a> {
    /// A pattern whose matches equal those of the function [`matches()`]. O(pattern).
    pub fn new(text: &'a [u8]) -> Pattern<'a> {
        match Compiled::where_needed::<Exact>(text) {
            None => {
                let form = PatternForm::of(text, Raw::<Exact>::new(text));
                Pattern { text, is_nocase: false, form, compiled: None }
            }
            compiled => Pattern { text, is_nocase: false, form: PatternForm::Stars, compiled },
        }
    }

    /// Like [`Pattern::new`], but ignores the case of ASCII letters, except for a byte escaped
    /// within a class.
    pub fn nocase(text: &'a [u8]) -> Pattern<'a> {
        let compiled = Compiled::where_needed::<NoCase>(text);
        Pattern { text, is_nocase: true, form: PatternForm::Stars, compiled }
    }

    /// Whether all of `text` matches.
    #[inline]
    pub fn matches(&self, text: &[u8]) -> bool {
        self.run(text, &mut Unbounded).unwrap_or(false)
    }

    /// Whether all of `text` matches, or `None` if the answer would take more steps than the allowance has
    /// left.
    #[inline]
    pub fn matches_within(&self, text: &[u8], allowance: &mut Allowance) -> Option<bool> {
        self.run(text, allowance)
    }

    #[inline]
    fn run(&self, text: &[u8], work: &mut impl MatchWork) -> Option<bool> {
        match &self.form {
            PatternForm::Plain => Some(text == self.text),
            // The first byte is compared here, without a call, because most texts differ from the
            // pattern in it.
            PatternForm::Prefix { end } => {
                Some(text.first() == self.text.first() && text.starts_with(&self.text[..*end]))
            }
            PatternForm::Infix(finder) => Some(finder.find(text).is_some()),
            PatternForm::OneStar { star, after_stars, elements_after } => {
                let first = self.text[0];
                if is_plain(first) && text.first() != Some(&first) {
                    return Some(false);
                }
                let at = (*star, *after_stars, *elements_after);
                Some(matches_one_star(Raw::<Exact>::new(self.text), at, text))
            }
            PatternForm::Stars => self.run_stars(text, work),
        }
    }

    fn run_stars(&self, text: &[u8], work: &mut impl MatchWork) -> Option<bool> {
        match (&self.compiled, self.is_nocase) {
            (None, false) => run(Raw::<Exact>::new(self.text), text, work),
            (None, true) => run(Raw::<NoCase>::new(self.text), text, work),
            (Some(compiled), false) => run(PreparedPattern::<Exact>::new(compiled), text, work),
            (Some(compiled), true) => run(PreparedPattern::<NoCase>::new(compiled), text, work),
        }
    }
}

/// The compiled form of a pattern with long classes, kept beside the pattern's text.
#[derive(Debug)]
pub struct LongClasses(Box<Compiled>);

impl LongClasses {
    /// The compiled form of a pattern; `None` where all classes are short.
    pub fn of(pattern: &[u8]) -> Option<LongClasses> {
        Compiled::where_needed::<Exact>(pattern).map(LongClasses)
    }

    /// Whether all of `text` matches the pattern.
    pub fn matches(&self, text: &[u8]) -> bool {
        run(PreparedPattern::<Exact>::new(&self.0), text, &mut Unbounded).unwrap_or(false)
    }

    /// Bytes of heap memory, as the allocator rounds them.
    pub fn footprint(&self) -> usize {
        crate::heap::boxed::<Compiled>() + crate::heap::vec(&self.0.pattern) + crate::heap::vec(&self.0.sets)
    }
}

/// A pattern of at most this many bytes has no class worth compiling: [`LongClasses::of`] returns `None`.
pub const SHORT_BYTES_MAX: usize = CLASS_BYTES_MAX;

/// The steps that several matches together may take in addition to those that are linear in pattern and text.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    left: usize,
}

impl Allowance {
    /// An allowance of this many steps, of a nanosecond or two each.
    pub fn of_steps(steps: usize) -> Allowance {
        Allowance { left: steps }
    }
}

/// Entry point of the fuzzer: `data` is a length byte, a pattern of that length and a text.
pub fn fuzz_glob(data: &[u8]) {
    let Some((&len, rest)) = data.split_first() else { return };
    let (pattern, text) = rest.split_at(usize::from(len).min(rest.len()));
    let exact = matches(pattern, text);
    let nocase = matches_nocase(pattern, text);
    if !pattern.contains(&b'[') {
        assert!(nocase || !exact, "a match stays one without case");
    }
    assert_eq!(Pattern::new(pattern).matches(text), exact);
    assert_eq!(Pattern::nocase(pattern).matches(text), nocase);
    assert_eq!(matches(b"*", text), !text.is_empty());
}

/// The number of plain bytes at the beginning of the pattern (0 if case is ignored); `None` where the text
/// begins with other bytes, as most texts do.
#[inline(always)]
fn plain_start<S: PatternSource>(pattern: &[u8], text: &[u8]) -> Option<usize> {
    let mut p = 0;
    if S::IS_EXACT {
        while let Some(&byte) = pattern.get(p)
            && is_plain(byte)
        {
            if text.get(p) != Some(&byte) {
                return None;
            }
            p += 1;
        }
    }
    Some(p)
}

/// Whether the text matches; `None` where the allowance is not enough.
fn run<S: PatternSource, W: MatchWork>(source: S, text: &[u8], work: &mut W) -> Option<bool> {
    let pattern = source.pattern();
    if text.is_empty() {
        return Some(pattern.is_empty());
    }
    let Some(mut p) = plain_start::<S>(pattern, text) else { return Some(false) };
    let mut t = p;
    let mut retry: Option<(usize, usize)> = None;
    let mut credit = 0;
    let mut stars = 0;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            while pattern.get(p) == Some(&b'*') {
                p += 1;
            }
            if p == pattern.len() {
                return Some(true);
            }
            if stars == 0 {
                credit = W::CREDIT * (pattern.len() + text.len());
            }
            stars += 1;
            if stars > STARS_MAX {
                return Some(false);
            }
            retry = Some((p, t));
            continue;
        }
        let (matched, next) = source.step(p, text[t]);
        if matched {
            p = next;
            t += 1;
            continue;
        }
        let Some((star, from)) = retry else { return Some(false) };
        let mut from = from + 1;
        let spent = next - star;
        work.count(spent);
        if spent > credit {
            match blocks::find(source, star, text, from, work) {
                SegmentFound::At { pattern: after, text: end } => {
                    // The search has counted its own steps. The matching byte by byte that follows gets
                    // credit for the bytes that this search has passed.
                    credit = W::CREDIT * (after - star + end - from);
                    (p, t) = (after, end);
                    continue;
                }
                SegmentFound::Nowhere => return Some(false),
                SegmentFound::GaveUp => return None,
            }
        }
        credit -= spent;
        // If the element after the star is a plain byte, positions without that byte are skipped.
        let byte = pattern[star];
        if S::IS_EXACT && is_plain(byte) {
            match text[from..].iter().position(|&other| other == byte) {
                Some(distance) => from += distance,
                None => return Some(false),
            }
        }
        retry = Some((star, from));
        p = star;
        t = from;
    }
    Some(pattern[p..].iter().all(|&byte| byte == b'*'))
}

/// A pattern in its original text.
#[derive(Clone, Copy)]
struct Raw<'a, C> {
    pattern: &'a [u8],
    case: PhantomData<C>,
}

impl<'a, C> Raw<'a, C> {
    #[inline(always)]
    fn new(pattern: &'a [u8]) -> Raw<'a, C> {
        Raw { pattern, case: PhantomData }
    }
}

impl<C: LetterCase> PatternSource for Raw<'_, C> {
    const IS_EXACT: bool = C::IS_EXACT;
    type LetterCase = C;

    #[inline(always)]
    fn pattern(&self) -> &[u8] {
        self.pattern
    }

    #[inline(always)]
    fn class(self, p: usize, byte: u8) -> (bool, usize) {
        class::holds::<C>(self.pattern, p, byte)
    }

    fn class_set(self, p: usize) -> (ByteSet, usize) {
        class::set::<C>(self.pattern, p)
    }
}

/// A pattern whose long classes are compiled. A byte follows each bracket: after [`SHORT_CLASS`] the
/// class follows as text, after [`LONG_CLASS`] the number of its set in four bytes.
#[derive(Clone, Debug)]
struct Compiled {
    pattern: Vec<u8>,
    sets: Vec<ByteSet>,
}

impl Compiled {
    fn where_needed<C: LetterCase>(pattern: &[u8]) -> Option<Box<Compiled>> {
        if pattern.len() <= SHORT_BYTES_MAX || !pattern.contains(&b'[') {
            return None;
        }
        Compiled::with_long_classes::<C>(pattern, CLASS_BYTES_MAX).map(Box::new)
    }

    /// The pattern with its classes of more than `class_bytes_max` bytes compiled; `None` where it has
    /// no such class.
    fn with_long_classes<C: LetterCase>(pattern: &[u8], class_bytes_max: usize) -> Option<Compiled> {
        let source = Raw::<C>::new(pattern);
        let mut compiled = Compiled { pattern: Vec::with_capacity(pattern.len()), sets: Vec::new() };
        let mut p = 0;
        while p < pattern.len() {
            let next = source.after(p);
            if pattern[p] != b'[' {
                compiled.pattern.extend_from_slice(&pattern[p..next]);
            } else if next - p <= class_bytes_max {
                compiled.pattern.extend_from_slice(&[b'[', SHORT_CLASS]);
                compiled.pattern.extend_from_slice(&pattern[p + 1..next]);
            } else {
                let index = compiled.sets.len() as u32;
                compiled.pattern.extend_from_slice(&[b'[', LONG_CLASS]);
                compiled.pattern.extend_from_slice(&index.to_le_bytes());
                compiled.sets.push(source.class_set(p + 1).0);
            }
            p = next;
        }
        compiled.pattern.shrink_to_fit();
        compiled.sets.shrink_to_fit();
        (!compiled.sets.is_empty()).then_some(compiled)
    }
}

#[derive(Clone, Copy)]
struct PreparedPattern<'a, C> {
    compiled: &'a Compiled,
    case: PhantomData<C>,
}

impl<'a, C> PreparedPattern<'a, C> {
    fn new(compiled: &'a Compiled) -> PreparedPattern<'a, C> {
        PreparedPattern { compiled, case: PhantomData }
    }

    /// The set of the long class at `p`, after its bracket, and the position after the class.
    fn long_class(&self, p: usize) -> Option<(&ByteSet, usize)> {
        let [LONG_CLASS, index @ ..] = &self.compiled.pattern[p..] else { return None };
        let index = u32::from_le_bytes(*index.first_chunk()?);
        Some((self.compiled.sets.get(index as usize)?, p + 5))
    }
}

impl<C: LetterCase> PatternSource for PreparedPattern<'_, C> {
    const IS_EXACT: bool = C::IS_EXACT;
    type LetterCase = C;

    #[inline(always)]
    fn pattern(&self) -> &[u8] {
        &self.compiled.pattern
    }

    fn class(self, p: usize, byte: u8) -> (bool, usize) {
        match self.long_class(p) {
            Some((set, after)) => (set.contains(byte), after),
            None => class::holds::<C>(&self.compiled.pattern, p + 1, byte),
        }
    }

    fn class_set(self, p: usize) -> (ByteSet, usize) {
        match self.long_class(p) {
            Some((set, after)) => (*set, after),
            None => class::set::<C>(&self.compiled.pattern, p + 1),
        }
    }
}

/// Compares bytes as they are.
#[derive(Clone, Copy)]
struct Exact;
impl LetterCase for Exact {
    const IS_EXACT: bool = true;
    #[inline]
    fn fold(byte: u8) -> u8 {
        byte
    }
}

/// Compares ASCII letters in lower case.
#[derive(Clone, Copy)]
struct NoCase;
impl LetterCase for NoCase {
    const IS_EXACT: bool = false;
    #[inline]
    fn fold(byte: u8) -> u8 {
        byte.to_ascii_lowercase()
    }
}

/// A match without a bound on its steps.
struct Unbounded;
impl MatchWork for Unbounded {
    #[inline]
    fn take(&mut self, _steps: usize) -> bool {
        true
    }
}

impl MatchWork for Allowance {
    #[inline]
    fn take(&mut self, steps: usize) -> bool {
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

/// A pattern matches nothing if more than this many of its runs of stars have something after them, because
/// the reference limits its recursion this way.
const STARS_MAX: usize = 1000;
/// A class of at most this many bytes is parsed again for each byte of a text.
const CLASS_BYTES_MAX: usize = 40;
const SHORT_CLASS: u8 = 0;
const LONG_CLASS: u8 = 1;

#[cfg(test)]
mod tests;
