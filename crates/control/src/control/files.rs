//! State of the data files: whether a file may be written, and which file.

use crate::Control;
use crate::process::Process;
use sluice_base::LogLevel;
use sluice_config::param;

impl Control {
    /// Time at which the RDB file that is being written, for the disk or for replicas, was begun, in seconds
    /// since the epoch; `None` if there is none.
    pub(crate) fn rdb_began_s(&self) -> Option<i64> {
        self.persistence.saving.under_way.map(|save| save.began_s).or(self.replication.full_syncs.began_s)
    }

    /// Whether writes are refused because the last save failed (`stop-writes-on-bgsave-error`); never without
    /// save points.
    #[inline]
    pub fn refuses_writes(&self) -> bool {
        self.persistence.saving.failed
            && self.config.bool(param::STOP_WRITES_ON_BGSAVE_ERROR)
            && !self.config.save_points().is_empty()
    }

    /// Whether a save would replace an RDB file that was loaded only in part.
    pub fn snapshot_holds_more(&self) -> bool {
        self.persistence.partly_loaded.snapshot.as_ref().is_some_and(|file| *file == self.snapshot_file())
    }

    /// Folder and name of the RDB file.
    pub fn snapshot_file(&self) -> (Vec<u8>, Vec<u8>) {
        (self.config.bytes(param::DIR).to_vec(), self.config.bytes(param::DBFILENAME).to_vec())
    }

    /// Whether a snapshot of the primary is replacing the RDB file, or has replaced it and is not yet loaded.
    /// During that time no save may run.
    pub fn awaits_sync_file(&self) -> bool {
        self.replication.replica.as_ref().is_some_and(|role| role.link.is_committed())
    }

    /// Cancels a scheduled rewrite, if there is one, and logs the cancellation.
    pub fn cancel_scheduled_rewrite(&mut self, process: &mut dyn Process) {
        if std::mem::take(&mut self.persistence.rewriting.scheduled) {
            let text = "AOF was disabled but there is a scheduled AOF background, cancel it.";
            process.log(LogLevel::Notice, text);
        }
    }

    /// The reason why no rewrite may begin, as a line for the log; `None` if one may. A rewrite must not
    /// replace a file that was loaded only in part, or make the next start ignore such a file.
    pub fn rewrite_refusal(&self) -> Option<&'static str> {
        if self.persistence.partly_loaded.aof {
            return Some(PARTLY_LOADED_AOF);
        }
        // Once there is a base, the next start ignores the RDB file, and its unloaded keys would be lost.
        (!self.persistence.aof.is_on() && self.snapshot_holds_more()).then_some(PARTLY_LOADED_RDB)
    }
}

const PARTLY_LOADED_AOF: &str = "Not rewriting: the append-only file holds keys that were skipped at the load, \
                                 and they would be lost. To go on without them: SAVE, move the append-only \
                                 folder away, start with appendonly no, then CONFIG SET appendonly yes.";

const PARTLY_LOADED_RDB: &str = "Not writing an append-only file: the RDB file holds keys that were skipped \
                                 at the load; the next start would not read it, and a save would replace \
                                 it. Set another dbfilename, or move that file and restart without it.";
