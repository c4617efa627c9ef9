//! Patterns of Lua 5.1: compiled at most once for each call of a library function, then matched by a
//! [`Matcher`], whose state is data.
//!
//! A Lua pattern has no alternatives, so its items are a sequence. An item's captures and errors depend
//! only on its index. The compiler turns the first error into an item that raises the error when the match
//! reaches it, because the matcher of PUC-Rio's Lua (PUC) reads the pattern while it matches and reports no
//! error in a part that it never reaches.
//!
//! Invariants: (1) a match uses no recursion: the choices that remain to be tried are in a list, which is not
//! longer than the list of items; (2) every loop uses fuel (units of the budget); without fuel the matcher
//! pauses, and later continues as if there had been no pause; (3) a pattern ends at its first zero byte, as
//! in PUC's 5.1; (4) error texts are PUC's.

mod compile;
mod error;
pub(crate) mod scan;
mod sets;

use sluice_base::heap;

use compile::{PatternItem, Program, Single};
pub(crate) use error::PatternError;
use sets::contains;

/// Bytes that a loop over one item reads between two checks of the fuel.
const STRIDE: usize = 4096;

/// Longest pattern, in bytes, whose matcher is kept in the cache.
pub(crate) const KEPT_MAX: usize = 64;

/// Comparing a literal that is shorter than this costs nothing in addition to the item's unit of fuel.
const RUN_FREE: usize = 64;

/// Bytes that a simple loop reads for one unit of fuel.
const BYTES_PER_UNIT: usize = 16;

/// The positions at which a match may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// Only the first position.
    Here,
    /// Any position from the first on.
    Anywhere,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternSearch {
    /// A match: the index of its first byte, and the index after its last byte.
    Found(usize, usize),
    /// The text has no match from here on.
    Nothing,
    /// The fuel is used up: the caller searches again with more fuel.
    OutOfFuel,
}

/// The content of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// A part of the text: the index of its first byte, and the index after its last byte.
    Text(usize, usize),
    /// A position, from 1.
    Position(usize),
}

/// The state of a capture during a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaptureExtent {
    Open,
    Position,
    Len(usize),
}

/// A choice: a position from which the match can continue in another way.
#[derive(Clone, Copy, Debug)]
struct ChoicePoint {
    /// The item to continue with; for [`Retry::More`] the item that takes one more byte.
    item: u32,
    way: Retry,
    at: usize,
    /// The first position that remains to be tried, for [`Retry::Fewer`].
    first: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    /// Continue once, at `at`.
    Once,
    /// The previous item took as many bytes as possible; continue after fewer bytes.
    Fewer,
    /// The item takes as few bytes as possible; continue after one more byte.
    More,
}

/// The matcher's next action when it is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchNext {
    /// Look for a position where a match may begin.
    Start,
    /// Match the item at the current index.
    Item,
    /// Continue at `at` within an item that takes many bytes; `depth` counts the open delimiters of `%b`.
    Within { at: usize, depth: usize },
}

/// A compiled pattern and the state of its match.
#[derive(Debug)]
pub(crate) struct Matcher {
    /// The pattern's text, by which the cache finds the matcher: see [`Matcher::text`].
    text: Box<[u8]>,
    program: Program,
    /// The bytes that a match can begin with; `None` if the first item does not limit them. With `is_single`,
    /// one of these bytes is a whole match.
    first: Option<Single>,
    is_single: bool,
    choices: Vec<ChoicePoint>,
    /// Start and extent of each capture. The items call the index of a capture its level.
    captures: Vec<(usize, CaptureExtent)>,
    anchor: Anchor,
    next: MatchNext,
    start: usize,
    at: usize,
    item: usize,
}

impl Matcher {
    /// Heap bytes of the matcher, itself included.
    pub(crate) fn given_bytes(&self) -> usize {
        let Program { items, sets, literals, .. } = &self.program;
        let program = heap::vec(items) + heap::vec(sets) + heap::vec(literals);
        let state = heap::vec(&self.choices) + heap::vec(&self.captures);
        heap::boxed::<Matcher>() + heap::block(self.text.len()) + program + state
    }

    /// Compiles `pattern`, whose `^` the caller has removed if the function allows an anchor. The
    /// cost is linear.
    pub(crate) fn new(pattern: &[u8]) -> Matcher {
        let program = Program::new(pattern);
        Matcher {
            text: if pattern.len() <= KEPT_MAX { pattern.into() } else { Box::default() },
            captures: vec![(0, CaptureExtent::Open); program.levels],
            first: program.first(),
            is_single: matches!(program.items[..], [PatternItem::One(_), PatternItem::Done]),
            program,
            choices: Vec::new(),
            anchor: Anchor::Anywhere,
            next: MatchNext::Start,
            start: 0,
            at: 0,
            item: 0,
        }
    }

