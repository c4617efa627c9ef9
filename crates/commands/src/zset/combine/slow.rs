//! ZUNION, ZINTER, ZDIFF and ZINTERCARD of large sets, produced by another thread.

use crate::production::{SlowRead, root_of};
use crate::zset::inputs::{InputSet, Members, NumkeysCall, SetOperation};
use sluice_keyspace::ValueRef;
use sluice_value::{Value, Zset, ZsetEncoding};

/// The arguments of a call without its sets, which are the roots.
struct CombineCall {
    /// The factors of WEIGHTS, one for each set.
    weights: Vec<f64>,
    aggregate: crate::zset::inputs::Aggregate,
    with_scores: bool,
    limit: usize,
}

pub(super) fn combined(call: &NumkeysCall<'_>, operation: SetOperation) -> SlowRead {
    let (roots, settings) = parts(call);
    SlowRead::in_one_step(roots, move |roots, reply| settings.call(roots).reply(operation, reply))
}

pub(super) fn counted(call: &NumkeysCall<'_>) -> SlowRead {
    let (roots, settings) = parts(call);
    SlowRead::in_one_step(roots, move |roots, reply| reply.int(settings.call(roots).count() as i64))
}

fn parts(call: &NumkeysCall<'_>) -> (Vec<Value>, CombineCall) {
    let root = |source: &InputSet<'_>| match source.members {
        Members::None => Value::Zset(Zset::new(ZsetEncoding::Listpack)),
        Members::Zset(zset) => root_of(ValueRef::Zset(zset)),
        Members::Set(set) => root_of(ValueRef::Set(set)),
    };
    let roots = call.sources.iter().map(root).collect();
    let weights = call.sources.iter().map(|source| source.weight).collect();
    let NumkeysCall { aggregate, with_scores, limit, .. } = *call;
    (roots, CombineCall { weights, aggregate, with_scores, limit })
}

impl CombineCall {
    /// The call with the sets of the roots.
    fn call<'d>(&self, roots: &'d [Value]) -> NumkeysCall<'d> {
        let sources = roots.iter().zip(&self.weights).map(|(root, weight)| {
            let members = match root {
                Value::Zset(zset) => Members::Zset(zset.view()),
                Value::Set(set) => Members::Set(set.view()),
                Value::Str(_) | Value::Pages(_) | Value::List(_) | Value::Hash(_) | Value::Stream(_) => {
                    Members::None
                }
            };
            InputSet { members, weight: *weight }
        });
        let CombineCall { aggregate, with_scores, limit, .. } = *self;
        NumkeysCall { sources: sources.collect(), aggregate, with_scores, limit }
    }
}
