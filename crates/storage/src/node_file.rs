//! The file `nodes.conf` of a node of a cluster: claimed and read at the start, written as a whole.
//!
//! Invariants: (1) no two processes write one file: a lock file beside it keeps other servers of this program
//! away, and from the first write on, the file itself is locked under its name, as the reference locks it
//! (N-24); (2) after a write without an error, the contents and the name are durable.

use crate::replacement::{Failed, Operation, Stage};
use crate::{LockHold, LockRefused, Replacement, Storage, plain_error, read_whole};
use sluice_config::{Config, param};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file `nodes.conf`, claimed by this process alone.
pub struct NodeFile {
    /// The path of the file, absolute because the working directory may change.
    path: PathBuf,
    /// The open file that has the name now; `None` before the first write. It stays open, and therefore
    /// locked, until the next version of the file has the name.
    in_place: Option<Replacement>,
    /// The lock file beside `nodes.conf`; `None` where files cannot be locked.
    _hold: Option<LockHold>,
}

impl NodeFile {
    /// Claims the file that the configuration names, in the working directory. `say` gets a line for the
    /// log if files cannot be locked.
    ///
    /// # Errors
    /// Another node has claimed the file; the text is for the log.
    pub fn claim(
        storage: &dyn Storage,
        config: &Config,
        say: &mut dyn FnMut(String),
    ) -> Result<NodeFile, String> {
        let name = OsStr::from_bytes(config.bytes(param::CLUSTER_CONFIG_FILE));
        let path = std::env::current_dir().unwrap_or_default().join(name);
        let refused = || {
            format!(
                "Sorry, the cluster configuration file {} is already used by a different Cluster node. Please make sure that \
                 different nodes use different cluster configuration files.",
                name.display()
            )
        };
        let hold = match storage.lock(&with_suffix(&path, ".lock"), &format!("{}\n", std::process::id())) {
            Ok(hold) => Some(hold),
            Err(LockRefused::Held(_)) => return Err(refused()),
            Err(LockRefused::Failed(error)) => {
                say(format!(
                    "{} cannot be locked ({}): another node could overwrite it",
                    path.display(),
                    plain_error(&error)
                ));
                None
            }
        };
        if storage.is_written(&path) {
            return Err(refused());
        }
        Ok(NodeFile { path, in_place: None, _hold: hold })
    }

    /// The bytes of the file; `None` if the file is missing or empty.
    ///
    /// # Errors
    /// The file exists but cannot be read; the text is for the log.
    pub fn read(&self, storage: &dyn Storage) -> Result<Option<Vec<u8>>, String> {
        match read_whole(storage, &self.path) {
            Ok(bytes) => Ok(Some(bytes).filter(|bytes| !bytes.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!(
                "Loading the cluster node config from {}: {}",
                self.path.display(),
                plain_error(&error)
            )),
        }
    }

    /// Replaces the file, durably. Errors: a text for the log that names the failed step.
    pub fn write(&mut self, storage: &Arc<dyn Storage>, text: &[u8]) -> Result<(), String> {
        let temporary = with_suffix(&self.path, &format!(".tmp-{}", std::process::id()));
        self.in_place = Some(replace(storage, &temporary, &self.path, text)?);
        Ok(())
    }
}

/// Writes a file in place of another, durably. Errors: a text for the log that names the failed step.
fn replace(
    storage: &Arc<dyn Storage>,
    temporary: &Path,
    target: &Path,
    text: &[u8],
) -> Result<Replacement, String> {
    let (temporary, target) = (temporary.to_path_buf(), target.to_path_buf());
    let mut written = 0;
    let tried = || -> Result<Replacement, Failed> {
        let mut next = Replacement::begin(storage.clone(), temporary, target, FILE_MODE, None)?;
        for piece in text.chunks(PIECE_BYTES) {
            next.write(piece)?;
            written += piece.len();
        }
        while next.step()? != Stage::Done {}
        Ok(next)
    };
    tried().map_err(|Failed { operation, error }| {
        let reason = plain_error(&error);
        match operation {
            Operation::Create => format!("Could not open temp cluster config file: {reason}"),
            Operation::Write => {
                format!("Failed after writing ({written}) bytes to tmp cluster config file: {reason}")
            }
            Operation::Sync => format!("Could not sync tmp cluster config file: {reason}"),
            Operation::Rename => format!("Could not rename tmp cluster config file: {reason}"),
            Operation::SyncFolder => format!("Could not sync cluster config file dir: {reason}"),
        }
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Permissions of a new file, less the process's umask.
const FILE_MODE: u32 = 0o644;
/// Bytes written at once.
const PIECE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests;
