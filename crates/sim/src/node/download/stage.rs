//! The state of a snapshot that is being received.

use crate::net::ConnId;
use sluice_replication::{Extent, Framing};
use sluice_snapshot::SnapshotSource;
use std::sync::{Arc, Mutex, PoisonError};

pub(in crate::node) struct Download {
    pub conn: ConnId,
    /// Bytes of the snapshot that had arrived when the event loop released the connection.
    pub(super) first: Vec<u8>,
    pub(super) framing: Framing,
    pub(super) extent: Option<Extent>,
    pub(super) bytes: Vec<u8>,
    /// Bytes that arrived after the snapshot.
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
    /// The snapshot is received into memory, for a load that has already begun.
    ToMemory(SharedBytes),
    ToDisk,
    /// The file will be durable under its temporary name at this time, ns.
    Saving(u64),
    Saved,
    /// The file will have its final name at this time, ns.
    Committing(u64),
}

impl DownloadStage {
    /// A stage that receives into memory, and the source that a load reads.
    pub(in crate::node) fn to_memory() -> (DownloadStage, Box<dyn SnapshotSource>) {
        let bytes = SharedBytes::default();
        (DownloadStage::ToMemory(bytes.clone()), Box::new(SharedSource { bytes, at: 0 }))
    }
}

/// The bytes of a snapshot, shared between the receiver and a load.
pub(in crate::node) type SharedBytes = Arc<Mutex<SharedSnapshot>>;

#[derive(Default)]
pub(in crate::node) struct SharedSnapshot {
    pub(super) bytes: Vec<u8>,
    /// Whether the snapshot is complete; `false` after the end of the connection means that the snapshot was
    /// cut off.
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
