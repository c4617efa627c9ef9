//! INFO's text: `name:value` lines.

use crate::info::fields::{FieldId, InfoField};
use crate::info::sink::Sink;
use crate::info::value;
use crate::info::value::FieldValue;
use std::fmt::Display;
use std::io::Write;

/// The text of a reply of INFO under construction.
pub struct Lines {
    text: Vec<u8>,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines::new()
    }
}

impl Lines {
    /// An empty text, with room for a whole reply.
    pub fn new() -> Lines {
        Lines { text: Vec::with_capacity(TEXT_BYTES) }
    }

    /// Begins a section, after an empty line if another section precedes.
    pub fn heading(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.push("\r\n");
        }
        self.push("# ");
        self.push(title);
        self.push("\r\n");
    }

    /// Returns the finished text.
    pub fn into_bytes(self) -> Vec<u8> {
        self.text
    }

    fn push(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    fn push_name(&mut self, row: &InfoField, star: Option<&dyn Display>) {
        let Some(star) = star else { return self.push(row.name) };
        let (before, behind) = row.around_star();
        // Writing to a vector cannot fail.
        let _ = write!(self.text, "{before}{star}{behind}");
    }
}

impl Sink for Lines {
    fn put(&mut self, field: FieldId, star: Option<&dyn Display>, value: FieldValue<'_>) {
        let row = field.row();
        self.push_name(row, star);
        self.push(":");
        value::push(&mut self.text, &value);
        self.push("\r\n");
        if row.human
            && let FieldValue::Uint(bytes) = value
        {
            self.push(row.name);
            self.push("_human:");
            self.push(&human(bytes));
            self.push("\r\n");
        }
    }
}

/// Approximate bytes of all sections except those about commands, reserved so that the text is not moved
/// as it grows.
const TEXT_BYTES: usize = 8192;

/// Bytes in a readable unit: `12B`, `1.50K`, `2.00G`.
pub fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    for unit in ["K", "M", "G", "T"] {
        if value < 1024.0 {
            return format!("{value:.2}{unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.2}P")
}

#[cfg(test)]
mod tests {
    use super::super::fields::field;
    use super::*;
    use crate::info::value::ValuePart;

    #[test]
    fn human_chooses_the_unit_below_1024() {
        assert_eq!(human(0), "0B");
        assert_eq!(human(1023), "1023B");
        assert_eq!(human(1024), "1.00K");
        assert_eq!(human(1_013_728), "989.97K");
        assert_eq!(human(25_276_510_208), "23.54G");
        assert_eq!(human(u64::MAX), "16384.00P");
    }

    #[test]
    fn an_empty_line_stands_between_sections_only() {
        let mut lines = Lines::new();
        lines.heading("A");
        lines.put(field::HZ, None, FieldValue::Uint(1));
        lines.heading("B");
        assert_eq!(lines.into_bytes(), b"# A\r\nhz:1\r\n\r\n# B\r\n");
    }

    #[test]
    fn values_and_names_are_written_as_the_rows_say() {
        let mut lines = Lines::new();
        let out: &mut dyn Sink = &mut lines;
        out.add(field::USED_MEMORY, 1536u64);
        out.add(field::USED_MEMORY_PEAK_PERC, FieldValue::Percent(50.0));
        out.add_at(field::USED_ACTIVE_TIME_IO_THREAD, 2, FieldValue::Micros(1_000_002));
        let name = "db3".to_owned();
        let parts =
            [ValuePart::hidden_label("db", &name), ValuePart::shown("a", 1u64), ValuePart::shown("b", "x")];
        out.add_at(field::DB, 3, FieldValue::Parts(&parts));
        let wanted = "used_memory:1536\r\nused_memory_human:1.50K\r\nused_memory_peak_perc:50.00%\r\n\
                      used_active_time_io_thread_2:1.000002\r\ndb3:a=1,b=x\r\n";
        assert_eq!(String::from_utf8_lossy(&lines.into_bytes()), wanted);
    }
}
