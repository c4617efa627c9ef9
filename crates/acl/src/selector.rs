//! A selector: rights to commands, keys, channels and databases.
//!
//! Invariants: (1) `commands` and `first_args` are the result of applying `rules`, in their order, to a
//! selector that has every command if `is_future` is true, and no command otherwise; (2) `all_commands` is
//! true exactly if every bit of `commands` is set, including the bits above the last command; (3) `databases`
//! ascends.

use crate::rule::RuleError;
use crate::text::{has_spaces, word};
use sluice_base::heap;
use sluice_base::{glob, quote};
use sluice_command::derive::acl::categories;
use sluice_command::spec::{Cat, KeyFlags, Spec};
use sluice_command::{lookup, lookup_full, table};

const WORDS: usize = table::COUNT.div_ceil(64);
const READ: u8 = 1;
const WRITE: u8 = 2;

/// One set of rights. A request passes if one selector of its user allows all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    commands: [u64; WORDS],
    all_commands: bool,
    is_future: bool,
    all_keys: bool,
    all_channels: bool,
    all_databases: bool,
    /// Allowed first arguments, in lower case, with the id of the command; sorted.
    first_args: Vec<(u16, Vec<u8>)>,
    /// Rules about commands and categories, in lower case and in the order given, without those that a
    /// later rule replaces.
    rules: Vec<Rule>,
    keys: Vec<KeyPattern>,
    channels: Vec<Vec<u8>>,
    databases: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    allow: bool,
    name: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    access: u8,
    pattern: Vec<u8>,
}

/// The texts that ACL GETUSER shows for a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SelectorView {
    pub commands: Vec<u8>,
    pub keys: Vec<u8>,
    pub channels: Vec<u8>,
    pub databases: Vec<u8>,
}

/// Number of possible categories: bits of a category mask.
const CATEGORIES: usize = u64::BITS as usize;

/// For each category, the bits of its commands and of all their subcommands. The table is computed by the
/// compiler, because a file of ten thousand users may name thirty thousand categories.
static MEMBERS: [[u64; WORDS]; CATEGORIES] = {
    let mut members = [[0; WORDS]; CATEGORIES];
    let mut at = 0;
    while at < table::ALL.len() {
        let spec = table::ALL[at];
        let mut left = categories(spec).bits() as u64;
        while left != 0 {
            let of = &mut members[left.trailing_zeros() as usize];
            of[(spec.id.0 / 64) as usize] |= 1 << (spec.id.0 % 64);
            let mut sub = 0;
            while sub < spec.subcommands.len() {
                let id = spec.subcommands[sub].id.0;
                of[(id / 64) as usize] |= 1 << (id % 64);
                sub += 1;
            }
            left &= left - 1;
        }
        at += 1;
    }
    members
};

impl Selector {
    /// A selector without commands and keys, with every database. `all_channels` is the setting
    /// `acl-pubsub-default`: whether the selector has every channel or none.
    pub(crate) fn new(all_channels: bool) -> Selector {
        Selector {
            commands: [0; WORDS],
            all_commands: false,
            is_future: false,
            all_keys: false,
            all_channels,
            all_databases: true,
            first_args: Vec::new(),
            rules: Vec::new(),
            keys: Vec::new(),
            channels: Vec::new(),
            databases: Vec::new(),
        }
    }

    /// Parses the text within the parentheses of `(…)`. Unbalanced quotes give an empty selector, as
    /// in the reference.
    pub(crate) fn parse(text: &[u8], all_channels: bool) -> Result<Selector, RuleError> {
        let mut selector = Selector::new(all_channels);
        for rule in quote::split_args(text, quote::Dialect::Config).unwrap_or_default() {
            selector.apply(&rule)?;
        }
        Ok(selector)
    }

    /// Whether the selector allows every request.
    #[inline]
    pub(crate) fn allows_all(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels && self.all_databases
    }

    #[inline]
    pub(crate) fn has_all_keys(&self) -> bool {
        self.all_keys
    }

    #[inline]
    pub(crate) fn has_all_channels(&self) -> bool {
        self.all_channels
    }

    #[inline]
    pub(crate) fn has_all_databases(&self) -> bool {
        self.all_databases
    }

    pub(crate) fn channels(&self) -> &[Vec<u8>] {
        &self.channels
    }

