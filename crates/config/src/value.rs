//! Values of parameters: from words, and back to the text that CONFIG GET shows.

use std::borrow::Cow;

use sluice_base::num::{parse_f64, parse_i64};

use crate::choice::shutdown;
use crate::endpoints::EndpointRule;
use crate::number;
use crate::row::{Empty, Param, ParamKind, UnitOfMeasure, ZeroBytes};

pub(crate) mod check;

/// Why a value was refused, in the words of the reference if it has the same check.
pub(crate) type Reason = Cow<'static, str>;

/// The value of one parameter; the parameter's [`ParamKind`] determines the variant.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamValue {
    /// A switch, `true` for `yes`.
    Bool(bool),
    /// Any number, within its bounds; a percentage is negative.
    Int(i128),
    /// Bytes; `None` is "not set".
    Text(Option<Box<[u8]>>),
    /// The number of the chosen name.
    Choice(u8),
    /// The bits of all names that are set.
    Flags(u32),
    /// Save points in the order given; empty is "never".
    Save(Vec<SavePoint>),
    /// Limits in the order of [`ClientClass`].
    BufferLimits([BufferLimit; 3]),
    /// Scores for primary, replica and background process.
    OomValues([i32; 3]),
    /// Addresses in the order given.
    List(Vec<Box<[u8]>>),
    /// Event classes as bits of [`notify`].
    NotifyEvents(u32),
    /// Host and port of the primary.
    ReplicaOf(Option<(Box<[u8]>, u16)>),
    /// Numbers from 0 to 100, never NaN.
    Percentiles(Vec<f64>),
    /// Rules in the order given.
    EndpointRules(Vec<EndpointRule>),
}

/// Save when `seconds` have passed and at least `changes` were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// Minimum seconds since the last save; at least 1.
    pub seconds: i64,
    /// Minimum number of changes since the last save; 0 or more.
    pub changes: i32,
}

/// Limits on the output buffer of a client that does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferLimit {
    /// Bytes at which the client is closed at once; 0 is no limit.
    pub hard_bytes: u64,
    /// Bytes from which on `soft_seconds` are counted; 0 is no limit.
    pub soft_bytes: u64,
    /// Seconds for which the output may stay at `soft_bytes` or more before the client is closed.
    pub soft_seconds: i32,
}

/// Kinds of clients that have limits of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientClass {
    /// Clients that are neither replicas nor subscribers.
    Normal,
    /// Connections of replicas, to which the replication stream is sent.
    Replica,
    /// Clients that subscribe to a channel or pattern.
    Pubsub,
}

impl ClientClass {
    /// All classes, in the order in which their limits are stored.
    pub const ALL: [ClientClass; 3] = [ClientClass::Normal, ClientClass::Replica, ClientClass::Pubsub];

    /// The name in replies, which is an old one for replicas.
    pub(crate) fn name_in_replies(self) -> &'static str {
        match self {
            ClientClass::Normal => "normal",
            ClientClass::Replica => "slave",
            ClientClass::Pubsub => "pubsub",
        }
    }

    /// The name in files.
    pub(crate) fn name_in_files(self) -> &'static str {
        match self {
            ClientClass::Normal => "normal",
            ClientClass::Replica => "replica",
            ClientClass::Pubsub => "pubsub",
        }
    }

    fn named(word: &[u8]) -> Option<ClientClass> {
        let word = number::until_zero(word);
        ClientClass::ALL.into_iter().find(|class| {
            word.eq_ignore_ascii_case(class.name_in_replies().as_bytes())
                || word.eq_ignore_ascii_case(class.name_in_files().as_bytes())
        })
    }
}

/// The bits of `notify-keyspace-events`, one for each letter except `A`.
pub mod notify {
    /// `K`: publish on the key's channel.
    pub const KEYSPACE: u32 = 1;
    /// `E`: publish on the event's channel.
    pub const KEYEVENT: u32 = 1 << 1;
    /// `g`: commands of no type, such as DEL.
    pub const GENERIC: u32 = 1 << 2;
    /// `$`: commands on strings.
    pub const STRING: u32 = 1 << 3;
    /// `l`: commands on lists.
    pub const LIST: u32 = 1 << 4;
    /// `s`: commands on sets.
    pub const SET: u32 = 1 << 5;
    /// `h`: commands on hashes.
    pub const HASH: u32 = 1 << 6;
    /// `z`: commands on sorted sets.
    pub const ZSET: u32 = 1 << 7;
    /// `x`: keys that expired.
    pub const EXPIRED: u32 = 1 << 8;
    /// `e`: keys that were evicted.
    pub const EVICTED: u32 = 1 << 9;
    /// `t`: commands on streams.
    pub const STREAM: u32 = 1 << 10;
    /// `m`: reads that found no key; not part of `A`.
    pub(crate) const KEY_MISS: u32 = 1 << 11;
    /// `d`: data types of modules.
    pub const MODULE: u32 = 1 << 13;
    /// `n`: new keys; not part of `A`.
    pub(crate) const NEW: u32 = 1 << 14;
    /// `A`: all classes but key misses and new keys.
    pub const ALL: u32 = GENERIC | STRING | LIST | SET | HASH | ZSET | EXPIRED | EVICTED | STREAM | MODULE;

