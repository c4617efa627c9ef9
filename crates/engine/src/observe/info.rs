//! INFO: sections of `name:value` lines, in the order of `SECTIONS` in `info/table.rs`.
//!
//! Names and order are those of the reference, so that dashboards keep working. What belongs to a feature
//! that does not exist here has the value that the reference shows while the feature is not used.

mod lines;
mod numbers;
mod sections;
mod table;
mod view;

pub(crate) use lines::human;
pub(crate) use numbers::{MemoryReport, difference, ratio};
pub(crate) use table::text;
pub(crate) use view::View;
