//! The result of a handler.

use crate::error::CmdError;
use crate::migration::Migration;
use crate::production::SlowRead;
use crate::wait::WaitFor;

/// How a command without an error of its own ended.
#[derive(Debug)]
pub enum Outcome {
    /// The reply is written.
    Done,
    /// The reply is written and is, or contains, an error that is the result of a script.
    DoneWithError,
    /// The command must wait and is run again later. The arguments at these positions are replaced, so that
    /// in later runs they keep the meaning that they had in the first.
    WaitSince(Box<WaitFor>, Vec<(usize, Vec<u8>)>),
    /// The command must wait and is run again when the awaited event may have happened.
    Wait(Box<WaitFor>),
    /// Another thread produces the reply.
    Produce(Box<SlowRead>),
    /// Another thread sends keys to another server.
    Migrate(Box<Migration>),
    /// EXEC is interrupted between two of its commands and continues later.
    StandStill,
}

/// The result of a handler: an outcome, or an error to reply.
pub type Run = Result<Outcome, CmdError>;
