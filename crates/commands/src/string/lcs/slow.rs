//! LCS of strings whose table is large, produced by another thread.

use crate::error::CmdError;
use crate::production::{Production, Progress, SlowRead, root_of};
use crate::string::lcs::search::{LcsOptions, Search};
use sluice_keyspace::{Str, ValueRef};
use sluice_resp::Reply;
use sluice_value::Value;

/// The search, and copies of strings that were not in one piece.
#[derive(Debug)]
struct Lcs {
    options: LcsOptions,
    search: Option<Search>,
    copies: [Vec<u8>; 2],
}

pub(super) fn lcs(a: Str<'_>, b: Str<'_>, options: LcsOptions) -> SlowRead {
    let roots = [a, b].map(|text| root_of(ValueRef::Str(text)));
    SlowRead::new(roots.into(), Lcs { options, search: None, copies: Default::default() })
}

impl Production for Lcs {
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        match self.step(roots, reply) {
            Ok(progress) => progress,
            Err(error) => {
                reply.error(&error.wire());
                Progress::End
            }
        }
    }
}

impl Lcs {
    fn step(&mut self, roots: &[Value], reply: &mut Reply<'_>) -> Result<Progress, CmdError> {
        let [a, b] = roots else { return Ok(Progress::End) };
        let Lcs { options, search, copies } = self;
        let Some(search) = search else {
            for (root, copy) in [a, b].into_iter().zip(copies.iter_mut()) {
                if let Value::Pages(pages) = root {
                    *copy = pages.to_vec();
                }
            }
            let [in_a, in_b] = copies;
            *search = Some(Search::new(bytes_of(a, in_a), bytes_of(b, in_b), options.asked)?);
            return Ok(Progress::More);
        };
        let [in_a, in_b] = copies;
        let (a, b) = (bytes_of(a, in_a), bytes_of(b, in_b));
        if !search.fill(a, b, (STEP_CELLS / b.len().max(1)).max(1)) {
            return Ok(Progress::More);
        }
        search.reply(reply, a, b, options);
        Ok(Progress::End)
    }
}

/// The bytes of a root; `copy` has them if the root is in pages.
fn bytes_of<'a>(root: &'a Value, copy: &'a [u8]) -> &'a [u8] {
    match root {
        Value::Str(bytes) => bytes,
        Value::Pages(_)
        | Value::List(_)
        | Value::Hash(_)
        | Value::Set(_)
        | Value::Zset(_)
        | Value::Stream(_) => copy,
    }
}

/// Number of table cells that are filled between two checks whether the client is still connected, which
/// takes some milliseconds. At least one row is filled.
const STEP_CELLS: usize = 4 << 20;