    /// Applies one rule. Cost: linear in the selector's rules of that kind; for a category, also in the
    /// number of commands.
    pub(crate) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let op = word(rule);
        let is = |text: &str| op.eq_ignore_ascii_case(text.as_bytes());
        if is("allkeys") || is("~*") {
            self.all_keys = true;
            self.keys.clear();
        } else if is("resetkeys") {
            self.all_keys = false;
            self.keys.clear();
        } else if is("allchannels") || is("&*") {
            self.all_channels = true;
            self.channels.clear();
        } else if is("resetchannels") {
            self.all_channels = false;
            self.channels.clear();
        } else if is("alldbs") {
            self.all_databases = true;
            self.databases.clear();
        } else if is("resetdbs") {
            self.all_databases = false;
            self.databases.clear();
        } else if is("allcommands") || is("+@all") {
            self.set_all_commands(true);
        } else if is("nocommands") || is("-@all") {
            self.set_all_commands(false);
        } else if op.get(..3).is_some_and(|head| head.eq_ignore_ascii_case(b"db=")) {
            self.databases = parse_databases(&op[3..])?;
            self.all_databases = false;
        } else {
            match op {
                [b'~' | b'%', ..] => self.add_key_pattern(rule)?,
                [b'&', ..] => self.add_channel(&rule[1..])?,
                [sign @ (b'+' | b'-'), b'@', category @ ..] => {
                    self.change_category(category, *sign == b'+')?
                }
                [b'+', name @ ..] => self.allow_command(name)?,
                [b'-', name @ ..] => {
                    let spec = lookup_full(name).ok_or(RuleError::Unknown)?;
                    self.change(spec, false);
                    self.note(spec.full_name.as_bytes(), false);
                }
                _ => return Err(RuleError::Syntax),
            }
        }
        Ok(())
    }

    fn set_all_commands(&mut self, allow: bool) {
        self.commands = [if allow { u64::MAX } else { 0 }; WORDS];
        self.all_commands = allow;
        self.is_future = allow;
        self.rules.clear();
        self.first_args.clear();
    }

    fn add_key_pattern(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::KeyAfterAll);
        }
        let (access, pattern) = key_pattern(rule).ok_or(RuleError::Syntax)?;
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => known.access |= access,
            None => self.keys.push(KeyPattern { access, pattern: pattern.to_vec() }),
        }
        Ok(())
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::ChannelAfterAll);
        }
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    fn change_category(&mut self, name: &[u8], allow: bool) -> Result<(), RuleError> {
        let category = Cat::named(name).ok_or(RuleError::Unknown)?;
        self.note(&[b"@", name].concat(), allow);
        let members = &MEMBERS[category.bits().trailing_zeros() as usize % CATEGORIES];
        for (word, members) in self.commands.iter_mut().zip(members) {
            if allow {
                *word |= members;
            } else {
                *word &= !members;
            }
        }
        let is_member = |id: u16| members[usize::from(id / 64)] & 1 << (id % 64) != 0;
        self.first_args.retain(|(id, _)| !is_member(*id));
        self.all_commands = self.commands.iter().all(|word| *word == u64::MAX);
        Ok(())
    }

    fn allow_command(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|&byte| byte == b'|') else {
            let spec = lookup(name).ok_or(RuleError::Unknown)?;
            self.change(spec, true);
            self.note(spec.full_name.as_bytes(), true);
            return Ok(());
        };
        let (command, sub) = (&name[..bar], &name[bar + 1..]);
        let spec = lookup_full(command).ok_or(RuleError::Unknown)?;
        if command.contains(&b'|') {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if sub.is_empty() {
            return Err(RuleError::Syntax);
        }
        if !spec.subcommands.is_empty() {
            self.change(lookup_full(name).ok_or(RuleError::Unknown)?, true);
        } else {
            // Spaces and quotes are refused, because the text of a user is split at spaces, and at quotes
            // within selectors. The reference accepts such a rule, and aborts when it writes the text.
            if has_spaces(sub) || sub.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
                return Err(RuleError::Syntax);
            }
            let first_arg = (spec.id.0, sub.to_ascii_lowercase());
            if let Err(at) = self.first_args.binary_search(&first_arg) {
                self.first_args.insert(at, first_arg);
            }
        }
        self.note(name, true);
        Ok(())
    }

    /// Allows or refuses a command with all subcommands and first arguments.
    fn change(&mut self, spec: &Spec, allow: bool) {
        self.set_bit(spec.id.0, allow);
        self.first_args.retain(|(id, _)| *id != spec.id.0);
        for sub in spec.subcommands {
            self.set_bit(sub.id.0, allow);
        }
        self.all_commands = self.commands.iter().all(|word| *word == u64::MAX);
    }

    fn set_bit(&mut self, id: u16, allow: bool) {
        let bit = 1 << (id % 64);
        let word = &mut self.commands[usize::from(id / 64)];
        if allow {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }

    /// Appends a rule about a command or category to `rules`, and removes the rules that it replaces: those
    /// about the same name, and those about a subcommand or first argument of that command.
    fn note(&mut self, name: &[u8], allow: bool) {
        let name = name.to_ascii_lowercase();
        self.rules.retain(|rule| match rule.name.strip_prefix(name.as_slice()) {
            Some(rest) => !matches!(rest, [] | [b'|', ..]),
            None => true,
        });
        self.rules.push(Rule { allow, name });
    }

    /// Whether the selector allows a command with this first argument. Cost: one bit test; if the bit is
    /// not set, a look-up among the first arguments of the selector.
    #[inline]
    pub(crate) fn allows_command(&self, id: u16, first_arg: Option<&[u8]>) -> bool {
        if self.all_commands {
            return true;
        }
        let word = self.commands.get(usize::from(id / 64)).copied().unwrap_or(0);
        word >> (id % 64) & 1 == 1 || (!self.first_args.is_empty() && self.allows_first_arg(id, first_arg))
    }

    #[cold]
    fn allows_first_arg(&self, id: u16, first_arg: Option<&[u8]>) -> bool {
        // All bytes are compared, also those after a zero byte, because the command's handler uses all of
        // them.
        let Some(first_arg) = first_arg else { return false };
        self.first_args.iter().any(|(known, arg)| *known == id && arg.eq_ignore_ascii_case(first_arg))
    }

    /// Whether all keys are allowed, or one pattern allows this whole access to a key. Cost: a match with
    /// each pattern.
    #[inline]
    pub(crate) fn allows_key(&self, key: &[u8], flags: KeyFlags) -> bool {
        self.all_keys || {
            let access = access_of(flags);
            self.keys
                .iter()
                .any(|known| known.access & access == access && glob::matches(&known.pattern, key))
        }
    }

    /// Whether the selector has all keys, or grants this access to the pattern `*`. Cost: O(patterns).
    pub(crate) fn allows_every_key(&self, flags: KeyFlags) -> bool {
        let access = access_of(flags);
        self.all_keys
            || self.keys.iter().any(|known| known.access & access == access && known.pattern == b"*")
    }

    /// Whether the selector allows a channel. A pattern of channels must equal one of the selector's
    /// patterns. Cost: a match with each pattern.
    pub(crate) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels || is_among(&self.channels, channel, is_pattern)
    }

    /// Whether the selector allows a database. Cost: the logarithm of the allowed databases.
    #[inline]
    pub(crate) fn allows_database(&self, database: usize) -> bool {
        self.all_databases
            || u32::try_from(database).is_ok_and(|database| self.databases.binary_search(&database).is_ok())
    }

    /// Bytes of heap memory that the contents hold, as the allocator rounds them, without the selector
    /// itself.
    pub(crate) fn footprint(&self) -> usize {
        let first_args: usize = self.first_args.iter().map(|(_, word)| heap::vec(word)).sum();
        let rules: usize = self.rules.iter().map(|rule| heap::vec(&rule.name)).sum();
        let keys: usize = self.keys.iter().map(|key| heap::vec(&key.pattern)).sum();
        let channels: usize = self.channels.iter().map(heap::vec).sum();
        let texts = first_args + rules + keys + channels;
        texts
            + heap::vec(&self.first_args)
            + heap::vec(&self.rules)
            + heap::vec(&self.keys)
            + heap::vec(&self.channels)
            + heap::vec(&self.databases)
    }

    /// Appends the canonical text of the selector to `out`.
    pub(crate) fn describe(&self, out: &mut Vec<u8>) {
        if self.all_keys {
            out.extend_from_slice(b"~* ");
        }
        for pattern in &self.keys {
            push_key_pattern(out, pattern);
            out.push(b' ');
        }
        out.extend_from_slice(if self.all_channels { b"&* " } else { b"resetchannels " });
        for channel in &self.channels {
            out.push(b'&');
            out.extend_from_slice(channel);
            out.push(b' ');
        }
        if !self.all_databases {
            if self.databases.is_empty() {
                out.extend_from_slice(b"resetdbs");
            } else {
                self.push_databases(out);
            }
            out.push(b' ');
        }
        self.push_commands(out);
    }

    /// The texts that ACL GETUSER shows.
    pub fn view(&self) -> SelectorView {
        let mut view = SelectorView {
            commands: Vec::new(),
            keys: Vec::new(),
            channels: Vec::new(),
            databases: Vec::new(),
        };
        self.push_commands(&mut view.commands);
        if self.all_keys {
            view.keys.extend_from_slice(b"~*");
        }
        for pattern in &self.keys {
            if !view.keys.is_empty() {
                view.keys.push(b' ');
            }
            push_key_pattern(&mut view.keys, pattern);
        }
        if self.all_channels {
            view.channels.extend_from_slice(b"&*");
        }
        for channel in &self.channels {
            if !view.channels.is_empty() {
                view.channels.push(b' ');
            }
            view.channels.push(b'&');
            view.channels.extend_from_slice(channel);
        }
        if self.all_databases {
            view.databases.extend_from_slice(b"alldbs");
        } else if !self.databases.is_empty() {
            self.push_databases(&mut view.databases);
        }
        view
    }

    fn push_commands(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.is_future { b"+@all" } else { b"-@all" });
        for rule in &self.rules {
            out.push(b' ');
            out.push(if rule.allow { b'+' } else { b'-' });
            out.extend_from_slice(&rule.name);
        }
    }

    fn push_databases(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"db=");
        for (at, database) in self.databases.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(database.to_string().as_bytes());
        }
    }
}

