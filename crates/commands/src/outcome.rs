//! What a handler returns.

use crate::error::CmdError;
use crate::migration::Migration;
use crate::production::SlowRead;
use crate::wait::WaitFor;

/// How a command ended well.
#[derive(Debug)]
pub enum Outcome {
    /// Its reply is written.
    Done,
    /// Its reply is written, and is an error or has one inside: a script's result.
    DoneWithError,
    /// It must wait, and is run again with other arguments at these positions: what it meant when it came.
    WaitSince(Box<WaitFor>, Vec<(usize, Vec<u8>)>),
    /// It must wait, and is run again when what it waits for may be there.
    Wait(Box<WaitFor>),
    /// Its reply is produced by another thread.
    Produce(Box<SlowRead>),
    /// Keys are moved to another server by another thread.
    Migrate(Box<Migration>),
    /// EXEC stands still between two of its commands, and goes on later.
    StandStill,
}

/// What a handler returns.
pub type Run = Result<Outcome, CmdError>;
