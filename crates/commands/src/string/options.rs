//! The options that SET, GETEX and MSETEX share: a condition, an expiry, GET.

use crate::args::Args;
use crate::ctx::WriteCtx;
use crate::error::CmdError;
use sluice_command::is_word;
use sluice_keyspace::{ExpiryMode, SetExpiry};

/// Whose options they are: what else than the units of an expiry is accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionsOf {
    /// NX, XX, IFEQ, IFNE, GET, KEEPTTL.
    Set,
    /// PERSIST.
    Getex,
    /// NX, XX, KEEPTTL.
    Msetex,
}

/// What was asked.
#[derive(Clone, Copy)]
pub(super) struct Options<'a> {
    pub condition: Condition<'a>,
    /// The value that was there is the reply.
    pub get: bool,
    pub expiry: ExpiryOption,
}

/// When something is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition<'a> {
    Always,
    Absent,
    Present,
    Equal(&'a [u8]),
    /// Absent counts as different.
    Different(&'a [u8]),
}

/// What becomes of the expiry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpiryOption {
    /// Nothing was said.
    Unsaid,
    Keep,
    Persist,
    /// The argument at this index says it.
    Given(ExpiryUnit, usize),
}

impl<'a> Options<'a> {
    /// Reads the options from the argument at `first` on. An amount is left unread: a later mistake of syntax
    /// comes before it.
    pub(super) fn parse(args: Args<'a>, first: usize, accepted: OptionsOf) -> Result<Options<'a>, CmdError> {
        let mut options = Options { condition: Condition::Always, get: false, expiry: ExpiryOption::Unsaid };
        let mut i = first;
        while i < args.len() {
            i += options.take(args, i, accepted).ok_or(CmdError::Syntax)?;
        }
        Ok(options)
    }

    /// Takes the option at `i`, if it is one that may stand here; how many arguments it has.
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
            && matches!(self.expiry, ExpiryOption::Unsaid | ExpiryOption::Keep)
        {
            self.expiry = ExpiryOption::Keep;
        } else if !stores
            && args.is(i, "PERSIST")
            && matches!(self.expiry, ExpiryOption::Unsaid | ExpiryOption::Persist)
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
            if i + 1 >= args.len() || !(again || self.expiry == ExpiryOption::Unsaid) {
                return None;
            }
            self.expiry = ExpiryOption::Given(unit, i + 1);
            return Some(2);
        }
        Some(1)
    }
}

impl ExpiryOption {
    /// The time that was given, ms since the epoch; `None` when none was.
    pub(super) fn at(
        self,
        args: Args<'_>,
        now_ms: i64,
        command: &'static str,
    ) -> Result<Option<i64>, CmdError> {
        match self {
            ExpiryOption::Given(unit, index) => expiry_at(args, index, unit, now_ms, command).map(Some),
            ExpiryOption::Unsaid | ExpiryOption::Keep | ExpiryOption::Persist => Ok(None),
        }
    }

    /// What a write does to the expiry, `at` being what [`ExpiryOption::at`] gave.
    pub(super) fn to_set(self, at: Option<i64>) -> SetExpiry {
        match (self, at) {
            (ExpiryOption::Keep, _) => SetExpiry::Keep,
            (_, Some(at)) => SetExpiry::At(at),
            (_, None) => SetExpiry::Clear,
        }
    }
}

/// Whether a new expiry is over as it is set. Where expired keys are only hidden, or not even that, none ever
/// is.
pub(super) fn has_passed(ctx: &WriteCtx<'_>, at_ms: i64) -> bool {
    ctx.db.access.expiry == ExpiryMode::Delete && at_ms <= ctx.db.access.now.unix_ms()
}

/// How an expiry is given.
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

/// The time, ms since the epoch, that the argument at `index` means; it must be positive and expressible.
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
