//! Positions of the keys of a call.
//!
//! Invariants: (1) a position found is less than the number of arguments; (2) [`keys`] adds nothing to the
//! list for an invalid call; (3) names that only look like keys (such as channels of sharded
//! publish/subscribe) are reported by [`routing_keys`] alone.

use crate::spec::{Begin, Find, KeyFlags, KeySpec, Keys, Spec};
use crate::specs::stream;
use crate::table;

/// The error that the arguments are not a valid call, so its keys are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// Adds position and flags of each key of a call to `found`, in the order of the key specs. `args` starts
/// with the command's name. Cost: O(keys), and O(arguments) if a keyword is searched or a function finds the
/// keys.
///
/// If a call does not fit its key specs (an invalid number of keys, or more keys than arguments),
/// nothing is added and the result is [`Invalid`].
pub fn keys(spec: &Spec, args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), Invalid> {
    let before = found.len();
    let result = match spec.keys {
        Keys::Specs(specs) => specs.iter().try_for_each(|one| keys_of_spec(one, args, found)),
        Keys::Fn(_, find) => find(args, found).map_err(|()| Invalid),
    };
    if result.is_err() {
        found.truncate(before);
    }
    result
}

/// Adds the keys found by those key specs that a call fits; permissions are checked for these keys. A call
/// that does not fit all of its specs may still be valid (PFMERGE with only a target), and scripts ask about
/// calls that lack arguments. A call whose number of keys is 0, not a number, or too large for its arguments
/// has no keys, as in the reference. Commands refuse such a call, except EVAL and its relatives, which may be
/// called with 0 keys and then have no keys at all.
pub fn keys_that_fit(spec: &Spec, args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) {
    let before = found.len();
    if keys(spec, args, found).is_ok() {
        return;
    }
    found.truncate(before);
    for one in spec.keys.specs() {
        let so_far = found.len();
        if keys_of_spec(one, args, found).is_err() {
            if matches!(one.find, Find::KeyNum { .. }) {
                found.truncate(before);
                return;
            }
            found.truncate(so_far);
        }
    }
}

/// Adds the arguments whose slot decides where a cluster routes a call: its keys, and names that only
/// look like keys (channels of sharded publish/subscribe, cursors). A key spec that a call does not fit
/// adds nothing, as in [`keys_that_fit`].
///
/// An invalid call of XREAD or XREADGROUP adds nothing, although its specs would find keys, because in the
/// reference any node replies with the error, even if it does not own the keys.
pub fn routing_keys(spec: &Spec, args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) {
    let reads_streams = spec.id == stream::XREAD.id || spec.id == stream::XREADGROUP.id;
    if reads_streams && !names_streams(args) {
        return;
    }
    let names = |one: &&KeySpec| one.flags.has(KeyFlags::NOT_KEY);
    for one in spec.keys.specs().iter().filter(names) {
        // An error is ignored, because a call without such a name has no slot.
        let _ = names_of_spec(one, args, found);
    }
    keys_that_fit(spec, args, found);
}

/// Whether only options precede STREAMS, and the arguments after it are keys and as many ids.
fn names_streams(args: &[&[u8]]) -> bool {
    let mut at = 1;
    while let Some(arg) = args.get(at) {
        let is = |word| crate::is_word(arg, word);
        at += match () {
            () if is("streams") => return args.len() > at + 1 && (args.len() - at - 1).is_multiple_of(2),
            () if is("group") => 3,
            () if is("block") || is("count") => 2,
            () if is("noack") => 1,
            () => return false,
        };
    }
    false
}

/// Whether calls of the command may be routed by a slot.
pub const fn has_routing_keys(spec: &Spec) -> bool {
    match spec.keys {
        Keys::Specs(specs) => !specs.is_empty(),
        Keys::Fn(..) => true,
    }
}

/// Whether [`KeyRow`] covers all routing keys of a command.
pub const fn is_row_whole(spec: &Spec) -> bool {
    match spec.keys {
        Keys::Specs([only]) => is_whole_row(only),
        // The function of such a command, for example SET, determines the flags of the key, not its position.
        Keys::Fn([only], _) => only.flags.has(KeyFlags::VARIABLE_FLAGS) && is_whole_row(only),
        Keys::Specs(_) | Keys::Fn(..) => false,
    }
}

/// Whether a key spec is a row of keys at a fixed index, all of which [`KeyRow`] finds.
const fn is_whole_row(spec: &KeySpec) -> bool {
    let is_complete = !spec.flags.has_any(KeyFlags::NOT_KEY.or(KeyFlags::INCOMPLETE));
    let is_index = matches!(spec.begin, Begin::Index(_));
    is_complete && is_index && matches!(spec.find, Find::Range { step: 1 | 2, limit: 0 | 1, .. })
}

/// The keys of a command that can be found from the number of arguments alone, because they form a row at a
/// fixed index. The hot path uses it, because most commands have such keys only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// Position of the first key; 0 if there is no row.
    first: u8,
    /// Position of the last key relative to the first; a negative number counts from the end.
    last: i8,
    /// Distance between two keys, 1 or 2.
    step: u8,
}

