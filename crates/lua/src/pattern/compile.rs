//! Compilation of a pattern to a sequence of items.

use super::error::{CAPTURES_MAX, PatternError};
use super::scan::{find_byte, find_other};
use super::sets::{Bits, add, class, complement, contains, unite};

/// Maximum number of items of a pattern, which bounds the memory of a match.
pub(super) const ITEMS_MAX: usize = 1 << 16;

/// The part of an item that matches one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Single {
    /// Any byte: the pattern `.`.
    Any,
    /// Only this byte: an ordinary character.
    Byte(u8),
    /// A byte of the set with this index.
    Set(u32),
}

/// An item of a pattern. Captures are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternItem {
    /// Exactly one byte of this kind.
    One(Single),
    /// This range of the literal bytes.
    Run { start: u32, len: u32 },
    /// `*` and `+`: as many bytes as possible, at least `min`.
    Many { single: Single, min: u8 },
    /// `-`: as few bytes as possible.
    Few(Single),
    /// `?`: one byte, or none.
    Maybe(Single),
    /// `(`: the start of this capture.
    Open(u8),
    /// `()`: this capture is the position.
    Position(u8),
    /// `)`: the end of this capture.
    Close(u8),
    /// `%1` to `%9`: the text of this capture again.
    Back(u8),
    /// `%b` and its two delimiters.
    Balance(u8, u8),
    /// `%f` and the set with this index.
    Frontier(u32),
    /// `$` at the pattern's end: the end of the text.
    End,
    /// The end of the pattern: the match is complete.
    Done,
    /// An error, raised when the match reaches this item.
    Fail(PatternError),
}

/// A compiled pattern, with its sets and literals.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) items: Vec<PatternItem>,
    pub(super) sets: Vec<Bits>,
    /// The bytes of all [`PatternItem::Run`] items.
    pub(super) literals: Vec<u8>,
    /// The number of captures of a whole match.
    pub(super) levels: usize,
}

impl Program {
    /// Compiles a pattern up to its end, or to its first error.
    pub(super) fn new(pattern: &[u8]) -> Program {
        let end = find_byte(pattern, 0).unwrap_or(pattern.len());
        let program = Program {
            items: Vec::with_capacity(8.min(end + 1)),
            sets: Vec::new(),
            literals: Vec::new(),
            levels: 0,
        };
        let mut compiler =
            Compiler { pattern: &pattern[..end], at: 0, program, is_open: [false; CAPTURES_MAX] };
        let last = compiler.compile().map_or_else(PatternItem::Fail, |()| PatternItem::Done);
        compiler.program.items.push(last);
        compiler.program
    }

    /// Whether `single` matches `byte`.
    #[inline]
    pub(super) fn is_match(&self, single: Single, byte: u8) -> bool {
        match single {
            Single::Any => true,
            Single::Byte(other) => byte == other,
            Single::Set(set) => contains(&self.sets[set as usize], byte),
        }
    }

    /// The number of bytes at the beginning of `text` that `single` matches.
    pub(super) fn count(&self, single: Single, text: &[u8]) -> usize {
        match single {
            Single::Any => text.len(),
            Single::Byte(byte) => find_other(text, byte).unwrap_or(text.len()),
            Single::Set(set) => {
                let set = &self.sets[set as usize];
                text.iter().position(|&byte| !contains(set, byte)).unwrap_or(text.len())
            }
        }
    }

    /// The bytes that a match can begin with; `None` if the first item does not limit them.
    pub(super) fn first(&self) -> Option<Single> {
        let past_captures =
            self.items.iter().find(|item| !matches!(item, PatternItem::Open(_) | PatternItem::Position(_)));
        let first = match past_captures? {
            PatternItem::One(single) | PatternItem::Many { single, min: 1 } => *single,
            PatternItem::Run { start, .. } => Single::Byte(self.literals[*start as usize]),
            PatternItem::Balance(open, _) => Single::Byte(*open),
            _ => return None,
        };
        (first != Single::Any).then_some(first)
    }

    /// Index of the first byte in `text` that `single` matches.
    pub(super) fn find(&self, single: Single, text: &[u8]) -> Option<usize> {
        match single {
            Single::Any => (!text.is_empty()).then_some(0),
            Single::Byte(byte) => find_byte(text, byte),
            Single::Set(set) => {
                let set = &self.sets[set as usize];
                text.iter().position(|&byte| contains(set, byte))
            }
        }
    }
}

struct Compiler<'a> {
    pattern: &'a [u8],
    at: usize,
    program: Program,
    is_open: [bool; CAPTURES_MAX],
}