    /// Classes in the order in which they are shown, then the letters that are shown besides `A`.
    pub(super) const LETTERS: [(u8, u32); 14] = [
        (b'g', GENERIC),
        (b'$', STRING),
        (b'l', LIST),
        (b's', SET),
        (b'h', HASH),
        (b'z', ZSET),
        (b'x', EXPIRED),
        (b'e', EVICTED),
        (b't', STREAM),
        (b'd', MODULE),
        (b'n', NEW),
        (b'K', KEYSPACE),
        (b'E', KEYEVENT),
        (b'm', KEY_MISS),
    ];
    /// The letters of a set of bits.
    pub fn letters(bits: u32) -> Vec<u8> {
        LETTERS.iter().filter(|(_, bit)| bits & bit != 0).map(|(letter, _)| *letter).collect()
    }

    /// `A` is shown in place of the first letters of [`LETTERS`], of which there are this many. `n` is among
    /// those letters, so it is not shown beside `A`, as in the reference, although `A` does not set it.
    pub(super) const CLASSES: usize = 11;
}

/// How a list-like value combines with the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onto {
    /// The new value replaces the old one.
    Replace,
    /// The new value is appended to the old one: for `save` and `announce-endpoint-for` in later lines of a
    /// file.
    Extend,
}

impl Param {
    /// The value of `words` for a parameter whose value is `old`; the error is the reason to show.
    pub(crate) fn parse(&self, words: &[&[u8]], old: &ParamValue, onto: Onto) -> Result<ParamValue, Reason> {
        self.kind.parse(words, old, onto)
    }
}

impl ParamKind {
    /// The value when nothing is configured.
    pub(crate) fn default_value(&self) -> ParamValue {
        let boxed = |text: &&str| Box::from(text.as_bytes());
        match self {
            ParamKind::Bool { default } => ParamValue::Bool(*default),
            ParamKind::Int { default, .. } => ParamValue::Int(*default),
            ParamKind::Text { default, .. } => ParamValue::Text(default.as_ref().map(boxed)),
            ParamKind::Choice { default, .. } => ParamValue::Choice(*default),
            ParamKind::Flags { .. } => ParamValue::Flags(0),
            ParamKind::Save => ParamValue::Save(DEFAULT_SAVE.to_vec()),
            ParamKind::BufferLimits => ParamValue::BufferLimits(DEFAULT_LIMITS),
            ParamKind::OomValues => ParamValue::OomValues([0, 200, 800]),
            ParamKind::List { default } => ParamValue::List(default.iter().map(boxed).collect()),
            ParamKind::NotifyEvents => ParamValue::NotifyEvents(0),
            ParamKind::ReplicaOf => ParamValue::ReplicaOf(None),
            ParamKind::Percentiles => ParamValue::Percentiles(vec![50.0, 99.0, 99.9]),
            ParamKind::EndpointRules => ParamValue::EndpointRules(Vec::new()),
        }
    }

