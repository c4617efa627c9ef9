//! Rows, values and texts of INFO and of the metrics endpoint: two renderers of one list of fields. The
//! sections, which know where each value comes from, are in the engine.
//!
//! Names are those of the reference, so that dashboards keep working.

pub mod families;
pub mod fields;
pub mod lines;
pub mod sample;
pub mod sink;
pub mod text;
pub mod value;
pub mod work;
