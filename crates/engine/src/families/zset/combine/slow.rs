//! ZUNION, ZINTER, ZDIFF and ZINTERCARD of large sets, produced by another thread.

use super::{Call, Members, Operation, Source};
use crate::slow_reads::{SlowRead, root_of};
use sluice_keyspace::ValueRef;
use sluice_value::{Value, Zset, ZsetEncoding};

/// What a call is but for its sets, which are the roots.
struct Settings {
    /// Of each set: its weight, and the position of its key.
    sources: Vec<(f64, usize)>,
    aggregate: super::Aggregate,
    with_scores: bool,
    limit: usize,
}

pub(super) fn combined(call: &Call<'_>, operation: Operation) -> SlowRead {
    let (roots, settings) = parts(call);
    SlowRead::in_one_step(roots, move |roots, reply| settings.call(roots).reply(operation, reply))
}

pub(super) fn counted(call: &Call<'_>) -> SlowRead {
    let (roots, settings) = parts(call);
    SlowRead::in_one_step(roots, move |roots, reply| reply.int(settings.call(roots).count() as i64))
}

fn parts(call: &Call<'_>) -> (Vec<Value>, Settings) {
    let root = |source: &Source<'_>| match source.members {
        Members::None => Value::Zset(Zset::new(ZsetEncoding::Listpack)),
        Members::Zset(zset) => root_of(ValueRef::Zset(zset)),
        Members::Set(set) => root_of(ValueRef::Set(set)),
    };
    let roots = call.sources.iter().map(root).collect();
    let sources = call.sources.iter().map(|source| (source.weight, source.same_as)).collect();
    let Call { aggregate, with_scores, limit, .. } = *call;
    (roots, Settings { sources, aggregate, with_scores, limit })
}

impl Settings {
    /// The call again, of the roots.
    fn call<'d>(&self, roots: &'d [Value]) -> Call<'d> {
        let sources = roots.iter().zip(&self.sources).map(|(root, (weight, same_as))| {
            let members = match root {
                Value::Zset(zset) => Members::Zset(zset.view()),
                Value::Set(set) => Members::Set(set.view()),
                Value::Str(_) | Value::Pages(_) | Value::List(_) | Value::Hash(_) | Value::Stream(_) => {
                    Members::None
                }
            };
            Source { members, weight: *weight, same_as: *same_as }
        });
        let Settings { aggregate, with_scores, limit, .. } = *self;
        Call { sources: sources.collect(), aggregate, with_scores, limit }
    }
}
