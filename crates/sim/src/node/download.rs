//! The snapshot from the primary, from its first byte to its load: it is received into memory, or into a file
//! that then gets its final name, and is loaded.
//!
//! A disk operation that a thread of the server would do takes a simulated time, and is done at the end of
//! that time. If the disk is faulty at that moment, the operation fails.

mod stage;

pub(super) use self::stage::{Download, DownloadStage};

use self::stage::SharedSnapshot;
use super::{Here, Holder, SimNode};
use crate::net::{Net, Side};
use sluice_base::LogLevel;
use sluice_config::param;
use sluice_control::persistence::loading::LoadEnded;
use sluice_replication::{Input, SyncFailure};
use std::sync::PoisonError;

impl SimNode {
    /// Makes the event loop release the link's connection, if that was requested.
    pub(super) fn end_leave(&mut self, net: &mut Net) {
        match std::mem::replace(&mut self.holder, Holder::Nobody) {
            Holder::Leaving(conn, first) => self.holder = Holder::Left(conn, first),
            other => return self.holder = other,
        }
        self.link_left(net);
        let Holder::Receiving(download) = &mut self.holder else { return };
        let first = std::mem::take(&mut download.first);
        self.act(net);
        self.download(&first, net);
    }

    /// Begins to receive from the connection that the event loop has released.
    pub(super) fn begin_download(&mut self, stage: DownloadStage) -> Result<(), String> {
        match std::mem::replace(&mut self.holder, Holder::Nobody) {
            Holder::Left(conn, first) => {
                self.holder = Holder::Receiving(Box::new(Download::new(conn, first, stage)));
                Ok(())
            }
            other => {
                self.holder = other;
                Err("the connection has another holder".to_owned())
            }
        }
    }

    /// Processes received bytes of the snapshot.
    pub(super) fn download(&mut self, mut come: &[u8], net: &mut Net) {
        let at_ns = self.later(400);
        let fault = self.process.disk.write_fault();
        let Holder::Receiving(download) = &mut self.holder else { return };
        let is_to_disk = matches!(download.stage, DownloadStage::ToDisk);
        let Download { framing, extent, bytes, rest, .. } = &mut **download;
        if extent.is_none() {
            match framing.line(come) {
                Ok((used, found)) => (come, *extent) = (&come[used..], found),
                Err(error) => {
                    self.process.base.log.push((LogLevel::Warning, error.to_string()));
                    return self.download_lost(net);
                }
            }
        }
        let before = bytes.len();
        let mut give = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok::<(), std::convert::Infallible>(())
        };
        let used = framing.payload(come, &mut give).unwrap_or(0);
        rest.extend_from_slice(&come[used..]);
        if is_to_disk
            && bytes.len() > before
            && let Some(reason) = fault
        {
            return self.download_failed(reason, net);
        }
        if !framing.has_ended() {
            return;
        }
        match &download.stage {
            DownloadStage::ToDisk => download.stage = DownloadStage::Saving(at_ns),
            DownloadStage::ToMemory(shared) => {
                let whole = std::mem::take(&mut download.bytes);
                *shared.lock().unwrap_or_else(PoisonError::into_inner) =
                    SharedSnapshot { bytes: whole, is_whole: true };
                let (conn, rest) = (download.conn, std::mem::take(&mut download.rest));
                self.holder = Holder::Received(conn, rest);
                if let Some((due_ns, _)) = &mut self.load {
                    *due_ns = at_ns;
                }
            }
            DownloadStage::Saving(_) | DownloadStage::Saved | DownloadStage::Committing(_) => {}
        }
    }

    /// Ends the disk operation of the received snapshot (its sync or its rename) if the operation's time is
    /// over.
    pub(super) fn advance_download(&mut self, net: &mut Net) {
        let (now_ns, attempt) = (self.process.base.now.mono_ns, self.attempt);
        let fault = self.process.disk.commit_fault();
        let Holder::Receiving(download) = &mut self.holder else { return };
        match (&download.stage, fault) {
            (DownloadStage::Saving(at_ns), None) if *at_ns <= now_ns => {
                download.stage = DownloadStage::Saved;
                self.link_input(Input::Saved(attempt), net);
            }
            (DownloadStage::Committing(at_ns), None) if *at_ns <= now_ns => {
                let (conn, rest) = (download.conn, std::mem::take(&mut download.rest));
                self.put_download_in_force();
                self.holder = Holder::Received(conn, rest);
                self.link_input(Input::InForce(attempt), net);
                self.act(net);
            }
            (DownloadStage::Saving(at_ns), Some(reason)) if *at_ns <= now_ns => {
                self.download_failed(reason, net);
            }
            (DownloadStage::Committing(at_ns), Some(reason)) if *at_ns <= now_ns => {
                // After a failed commit, either the new file has the final name, or the earlier file still
                // has it.
                if self.rng.below(2) == 0 {
                    self.put_download_in_force();
                }
                self.download_failed(reason, net);
            }
            _ => {}
        }
    }

    fn put_download_in_force(&mut self) {
        let Holder::Receiving(download) = &mut self.holder else { return };
        let name = self.engine.config().bytes(param::DBFILENAME).to_vec();
        let bytes = std::mem::take(&mut download.bytes);
        self.process.disk.snapshots.borrow_mut().insert(name, bytes);
    }

    /// Handles a snapshot that could not be saved because the disk is faulty.
    fn download_failed(&mut self, reason: &str, net: &mut Net) {
        let (attempt, holder) = (self.attempt, std::mem::replace(&mut self.holder, Holder::Nobody));
        let Holder::Receiving(download) = holder else { return self.holder = holder };
        let text = format!(
            "Write error or short write writing to the DB dump file needed for PRIMARY <-> REPLICA synchronization: {reason}"
        );
        self.process.base.log.push((LogLevel::Warning, text));
        net.close(download.conn, Side::Opener, &mut self.rng);
        self.link_input(Input::Failed(attempt, SyncFailure::Transfer), net);
    }

    pub(super) fn download_lost(&mut self, net: &mut Net) {
        let attempt = self.attempt;
        let Holder::Receiving(download) = &mut self.holder else { return };
        match &download.stage {
            DownloadStage::ToMemory(shared) => {
                let bytes = std::mem::take(&mut download.bytes);
                *shared.lock().unwrap_or_else(PoisonError::into_inner) =
                    SharedSnapshot { bytes, is_whole: false };
                if let Some((due_ns, _)) = &mut self.load {
                    *due_ns = 0;
                }
            }
            DownloadStage::ToDisk => {
                net.close(download.conn, Side::Opener, &mut self.rng);
                self.holder = Holder::Nobody;
                self.link_input(Input::Failed(attempt, SyncFailure::Transfer), net);
            }
            // The whole snapshot has been received, so its disk operations continue.
            DownloadStage::Saving(_) | DownloadStage::Saved | DownloadStage::Committing(_) => {}
        }
    }

    pub(super) fn end_load(&mut self, net: &mut Net) {
        let now = self.process.base.now;
        if let Some((_, job)) = self.load.take_if(|(due_ns, _)| *due_ns <= now.mono_ns) {
            job.run(&mut Here(now));
            self.has_loaded = true;
        }
        if !self.has_loaded {
            return;
        }
        let ended = self.engine.advance_load(&mut self.process);
        // While an execution unit is open, the engine does not take over the result.
        self.has_loaded = ended.is_none();
        match ended {
            Some(LoadEnded::Sync(_)) => self.take_up_load(net),
            Some(LoadEnded::Start(_) | LoadEnded::Debug) | None => {}
        }
    }
}