    /// The pattern as it was given; empty if it is longer than [`KEPT_MAX`].
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Maximum number of bytes that the matcher of a pattern of `len` bytes may own, for the limit on memory.
    pub(crate) fn footprint(len: usize) -> usize {
        size_of::<Matcher>()
            + len.min(compile::ITEMS_MAX) * (size_of::<PatternItem>() + size_of::<ChoicePoint>() + 4)
            + len
    }

    /// Prepares a search from `from` on.
    pub(crate) fn begin(&mut self, from: usize, anchor: Anchor) {
        self.start = from;
        self.anchor = anchor;
        self.next = MatchNext::Start;
        self.choices.clear();
    }

    /// The number of captures of the found match.
    pub(crate) fn capture_count(&self) -> usize {
        self.program.levels
    }

    /// The content of capture `index` (from 0) of the match from `start` to `end`. If the pattern has no
    /// captures, the first is the whole match.
    pub(crate) fn capture(&self, index: usize, start: usize, end: usize) -> Result<Capture, PatternError> {
        if index >= self.program.levels {
            return if index == 0 {
                Ok(Capture::Text(start, end))
            } else {
                Err(PatternError::InvalidCaptureIndex)
            };
        }
        let (at, extent) = self.captures[index];
        match extent {
            CaptureExtent::Open => Err(PatternError::UnfinishedCapture),
            CaptureExtent::Position => Ok(Capture::Position(at + 1)),
            CaptureExtent::Len(len) => Ok(Capture::Text(at, at + len)),
        }
    }

    /// Continues the search in `text`, which must not change, until a match is found, there is none, or
    /// `fuel` is used up.
    pub(crate) fn search(&mut self, text: &[u8], fuel: &mut u64) -> Result<PatternSearch, PatternError> {
        loop {
            if *fuel == 0 {
                return Ok(PatternSearch::OutOfFuel);
            }
            *fuel -= 1;
            if self.next == MatchNext::Start {
                match self.seek(text, fuel) {
                    Seek::Here
                        if self.is_single && self.first.is_some() && self.anchor == Anchor::Anywhere =>
                    {
                        self.at = self.start + 1;
                        return Ok(PatternSearch::Found(self.start, self.at));
                    }
                    Seek::Here => {}
                    Seek::OutOfFuel => return Ok(PatternSearch::OutOfFuel),
                    Seek::Nowhere => return Ok(PatternSearch::Nothing),
                }
            }
            match self.run(text, fuel)? {
                ItemRun::Matched => return Ok(PatternSearch::Found(self.start, self.at)),
                ItemRun::Failed if !self.advance(text) => return Ok(PatternSearch::Nothing),
                ItemRun::Failed | ItemRun::OutOfFuel => {}
            }
        }
    }

    /// Moves on to the next start position; returns whether there is one.
    fn advance(&mut self, text: &[u8]) -> bool {
        if self.anchor == Anchor::Here || self.start >= text.len() {
            return false;
        }
        self.start += 1;
        self.next = MatchNext::Start;
        true
    }

    /// Moves on to the next position whose first byte can begin a match.
    fn seek(&mut self, text: &[u8], fuel: &mut u64) -> Seek {
        if self.anchor == Anchor::Anywhere
            && let Some(first) = self.first
        {
            loop {
                let rest = &text[self.start.min(text.len())..];
                let window = &rest[..rest.len().min(STRIDE)];
                if let Some(found) = self.program.find(first, window) {
                    *fuel = fuel.saturating_sub((found / BYTES_PER_UNIT) as u64);
                    self.start += found;
                    break;
                }
                self.start += window.len();
                if self.start >= text.len() {
                    return Seek::Nowhere;
                }
                let cost = (STRIDE / BYTES_PER_UNIT) as u64;
                if *fuel < cost {
                    *fuel = 0;
                    return Seek::OutOfFuel;
                }
                *fuel -= cost;
            }
        }
        self.at = self.start;
        self.item = 0;
        self.next = MatchNext::Item;
        Seek::Here
    }

