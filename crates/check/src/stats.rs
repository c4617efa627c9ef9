//! The contents of an RDB file by database and type: `--stats`.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The types of values, in the order of the columns.
pub(crate) const TYPES: [&str; 7] = ["string", "list", "set", "zset", "hash", "module", "stream"];

/// The format of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Columns separated by tabs and padded with blanks.
    Table,
    /// One line for each figure, with the prefix `[info]`.
    Info,
    /// Columns separated by commas (CSV).
    Csv,
}

/// Figures of all databases.
#[derive(Debug, Default)]
pub(crate) struct FileStats {
    dbs: BTreeMap<u64, [TypeStats; TYPES.len()]>,
}

/// Figures of the keys of a type.
#[derive(Debug, Default)]
struct TypeStats {
    keys: u64,
    expires: u64,
    expired: u64,
    key_bytes: u64,
    /// Figures of the values' elements; `None` until a value of the type could be read.
    elements: Option<ElementFigures>,
}

/// Figures of the elements of values; a string counts as one element.
#[derive(Debug, Default)]
struct ElementFigures {
    bytes: u64,
    /// The numbers of elements of the values.
    counts: Spread,
    /// The sizes of the elements, in bytes.
    sizes: Spread,
}

/// The distribution of some numbers. Each number is kept with its first ten binary digits,
/// which bounds memory.
#[derive(Debug, Default)]
struct Spread {
    total: u64,
    sum: u64,
    max: u64,
    by_number: BTreeMap<u64, u64>,
}

/// The properties of a key that are counted.
pub(crate) struct KeyFigures<'a> {
    pub(crate) db: u64,
    pub(crate) kind: &'a str,
    pub(crate) bytes: usize,
    pub(crate) has_expiry: bool,
    pub(crate) is_expired: bool,
}

impl FileStats {
    /// Counts a key, and the sizes of its elements if they are known.
    pub(crate) fn add(&mut self, key: &KeyFigures<'_>, sizes: Option<&mut dyn Iterator<Item = u64>>) {
        let Some(column) = TYPES.iter().position(|name| *name == key.kind) else { return };
        let Some(stats) = self.dbs.entry(key.db).or_default().get_mut(column) else { return };
        stats.keys += 1;
        stats.expires += u64::from(key.has_expiry);
        stats.expired += u64::from(key.is_expired);
        stats.key_bytes += key.bytes as u64;
        if let Some(sizes) = sizes {
            let elements = stats.elements.get_or_insert_default();
            let mut count = 0;
            for size in sizes {
                count += 1;
                elements.bytes += size;
                elements.sizes.add(size);
            }
            elements.counts.add(count);
        }
    }

    /// The figures as text. Database 0 is always listed, any other database only if it has keys.
    pub(crate) fn render(&self, format: Format) -> String {
        let mut out = String::new();
        let empty = Default::default();
        let first = if self.dbs.contains_key(&0) { None } else { Some((&0, &empty)) };
        for (db, types) in first.into_iter().chain(&self.dbs) {
            render_db(*db, types, format, &mut out);
        }
        out
    }
}

fn render_db(db: u64, types: &[TypeStats; TYPES.len()], format: Format, out: &mut String) {
    if format != Format::Info {
        line(format, &format!("db.{db}.type.name"), &TYPES.map(str::to_owned), out);
    }
    for (name, figure) in ROWS {
        let cells: Vec<String> =
            types.iter().map(|stats| figure(stats).unwrap_or_else(|| "-".to_owned())).collect();
        match format {
            Format::Info => {
                for (kind, cell) in TYPES.iter().zip(&cells).filter(|(_, cell)| *cell != "-") {
                    let _ = writeln!(out, "[info] db.{db}.type.{kind}.{name}:{cell}");
                }
            }
            Format::Table | Format::Csv => line(format, &format!("db.{db}.{name}"), &cells, out),
        }
    }
}

fn line(format: Format, name: &str, cells: &[String], out: &mut String) {
    if format == Format::Csv {
        let _ = writeln!(out, "{name},{}", cells.join(","));
        return;
    }
    let _ = write!(out, "{name:<30}");
    for cell in cells {
        let _ = write!(out, "\t{cell:<8}");
    }
    out.push('\n');
}

