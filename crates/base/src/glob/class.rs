//! Classes of glob patterns, read from their text.

/// The comparison of two bytes: exact, or without regard to case.
pub(super) trait LetterCase: Copy {
    /// Whether every byte equals only itself.
    const IS_EXACT: bool;
    fn fold(byte: u8) -> u8;
}

/// Whether the class that begins at `p`, after its bracket, holds `byte`, and the position after the class.
pub(super) fn holds<C: LetterCase>(pattern: &[u8], p: usize, byte: u8) -> (bool, usize) {
    let mut found = false;
    let (negated, end) = walk(pattern, p, |part| {
        found |= match part {
            ClassPart::Escaped(escaped) => escaped == byte,
            ClassPart::Range(a, b) => (C::fold(a)..=C::fold(b)).contains(&C::fold(byte)),
            ClassPart::One(one) => C::fold(one) == C::fold(byte),
        };
    });
    (found != negated, end)
}

/// The bytes that the class at `p`, after its bracket, holds, and the position after the class. O(class).
pub(super) fn set<C: LetterCase>(pattern: &[u8], p: usize) -> (ByteSet, usize) {
    let mut escaped_bytes = ByteSet::NONE;
    let mut folded = ByteSet::NONE;
    let (negated, end) = walk(pattern, p, |part| match part {
        ClassPart::Escaped(escaped) => escaped_bytes.insert_range(escaped, escaped),
        ClassPart::Range(a, b) => folded.insert_range(C::fold(a), C::fold(b)),
        ClassPart::One(one) => folded.insert_range(C::fold(one), C::fold(one)),
    });
    let mut set = escaped_bytes;
    if C::IS_EXACT {
        set = set.union(folded);
    } else {
        for byte in (0..=u8::MAX).filter(|&byte| folded.contains(C::fold(byte))) {
            set.insert_range(byte, byte);
        }
    }
    (if negated { set.complement() } else { set }, end)
}

/// An element of a class.
enum ClassPart {
    /// A byte that is compared as it is, whatever the case.
    Escaped(u8),
    /// The bytes from the first to the second. The first one is the lower byte before case is folded.
    Range(u8, u8),
    One(u8),
}

/// Visits the elements of a class. Returns whether the class is negated, and the position after it.
#[inline(always)]
fn walk(pattern: &[u8], mut p: usize, mut each: impl FnMut(ClassPart)) -> (bool, usize) {
    let negated = pattern.get(p) == Some(&b'^');
    if negated {
        p += 1;
    }
    loop {
        match pattern[p..] {
            [] => return (negated, p),
            [b'\\', escaped, ..] => {
                each(ClassPart::Escaped(escaped));
                p += 2;
            }
            [b']', ..] => return (negated, p + 1),
            [a, b'-', b, ..] => {
                each(ClassPart::Range(a.min(b), a.max(b)));
                p += 3;
            }
            [one, ..] => {
                each(ClassPart::One(one));
                p += 1;
            }
        }
    }
}

/// A set of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteSet([u64; 4]);

impl ByteSet {
    pub(super) const NONE: ByteSet = ByteSet([0; 4]);
    pub(super) const ALL: ByteSet = ByteSet([u64::MAX; 4]);

    /// The bytes that equal this one.
    pub(super) fn folded<C: LetterCase>(byte: u8) -> ByteSet {
        let mut set = ByteSet::NONE;
        set.insert_range(byte, byte);
        if !C::IS_EXACT {
            for other in [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()] {
                set.insert_range(other, other);
            }
        }
        set
    }

    #[inline]
    pub(super) fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 != 0
    }

    /// Adds the bytes from `low` to `high`; none where `high` is the lower one.
    fn insert_range(&mut self, low: u8, high: u8) {
        for (word, first) in self.0.iter_mut().zip([0_u8, 64, 128, 192]) {
            let (from, to) = (low.max(first), high.min(first + 63));
            if from <= to {
                *word |= (u64::MAX << (from & 63)) & (u64::MAX >> (63 - (to & 63)));
            }
        }
    }

    fn union(self, other: ByteSet) -> ByteSet {
        ByteSet(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    fn complement(self) -> ByteSet {
        ByteSet(self.0.map(|word| !word))
    }

    /// The bytes at which membership changes: the first byte of each run of members, and the first byte
    /// after the run. What precedes byte 0 counts as outside.
    pub(super) fn edges(self) -> impl Iterator<Item = u8> {
        let ByteSet(words) = self;
        (0..4_u8).flat_map(move |at| {
            let index = usize::from(at);
            let before = if at == 0 { 0 } else { words[index - 1] >> 63 };
            let mut rest = words[index] ^ (words[index] << 1 | before);
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as u8)?;
                rest &= rest - 1;
                Some(at * 64 + bit)
            })
        })
    }
}
