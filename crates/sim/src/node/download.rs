//! The snapshot of a primary on its way: received, to disk or into memory, put in force, loaded.
//!
//! What the server's threads do to the disk is done here at the end of the time that they take; a disk that fails then fails them.

mod stage;

pub(super) use self::stage::{Download, DownloadStage};

use self::stage::{SharedBytes, SharedSnapshot, SharedSource};
use super::{Here, Holder, SimNode};
use crate::net::{ConnId, Net, Side};
use sluice_config::choice::DisklessLoad;
use sluice_config::param;
use sluice_engine::{LoadEnded, LogLevel, NotLoaded, SnapshotSource, SyncSource};
use sluice_replication::{Framing, Input, SyncFailure};
use std::sync::PoisonError;

impl SimNode {
    /// The snapshot begins: the event loop lets go of the connection, at once or later.
    pub(super) fn leave_for_download(&mut self, first: Vec<u8>, net: &mut Net) {
        let Holder::Attached(conn) = self.holder else { return };
        match self.leaves_later {
            true => self.holder = Holder::Leaving(conn, first),
            false => self.begin_download(conn, first, net),
        }
    }

    /// The event loop has let go of the connection. Where a client has changed the role meanwhile, nothing is loaded from it.
    pub(super) fn end_leave(&mut self, net: &mut Net) {
        if !matches!(self.holder, Holder::Leaving(..)) {
            return;
        }
        let Holder::Leaving(conn, first) = std::mem::replace(&mut self.holder, Holder::Nobody) else {
            return;
        };
        match self.engine.role_epoch() == self.seen_epoch {
            true => self.begin_download(conn, first, net),
            false => net.close(conn, Side::Opener, &mut self.rng),
        }
    }

    fn begin_download(&mut self, conn: ConnId, first: Vec<u8>, net: &mut Net) {
        let attempt = self.link.attempt();
        let stage = match self.memory_load() {
            None => DownloadStage::ToDisk,
            Some(_) if self.engine.is_loading() => {
                self.holder = Holder::Nobody;
                net.close(conn, Side::Opener, &mut self.rng);
                return self.link_step(Input::Failed(attempt, SyncFailure::Transfer), net);
            }
            Some(how) => {
                let bytes = SharedBytes::default();
                let source: Box<dyn SnapshotSource> = Box::new(SharedSource { bytes: bytes.clone(), at: 0 });
                let source = match (how, self.link.point()) {
                    (DisklessLoad::SwapDb, Some(point)) => {
                        SyncSource::Exchanged(source, point.replid.clone())
                    }
                    _ => SyncSource::Stream(source),
                };
                self.engine.begin_sync_load(source, &mut self.process);
                DownloadStage::ToMemory(bytes)
            }
        };
        let download = Download {
            conn,
            framing: Framing::default(),
            extent: None,
            bytes: Vec::new(),
            rest: Vec::new(),
            stage,
        };
        self.holder = Holder::Receiving(Box::new(download));
        self.act(net);
        self.download(&first, net);
    }

    /// As `server/iteration/replica.rs` decides it.
    fn memory_load(&self) -> Option<DisklessLoad> {
        let wanted = self.engine.config().choice::<DisklessLoad>(param::REPL_DISKLESS_LOAD);
        match wanted {
            DisklessLoad::Disabled => None,
            DisklessLoad::OnEmptyDb => {
                self.engine.keyspace().iter().all(|(_, db)| db.is_empty()).then_some(wanted)
            }
            DisklessLoad::SwapDb | DisklessLoad::FlushBeforeLoad => Some(wanted),
        }
    }

    /// Bytes of the snapshot have come.
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

    /// What takes time on the way to the disk has ended.
    pub(super) fn advance_download(&mut self, net: &mut Net) {
        let (now_ns, attempt) = (self.process.base.now.mono_ns, self.link.attempt());
        let fault = self.process.disk.commit_fault();
        let Holder::Receiving(download) = &mut self.holder else { return };
        match (&download.stage, fault) {
            (DownloadStage::Saving(at_ns), None) if *at_ns <= now_ns => {
                download.stage = DownloadStage::Saved;
                self.link_step(Input::Saved(attempt), net);
            }
            (DownloadStage::Committing(at_ns), None) if *at_ns <= now_ns => {
                let (conn, rest) = (download.conn, std::mem::take(&mut download.rest));
                self.put_download_in_force();
                self.holder = Holder::Received(conn, rest);
                self.link_step(Input::InForce(attempt), net);
                self.act(net);
            }
            (DownloadStage::Saving(at_ns), Some(reason)) if *at_ns <= now_ns => {
                self.download_failed(reason, net);
            }
            (DownloadStage::Committing(at_ns), Some(reason)) if *at_ns <= now_ns => {
                // Either it has its name, and nobody knows for how long, or the file before has.
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

    /// The disk does not take the snapshot.
    fn download_failed(&mut self, reason: &str, net: &mut Net) {
        let (attempt, holder) = (self.link.attempt(), std::mem::replace(&mut self.holder, Holder::Nobody));
        let Holder::Receiving(download) = holder else { return self.holder = holder };
        let text = format!(
            "Write error or short write writing to the DB dump file needed for PRIMARY <-> REPLICA synchronization: {reason}"
        );
        self.process.base.log.push((LogLevel::Warning, text));
        net.close(download.conn, Side::Opener, &mut self.rng);
        self.link_step(Input::Failed(attempt, SyncFailure::Transfer), net);
    }

    pub(super) fn download_lost(&mut self, net: &mut Net) {
        let attempt = self.link.attempt();
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
                self.link_step(Input::Failed(attempt, SyncFailure::Transfer), net);
            }
            // It was received whole: what is on disk goes on.
            DownloadStage::Saving(_) | DownloadStage::Saved | DownloadStage::Committing(_) => {}
        }
    }

    pub(super) fn end_load(&mut self, net: &mut Net) {
        let now = self.process.base.now;
        let Some((_, job)) = self.load.take_if(|(due_ns, _)| *due_ns <= now.mono_ns) else { return };
        job.run(&mut Here(now));
        match self.engine.advance_load(&mut self.process) {
            Some(LoadEnded::Sync(result)) => self.sync_loaded(result, net),
            Some(LoadEnded::Start(_) | LoadEnded::Debug) | None => {}
        }
    }

    fn sync_loaded(&mut self, result: Result<(), NotLoaded>, net: &mut Net) {
        let attempt = self.link.attempt();
        match result {
            Ok(()) => {
                self.link_step(Input::Accepted(attempt), net);
                self.link_step(Input::Loaded(attempt), net);
            }
            Err(_) => {
                let is_of_stream = matches!(self.holder, Holder::Receiving(_));
                let failure = if is_of_stream { SyncFailure::Stream } else { SyncFailure::Load };
                self.link_step(Input::Failed(attempt, failure), net);
            }
        }
    }
}