    /// Continues with the last choice; returns false if there is none.
    fn retry(&mut self, text: &[u8]) -> bool {
        while let Some(choice) = self.choices.last_mut() {
            match choice.way {
                Retry::Once => {
                    (self.item, self.at) = (choice.item as usize, choice.at);
                    self.choices.pop();
                }
                Retry::Fewer => {
                    choice.at -= 1;
                    (self.item, self.at) = (choice.item as usize, choice.at);
                    if choice.at == choice.first {
                        self.choices.pop();
                    }
                }
                Retry::More => {
                    let item = choice.item as usize;
                    let PatternItem::Few(single) = self.program.items[item] else {
                        self.choices.pop();
                        continue;
                    };
                    if choice.at >= text.len() || !self.program.is_match(single, text[choice.at]) {
                        self.choices.pop();
                        continue;
                    }
                    choice.at += 1;
                    (self.item, self.at) = (item + 1, choice.at);
                }
            }
            self.next = MatchNext::Item;
            return true;
        }
        false
    }

    /// Matches items until the pattern ends, this start has no further choices, or the fuel is used up.
    fn run(&mut self, text: &[u8], fuel: &mut u64) -> Result<ItemRun, PatternError> {
        loop {
            let matched = match self.program.items[self.item] {
                PatternItem::One(single) => {
                    let is_match = self.at < text.len() && self.program.is_match(single, text[self.at]);
                    self.at += usize::from(is_match);
                    Some(is_match)
                }
                PatternItem::Run { start, len } => Some(self.match_run(text, (start, len), fuel)),
                PatternItem::Many { single, min } => self.match_many(text, single, usize::from(min), fuel),
                PatternItem::Balance(open, close) => self.match_balance(text, open, close, fuel),
                PatternItem::Done => return Ok(ItemRun::Matched),
                PatternItem::Fail(error) => return Err(error),
                other => Some(self.match_other(text, other, fuel)),
            };
            match matched {
                Some(true) => {
                    self.item += 1;
                    self.next = MatchNext::Item;
                }
                Some(false) if !self.retry(text) => return Ok(ItemRun::Failed),
                Some(false) => {}
                None => return Ok(ItemRun::OutOfFuel),
            }
            if *fuel == 0 {
                return Ok(ItemRun::OutOfFuel);
            }
            *fuel -= 1;
        }
    }

    fn match_run(&mut self, text: &[u8], (start, len): (u32, u32), fuel: &mut u64) -> bool {
        let literal = &self.program.literals[start as usize..][..len as usize];
        let rest = &text[self.at..];
        if literal.len() >= RUN_FREE {
            // The equal bytes cost fuel, because a text can be made to differ from the pattern as late as
            // possible.
            *fuel = fuel.saturating_sub((scan::common_prefix(rest, literal) / BYTES_PER_UNIT) as u64);
        }
        let is_match = rest.starts_with(literal);
        self.at += if is_match { literal.len() } else { 0 };
        is_match
    }

    fn match_other(&mut self, text: &[u8], item: PatternItem, fuel: &mut u64) -> bool {
        match item {
            PatternItem::Maybe(single) => {
                if self.at < text.len() && self.program.is_match(single, text[self.at]) {
                    self.choose(Retry::Once, self.item + 1, self.at, 0);
                    self.at += 1;
                }
                true
            }
            PatternItem::Few(_) => {
                self.choose(Retry::More, self.item, self.at, 0);
                true
            }
            PatternItem::Open(level) => {
                self.captures[usize::from(level)] = (self.at, CaptureExtent::Open);
                true
            }
            PatternItem::Position(level) => {
                self.captures[usize::from(level)] = (self.at, CaptureExtent::Position);
                true
            }
            PatternItem::Close(level) => {
                let capture = &mut self.captures[usize::from(level)];
                capture.1 = CaptureExtent::Len(self.at - capture.0);
                true
            }
            PatternItem::Back(level) => self.match_back(text, level, fuel),
            PatternItem::Frontier(set) => {
                let before = if self.at == 0 { 0 } else { text[self.at - 1] };
                let here = text.get(self.at).copied().unwrap_or(0);
                let set = &self.program.sets[set as usize];
                !contains(set, before) && contains(set, here)
            }
            PatternItem::End => self.at == text.len(),
            PatternItem::One(_)
            | PatternItem::Run { .. }
            | PatternItem::Many { .. }
            | PatternItem::Balance(..)
            | PatternItem::Done
            | PatternItem::Fail(_) => false,
        }
    }

    fn match_back(&mut self, text: &[u8], level: u8, fuel: &mut u64) -> bool {
        let (from, CaptureExtent::Len(len)) = self.captures[usize::from(level)] else { return false };
        *fuel = fuel.saturating_sub((len / BYTES_PER_UNIT) as u64);
        let is_match = text[self.at..].starts_with(&text[from..from + len]);
        self.at += if is_match { len } else { 0 };
        is_match
    }

