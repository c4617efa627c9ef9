//! FUNCTION RESTORE under way: its libraries are loaded one after the other.

use crate::functions::Functions;
use crate::library::{LibraryLoad, MachineLimits, library_head};
use crate::machine::ScriptMachine;
use sluice_base::heap;
use sluice_commands::CmdError;
use std::collections::VecDeque;
use std::sync::Arc;

/// FUNCTION RESTORE while the program of one of its libraries runs.
#[derive(Debug)]
pub struct RestoreRun {
    /// The libraries that follow, the last perhaps an error of the payload.
    pub codes: VecDeque<Result<Arc<[u8]>, CmdError>>,
    /// The libraries whose programs have run.
    pub restored: Functions,
    /// What becomes of libraries that are there.
    pub policy: RestorePolicy,
    /// Bounds of the machines.
    pub limits: MachineLimits,
}

impl RestoreRun {
    /// Compiles the next library, whose program is to be started; `None` after the last.
    pub fn begin_next(&mut self) -> Result<Option<(LibraryLoad, Box<ScriptMachine>)>, CmdError> {
        let Some(code) = self.codes.pop_front().transpose()? else { return Ok(None) };
        let head = library_head(&code).map_err(without_code)?;
        self.restored.may_load(&head.name, false).map_err(without_code)?;
        let images = self.restored.images();
        LibraryLoad::begin(head, code, false, self.limits, images).map(Some).map_err(without_code)
    }

    /// Bytes that it takes, about, the machines of the libraries included.
    pub fn footprint(&self) -> usize {
        let codes: usize = self.codes.iter().flatten().map(|code| code.len()).sum();
        heap::boxed::<RestoreRun>() + codes + self.restored.footprint() + self.restored.machine_bytes()
    }
}

/// What becomes of the libraries that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// The libraries that are there go.
    Flush,
    /// The libraries that are there stay, and none may have the name of one that comes.
    Append,
    /// One that comes takes the place of one of its name.
    Replace,
}

impl RestorePolicy {
    /// The policy as an argument of FUNCTION RESTORE.
    pub fn word(self) -> &'static [u8] {
        match self {
            RestorePolicy::Flush => b"FLUSH",
            RestorePolicy::Append => b"APPEND",
            RestorePolicy::Replace => b"REPLACE",
        }
    }
}

/// An error whose text has no code yet.
pub fn without_code(text: Vec<u8>) -> CmdError {
    CmdError::owned([b"ERR ", &*text].concat())
}
