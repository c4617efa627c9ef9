//! Where the sections write their fields: INFO's lines, or the numbers of a sample.

use crate::info::fields::FieldId;
use crate::info::value::FieldValue;
use std::fmt::Display;

/// See the module.
pub trait Sink {
    /// One field. `star` is what stands for `*` in its name.
    fn put(&mut self, field: FieldId, star: Option<&dyn Display>, value: FieldValue<'_>);

    /// Labels of the numbers that follow, up to the next call.
    fn set_labels(&mut self, labels: &[(&'static str, &str)]) {
        let _ = labels;
    }
}

impl dyn Sink + '_ {
    /// One field.
    pub fn add<'v>(&mut self, field: FieldId, value: impl Into<FieldValue<'v>>) {
        self.put(field, None, value.into());
    }

    /// One field of many of its kind.
    pub fn add_at<'v>(&mut self, field: FieldId, star: impl Display, value: impl Into<FieldValue<'v>>) {
        self.put(field, Some(&star), value.into());
    }

    /// Fields of the value 0: counters of features that do not exist here.
    pub fn zeros(&mut self, fields: &[FieldId]) {
        for field in fields {
            self.add(*field, 0u64);
        }
    }
}