    /// Like [`Param::parse`], for any parameter of this kind.
    fn parse(&self, words: &[&[u8]], old: &ParamValue, onto: Onto) -> Result<ParamValue, Reason> {
        match self {
            ParamKind::Bool { .. } => parse_bool(one(words)?),
            ParamKind::Int { min, max, unit, clamp, .. } => {
                let value = parse_number(one(words)?, *unit)?;
                within(value, (*min, *max), *unit)?;
                let (low, high) = clamp.unwrap_or((value, value));
                Ok(ParamValue::Int(value.clamp(low, high)))
            }
            ParamKind::Text { empty, storage, check, .. } => {
                let mut text = one(words)?;
                if *storage == ZeroBytes::UpToZero {
                    text = number::until_zero(text);
                }
                if let Some(check) = check {
                    check(text)?;
                }
                let unset = *empty == Empty::MeansUnset && text.is_empty();
                Ok(ParamValue::Text((!unset).then(|| Box::from(text))))
            }
            ParamKind::Choice { names, .. } => {
                let [word] = words else { return Err(not_one_of(names)) };
                Ok(ParamValue::Choice(named(names, word).ok_or_else(|| not_one_of(names))?))
            }
            ParamKind::Flags { names } => parse_flags(words, names),
            ParamKind::Save => parse_save(words, old, onto),
            ParamKind::BufferLimits => parse_limits(words, old),
            ParamKind::OomValues => parse_oom_values(words),
            ParamKind::List { .. } => parse_list(words),
            ParamKind::NotifyEvents => parse_notify(one(words)?),
            ParamKind::ReplicaOf => parse_replica_of(words),
            ParamKind::Percentiles => parse_percentiles(words),
            ParamKind::EndpointRules => parse_endpoint_rules(words, old, onto),
        }
    }

    /// The text of `value` in CONFIG GET.
    pub(crate) fn text(&self, value: &ParamValue) -> Vec<u8> {
        match value {
            ParamValue::Bool(yes) => (if *yes { "yes" } else { "no" }).into(),
            ParamValue::Int(value) => self.number_text(*value).into_bytes(),
            ParamValue::Text(text) => text.as_deref().unwrap_or_default().to_vec(),
            ParamValue::Choice(number) => self.choice_text(*number).into(),
            ParamValue::Flags(bits) => self.flags_text(*bits).into_bytes(),
            ParamValue::Save(points) => {
                joined(points.iter().map(|point| format!("{} {}", point.seconds, point.changes)))
            }
            ParamValue::BufferLimits(limits) => {
                joined(ClientClass::ALL.iter().zip(limits).map(|(class, limit)| {
                    let BufferLimit { hard_bytes, soft_bytes, soft_seconds } = limit;
                    format!("{} {hard_bytes} {soft_bytes} {soft_seconds}", class.name_in_replies())
                }))
            }
            ParamValue::OomValues(values) => joined(values.iter().map(i32::to_string)),
            ParamValue::List(items) => items.join(&b' '),
            ParamValue::NotifyEvents(bits) => notify_text(*bits),
            ParamValue::ReplicaOf(None) => Vec::new(),
            ParamValue::ReplicaOf(Some((host, port))) => [host, format!(" {port}").as_bytes()].concat(),
            ParamValue::Percentiles(values) => {
                joined(values.iter().map(|value| number::decimal_text(*value)))
            }
            ParamValue::EndpointRules(rules) => joined(rules.iter().map(EndpointRule::words)),
        }
    }

    fn number_text(&self, value: i128) -> String {
        match self {
            ParamKind::Int { unit: UnitOfMeasure::Octal, .. } => format!("{value:o}"),
            ParamKind::Int { unit: UnitOfMeasure::MemoryOrPercent, .. } if value < 0 => {
                format!("{}%", -value)
            }
            _ => value.to_string(),
        }
    }

    fn choice_text(&self, number: u8) -> &'static str {
        let ParamKind::Choice { names, .. } = self else { return "unknown" };
        names.iter().find(|(_, value)| *value == number).map_or("unknown", |(name, _)| name)
    }

    /// The names of all bits that are set; if no bit is set, the name of the value 0.
    pub(crate) fn flags_text(&self, bits: u32) -> String {
        let ParamKind::Flags { names } = self else { return "unknown".into() };
        let wanted = |value: u32| if bits == 0 { value == 0 } else { value & bits != 0 };
        let set: Vec<&str> =
            names.iter().filter(|(_, value)| wanted(*value)).map(|(name, _)| *name).collect();
        set.join(" ")
    }
}

/// Returns the only word. The error concerns parameters that may be given several words; all others always
/// get exactly one.
fn one<'a>(words: &[&'a [u8]]) -> Result<&'a [u8], Reason> {
    match words {
        [word] => Ok(word),
        _ => Err("wrong number of arguments".into()),
    }
}

fn joined(parts: impl Iterator<Item = String>) -> Vec<u8> {
    parts.collect::<Vec<_>>().join(" ").into_bytes()
}

fn parse_bool(word: &[u8]) -> Result<ParamValue, Reason> {
    match number::until_zero(word).to_ascii_lowercase().as_slice() {
        b"yes" => Ok(ParamValue::Bool(true)),
        b"no" => Ok(ParamValue::Bool(false)),
        _ => Err("argument must be 'yes' or 'no'".into()),
    }
}

