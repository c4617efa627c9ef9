//! The engine's requests about the append-only file. `aof/open.rs` carries most of them out.

use crate::aof::{Aof, AofCommand, AofNews};
use crate::host::Host;
use sluice_base::LogLevel;
use sluice_config::Config;
use sluice_control::process::AppendOnlyFile;
use sluice_control::process::{AofBacklog, AofFiles, AofIncrement, SaveError};
use sluice_numbers::facts::AofFacts;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

impl AppendOnlyFile for Host {
    fn switch_increment(
        &mut self,
        increment: AofIncrement,
        config: &Config,
        pending: Vec<u8>,
        position: u64,
    ) -> Result<AofBacklog, SaveError> {
        self.switch_increment_file(increment, config, pending, position).map_err(SaveError)
    }

    fn end_aof_rewrite(&mut self, is_whole: bool) {
        let Some(aof) = &self.aof.open else { return };
        let (number, written) = (self.aof.rewrite, aof.written().take(self.aof.rewrite));
        if !is_whole {
            return;
        }
        let Some(base) = written else {
            // The next iteration reports to the engine that there is no base.
            return aof.shared().report(AofNews::BaseFinished(number, false));
        };
        let text = format!("Successfully created the temporary AOF base file {}", base.temporary());
        aof.order(AofCommand::FinishBase(number, Box::new(base)));
        self.note(LogLevel::Notice, &text);
    }

    fn use_snapshot_as_base(&mut self, name: &[u8]) {
        let file = self.snapshots.count();
        let Some(aof) = &self.aof.open else { return };
        let path = std::env::current_dir().unwrap_or_default().join(OsStr::from_bytes(name));
        aof.order(AofCommand::UseSnapshot(self.aof.rewrite, path, file));
    }

    fn has_links(&self) -> bool {
        true
    }

    fn has_aof_base(&mut self) -> bool {
        self.aof.open.as_ref().is_some_and(Aof::has_base)
    }

    fn close_aof(&mut self, config: &Config, pending: Vec<u8>, position: u64) {
        // The result is not needed. The log reports whether bytes are not on disk, and the administrator
        // has turned the file off, so the server no longer promises durability.
        let _ = self.end_aof(pending, position);
        self.apply_claims(config);
    }

    fn close_aof_later(&mut self, _: &Config, pending: Vec<u8>, position: u64) {
        // No claim changes here. The folder stays claimed, because the thread still writes to it, and a
        // file is opened in it after the load.
        self.begin_end_of_aof(pending, position);
    }

    fn is_aof_closing(&mut self) -> bool {
        if self.aof.closing.as_ref().is_some_and(Aof::has_ended) {
            self.await_closing_aof();
        }
        self.aof.closing.is_some()
    }

    fn aof(&mut self) -> AofFacts {
        self.aof.facts()
    }

    fn aof_files(&mut self, config: &Config, pending: Vec<u8>, position: u64) -> Box<dyn AofFiles> {
        self.list_aof_files(config, pending, position)
    }
}
