//! A command's arguments, which are never copies. Most are ranges of the query buffer; a large argument that
//! was received apart from it has its own buffer.

use crate::error::CmdError;
use crate::prepare::{Hashing, KEYS_AHEAD, Prepared};
use sluice_base::Bytes;
use sluice_base::num::parse_i64;
use sluice_command::is_word;
use sluice_command::{Named, Spec};
use sluice_keyspace::{Key, NewValue};
use sluice_resp::apart::{Apart, named};
use sluice_resp::{Request, Span};
use std::ops::Range;

/// The arguments of one request, its name first.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    input: &'a [u8],
    ranges: &'a [Span],
    /// The arguments that are not ranges of the query buffer `input`.
    apart: &'a Apart,
    /// The parts of the request that were prepared ahead for the prefetch: the command, and the hashes of its
    /// first keys.
    prepared: &'a Prepared,
    hashing: &'a Hashing,
}

/// Number of members or fields of one command that are prefetched together, as many as a hash table
/// prefetches at a time.
const MEMBERS_AHEAD: usize = 16;

impl<'a> Args<'a> {
    /// The arguments of `request`, of which some keys were hashed ahead.
    #[inline]
    pub fn new(request: &Request<'a>, prepared: &'a Prepared, hashing: &'a Hashing) -> Args<'a> {
        Args { input: request.bytes(), ranges: request.spans(), apart: request.apart(), prepared, hashing }
    }

    #[inline]
    fn slice(&self, span: &Span) -> &'a [u8] {
        named(*span, self.input, self.apart)
    }

    /// Number of arguments, the name included; never 0.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The argument at `index`, which must be below [`Args::len`]. For fixed indexes the arity check has made
    /// sure of this.
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.slice(&self.ranges[index])
    }

    /// The argument at `index` as a string to be stored. A large one that was received apart is stored
    /// without a copy.
    #[inline]
    pub(crate) fn string(&self, index: usize) -> NewValue<'a> {
        match self.shared(index) {
            None => NewValue::Str(self.at(index)),
            Some(bytes) => NewValue::StrShared(bytes),
        }
    }

    /// The large argument at `index` if it was received apart; `None` if it is a range of the input.
    #[inline]
    pub fn shared(&self, index: usize) -> Option<&'a Bytes> {
        let span = self.ranges[index];
        if span.start <= self.input.len() { None } else { Some(self.apart.get(span)) }
    }

    /// The argument at `index`; `None` if there are fewer arguments.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.ranges.get(index).map(|span| self.slice(span))
    }

    /// The key at `index`, with its hash.
    #[inline]
    pub fn key(&self, index: usize) -> Key<'a> {
        let bytes = self.at(index);
        let first = self.prepared.first;
        let hash = if index == first { self.prepared.hash } else { self.other_hash(index, bytes) };
        Key { bytes, hash, arg: index.min(usize::from(Key::NO_ARG)) as u16 }
    }

    /// The hash of the first key, if it was hashed ahead.
    #[inline]
    pub fn first_hash(&self) -> Option<u64> {
        self.prepared.has_key().then_some(self.prepared.hash)
    }

    /// Hashes of those keys after the first that were hashed ahead; there may be fewer hashes than keys.
    #[inline]
    pub fn hashed_ahead(&self) -> &'a [u64] {
        self.prepared.more(self.hashing)
    }

    /// The hash of an argument that is not the first key, computed here unless it was hashed ahead.
    fn other_hash(&self, index: usize, bytes: &[u8]) -> u64 {
        let pairs = u32::from(self.prepared.are_pairs);
        let distance = index.wrapping_sub(self.prepared.first);
        let ordinal = distance >> pairs;
        match self.prepared.more(self.hashing).get(ordinal.wrapping_sub(1)) {
            Some(hash) if ordinal << pairs == distance => *hash,
            _ => self.hashing.hasher.hash(bytes),
        }
    }

    /// The keys at every `step`-th position of `range`, in windows of `KEYS_AHEAD`. The caller's
    /// `prefetch` prefetches a window's entries together before the window is visited. A window that was
    /// prefetched together with the client's other requests is not prefetched again.
    #[inline]
    pub(crate) fn key_windows(&self, range: std::ops::Range<usize>, step: usize) -> KeyWindows<'a> {
        let end = range.end.min(self.len());
        KeyWindows { args: *self, at: range.start, end, step, one: [NO_KEY], many: None }
    }

    /// The positions of members or fields, every `step`-th from `first` on, in groups. For a large
    /// collection, the caller prefetches all memory that a group's look-ups read before the first look-up of
    /// the group.
    pub(crate) fn member_groups(
        &self,
        first: usize,
        step: usize,
    ) -> impl Iterator<Item = std::iter::StepBy<std::ops::Range<usize>>> + use<> {
        let (len, group) = (self.len(), MEMBERS_AHEAD * step);
        (first..len).step_by(group).map(move |at| (at..len.min(at + group)).step_by(step))
    }

    /// The arguments from `index` on, in order; none if `index` is too large.
    pub fn iter_from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let args = *self;
        self.ranges.get(index..).unwrap_or_default().iter().map(move |span| args.slice(span))
    }

    /// The spec of the command that was called; `None` if the name of the command or subcommand is unknown.
    pub fn spec(&self) -> Option<&'static Spec> {
        match self.prepared.named {
            Named::Command(spec) => Some(spec),
            Named::UnknownSubcommand(_) | Named::Unknown => None,
        }
    }

    /// Whether the argument at `index` is this word, ignoring case.
    #[inline]
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).is_some_and(|arg| is_word(arg, word))
    }

    /// The argument at `index` as an integer. An error if the argument is missing or no integer of 64 bits.
    #[inline]
    pub fn int(&self, index: usize) -> Result<i64, crate::CmdError> {
        self.get(index).and_then(sluice_base::num::parse_i64).ok_or(crate::CmdError::NotInteger)
    }

    /// Copies of all arguments, for use after the command.
    pub(crate) fn to_vecs(self) -> Vec<Vec<u8>> {
        self.iter_from(0).map(<[u8]>::to_vec).collect()
    }

    /// Total length of all arguments, in bytes.
    pub fn bytes(&self) -> usize {
        self.iter_from(0).map(<[u8]>::len).sum()
    }
}

