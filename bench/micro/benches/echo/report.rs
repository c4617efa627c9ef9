//! Samples, medians with the middle 90 % of the rounds, tables, and gates (bounds that a figure must keep),
//! as text and as JSON.

use std::fmt::Write as _;

/// A histogram of latencies, in buckets that are about 3 % wide.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; 2048], total: 0 }
    }

    pub fn record(&mut self, value: u64, times: u64) {
        let shift = (63 - value.max(1).leading_zeros()).saturating_sub(5);
        self.counts[(shift * 32) as usize + (value >> shift) as usize] += times;
        self.total += times;
    }

    /// The value that a share of `part` of all samples does not exceed, in microseconds if the samples were
    /// recorded in nanoseconds.
    pub fn us(&self, part: f64) -> f64 {
        let rank = ((self.total as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (slot, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let value = if slot < 64 { slot } else { (slot % 32 + 32) << (slot / 32 - 1) };
                return value as f64 / 1000.0;
            }
        }
        0.0
    }
}

/// A median, and the bounds of the middle 90 % of the samples.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub low: f64,
    pub mid: f64,
    pub high: f64,
}

impl Spread {
    pub fn of(samples: &[f64]) -> Spread {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let len = sorted.len();
        let cut = len / 20;
        let mid = if len % 2 == 1 { sorted[len / 2] } else { (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0 };
        Spread { low: sorted[cut], mid, high: sorted[len - 1 - cut] }
    }
}

/// The format of a column; JSON always has the bounds.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// The median alone, under this heading.
    Mid(&'static str),
    /// The median and its bounds.
    Wide(&'static str),
}

impl Column {
    const fn name(self) -> &'static str {
        match self {
            Column::Mid(name) | Column::Wide(name) => name,
        }
    }
}

/// The table of one case: its arms, its columns, and the figures of each round.
pub struct Table {
    title: String,
    columns: Vec<Column>,
    arms: Vec<String>,
    /// Figures by arm, column and round.
    samples: Vec<Vec<Vec<f64>>>,
}

impl Table {
    pub fn new(title: impl Into<String>, columns: &[Column], arms: &[&str]) -> Table {
        Table {
            title: title.into(),
            columns: columns.to_vec(),
            arms: arms.iter().map(ToString::to_string).collect(),
            samples: vec![vec![Vec::new(); columns.len()]; arms.len()],
        }
    }

    /// Adds the figures of a round of an arm, one per column.
    pub fn add(&mut self, arm: usize, figures: &[f64]) {
        assert_eq!(figures.len(), self.columns.len());
        for (samples, figure) in self.samples[arm].iter_mut().zip(figures) {
            samples.push(*figure);
        }
    }

    fn column(&self, name: &str) -> usize {
        self.columns.iter().position(|column| column.name() == name).expect("a column of the table")
    }

    fn arm(&self, name: &str) -> usize {
        self.arms.iter().position(|arm| arm == name).expect("an arm of the table")
    }

    pub fn spread(&self, arm: &str, column: &str) -> Spread {
        Spread::of(&self.samples[self.arm(arm)][self.column(column)])
    }

    /// The ratios of `arm` to `base` in a column, computed for each round.
    pub fn ratio(&self, arm: &str, base: &str, column: &str) -> Spread {
        let column = self.column(column);
        let (arm, base) = (&self.samples[self.arm(arm)][column], &self.samples[self.arm(base)][column]);
        let ratios: Vec<f64> = arm.iter().zip(base).map(|(arm, base)| arm / base.max(1e-9)).collect();
        Spread::of(&ratios)
    }

    fn print(&self) {
        println!("\n{}", self.title);
        print!("  {:<20}", "");
        for column in &self.columns {
            match column {
                Column::Mid(name) => print!(" {name:>11}"),
                Column::Wide(name) => print!(" {name:>11} {:<22}", "(middle 90 %)"),
            }
        }
        println!();
        for (arm, samples) in self.arms.iter().zip(&self.samples) {
            print!("  {arm:<20}");
            for (column, samples) in self.columns.iter().zip(samples) {
                let Spread { low, mid, high } = Spread::of(samples);
                match column {
                    Column::Mid(_) => print!(" {:>11}", digits(mid)),
                    Column::Wide(_) => {
                        let bounds = format!("({} .. {})", digits(low), digits(high));
                        print!(" {:>11} {bounds:<22}", digits(mid));
                    }
                }
            }
            println!();
        }
    }

    fn json(&self) -> String {
        let mut arms = Vec::new();
        for (arm, samples) in self.arms.iter().zip(&self.samples) {
            let mut figures = String::new();
            for (column, samples) in self.columns.iter().zip(samples) {
                let Spread { low, mid, high } = Spread::of(samples);
                let _ = write!(
                    figures,
                    ", {}: [{}, {}, {}]",
                    quoted(column.name()),
                    number(low),
                    number(mid),
                    number(high)
                );
            }
            arms.push(format!("    {{\"arm\": {}{figures}}}", quoted(arm)));
        }
        let rounds = self.samples[0][0].len();
        format!(
            "  {{\"case\": {}, \"rounds\": {rounds}, \"arms\": [\n{}\n  ]}}",
            quoted(&self.title),
            arms.join(",\n")
        )
    }
}

/// All tables and gates of a run.
#[derive(Default)]
pub struct Report {
    tables: Vec<String>,
    gates: Vec<String>,
}

impl Report {
    pub fn table(&mut self, table: &Table) {
        table.print();
        self.tables.push(table.json());
    }

    /// Prints a gate's text with its verdict; `None` means that the gate does not apply here.
    pub fn gate(&mut self, met: Option<bool>, text: &str) {
        let verdict = match met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "for the record",
        };
        println!("  {verdict}: {text}");
        self.gates.push(format!("  {{\"verdict\": {}, \"text\": {}}}", quoted(verdict), quoted(text)));
    }

    /// All tables and gates as JSON, with each figure as `[low, median, high]`.
    pub fn json(&self) -> String {
        format!(
            "{{\"cases\": [\n{}\n],\n\"gates\": [\n{}\n]}}\n",
            self.tables.join(",\n"),
            self.gates.join(",\n")
        )
    }
}

/// The value with about four significant digits.
pub fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_string(),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.4}") } else { "null".to_string() }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
