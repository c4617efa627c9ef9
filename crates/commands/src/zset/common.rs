//! Arguments, look-ups and replies shared by the files of this family.

use crate::args::Args;
use crate::error::CmdError;
use sluice_keyspace::Entry;
use sluice_resp::{Protocol, Reply};
use sluice_value::ZsetRef;

/// The sorted set of an entry; an error for another type.
#[inline]
pub(crate) fn zset_of(entry: Entry<'_>) -> Result<ZsetRef<'_>, CmdError> {
    Ok(entry.as_zset()?)
}

pub(crate) fn reply_score(reply: &mut Reply<'_>, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

/// The form of elements in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementsShown {
    /// Only the members, without scores.
    Members,
    /// Members and scores alternately in RESP2, in pairs in RESP3.
    WithScores,
    /// Pairs of member and score.
    Pairs,
    /// Members and scores alternately.
    Flat,
}

impl ElementsShown {
    /// The form with WITHSCORES, or without.
    pub(crate) fn with_scores(wanted: bool) -> ElementsShown {
        if wanted { ElementsShown::WithScores } else { ElementsShown::Members }
    }
}

/// Writes elements as an array.
pub(crate) fn reply_elements<'m>(
    reply: &mut Reply<'_>,
    elements: impl Iterator<Item = (&'m [u8], f64)>,
    count: usize,
    shown: ElementsShown,
) {
    let shown = reply_count(reply, count, shown);
    elements.for_each(|element| reply_element(reply, element, shown));
}

/// Writes the header of `count` elements; the result is the form of each element.
pub(crate) fn reply_count(reply: &mut Reply<'_>, count: usize, shown: ElementsShown) -> ElementsShown {
    let shown = match (shown, reply.protocol()) {
        (ElementsShown::WithScores, Protocol::Resp2) => ElementsShown::Flat,
        (ElementsShown::WithScores, Protocol::Resp3) => ElementsShown::Pairs,
        (shown, _) => shown,
    };
    reply.array(if shown == ElementsShown::Flat { 2 * count } else { count });
    shown
}

#[inline]
pub(crate) fn reply_element(reply: &mut Reply<'_>, (member, score): (&[u8], f64), shown: ElementsShown) {
    if shown == ElementsShown::Pairs {
        reply.array(2);
    }
    reply.bulk(member);
    if shown != ElementsShown::Members {
        reply.double(score);
    }
}

/// Parses an argument as a score.
pub(crate) fn score_at(args: Args<'_>, index: usize) -> Result<f64, CmdError> {
    args.get(index).and_then(sluice_base::num::parse_f64).ok_or(CmdError::NotFloat)
}
