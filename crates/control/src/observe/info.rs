//! INFO and the metrics endpoint show one list of fields, `info/fields.rs` of the crate `numbers`. INFO
//! consists of sections of `name:value` lines, in the order of `SECTIONS` in `info/table.rs`; a sample for
//! the metrics endpoint has only the numbers.
//!
//! Names and order are those of the reference, so existing dashboards keep working. A field of a feature
//! that does not exist here has the value that the reference shows while the feature is unused.

mod client_memory;
pub(crate) mod cluster;
mod exporter;
mod numbers;
mod sections;
mod table;
mod view;

#[cfg(test)]
mod tests;

pub use client_memory::{ClientMemoryPass, LOOKED_AT_MAX};
pub(crate) use numbers::MemoryReport;
pub(crate) use table::shows_memory;
pub use table::{sample, text};
pub use view::View;