impl KeyRow {
    const NONE: KeyRow = KeyRow { first: 0, last: 0, step: 1 };

    /// The row of a command, which is its first key spec if that is a range at a fixed index. Of a range with
    /// a step above 2, the row has only the first key.
    pub(crate) const fn of(spec: &Spec) -> KeyRow {
        let specs = match spec.keys {
            Keys::Specs(specs) | Keys::Fn(specs, _) => specs,
        };
        if specs.is_empty() || specs[0].flags.has(KeyFlags::NOT_KEY) {
            return KeyRow::NONE;
        }
        match (specs[0].begin, specs[0].find) {
            (Begin::Index(first), Find::Range { last, step: step @ (1 | 2), .. }) => {
                KeyRow { first, last, step }
            }
            // Only the first key is known, so the row has one key.
            (Begin::Index(first), Find::Range { .. }) => KeyRow { first, last: 0, step: 1 },
            _ => KeyRow::NONE,
        }
    }

    /// Position of the first key in a call of `arg_count` arguments. `None` if there is no key, or if
    /// only [`keys`] can find it.
    #[inline]
    pub fn first(self, arg_count: usize) -> Option<usize> {
        let first = usize::from(self.first);
        (first != 0 && first < arg_count).then_some(first)
    }

    /// Number of keys in the row after the first one.
    #[inline]
    pub fn behind_first(self, arg_count: usize) -> usize {
        if self.last == 0 {
            return 0;
        }
        let (first, last) = (usize::from(self.first), usize::from(self.last.unsigned_abs()));
        let end = if self.last > 0 { first + last + 1 } else { (arg_count + 1).saturating_sub(last) };
        end.min(arg_count).saturating_sub(first + 1) / usize::from(self.step)
    }

    /// Whether one argument lies between two keys.
    #[inline]
    pub fn are_pairs(self) -> bool {
        self.step == 2
    }
}

/// The rows of all commands, by `Spec::id`.
static ROWS: [KeyRow; table::COUNT] = {
    let mut rows = [KeyRow::NONE; table::COUNT];
    let mut id = 0;
    while id < table::COUNT {
        rows[id] = KeyRow::of(table::ALL[id]);
        id += 1;
    }
    rows
};

/// The row of a command. O(1).
#[inline]
pub fn key_row(spec: &Spec) -> KeyRow {
    ROWS.get(usize::from(spec.id.0)).copied().unwrap_or(KeyRow::NONE)
}

/// Whether calls of the command may have keys at all.
pub(crate) fn has_keys(spec: &Spec) -> bool {
    match spec.keys {
        Keys::Specs(specs) => specs.iter().any(|one| !one.flags.has(KeyFlags::NOT_KEY)),
        Keys::Fn(..) => true,
    }
}

/// The reason for which COMMAND GETKEYS refuses a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetKeysError {
    /// No such command or subcommand exists. The caller detects this.
    UnknownCommand,
    /// The command never has keys.
    NoKeys,
    /// The number of arguments does not fit the arity.
    Arity,
    /// The arguments are not a valid call, or name no key.
    Arguments,
}

impl GetKeysError {
    /// The text of the error reply, without the leading `ERR`.
    pub const fn wire(self) -> &'static str {
        match self {
            GetKeysError::UnknownCommand => "Invalid command specified",
            GetKeysError::NoKeys => "The command has no key arguments",
            GetKeysError::Arity => "Invalid number of arguments specified for command",
            GetKeysError::Arguments => "Invalid arguments specified for command",
        }
    }
}

/// The keys that COMMAND GETKEYS and GETKEYSANDFLAGS report for a call. The list is empty only for
/// commands that may be called without keys.
pub fn getkeys(spec: &Spec, args: &[&[u8]]) -> Result<Vec<(usize, KeyFlags)>, GetKeysError> {
    use crate::spec::Flags;
    // A command without key specs, such as EXEC, has keys only if it has arguments.
    let is_bare = args.len() == 1 && spec.keys.specs().is_empty();
    if is_bare || !has_keys(spec) {
        return Err(GetKeysError::NoKeys);
    }
    if !spec.arity.accepts(args.len()) {
        return Err(GetKeysError::Arity);
    }
    let mut found = Vec::new();
    let valid = keys(spec, args, &mut found).is_ok() && !found.is_empty();
    if valid || spec.flags.has(Flags::NO_MANDATORY_KEYS) { Ok(found) } else { Err(GetKeysError::Arguments) }
}

/// The fields of COMMAND INFO for first key, last key and step, which are older than key specs. A negative
/// number counts from the end; all are 0 if no key is at a fixed index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LegacyRange {
    /// Position of the first key.
    pub first: i64,
    /// Position of the last key.
    pub last: i64,
    /// Distance between two keys, in arguments.
    pub step: i64,
}