fn parse_number(word: &[u8], unit: UnitOfMeasure) -> Result<i128, Reason> {
    let memory = || number::memory(word).map(i128::from);
    let strict = || parse_i64(word).map(i128::from);
    let percent = || {
        let digits = word.strip_suffix(b"%")?;
        parse_i64(digits).filter(|percent| *percent >= 0).map(|percent| -i128::from(percent))
    };
    match unit {
        UnitOfMeasure::Plain => strict().ok_or("argument couldn't be parsed into an integer"),
        UnitOfMeasure::Memory => memory().ok_or("argument must be a memory value"),
        UnitOfMeasure::SignedMemory => memory().or_else(strict).ok_or("argument must be a memory value"),
        UnitOfMeasure::MemoryOrPercent => {
            memory().or_else(percent).ok_or("argument must be a memory or percent value")
        }
        UnitOfMeasure::Octal => number::lenient_int(word, 8)
            .map(i128::from)
            .ok_or("argument couldn't be parsed as an octal number"),
    }
    .map_err(Reason::from)
}

fn within(value: i128, (min, max): (i128, i128), unit: UnitOfMeasure) -> Result<(), Reason> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(match unit {
        UnitOfMeasure::MemoryOrPercent if value < 0 => {
            format!("percentage argument must be less or equal to {}", -min).into()
        }
        UnitOfMeasure::Octal => format!("argument must be between {min:o} and {max:o} inclusive").into(),
        _ => format!("argument must be between {min} and {max} inclusive").into(),
    })
}

/// The value of the name that equals `word`, in upper or lower case.
fn named<T: Copy>(names: &[(&str, T)], word: &[u8]) -> Option<T> {
    let word = number::until_zero(word);
    names.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| *value)
}

fn not_one_of<T>(names: &[(&str, T)]) -> Reason {
    let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    format!("argument(s) must be one of the following: {}", names.join(", ")).into()
}

fn parse_flags(words: &[&[u8]], names: &[(&str, u32)]) -> Result<ParamValue, Reason> {
    if words.is_empty() {
        return Err(not_one_of(names));
    }
    let mut bits = 0;
    for word in words {
        bits |= named(names, word).ok_or_else(|| not_one_of(names))?;
    }
    if bits & shutdown::SAVE != 0 && bits & shutdown::NOSAVE != 0 {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    Ok(ParamValue::Flags(bits))
}

/// Pairs of seconds and changes; a single empty word means no save points, whatever the old value.
fn parse_save(words: &[&[u8]], old: &ParamValue, onto: Onto) -> Result<ParamValue, Reason> {
    let invalid = || Reason::from("Invalid save parameters");
    if matches!(words, [b""]) {
        return Ok(ParamValue::Save(Vec::new()));
    }
    let mut points = match (onto, old) {
        (Onto::Extend, ParamValue::Save(points)) => points.clone(),
        _ => Vec::new(),
    };
    let (pairs, rest) = words.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(invalid());
    }
    for [seconds, changes] in pairs {
        let seconds = number::lenient_int(seconds, 10).filter(|seconds| *seconds >= 1).ok_or_else(invalid)?;
        let changes = number::lenient_int(changes, 10).ok_or_else(invalid)?;
        let changes = i32::try_from(changes).ok().filter(|changes| *changes >= 0).ok_or_else(invalid)?;
        points.push(SavePoint { seconds, changes });
    }
    Ok(ParamValue::Save(points))
}