/// Iterates over the keys of a command, several at a time.
pub struct KeyWindows<'a> {
    args: Args<'a>,
    at: usize,
    end: usize,
    step: usize,
    /// The last key, if it is alone in its window. Most commands have only this one key.
    one: [(usize, Key<'a>); 1],
    /// The keys of a window of several keys. `None` for a command with one key, because filling the array
    /// would cost half as much as all other work of an EXISTS.
    many: Option<[(usize, Key<'a>); KEYS_AHEAD]>,
}

/// The value in the unused places of a window.
const NO_KEY: (usize, Key<'_>) = (0, Key { bytes: &[], hash: 0, arg: Key::NO_ARG });

impl<'a> KeyWindows<'a> {
    /// The next keys with their positions, at least one. `prefetch` is called with a window of several keys,
    /// unless the window was prefetched together with the client's other requests.
    #[inline]
    pub fn next(&mut self, prefetch: impl FnOnce(&[(usize, Key<'a>)])) -> Option<&[(usize, Key<'a>)]> {
        if self.at >= self.end {
            return None;
        }
        if self.end - self.at > self.step {
            return Some(self.next_of_several(prefetch));
        }
        self.one = [(self.at, self.args.key(self.at))];
        self.at = self.end;
        Some(&self.one)
    }

    #[inline(never)]
    fn next_of_several(&mut self, prefetch: impl FnOnce(&[(usize, Key<'a>)])) -> &[(usize, Key<'a>)] {
        let many = self.many.get_or_insert([NO_KEY; KEYS_AHEAD]);
        let mut len = 0;
        while self.at < self.end && len < KEYS_AHEAD {
            many[len] = (self.at, self.args.key(self.at));
            len += 1;
            self.at += self.step;
        }
        let window = &many[..len];
        let known = self.args.prepared.more(self.args.hashing).len() + 1;
        let is_first = window[0].0 == self.args.prepared.first;
        if !(is_first && known >= len) {
            prefetch(window);
        }
        window
    }
}

/// An integer argument of at least `min`; otherwise `error`, no matter why the argument is not such an
/// integer.
pub(crate) fn int_from(
    args: Args<'_>,
    index: usize,
    min: i64,
    error: &'static str,
) -> Result<usize, CmdError> {
    match args.get(index).and_then(parse_i64) {
        Some(number) if number >= min => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
        Some(_) | None => Err(CmdError::text(error)),
    }
}

/// The last arguments of a command that takes elements from the first non-empty one of several keys, such as
/// LMPOP: `numkeys key [key ...] end [COUNT count]`.
pub(crate) struct FirstOfKeys<E> {
    /// Positions of the keys.
    pub keys: Range<usize>,
    /// The end at which elements are taken.
    pub end: E,
    /// Largest number of elements to take, at least 1.
    pub count: usize,
}

impl<E> FirstOfKeys<E> {
    /// Reads the arguments from the number of keys on, which is at `at`; the function `end` parses the word
    /// that names an end.
    pub(crate) fn parse(
        args: Args<'_>,
        at: usize,
        end: fn(Args<'_>, usize) -> Result<E, CmdError>,
    ) -> Result<FirstOfKeys<E>, CmdError> {
        let number = int_from(args, at, 1, "ERR numkeys should be greater than 0")?;
        let keys = at + 1..number.saturating_add(at + 1);
        if keys.end >= args.len() {
            return Err(CmdError::Syntax);
        }
        let end = end(args, keys.end)?;
        let count = match args.len() - keys.end - 1 {
            0 => 1,
            2.. if args.is(keys.end + 1, "COUNT") => {
                let count = int_from(args, keys.end + 2, 1, "ERR count should be greater than 0")?;
                if args.len() > keys.end + 3 {
                    return Err(CmdError::Syntax);
                }
                count
            }
            _ => return Err(CmdError::Syntax),
        };
        Ok(FirstOfKeys { keys, end, count })
    }
}
