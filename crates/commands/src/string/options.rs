//! The options of SET, GETEX and MSETEX: a condition, an expiry, GET.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use sluice_command::is_word;
use sluice_keyspace::{ExpiryMode, SetExpiry};

/// The command whose options are read. The command decides which options besides EX, PX, EXAT and PXAT are
/// accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionsOf {
    /// SET: accepts NX, XX, IFEQ, IFNE, GET and KEEPTTL.
    Set,
    /// GETEX: accepts PERSIST only.
    Getex,
    /// MSETEX: accepts NX, XX and KEEPTTL.
    Msetex,
}

/// The options of a call.
#[derive(Clone, Copy)]
pub(super) struct Options<'a> {
    pub condition: Condition<'a>,
    /// Whether the reply is the old value.
    pub get: bool,
    pub expiry: ExpiryOption,
}

/// The condition under which a value is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    Always,
    Absent,
    Present,
    Equal(&'a [u8]),
    /// The value differs from this one; an absent key counts as different.
    Different(&'a [u8]),
}

/// The option about the expiry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpiryOption {
    /// No option was given.
    NotGiven,
    Keep,
    Persist,
    /// The argument at this index gives the expiry, in this unit.
    Given(ExpiryUnit, usize),
}

impl<'a> Options<'a> {
    /// Reads the options from the argument at `first` on. Amounts are not parsed yet, because later
    /// syntax errors take precedence.
    pub(super) fn parse(args: Args<'a>, first: usize, accepted: OptionsOf) -> Result<Options<'a>, CmdError> {
        let mut options =
            Options { condition: Condition::Always, get: false, expiry: ExpiryOption::NotGiven };
        let mut i = first;
        while i < args.len() {
            i += options.take(args, i, accepted).ok_or(CmdError::Syntax)?;
        }
        Ok(options)
    }

    /// Reads the option at `i`, if it is allowed there; returns how many words it takes, its name included.
    fn take(&mut self, args: Args<'a>, i: usize, accepted: OptionsOf) -> Option<usize> {
        let stores = accepted != OptionsOf::Getex;
        let word = args.at(i);
        if stores && args.is(i, "NX") && matches!(self.condition, Condition::Always | Condition::Absent) {
            self.condition = Condition::Absent;
        } else if stores
            && args.is(i, "XX")
            && matches!(self.condition, Condition::Always | Condition::Present)
        {
            self.condition = Condition::Present;
        } else if accepted == OptionsOf::Set && args.is(i, "GET") {
            self.get = true;
        } else if stores
            && args.is(i, "KEEPTTL")
            && matches!(self.expiry, ExpiryOption::NotGiven | ExpiryOption::Keep)
        {
            self.expiry = ExpiryOption::Keep;
        } else if !stores
            && args.is(i, "PERSIST")
            && matches!(self.expiry, ExpiryOption::NotGiven | ExpiryOption::Persist)
        {
            self.expiry = ExpiryOption::Persist;
        } else if accepted == OptionsOf::Set && args.is(i, "IFEQ") && self.condition == Condition::Always {
            self.condition = Condition::Equal(args.get(i + 1)?);
            return Some(2);
        } else if accepted == OptionsOf::Set && args.is(i, "IFNE") && self.condition == Condition::Always {
            self.condition = Condition::Different(args.get(i + 1)?);
            return Some(2);
        } else {
            let unit = ExpiryUnit::of(word)?;
            let again = matches!(self.expiry, ExpiryOption::Given(before, _) if before == unit);
            if i + 1 >= args.len() || !(again || self.expiry == ExpiryOption::NotGiven) {
                return None;
            }
            self.expiry = ExpiryOption::Given(unit, i + 1);
            return Some(2);
        }
        Some(1)
    }
}

impl ExpiryOption {
    /// The given time, in ms since the epoch; `None` if none was given.
    pub(super) fn at(
        self,
        args: Args<'_>,
        now_ms: i64,
        command: &'static str,
    ) -> Result<Option<i64>, CmdError> {
        match self {
            ExpiryOption::Given(unit, index) => expiry_at(args, index, unit, now_ms, command).map(Some),
            ExpiryOption::NotGiven | ExpiryOption::Keep | ExpiryOption::Persist => Ok(None),
        }
    }

    /// The change of the expiry by a write; `at` is the result of [`ExpiryOption::at`].
    pub(super) fn to_set(self, at: Option<i64>) -> SetExpiry {
        match (self, at) {
            (ExpiryOption::Keep, _) => SetExpiry::Keep,
            (_, Some(at)) => SetExpiry::At(at),
            (_, None) => SetExpiry::Clear,
        }
    }
}

/// Whether a new expiry has passed already. Always false while expired keys are not deleted, for example
/// on a replica or in import mode.
pub(super) fn has_passed(ctx: &WriteCtx<'_>, at_ms: i64) -> bool {
    ctx.db.access.expiry == ExpiryMode::Delete && at_ms <= ctx.db.access.now.unix_ms()
}

/// The unit of a given expiry, and whether it counts from now or from the epoch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpiryUnit {
    Seconds,
    Ms,
    AtSeconds,
    AtMs,
}

impl ExpiryUnit {
    pub(crate) fn of(word: &[u8]) -> Option<ExpiryUnit> {
        [
            ("EX", ExpiryUnit::Seconds),
            ("PX", ExpiryUnit::Ms),
            ("EXAT", ExpiryUnit::AtSeconds),
            ("PXAT", ExpiryUnit::AtMs),
        ]
        .into_iter()
        .find(|(name, _)| is_word(word, name))
        .map(|(_, unit)| unit)
    }
}

/// The time given by the argument at `index`, in ms since the epoch. The argument must be positive, and the
/// time must fit in 64 bits.
pub(super) fn expiry_at(
    args: Args<'_>,
    index: usize,
    unit: ExpiryUnit,
    now_ms: i64,
    command: &'static str,
) -> Result<i64, CmdError> {
    let amount = args.int(index)?;
    if amount <= 0 {
        return Err(CmdError::InvalidExpire(command));
    }
    let ms = match unit {
        ExpiryUnit::Seconds | ExpiryUnit::AtSeconds => amount.checked_mul(1000),
        ExpiryUnit::Ms | ExpiryUnit::AtMs => Some(amount),
    };
    let at = match unit {
        ExpiryUnit::Seconds | ExpiryUnit::Ms => ms.and_then(|ms| ms.checked_add(now_ms)),
        ExpiryUnit::AtSeconds | ExpiryUnit::AtMs => ms,
    };
    at.ok_or(CmdError::InvalidExpire(command))
}
