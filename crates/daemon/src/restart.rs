//! Restart in place: the process executes its own program again, for DEBUG.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The program as this process was started, and whether it is to be started again.
#[derive(Debug)]
pub struct Restart {
    executable: io::Result<PathBuf>,
    arguments: Vec<OsString>,
    folder: io::Result<PathBuf>,
    /// The delay before the restart; `None` when no restart was requested.
    pub after: Option<Duration>,
}

impl Restart {
    /// Records the program, its folder and these arguments, which lack the program's name. Must be called
    /// first, because the process title is written over the arguments, and `dir` changes the folder.
    pub fn of_process(arguments: Vec<OsString>) -> Restart {
        let (executable, folder) = (std::env::current_exe(), std::env::current_dir());
        Restart { executable, arguments, folder, after: None }
    }

    /// Waits for the delay and executes the program: the process keeps its id and environment, and its
    /// files are closed. Returns only if the program cannot be executed.
    pub fn perform(self) -> io::Error {
        let (executable, folder) = match (self.executable, self.folder) {
            (Ok(executable), Ok(folder)) => (executable, folder),
            (Err(error), _) | (_, Err(error)) => return error,
        };
        std::thread::sleep(self.after.unwrap_or_default());
        Command::new(executable).args(self.arguments).current_dir(folder).exec()
    }
}
