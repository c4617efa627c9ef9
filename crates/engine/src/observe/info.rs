//! INFO and the metrics endpoint: two renderers of one list of fields, each of which has a row in
//! `info/fields.rs`. INFO is sections of `name:value` lines, in the order of `SECTIONS` in `info/table.rs`; a
//! sample has the numbers alone.
//!
//! Names and order are those of the reference, so that dashboards keep working. What belongs to a feature
//! that does not exist here has the value that the reference shows while the feature is not used.

mod client_memory;
mod exporter;
mod families;
mod fields;
mod lines;
mod numbers;
mod sample;
mod sections;
mod sink;
mod steps;
mod table;
mod text;
mod value;
mod view;

#[cfg(test)]
mod tests;

pub(crate) use client_memory::{ClientMemoryPass, LOOKED_AT_MAX};
pub(crate) use families::{FamilyId, family};
pub(crate) use fields::field;
pub(crate) use lines::human;
pub(crate) use numbers::MemoryReport;
pub(crate) use sample::CommandLatencies;
pub use sample::{Health, MetricsSample};
pub(crate) use table::text;
pub use text::{EndpointNumbers, MetricsFormat};
pub(crate) use value::{Number, difference, ratio};
pub(crate) use view::View;
