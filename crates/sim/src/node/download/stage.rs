//! What a node keeps of a snapshot on its way.

use crate::net::ConnId;
use sluice_replication::{Extent, Framing};
use sluice_snapshot::SnapshotSource;
use std::sync::{Arc, Mutex, PoisonError};

/// A snapshot that is received.
pub(in crate::node) struct Download {
    pub conn: ConnId,
    /// What had come of it when the event loop let go of the connection, and was not looked at.
    pub(super) first: Vec<u8>,
    pub(super) framing: Framing,
    pub(super) extent: Option<Extent>,
    pub(super) bytes: Vec<u8>,
    /// What has come behind it.
    pub(super) rest: Vec<u8>,
    pub stage: DownloadStage,
}

impl Download {
    pub(super) fn new(conn: ConnId, first: Vec<u8>, stage: DownloadStage) -> Download {
        let (framing, extent) = (Framing::default(), None);
        Download { conn, first, framing, extent, bytes: Vec::new(), rest: Vec::new(), stage }
    }
}

pub(in crate::node) enum DownloadStage {
    /// Into memory, for a load that has begun.
    ToMemory(SharedBytes),
    ToDisk,
    /// The file is durable under its temporary name at this time.
    Saving(u64),
    Saved,
    /// It has its name at this time.
    Committing(u64),
}

impl DownloadStage {
    /// Into memory, and where a load reads it.
    pub(in crate::node) fn to_memory() -> (DownloadStage, Box<dyn SnapshotSource>) {
        let bytes = SharedBytes::default();
        (DownloadStage::ToMemory(bytes.clone()), Box::new(SharedSource { bytes, at: 0 }))
    }
}

/// A snapshot on its way to a load.
pub(in crate::node) type SharedBytes = Arc<Mutex<SharedSnapshot>>;

#[derive(Default)]
pub(in crate::node) struct SharedSnapshot {
    pub(super) bytes: Vec<u8>,
    /// Otherwise the connection has ended before.
    pub(super) is_whole: bool,
}

struct SharedSource {
    bytes: SharedBytes,
    at: usize,
}

impl SnapshotSource for SharedSource {
    fn open(&mut self) -> Result<Option<u64>, String> {
        Ok(Some(0))
    }
    fn read(&mut self, into: &mut [u8]) -> Result<usize, String> {
        let SharedSnapshot { bytes, is_whole } = &*self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = &bytes[self.at.min(bytes.len())..];
        let len = rest.len().min(into.len());
        if len == 0 && !is_whole {
            return Err("connection lost".to_owned());
        }
        into[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}