    /// Matches as many bytes as possible, at least `min` (0 or 1). `None` if the fuel is used up
    /// within the item.
    fn match_many(&mut self, text: &[u8], single: Single, min: usize, fuel: &mut u64) -> Option<bool> {
        let mut end = if let MatchNext::Within { at, .. } = self.next { at } else { self.at };
        loop {
            let rest = &text[end..];
            let window = &rest[..rest.len().min(STRIDE)];
            let count = self.program.count(single, window);
            end += count;
            let cost = (count / BYTES_PER_UNIT) as u64;
            if count < STRIDE {
                *fuel = fuel.saturating_sub(cost);
                break;
            }
            if *fuel < cost {
                *fuel = 0;
                self.next = MatchNext::Within { at: end, depth: 0 };
                return None;
            }
            *fuel -= cost;
        }
        let first = self.at + min;
        if end < first {
            return Some(false);
        }
        if end > first {
            self.choose(Retry::Fewer, self.item + 1, end, first);
        }
        self.at = end;
        Some(true)
    }

    /// Matches from an `open` to its `close`. `None` if the fuel is used up within the item.
    fn match_balance(&mut self, text: &[u8], open: u8, close: u8, fuel: &mut u64) -> Option<bool> {
        let (mut at, mut depth) = match self.next {
            MatchNext::Within { at, depth } => (at, depth),
            _ if text.get(self.at) == Some(&open) => (self.at + 1, 1),
            _ => return Some(false),
        };
        while at < text.len() {
            let window_end = text.len().min(at + STRIDE);
            *fuel = fuel.saturating_sub(((window_end - at) / BYTES_PER_UNIT) as u64);
            for &byte in &text[at..window_end] {
                at += 1;
                if byte == close {
                    depth -= 1;
                    if depth == 0 {
                        self.at = at;
                        return Some(true);
                    }
                } else if byte == open {
                    depth += 1;
                }
            }
            if *fuel == 0 && at < text.len() {
                self.next = MatchNext::Within { at, depth };
                return None;
            }
        }
        Some(false)
    }

    fn choose(&mut self, way: Retry, item: usize, at: usize, first: usize) {
        self.choices.push(ChoicePoint { item: item as u32, way, at, first });
    }
}

/// The result of looking for a start position.
enum Seek {
    Here,
    Nowhere,
    OutOfFuel,
}

/// The result of a run over the items.
enum ItemRun {
    Matched,
    /// No match begins at this start position.
    Failed,
    OutOfFuel,
}

/// The byte that a pattern stands for, if the pattern is a single ordinary byte, or `%` with a punctuation
/// character.
pub(crate) fn literal_byte(pattern: &[u8]) -> Option<u8> {
    match *pattern {
        [byte] if !b"\0^$.()[%".contains(&byte) => Some(byte),
        [b'%', byte] if byte.is_ascii_punctuation() => Some(byte),
        _ => None,
    }
}

/// Whether `pattern` contains special characters before its first zero byte.
pub(crate) fn is_special(pattern: &[u8]) -> bool {
    let is_special =
        |byte: &u8| matches!(byte, b'^' | b'$' | b'*' | b'+' | b'?' | b'.' | b'(' | b'[' | b'%' | b'-');
    pattern.iter().take_while(|&&byte| byte != 0).any(is_special)
}

/// Matches a pattern against a text, once with much fuel and once with one unit at a time, for fuzzing. The
/// first byte 0xff of `data` separates pattern and text.
pub fn fuzz_pattern(data: &[u8]) {
    let split = data.iter().position(|&byte| byte == 0xff).unwrap_or(data.len());
    let (pattern, text) = data.split_at(split);
    let text = text.get(1..).unwrap_or(&[]);
    let text = &text[..text.len().min(256)];
    let pattern = &pattern[..pattern.len().min(64)];
    let run = |steps: u64| {
        let mut matcher = Matcher::new(pattern);
        matcher.begin(0, Anchor::Anywhere);
        let mut total = 0u64;
        loop {
            let mut fuel = steps;
            let found = matcher.search(text, &mut fuel);
            total += steps - fuel;
            if found != Ok(PatternSearch::OutOfFuel) || total > 20_000 {
                let captures: Vec<_> = match found {
                    Ok(PatternSearch::Found(start, end)) => (0..matcher.capture_count().max(1))
                        .map(|index| matcher.capture(index, start, end))
                        .collect(),
                    _ => Vec::new(),
                };
                return (found, captures, total);
            }
        }
    };
    let (whole, captures, total) = run(20_000);
    if total < 10_000 {
        let (stepped, stepped_captures, _) = run(1);
        assert_eq!(whole, stepped, "standing still changes no result");
        assert_eq!(captures, stepped_captures, "standing still changes no capture");
    }
}

#[cfg(test)]
mod tests;
