//! The arguments and inputs of ZUNION, ZINTER, ZDIFF and their variants, and the aggregation of scores.

use crate::args::Args;
use crate::error::CmdError;
use crate::zset::common::{ElementsShown, reply_elements};
use sluice_base::num::parse_f64;
use sluice_keyspace::{Entry, Key, ValueRef};
use sluice_resp::Reply;
use sluice_value::{ListItem, SetRef, ZsetRef};
use std::borrow::Cow;
use std::ops::Range;

/// An operation on several sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetOperation {
    Union,
    Inter,
    Diff,
}

/// How the scores of a member are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // Infinities with opposite signs give 0.
            Aggregate::Sum => not_nan(one + other),
            Aggregate::Min => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Aggregate::Max => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}

pub(crate) fn not_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// The members of an input set.
#[derive(Clone, Copy)]
pub(crate) enum Members<'d> {
    /// The key is absent.
    None,
    Zset(ZsetRef<'d>),
    /// A set without scores; each member has the score 1.
    Set(SetRef<'d>),
}

impl<'d> Members<'d> {
    pub(crate) fn of(value: ValueRef<'d>) -> Result<Members<'d>, CmdError> {
        match value {
            ValueRef::Zset(zset) => Ok(Members::Zset(zset)),
            ValueRef::Set(set) => Ok(Members::Set(set)),
            ValueRef::Str(_) | ValueRef::List(_) | ValueRef::Hash(_) | ValueRef::Stream(_) => {
                Err(CmdError::WrongType)
            }
        }
    }

    pub(crate) fn len(self) -> usize {
        match self {
            Members::None => 0,
            Members::Zset(zset) => zset.len(),
            Members::Set(set) => set.len(),
        }
    }

    fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Members::None => None,
            Members::Zset(zset) => zset.score(member),
            Members::Set(set) => set.contains(member).then_some(1.0),
        }
    }

    fn iter(self) -> Box<dyn Iterator<Item = Element<'d>> + 'd> {
        match self {
            Members::None => Box::new(std::iter::empty()),
            Members::Zset(zset) => {
                Box::new(zset.iter_all().map(|(member, score)| (Cow::Borrowed(member), score)))
            }
            Members::Set(set) => Box::new(set.iter().map(|member| {
                let member = match member {
                    ListItem::Int(number) => Cow::Owned(number.to_string().into_bytes()),
                    ListItem::Bytes(bytes) => Cow::Borrowed(bytes),
                    ListItem::Shared(bytes) => Cow::Borrowed(&**bytes),
                };
                (member, 1.0)
            })),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct InputSet<'d> {
    pub(super) members: Members<'d>,
    pub(super) weight: f64,
}

/// The input sets and the options of a call.
pub(crate) struct NumkeysCall<'d> {
    pub(super) sources: Vec<InputSet<'d>>,
    pub(super) aggregate: Aggregate,
    pub(super) with_scores: bool,
    /// LIMIT of ZINTERCARD; 0: no limit.
    pub(super) limit: usize,
}

/// The options that a command accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CombineOptions {
    /// ZUNIONSTORE and ZINTERSTORE: accept WEIGHTS and AGGREGATE.
    Store,
    /// ZUNION and ZINTER: accept WEIGHTS, AGGREGATE and WITHSCORES.
    Reply,
    /// ZDIFFSTORE: accepts no options.
    DiffStore,
    /// ZDIFF: accepts only WITHSCORES.
    DiffReply,
    /// ZINTERCARD: accepts only LIMIT.
    Card,
}

/// The positions of the keys; `at` is the position of the argument that gives their count.
pub(crate) fn keys_of(args: Args<'_>, at: usize, name: &'static str) -> Result<Range<usize>, CmdError> {
    let number = args.int(at)?;
    if number < 1 {
        return Err(CmdError::owned(format!("ERR at least 1 input key is needed for '{name}' command")));
    }
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    if number > args.len() - at - 1 {
        return Err(CmdError::Syntax);
    }
    Ok(at + 1..at + 1 + number)
}

