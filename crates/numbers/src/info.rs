//! Fields, values and texts of INFO and of the metrics endpoint, which are two renderers of one list of
//! fields. The sections, which know the source of each value, are in the engine.
//!
//! Names are those of the reference, so existing dashboards keep working.

pub mod families;
pub mod fields;
pub mod lines;
pub mod sample;
pub mod sink;
pub mod text;
pub mod value;
pub mod work;