/// A function that returns a figure as text; `None` if the figure is not known.
type Figure = fn(&TypeStats) -> Option<String>;

/// The rows of the report, in order.
const ROWS: [(&str, Figure); 17] = [
    ("keys.total", |stats| Some(stats.keys.to_string())),
    ("expire_keys.total", |stats| Some(stats.expires.to_string())),
    ("already_expired.total", |stats| Some(stats.expired.to_string())),
    ("keys.size", |stats| Some(stats.key_bytes.to_string())),
    ("keys.value_size", |stats| stats.of(|elements| elements.bytes.to_string())),
    ("elements.total", |stats| stats.of(|elements| elements.sizes.total.to_string())),
    ("elements.size", |stats| stats.of(|elements| elements.bytes.to_string())),
    ("elements.num.max", |stats| stats.of(|elements| elements.counts.max.to_string())),
    ("elements.num.avg", |stats| stats.of(|elements| elements.counts.average())),
    ("elements.num.p99", |stats| stats.of(|elements| elements.counts.at(99))),
    ("elements.num.p90", |stats| stats.of(|elements| elements.counts.at(90))),
    ("elements.num.p50", |stats| stats.of(|elements| elements.counts.at(50))),
    ("elements.size.max", |stats| stats.of(|elements| elements.sizes.max.to_string())),
    ("elements.size.avg", |stats| stats.of(|elements| elements.sizes.average())),
    ("elements.size.p99", |stats| stats.of(|elements| elements.sizes.at(99))),
    ("elements.size.p90", |stats| stats.of(|elements| elements.sizes.at(90))),
    ("elements.size.p50", |stats| stats.of(|elements| elements.sizes.at(50))),
];

impl TypeStats {
    /// A figure of the elements: 0 if there are no keys, `None` if no value could be read.
    fn of(&self, figure: fn(&ElementFigures) -> String) -> Option<String> {
        match &self.elements {
            Some(elements) => Some(figure(elements)),
            None if self.keys == 0 => Some(figure(&ElementFigures::default())),
            None => None,
        }
    }
}

impl Spread {
    fn add(&mut self, number: u64) {
        self.total += 1;
        self.sum = self.sum.saturating_add(number);
        self.max = self.max.max(number);
        let dropped = (u64::BITS - number.leading_zeros()).saturating_sub(DIGITS_KEPT);
        *self.by_number.entry(number >> dropped << dropped).or_default() += 1;
    }

    fn average(&self) -> String {
        if self.total == 0 {
            "0.00".to_owned()
        } else {
            format!("{:.2}", self.sum as f64 / self.total as f64)
        }
    }

    /// The percentile: the smallest number that `percent` in a hundred of the numbers do not exceed,
    /// rounded down to ten binary digits.
    fn at(&self, percent: u64) -> String {
        let rank = (self.total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (number, count) in &self.by_number {
            seen += count;
            if seen >= rank {
                return format!("{number}.00");
            }
        }
        "0.00".to_owned()
    }
}

/// Binary digits of a number that are kept.
const DIGITS_KEPT: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_numbers() {
        let mut stats = FileStats::default();
        let key = KeyFigures { db: 2, kind: "list", bytes: 3, has_expiry: true, is_expired: false };
        stats.add(&key, Some(&mut [1, 2, 3, 1_000_000].into_iter()));
        stats.add(&KeyFigures { kind: "set", has_expiry: false, ..key }, None);
        let text = stats.render(Format::Info);
        for line in [
            "db.0.type.string.keys.total:0",
            "db.2.type.list.keys.total:1",
            "db.2.type.list.expire_keys.total:1",
            "db.2.type.list.keys.value_size:1000006",
            "db.2.type.list.elements.num.max:4",
            "db.2.type.list.elements.size.avg:250001.50",
            "db.2.type.list.elements.size.p50:2.00",
            // The value is cut to its first ten binary digits.
            "db.2.type.list.elements.size.p99:999424.00",
            "db.2.type.set.keys.total:1",
        ] {
            assert!(text.contains(&format!("[info] {line}\n")), "{line} in {text}");
        }
        // Values that cannot be read have no figures of elements.
        assert!(!text.contains("db.2.type.set.elements"), "{text}");
        assert!(stats.render(Format::Csv).contains("db.2.elements.total,0,4,-,0,0,0,0\n"));
    }
}
