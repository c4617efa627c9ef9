//! The state of FUNCTION RESTORE while its libraries are loaded one after the other.

use crate::functions::Functions;
use crate::library::{LibraryLoad, MachineLimits, library_head};
use crate::machine::ScriptMachine;
use sluice_base::heap;
use sluice_commands::CmdError;
use std::collections::VecDeque;
use std::sync::Arc;

/// The state of FUNCTION RESTORE while the program of one of its libraries runs.
#[derive(Debug)]
pub struct RestoreRun {
    /// The texts of the libraries that are still to be loaded. The last element may be an error of the
    /// payload.
    pub codes: VecDeque<Result<Arc<[u8]>, CmdError>>,
    /// The libraries whose programs have run.
    pub restored: Functions,
    /// How existing libraries are treated.
    pub policy: RestorePolicy,
    /// The limits of the libraries' machines.
    pub limits: MachineLimits,
}

impl RestoreRun {
    /// Compiles the next library; the caller starts its program. `None` after the last library.
    pub fn begin_next(&mut self) -> Result<Option<(LibraryLoad, Box<ScriptMachine>)>, CmdError> {
        let Some(code) = self.codes.pop_front().transpose()? else { return Ok(None) };
        let head = library_head(&code).map_err(without_code)?;
        self.restored.may_load(&head.name, false).map_err(without_code)?;
        let images = self.restored.images();
        LibraryLoad::begin(head, code, false, self.limits, images).map(Some).map_err(without_code)
    }

    /// Approximate bytes of memory of the restore, including the machines of the loaded libraries.
    pub fn footprint(&self) -> usize {
        let codes: usize = self.codes.iter().flatten().map(|code| code.len()).sum();
        heap::boxed::<RestoreRun>() + codes + self.restored.footprint() + self.restored.machine_bytes()
    }
}

/// What FUNCTION RESTORE does with existing libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePolicy {
    /// All existing libraries are removed.
    Flush,
    /// All existing libraries stay; a restored library or function with an existing name is an error.
    Append,
    /// A restored library replaces the existing library of the same name. A function with the name of a
    /// function in another library is an error.
    Replace,
}

impl RestorePolicy {
    /// The policy's name, as an argument of FUNCTION RESTORE.
    pub fn word(self) -> &'static [u8] {
        match self {
            RestorePolicy::Flush => b"FLUSH",
            RestorePolicy::Append => b"APPEND",
            RestorePolicy::Replace => b"REPLACE",
        }
    }
}

/// Adds the code `ERR` to the text of an error.
pub fn without_code(text: Vec<u8>) -> CmdError {
    CmdError::owned([b"ERR ", &*text].concat())
}
