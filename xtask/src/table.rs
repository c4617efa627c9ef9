//! The TOML tables under `docs/` and `conformance/` that tasks read.

use std::path::Path;

use crate::error::Result;

/// Reads one of our TOML tables; a missing file is an empty table.
pub(crate) fn read_table(path: &Path) -> Result<toml::Table> {
    match std::fs::read_to_string(path) {
        Ok(text) => text.parse().map_err(|error| format!("{}: {error}", path.display()).into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(toml::Table::new()),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}