impl<'d> NumkeysCall<'d> {
    pub(crate) fn parse(
        mut look: impl FnMut(Key<'_>) -> Option<Entry<'d>>,
        args: Args<'_>,
        keys: Range<usize>,
        options: CombineOptions,
    ) -> Result<NumkeysCall<'d>, CmdError> {
        let mut sources = Vec::with_capacity(keys.len());
        for index in keys.clone() {
            let members = match look(args.key(index)) {
                Some(entry) => Members::of(entry.value())?,
                None => Members::None,
            };
            sources.push(InputSet { members, weight: 1.0 });
        }
        let mut call = NumkeysCall { sources, aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
        let mut at = keys.end;
        while at < args.len() {
            at = call.option(args, at, options)?;
        }
        Ok(call)
    }

    /// Reads the option at `at`; the result is the position after it.
    fn option(&mut self, args: Args<'_>, at: usize, options: CombineOptions) -> Result<usize, CmdError> {
        let left = args.len() - at - 1;
        let weighs = matches!(options, CombineOptions::Store | CombineOptions::Reply);
        if weighs && left >= self.sources.len() && args.is(at, "WEIGHTS") {
            for (index, source) in self.sources.iter_mut().enumerate() {
                let weight = parse_f64(args.at(at + 1 + index));
                source.weight = weight.ok_or(const { CmdError::text("ERR weight value is not a float") })?;
            }
            return Ok(at + 1 + self.sources.len());
        }
        if weighs && left >= 1 && args.is(at, "AGGREGATE") {
            self.aggregate = match () {
                () if args.is(at + 1, "SUM") => Aggregate::Sum,
                () if args.is(at + 1, "MIN") => Aggregate::Min,
                () if args.is(at + 1, "MAX") => Aggregate::Max,
                () => return Err(CmdError::Syntax),
            };
            return Ok(at + 2);
        }
        if matches!(options, CombineOptions::Reply | CombineOptions::DiffReply) && args.is(at, "WITHSCORES") {
            self.with_scores = true;
            return Ok(at + 1);
        }
        if options == CombineOptions::Card && left >= 1 && args.is(at, "LIMIT") {
            let limit = args.int(at + 1).ok().and_then(|limit| usize::try_from(limit).ok());
            self.limit = limit.ok_or(const { CmdError::text("ERR LIMIT can't be negative") })?;
            return Ok(at + 2);
        }
        Err(CmdError::Syntax)
    }

    /// The result, in the order of scores and members.
    pub(crate) fn run(mut self, operation: SetOperation) -> Vec<Element<'d>> {
        if operation != SetOperation::Diff {
            // The sets are combined in the order of their sizes, as in the reference, because the order
            // of additions affects the last digits of a score.
            self.sources.sort_by_key(|source| source.members.len());
        }
        let mut elements = match operation {
            SetOperation::Union => self.union(),
            SetOperation::Inter => self.inter().collect(),
            SetOperation::Diff => self.diff(),
        };
        elements.sort_by(|one, other| {
            // 0 and -0 count as the same score.
            (one.1 + 0.0).total_cmp(&(other.1 + 0.0)).then_with(|| one.0.cmp(&other.0))
        });
        elements
    }

    /// Writes the result as a reply.
    pub(crate) fn reply(self, operation: SetOperation, reply: &mut Reply<'_>) {
        let shown = ElementsShown::with_scores(self.with_scores);
        let elements = self.run(operation);
        let shown_elements = elements.iter().map(|(member, score)| (&**member, *score));
        reply_elements(reply, shown_elements, elements.len(), shown);
    }

    /// Number of members that all sets have in common, up to the limit. The caller sorts the sets by size,
    /// because only the first set is iterated over.
    pub(crate) fn count(&self) -> usize {
        let limit = if self.limit == 0 { usize::MAX } else { self.limit };
        self.inter().take(limit).count()
    }

    /// Number of members of all sets together.
    pub(crate) fn members(&self) -> usize {
        self.sources.iter().map(|source| source.members.len()).sum()
    }

    fn union(&self) -> Vec<Element<'d>> {
        let mut all: Vec<Element<'d>> = Vec::new();
        for source in &self.sources {
            let weighted =
                source.members.iter().map(|(member, score)| (member, not_nan(source.weight * score)));
            all.extend(weighted);
        }
        // The sort is stable, so that the scores of a member stay in the order of the sets.
        all.sort_by(|one, other| one.0.cmp(&other.0));
        let mut out: Vec<Element<'d>> = Vec::with_capacity(all.len());
        for (member, score) in all {
            match out.last_mut() {
                Some((last, sum)) if *last == member => *sum = self.aggregate.of(*sum, score),
                Some(_) | None => out.push((member, score)),
            }
        }
        out
    }

    /// The members that all sets have in common, in the order of the first set.
    fn inter(&self) -> impl Iterator<Item = Element<'d>> + '_ {
        let (first, others) = match self.sources.split_first() {
            Some((first, others)) => (Some(first), others),
            None => (None, &[][..]),
        };
        first
            .into_iter()
            .flat_map(|first| first.members.iter().map(move |element| (first, element)))
            .filter_map(move |(first, (member, score))| {
                let mut sum = not_nan(first.weight * score);
                for other in others {
                    let of_other = other.members.score(&member);
                    sum = self.aggregate.of(sum, not_nan(other.weight * of_other?));
                }
                Some((member, sum))
            })
    }

    fn diff(&self) -> Vec<Element<'d>> {
        let Some((first, others)) = self.sources.split_first() else { return Vec::new() };
        let is_left = |member: &[u8]| others.iter().all(|other| other.members.score(member).is_none());
        first.members.iter().filter(|(member, _)| is_left(member)).collect()
    }
}

/// A member and its score in the result.
pub(crate) type Element<'d> = (Cow<'d, [u8]>, f64);
