//! An append-only file to be loaded, as a value.

use crate::Control;
use crate::process::AofFiles;
use sluice_commands::Limits;
use sluice_config::{Config, param};
use sluice_keyspace::Keyspace;
use sluice_snapshot::{LoadResult, NotLoaded, Reporter};
use std::sync::Arc;

/// The input of a load of an append-only file.
pub struct AofLoad {
    /// The files, opened by the load.
    pub files: Box<dyn AofFiles>,
    /// The configuration of the replaying engine.
    pub config: Config,
    /// The numbers derived from that configuration.
    pub limits: Arc<Limits>,
    /// DEBUG SET-SKIP-CHECKSUM-VALIDATION: checksums are ignored.
    pub skip_checksum: bool,
}

/// The function that loads an append-only file into a keyspace; the engine passes this function in, because
/// loading needs a second engine.
pub(crate) type LogReplay = fn(AofLoad, &mut Keyspace, &mut Reporter<'_>) -> Result<LoadResult, NotLoaded>;

impl AofLoad {
    pub(super) fn new(control: &Control, files: Box<dyn AofFiles>) -> AofLoad {
        let mut config = control.config.clone();
        // The save points are removed, because with them a replayed FLUSHALL would save the data.
        config.assign(param::SAVE, &[b""]).expect("no save points are as good as any");
        let mut limits = control.limits.clone();
        // Expired keys are kept, because the log contains their deletions.
        Arc::make_mut(&mut limits).import_mode = true;
        AofLoad { files, config, limits, skip_checksum: control.debug.skip_checksum }
    }
}

/// The state of the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AofEnd {
    /// The file ends with a complete record.
    Whole,
    /// The file ends within a record or a transaction; this many bytes are valid.
    Truncated(u64),
}
