//! The destination of the sections' fields: INFO's lines, or the numbers of a sample.

use crate::info::fields::FieldId;
use crate::info::value::FieldValue;
use std::fmt::Display;

/// A destination for the fields of INFO.
pub trait Sink {
    /// Writes one field. `star` is the text for `*` in the field's name.
    fn put(&mut self, field: FieldId, star: Option<&dyn Display>, value: FieldValue<'_>);

    /// Sets labels for the following numbers without `*`, until the next call. INFO's lines ignore labels.
    fn set_labels(&mut self, labels: &[(&'static str, &str)]) {
        let _ = labels;
    }
}

impl dyn Sink + '_ {
    /// Writes a field whose name has no `*`.
    pub fn add<'v>(&mut self, field: FieldId, value: impl Into<FieldValue<'v>>) {
        self.put(field, None, value.into());
    }

    /// Writes a field whose name has `*`, which `star` replaces.
    pub fn add_at<'v>(&mut self, field: FieldId, star: impl Display, value: impl Into<FieldValue<'v>>) {
        self.put(field, Some(&star), value.into());
    }

    /// Writes 0 for each of these fields, whose features do not exist here.
    pub fn zeros(&mut self, fields: &[FieldId]) {
        for field in fields {
            self.add(*field, 0u64);
        }
    }
}