/// The legacy range of a command. It is the range of the command's only key spec, or the smallest range that
/// contains the adjacent ranges of several specs with step 1.
pub fn legacy_range(spec: &Spec) -> LegacyRange {
    let specs = spec.keys.specs();
    if let [only] = specs {
        return fixed_range(only).unwrap_or_default();
    }
    let mut hull: Option<LegacyRange> = None;
    for range in specs.iter().filter_map(fixed_range).filter(|range| range.step == 1) {
        hull = match hull {
            None => Some(range),
            Some(before) if before.last == range.first - 1 => {
                Some(LegacyRange { last: range.last, ..before })
            }
            Some(before) => Some(before),
        };
    }
    hull.unwrap_or_default()
}

/// Whether the legacy range misses keys of the command, as the flag `movablekeys` declares.
#[cfg(test)]
fn movable(spec: &Spec) -> bool {
    spec.keys.specs().iter().any(|one| fixed_range(one).is_none() || one.flags.has(KeyFlags::INCOMPLETE))
}

fn fixed_range(spec: &KeySpec) -> Option<LegacyRange> {
    let (Begin::Index(at), Find::Range { last, step, .. }) = (spec.begin, spec.find) else { return None };
    let (first, last) = (at as i64, last as i64);
    Some(LegacyRange { first, last: if last >= 0 { first + last } else { last }, step: step as i64 })
}

fn keys_of_spec(spec: &KeySpec, args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), Invalid> {
    if spec.flags.has(KeyFlags::NOT_KEY) {
        return Ok(());
    }
    names_of_spec(spec, args, found)
}

/// Adds the names found by a key spec, whether or not they are keys.
fn names_of_spec(spec: &KeySpec, args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), Invalid> {
    let start = match spec.begin {
        Begin::Index(at) => at as usize,
        Begin::Keyword { word, from } => match keyword_end(args, word, from) {
            Some(at) => at,
            None => return Ok(()),
        },
        Begin::Unknown => return Err(Invalid),
    };
    let (first, last, step) = match spec.find {
        Find::Range { last, step, limit } => (start, range_end(start, last, limit, args.len())?, step),
        Find::KeyNum { num_index, first, step } => {
            let text = args.get(start + num_index as usize).ok_or(Invalid)?;
            // Among the commands with a number of keys, the reference applies the key spec only to MSETEX,
            // whose keys have values; for the other commands the reference has functions, which parse the
            // number less strictly.
            let count = if step == 2 { strict_key_count(text)? } else { key_count(text)? };
            let first = start + first as usize;
            let more = (count - 1).checked_mul(step as usize).ok_or(Invalid)?;
            (first, first.checked_add(more).ok_or(Invalid)?, step)
        }
        Find::Unknown => return Err(Invalid),
    };
    if last < first || last >= args.len() || spec.flags.has(KeyFlags::INCOMPLETE) {
        return Err(Invalid);
    }
    found.extend((first..=last).step_by((step as usize).max(1)).map(|at| (at, spec.flags)));
    Ok(())
}

/// Position after the first `word` found from argument `from` on. If `from` is negative, it counts from the
/// end, and the search goes backwards to argument 2.
fn keyword_end(args: &[&[u8]], word: &str, from: i8) -> Option<usize> {
    let is_word = |at: &usize| crate::is_word(args[*at], word);
    let after = |at: usize| at + 1;
    if from >= 0 {
        // The last argument is not compared, because no key can follow it.
        (from as usize..args.len().saturating_sub(1)).find(is_word).map(after)
    } else {
        let from = args.len().checked_sub(from.unsigned_abs() as usize)?;
        (2..=from).rev().find(is_word).map(after)
    }
}

/// Position of the last key of a range that starts at `start`.
fn range_end(start: usize, last: i8, limit: u8, arg_count: usize) -> Result<usize, Invalid> {
    let back = last.unsigned_abs() as usize;
    if last >= 0 {
        return Ok(start + back);
    }
    let end = match limit {
        0 | 1 => arg_count,
        _ => start + arg_count.saturating_sub(start) / limit as usize,
    };
    end.checked_sub(back).ok_or(Invalid)
}

/// Parses a number of keys, which must be at least 1, in plain decimal notation.
fn strict_key_count(text: &[u8]) -> Result<usize, Invalid> {
    let is_number = text.iter().all(u8::is_ascii_digit) && !text.starts_with(b"0") && text.len() < 10;
    if is_number { key_count(text) } else { Err(Invalid) }
}

/// Parses a number of keys, which must be at least 1, as the reference does: text after the digits is
/// ignored, and only the lower 32 bits of a large number count. The command itself refuses such numbers.
fn key_count(text: &[u8]) -> Result<usize, Invalid> {
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
    let text = &text[text.iter().take_while(|byte| blank(byte)).count()..];
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let number =
        digits.fold(0_i64, |number, byte| number.saturating_mul(10).saturating_add(i64::from(byte - b'0')));
    let count = if is_negative { -number } else { number } as i32;
    usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Invalid)
}

#[cfg(test)]
mod tests;