/// Groups of class, hard limit, soft limit and seconds; other classes keep their limits.
fn parse_limits(words: &[&[u8]], old: &ParamValue) -> Result<ParamValue, Reason> {
    let mut limits = match old {
        ParamValue::BufferLimits(limits) => *limits,
        _ => DEFAULT_LIMITS,
    };
    let (groups, rest) = words.as_chunks::<4>();
    if !rest.is_empty() {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    for [class, hard, soft, seconds] in groups {
        let class = ClientClass::named(class)
            .ok_or("Invalid client class specified in buffer limit configuration.")?;
        let bad = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        let seconds = number::lenient_int(seconds, 10).ok_or(bad)?;
        limits[class as usize] = BufferLimit {
            hard_bytes: number::memory(hard).ok_or(bad)?,
            soft_bytes: number::memory(soft).ok_or(bad)?,
            soft_seconds: i32::try_from(seconds).ok().filter(|seconds| *seconds >= 0).ok_or(bad)?,
        };
    }
    Ok(ParamValue::BufferLimits(limits))
}

fn parse_oom_values(words: &[&[u8]]) -> Result<ParamValue, Reason> {
    let words: &[&[u8]; 3] = words.try_into().map_err(|_| "wrong number of arguments")?;
    let mut values = [0; 3];
    for (value, word) in values.iter_mut().zip(words) {
        *value = number::lenient_int(word, 10)
            .and_then(|value| i32::try_from(value).ok())
            .filter(|value| (-2000..=2000).contains(value))
            .ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
    }
    Ok(ParamValue::OomValues(values))
}

fn parse_list(words: &[&[u8]]) -> Result<ParamValue, Reason> {
    if words.len() > ADDRESSES_MAX {
        return Err("Too many bind addresses specified.".into());
    }
    if matches!(words, [b""]) {
        return Ok(ParamValue::List(Vec::new()));
    }
    Ok(ParamValue::List(words.iter().map(|word| Box::from(*word)).collect()))
}

/// Rules of three words each; a single empty word means no rules, whatever the old value.
fn parse_endpoint_rules(words: &[&[u8]], old: &ParamValue, onto: Onto) -> Result<ParamValue, Reason> {
    if matches!(words, [b""]) {
        return Ok(ParamValue::EndpointRules(Vec::new()));
    }
    let mut rules = match (onto, old) {
        (Onto::Extend, ParamValue::EndpointRules(rules)) => rules.clone(),
        _ => Vec::new(),
    };
    let (given, rest) = words.as_chunks::<3>();
    if !rest.is_empty() {
        return Err(format!(
            "announce-endpoint-for needs a network, a node and an endpoint for each rule, and has {} words",
            words.len()
        )
        .into());
    }
    for words in given {
        rules.push(EndpointRule::parse(words)?);
    }
    if rules.len() > ENDPOINT_RULES_MAX {
        return Err("announce-endpoint-for has too many rules".into());
    }
    Ok(ParamValue::EndpointRules(rules))
}

/// Maximum number of rules, because a reply checks each rule for each node that the reply shows.
const ENDPOINT_RULES_MAX: usize = 4096;

fn parse_notify(word: &[u8]) -> Result<ParamValue, Reason> {
    let mut bits = 0;
    for letter in number::until_zero(word) {
        bits |= match letter {
            b'A' => notify::ALL,
            other => notify::LETTERS
                .iter()
                .find(|(known, _)| known == other)
                .map(|(_, bit)| *bit)
                .ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?,
        };
    }
    Ok(ParamValue::NotifyEvents(bits))
}

fn notify_text(bits: u32) -> Vec<u8> {
    let all = bits & notify::ALL == notify::ALL;
    let (mut text, from) = if all { (vec![b'A'], notify::CLASSES) } else { (Vec::new(), 0) };
    let set = notify::LETTERS[from..].iter().filter(|(_, bit)| bits & bit != 0);
    text.extend(set.map(|(letter, _)| letter));
    text
}

fn parse_replica_of(words: &[&[u8]]) -> Result<ParamValue, Reason> {
    let [host, port] = words else { return Err("wrong number of arguments".into()) };
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        return Ok(ParamValue::ReplicaOf(None));
    }
    let port = number::lenient_int(port, 10)
        .and_then(|port| u16::try_from(port).ok())
        .ok_or("Invalid primary port")?;
    Ok(ParamValue::ReplicaOf(Some((Box::from(*host), port))))
}

fn parse_percentiles(words: &[&[u8]]) -> Result<ParamValue, Reason> {
    if matches!(words, [b""]) {
        return Ok(ParamValue::Percentiles(Vec::new()));
    }
    let mut values = Vec::with_capacity(words.len());
    for word in words {
        let value = parse_f64(word).ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&value) {
            return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
        }
        // The value is rounded to the decimals that are shown, so that a rewritten file has the same value.
        values.push(number::decimal_text(value).parse().unwrap_or(value));
    }
    Ok(ParamValue::Percentiles(values))
}

const ADDRESSES_MAX: usize = 16;

const DEFAULT_SAVE: [SavePoint; 3] = [
    SavePoint { seconds: 3600, changes: 1 },
    SavePoint { seconds: 300, changes: 100 },
    SavePoint { seconds: 60, changes: 10_000 },
];

pub(crate) const DEFAULT_LIMITS: [BufferLimit; 3] = [
    BufferLimit { hard_bytes: 0, soft_bytes: 0, soft_seconds: 0 },
    BufferLimit { hard_bytes: 256 << 20, soft_bytes: 64 << 20, soft_seconds: 60 },
    BufferLimit { hard_bytes: 32 << 20, soft_bytes: 8 << 20, soft_seconds: 60 },
];