/// Whether a channel matches one of the patterns; a pattern must equal one of them. Cost: a match with each
/// pattern.
pub(crate) fn is_among(patterns: &[Vec<u8>], channel: &[u8], is_pattern: bool) -> bool {
    patterns.iter().any(|known| if is_pattern { known == channel } else { glob::matches(known, channel) })
}

fn access_of(flags: KeyFlags) -> u8 {
    let writes = KeyFlags::INSERT.or(KeyFlags::DELETE).or(KeyFlags::UPDATE);
    let read = if flags.has(KeyFlags::ACCESS) { READ } else { 0 };
    read | if flags.has_any(writes) { WRITE } else { 0 }
}

fn push_key_pattern(out: &mut Vec<u8>, pattern: &KeyPattern) {
    out.extend_from_slice(match (pattern.access, &*pattern.pattern) {
        (READ, _) => b"%R~",
        (WRITE, _) => b"%W~",
        // Written as `~*`, the pattern would mean all keys, and no pattern may follow that rule.
        (_, b"*") => b"%RW~",
        _ => b"~",
    });
    out.extend_from_slice(&pattern.pattern);
}

/// The access and the pattern of `~p`, `%R~p`, `%W~p` or `%RW~p`. `%R`, `%W` or `%RW` alone stands for an
/// empty pattern.
fn key_pattern(rule: &[u8]) -> Option<(u8, &[u8])> {
    let Some(mut rest) = rule.strip_prefix(b"%") else { return Some((READ | WRITE, &rule[1..])) };
    let mut access = 0;
    while let [first, tail @ ..] = rest {
        rest = tail;
        let added = match first {
            b'r' | b'R' => READ,
            b'w' | b'W' => WRITE,
            b'~' => break,
            _ => return None,
        };
        if access & added != 0 {
            return None;
        }
        access |= added;
    }
    (access != 0).then_some((access, rest))
}

/// The databases of `db=`, ascending, without duplicates. A number may have leading spaces and a sign,
/// as for `strtoll`.
fn parse_databases(text: &[u8]) -> Result<Vec<u32>, RuleError> {
    if text.is_empty() || text.starts_with(b",") || text.ends_with(b",") {
        return Err(RuleError::Syntax);
    }
    let mut databases = Vec::new();
    for token in text.split(|&byte| byte == b',') {
        let start = token.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r'));
        let token = start.map_or(&[][..], |start| &token[start..]);
        let (is_negative, digits) = match token {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            digits => (false, digits),
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(RuleError::Syntax);
        }
        let value = digits
            .iter()
            .try_fold(0u32, |value, digit| value.checked_mul(10)?.checked_add(u32::from(digit - b'0')))
            .filter(|&value| i32::try_from(value).is_ok() && !(is_negative && value != 0));
        databases.push(value.ok_or(RuleError::DatabaseOutOfRange)?);
    }
    databases.sort_unstable();
    databases.dedup();
    Ok(databases)
}
