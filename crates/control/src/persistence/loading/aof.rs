//! An append-only file that is to be loaded, as a value.

use crate::Control;
use crate::process::AofFiles;
use sluice_commands::Limits;
use sluice_config::{Config, param};
use sluice_keyspace::Keyspace;
use sluice_snapshot::{LoadResult, NotLoaded, Reporter};
use std::sync::Arc;

/// An append-only file that is loaded.
pub struct AofLoad {
    /// The files, which the load opens.
    pub files: Box<dyn AofFiles>,
    /// The configuration of the engine that replays them.
    pub config: Config,
    /// The numbers in force there.
    pub limits: Arc<Limits>,
    /// DEBUG SET-SKIP-CHECKSUM-VALIDATION.
    pub skip_checksum: bool,
}

/// What loads an append-only file into a keyspace: a second engine, of which a load as a value knows no more.
pub(crate) type LogReplay = fn(AofLoad, &mut Keyspace, &mut Reporter<'_>) -> Result<LoadResult, NotLoaded>;

impl AofLoad {
    pub(super) fn new(control: &Control, files: Box<dyn AofFiles>) -> AofLoad {
        let mut config = control.config.clone();
        // With save points, FLUSHALL would save.
        config.assign(param::SAVE, &[b""]).expect("no save points are as good as any");
        let mut limits = control.limits.clone();
        // What has expired stays: the log has the deletions.
        Arc::make_mut(&mut limits).import_mode = true;
        AofLoad { files, config, limits, skip_checksum: control.debug.skip_checksum }
    }
}

/// How a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AofEnd {
    /// With a record.
    Whole,
    /// Within a record or a transaction; so many bytes are in order.
    Truncated(u64),
}
