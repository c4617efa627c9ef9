//! Matches names with the pattern of KEYS or a SCAN command. Even a pattern and names that were chosen to
//! match slowly must not delay other clients.
//!
//! ```text
//!  names ──► NameFilter::passes ── decided ────────────────────────────► the reply, or nothing
//!                              └─ undecided: the allowance is used up ─► Undecided ─ decided by a slow read,
//!                                                                                    or here at the end
//! ```

use crate::ctx::ReadCtx;
use crate::outcome::{Outcome, Run};
use crate::production::{Production, Progress, SlowRead};
use sluice_base::glob::{Allowance, Pattern};
use sluice_resp::{Outbox, Reply};
use sluice_value::Value;

/// A pattern, and the steps that matching may still take.
pub(crate) struct NameFilter<'a> {
    /// `None` lets every name pass.
    pattern: Option<(&'a [u8], Pattern<'a>)>,
    allowance: Allowance,
    /// Names that passed although their match is undecided, each with the number of names that had passed
    /// before it.
    undecided: Vec<(usize, Box<[u8]>)>,
    passed: usize,
}

impl<'a> NameFilter<'a> {
    pub(crate) fn new(pattern: Option<&'a [u8]>) -> NameFilter<'a> {
        let pattern = pattern.map(|text| (text, Pattern::new(text)));
        let allowance = Allowance::of_steps(STEPS_HERE_MAX);
        NameFilter { pattern, allowance, undecided: Vec::new(), passed: 0 }
    }

    /// Whether a name matches, or may match.
    #[inline]
    pub(crate) fn passes(&mut self, name: &[u8]) -> bool {
        let Some((_, pattern)) = &self.pattern else {
            return true;
        };
        match pattern.matches_within(name, &mut self.allowance) {
            Some(false) => return false,
            Some(true) => {}
            None => self.undecided.push((self.passed, name.into())),
        }
        self.passed += 1;
        true
    }

    /// Whether a name was left undecided; a caller that can end early does so then.
    pub(crate) fn has_undecided(&self) -> bool {
        !self.undecided.is_empty()
    }

    /// Replies with the items that passed: `head`, then an array in which each item writes `values`
    /// values. An item whose name passed undecided is included if the name then turns out to match. `items`
    /// are in the order in which they passed.
    pub(crate) fn reply<I: FnOnce(&mut Reply<'_>)>(
        self,
        ctx: &mut ReadCtx<'_>,
        head: impl FnOnce(&mut ReadCtx<'_>),
        values: usize,
        items: impl ExactSizeIterator<Item = I>,
    ) -> Run {
        if self.undecided.is_empty() {
            head(ctx);
            ctx.reply.array(values * items.len());
            items.for_each(|item| item(&mut ctx.reply));
            return Ok(Outcome::Done);
        }
        let start = ctx.reply.outbox().mark();
        head(ctx);
        let head = ctx.reply.outbox().split_off(start);
        let protocol = ctx.reply.protocol();
        let (mut found, mut found_count) = (Outbox::new(), 0);
        let mut names = self.undecided.into_iter().peekable();
        let mut waiting = Vec::with_capacity(names.len());
        for (index, item) in items.enumerate() {
            match names.next_if(|(passed, _)| *passed == index) {
                None => {
                    item(&mut Reply::new(&mut found, protocol));
                    found_count += 1;
                }
                Some((_, name)) => {
                    let mut written = Outbox::new();
                    item(&mut Reply::new(&mut written, protocol));
                    waiting.push((name, written));
                }
            }
        }
        let pattern = self.pattern.map_or_else(Vec::new, |(text, _)| text.to_vec());
        Undecided { pattern, head, values, found, found_count, waiting }.end(ctx)
    }

    /// Replies as [`NameFilter::reply`] does, for a caller that has written the decided names into
    /// `found`. Each undecided name is an item of its own.
    #[cold]
    pub(crate) fn reply_names(self, ctx: &mut ReadCtx<'_>, found: Outbox, found_count: usize) -> Run {
        let protocol = ctx.reply.protocol();
        let as_item = |(_, name): (usize, Box<[u8]>)| {
            let mut written = Outbox::new();
            Reply::new(&mut written, protocol).bulk(&name);
            (name, written)
        };
        let waiting = self.undecided.into_iter().map(as_item).collect();
        let pattern = self.pattern.map_or_else(Vec::new, |(text, _)| text.to_vec());
        Undecided { pattern, head: Outbox::new(), values: 1, found, found_count, waiting }.end(ctx)
    }

    /// Whether the last name that passed is undecided.
    #[inline]
    pub(crate) fn left_last_undecided(&self) -> bool {
        self.undecided.last().is_some_and(|(passed, _)| passed + 1 == self.passed)
    }
}

/// A reply in which some names are not decided yet.
#[derive(Debug)]
struct Undecided {
    pattern: Vec<u8>,
    head: Outbox,
    /// Number of values that an item writes.
    values: usize,
    /// Values of the items that are decided.
    found: Outbox,
    found_count: usize,
    /// Undecided names, each with the values of its item.
    waiting: Vec<(Box<[u8]>, Outbox)>,
}

impl Undecided {
    /// Hands the undecided names to another thread, or decides them here.
    fn end(mut self, ctx: &mut ReadCtx<'_>) -> Run {
        // The read counts as slow, no matter how much is left, because more steps were taken already than a
        // read on the main thread may take.
        if ctx.slow.suits(usize::MAX) {
            return ctx.slow.begin(|| SlowRead::new(Vec::new(), self));
        }
        while self.decide_one() {}
        self.write(&mut ctx.reply);
        Ok(Outcome::Done)
    }

    /// Decides one name; `false` if none is left.
    fn decide_one(&mut self) -> bool {
        let Some((name, mut written)) = self.waiting.pop() else { return false };
        if Pattern::new(&self.pattern).matches(&name) {
            self.found.append(&mut written);
            self.found_count += 1;
        }
        true
    }

    fn write(&mut self, reply: &mut Reply<'_>) {
        reply.outbox().append(&mut self.head);
        reply.array(self.values * self.found_count);
        reply.outbox().append(&mut self.found);
    }
}

impl Production for Undecided {
    fn go_on(&mut self, _: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        if self.decide_one() {
            return Progress::More;
        }
        self.write(reply);
        Progress::End
    }
}

/// Number of steps beyond linear work after which a command leaves names undecided. These steps take some
/// milliseconds.
const STEPS_HERE_MAX: usize = 1 << 20;