impl Compiler<'_> {
    fn compile(&mut self) -> Result<(), PatternError> {
        while let Some(byte) = self.peek(0) {
            if self.program.items.len() >= ITEMS_MAX {
                return Err(PatternError::TooComplex);
            }
            match (byte, self.peek(1)) {
                (b'(', Some(b')')) => {
                    let level = self.open()?;
                    self.push(PatternItem::Position(level), 2);
                }
                (b'(', _) => {
                    let level = self.open()?;
                    self.is_open[usize::from(level)] = true;
                    self.push(PatternItem::Open(level), 1);
                }
                (b')', _) => {
                    let level =
                        self.is_open.iter().rposition(|&open| open).ok_or(PatternError::InvalidCapture)?;
                    self.is_open[level] = false;
                    self.push(PatternItem::Close(level as u8), 1);
                }
                (b'%', Some(b'b')) => self.balance()?,
                (b'%', Some(b'f')) => self.frontier()?,
                (b'%', Some(digit @ b'0'..=b'9')) => {
                    let level = usize::from(digit).wrapping_sub(usize::from(b'1'));
                    if level >= self.program.levels || self.is_open[level] {
                        return Err(PatternError::InvalidCaptureIndex);
                    }
                    self.push(PatternItem::Back(level as u8), 2);
                }
                (b'$', None) => self.push(PatternItem::End, 1),
                _ => self.single()?,
            }
        }
        Ok(())
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.pattern.get(self.at + ahead).copied()
    }

    fn push(&mut self, item: PatternItem, len: usize) {
        self.program.items.push(item);
        self.at += len;
    }

    fn open(&mut self) -> Result<u8, PatternError> {
        let level = self.program.levels;
        if level >= CAPTURES_MAX {
            return Err(PatternError::TooManyCaptures);
        }
        self.program.levels += 1;
        Ok(level as u8)
    }

    fn balance(&mut self) -> Result<(), PatternError> {
        let (Some(open), Some(close)) = (self.peek(2), self.peek(3)) else {
            return Err(PatternError::Unbalanced);
        };
        self.push(PatternItem::Balance(open, close), 4);
        Ok(())
    }

    fn frontier(&mut self) -> Result<(), PatternError> {
        self.at += 2;
        if self.peek(0) != Some(b'[') {
            return Err(PatternError::MissingFrontierSet);
        }
        let set = self.set()?;
        let index = self.add_set(set);
        self.push(PatternItem::Frontier(index), 0);
        Ok(())
    }

    /// Compiles an item for one byte, with the repetition after it.
    fn single(&mut self) -> Result<(), PatternError> {
        let single = match self.peek(0) {
            Some(b'.') => {
                self.at += 1;
                Single::Any
            }
            Some(b'[') => {
                let set = self.set()?;
                Single::Set(self.add_set(set))
            }
            Some(b'%') => {
                let letter = self.peek(1).ok_or(PatternError::EndsWithPercent)?;
                self.at += 2;
                match class(letter) {
                    Some(set) => Single::Set(self.add_set(set)),
                    None => Single::Byte(letter),
                }
            }
            byte => {
                self.at += 1;
                Single::Byte(byte.unwrap_or(0))
            }
        };
        match (self.peek(0), single) {
            (Some(b'*'), _) => self.push(PatternItem::Many { single, min: 0 }, 1),
            (Some(b'+'), _) => self.push(PatternItem::Many { single, min: 1 }, 1),
            (Some(b'-'), _) => self.push(PatternItem::Few(single), 1),
            (Some(b'?'), _) => self.push(PatternItem::Maybe(single), 1),
            (_, Single::Byte(byte)) => self.literal(byte),
            _ => self.push(PatternItem::One(single), 0),
        }
        Ok(())
    }

    /// Compiles an ordinary byte: appends it to a run that ends just before, makes a run of it and a single
    /// byte before, or else makes an item of its own.
    fn literal(&mut self, byte: u8) {
        let literals = &mut self.program.literals;
        match self.program.items.last_mut() {
            Some(PatternItem::Run { len, .. }) => {
                literals.push(byte);
                *len += 1;
            }
            Some(last @ PatternItem::One(Single::Byte(_))) => {
                let PatternItem::One(Single::Byte(before)) = *last else { return };
                let start = literals.len() as u32;
                literals.extend_from_slice(&[before, byte]);
                *last = PatternItem::Run { start, len: 2 };
            }
            _ => self.program.items.push(PatternItem::One(Single::Byte(byte))),
        }
    }

    fn add_set(&mut self, set: Bits) -> u32 {
        let sets = &mut self.program.sets;
        if sets.last() != Some(&set) {
            sets.push(set);
        }
        sets.len() as u32 - 1
    }

    /// Parses a set from its opening bracket to the closing one.
    fn set(&mut self) -> Result<Bits, PatternError> {
        let negated = self.peek(1) == Some(b'^');
        let from = self.at + 1 + usize::from(negated);
        let end = self.set_end(from)?;
        let mut set = [0; 4];
        let mut at = from;
        while at < end {
            let byte = self.pattern[at];
            if byte == b'%' {
                at += 1;
                let letter = self.pattern[at];
                match class(letter) {
                    Some(members) => unite(&mut set, &members),
                    None => add(&mut set, letter),
                }
            } else if self.pattern.get(at + 1) == Some(&b'-') && at + 2 < end {
                (byte..=self.pattern[at + 2]).for_each(|member| add(&mut set, member));
                at += 2;
            } else {
                add(&mut set, byte);
            }
            at += 1;
        }
        self.at = end + 1;
        Ok(if negated { complement(&set) } else { set })
    }

    /// Index of the closing bracket of the set whose first member is at `from`; that member may
    /// be a bracket.
    fn set_end(&self, from: usize) -> Result<usize, PatternError> {
        let mut at = from;
        loop {
            let &byte = self.pattern.get(at).ok_or(PatternError::MissingBracket)?;
            at += 1;
            if byte == b'%' && at < self.pattern.len() {
                at += 1;
            }
            match self.pattern.get(at) {
                Some(b']') => return Ok(at),
                Some(_) => {}
                None => return Err(PatternError::MissingBracket),
            }
        }
    }
}
