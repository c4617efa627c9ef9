//! Writing `name:value` lines.

use std::fmt::{Display, Write};

/// The text of a reply under construction.
#[derive(Default)]
pub(crate) struct Lines {
    text: String,
}

impl Lines {
    /// Begins a section; an empty line stands between two.
    pub(crate) fn heading(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push_str("\r\n");
        }
        self.text.push_str("# ");
        self.text.push_str(title);
        self.text.push_str("\r\n");
    }

    /// One line.
    pub fn add(&mut self, name: &str, value: impl Display) {
        self.text.push_str(name);
        self.text.push(':');
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{value}");
        self.text.push_str("\r\n");
    }

    /// A number of bytes, and the same for readers.
    pub(crate) fn add_bytes(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes);
        self.add(&format!("{name}_human"), human(bytes));
    }

    /// Lines whose value is the same whatever happens: features that do not exist here.
    pub fn fixed(&mut self, lines: &[(&str, &str)]) {
        for (name, value) in lines {
            self.add(name, value);
        }
    }

    /// Lines of the value 0: counters of features that do not exist here.
    pub(crate) fn zeros(&mut self, names: &[&str]) {
        for name in names {
            self.add(name, 0);
        }
    }

    /// The finished text.
    pub fn into_bytes(self) -> Vec<u8> {
        self.text.into_bytes()
    }
}

/// Bytes as people write them: `12B`, `1.50K`, `2.00G`.
pub(crate) fn human(bytes: u64) -> String {
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
    use super::*;

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
        let mut lines = Lines::default();
        lines.heading("A");
        lines.add("x", 1);
        lines.heading("B");
        assert_eq!(lines.into_bytes(), b"# A\r\nx:1\r\n\r\n# B\r\n");
    }
}
