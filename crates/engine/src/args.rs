//! A command's arguments: ranges of the input buffer, never copies.

use sluice_base::HashSeed;
use sluice_keyspace::Key;
use sluice_resp::{Request, Span};

/// The arguments of one request, its name first.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    input: &'a [u8],
    ranges: &'a [Span],
    /// Hash of the argument at `hashed`, computed ahead for the prefetch.
    hash: u64,
    hashed: usize,
    seed: HashSeed,
}

impl<'a> Args<'a> {
    /// No argument has been hashed ahead.
    pub const NOT_HASHED: usize = usize::MAX;

    /// The arguments of `request`; the one at `hashed` has this hash under `seed`.
    #[inline]
    pub fn new(request: &Request<'a>, hashed: usize, hash: u64, seed: HashSeed) -> Args<'a> {
        Args { input: request.bytes(), ranges: request.spans(), hash, hashed, seed }
    }

    #[inline]
    fn slice(&self, span: &Span) -> &'a [u8] {
        &self.input[span.start..span.start + span.len]
    }

    /// How many, the name included. Never 0.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The argument at `index`, which must be below [`Args::len`]; the arity check has seen to that for fixed places.
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.slice(&self.ranges[index])
    }

    /// The argument at `index`, if there is one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|span| self.slice(span))
    }

    /// The key at `index`, with its hash.
    #[inline]
    pub fn key(&self, index: usize) -> Key<'a> {
        let bytes = self.at(index);
        let hash = if index == self.hashed { self.hash } else { sluice_base::siphash13(self.seed, bytes) };
        Key { bytes, hash, arg: index.min(usize::from(Key::NO_ARG)) as u16 }
    }

    /// From `index` on.
    pub fn iter_from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = *self;
        self.ranges.get(index..).unwrap_or_default().iter().map(move |span| args.slice(span))
    }

    /// Whether the argument at `index` is this word, in any case.
    #[inline]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).is_some_and(|arg| is_word(arg, word))
    }

    /// The argument at `index` as an integer.
    #[inline]
    pub fn int(&self, index: usize) -> Result<i64, crate::CmdError> {
        self.get(index).and_then(sluice_base::num::parse_i64).ok_or(crate::CmdError::NotInteger)
    }

    /// Copies of all arguments, for what outlives the command.
    pub fn to_vecs(&self) -> Vec<Vec<u8>> {
        self.iter_from(0).map(<[u8]>::to_vec).collect()
    }

    /// Bytes of all arguments together.
    pub fn bytes(&self) -> usize {
        self.iter_from(0).map(<[u8]>::len).sum()
    }
}

/// Whether an argument is this word, in any case. It ends at a zero byte, as in the reference.
#[inline]
pub(crate) fn is_word(arg: &[u8], word: &str) -> bool {
    match arg.split_at_checked(word.len()) {
        Some((head, tail)) => matches!(tail, [] | [0, ..]) && head.eq_ignore_ascii_case(word.as_bytes()),
        None => false,
    }
}
