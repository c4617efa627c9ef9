//! Parts of a file that are not keys and that this server does not know. They are dropped while the file is
//! read, and the log names them.
//!
//! Invariant: memory does not grow with the file, because at most [`MODULES_MAX`] types of modules and
//! [`NAMES_MAX`] names of fields are distinguished, and all others are only counted.

use sluice_base::LogLevel;
use sluice_persist::rdb::ModuleType;
use std::collections::BTreeMap;

/// The parts of a file that were dropped so far.
#[derive(Debug, Default)]
pub(crate) struct DroppedRecords {
    /// Number of records of each module type.
    modules: BTreeMap<ModuleType, u64>,
    /// Records of module types beyond the first [`MODULES_MAX`].
    further_records: u64,
    /// Auxiliary fields with unknown names.
    fields: u64,
    /// The unknown fields' names that came first in the file, each once.
    field_names: Vec<Box<[u8]>>,
    /// Unknown fields that may hold data.
    data_fields: u64,
}

impl DroppedRecords {
    /// Counts a record that a module has left beside the keys.
    pub(crate) fn note_module(&mut self, module: ModuleType) {
        if self.modules.len() < MODULES_MAX || self.modules.contains_key(&module) {
            *self.modules.entry(module).or_default() += 1;
        } else {
            self.further_records += 1;
        }
    }

    /// Counts an auxiliary field with an unknown name.
    pub(crate) fn note_field(&mut self, name: &[u8]) {
        self.fields += 1;
        self.data_fields += u64::from(!FACTS.contains(&name));
        if self.field_names.len() < NAMES_MAX {
            let shown = name.get(..NAME_BYTES_MAX).unwrap_or(name);
            // A server may write the same few names for each key, so nothing is allocated for a name that was
            // seen before.
            if !self.field_names.iter().any(|known| **known == *shown) {
                self.field_names.push(shown.into());
            }
        }
    }

    /// Number of dropped records and fields that may hold data.
    pub(crate) fn with_data(&self) -> u64 {
        self.modules.values().sum::<u64>() + self.further_records + self.data_fields
    }

    /// Lines for the log: one for each of the first modules, one for all further modules, and one for all
    /// fields.
    pub(crate) fn lines(&self) -> Vec<(LogLevel, String)> {
        let mut lines = Vec::new();
        for (module, records) in &self.modules {
            let version = module.encoding_version();
            lines.push((
                LogLevel::Warning,
                format!(
                    "Dropped records of module type {module} (encoding version {version}) beside the keys: \
                 {records}. This server has no modules: saves and full syncs from now on lack these \
                 records. Keep the old file if the module still needs them."
                ),
            ));
        }
        if self.further_records > 0 {
            let text =
                format!("Dropped records of further modules beside the keys: {}", self.further_records);
            lines.push((LogLevel::Warning, text));
        }
        if self.fields > 0 {
            let more = if self.field_names.len() == NAMES_MAX { ", and maybe others" } else { "" };
            let names: Vec<String> =
                self.field_names.iter().map(|name| name.escape_ascii().to_string()).collect();
            let (count, names) = (self.fields, names.join(", "));
            let text =
                format!("Ignored auxiliary fields that have no meaning here: {count}, by name {names}{more}");
            lines.push((LogLevel::Notice, text));
        }
        lines
    }
}

/// Auxiliary fields of other servers that describe the writing server or its replication and hold no data:
/// write times of KeyDB, and the numbers of Dragonfly's shards and the memory of its tables.
const FACTS: [&[u8]; 4] = [b"mvcc-tstamp", b"shard-count", b"shard-id", b"table-mem"];
/// At most this many module types have a line of their own in the log. Redis Stack has about ten.
const MODULES_MAX: usize = 64;
/// The most names of fields that the log shows.
const NAMES_MAX: usize = 8;
/// The most bytes of a name that the log shows.
const NAME_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_any_number_of_records_is_bounded() {
        let mut dropped = DroppedRecords::default();
        for number in 0..100_000u64 {
            dropped.note_module(ModuleType(number << 10));
            dropped.note_field(format!("{number}{}", "x".repeat(1000)).as_bytes());
        }
        assert_eq!((dropped.modules.len(), dropped.field_names.len()), (MODULES_MAX, NAMES_MAX));
        assert!(dropped.field_names.iter().all(|name| name.len() == NAME_BYTES_MAX));
        assert_eq!((dropped.further_records, dropped.fields), (100_000 - MODULES_MAX as u64, 100_000));
        assert_eq!(dropped.lines().len(), MODULES_MAX + 2);
        assert_eq!(dropped.with_data(), 200_000);
    }

    #[test]
    fn facts_about_the_writer_are_no_data() {
        let mut dropped = DroppedRecords::default();
        FACTS.iter().for_each(|name| dropped.note_field(name));
        assert_eq!((dropped.fields, dropped.with_data()), (FACTS.len() as u64, 0));
        dropped.note_field(b"keydb-subexpire-key");
        assert_eq!(dropped.with_data(), 1);
    }
}
