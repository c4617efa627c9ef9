//! Code that several benches share: their command line, and quantiles.
#![forbid(unsafe_code)]

/// The words after `--` of `cargo bench`.
pub struct Arguments(Vec<String>);

impl Arguments {
    /// `None` when `cargo test` runs the bench, without `--bench`, because nothing is to be measured then.
    pub fn of_bench() -> Option<Arguments> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        words.iter().any(|word| word == "--bench").then_some(Arguments(words))
    }

    /// Whether the command line has this word.
    pub fn has(&self, word: &str) -> bool {
        self.0.iter().any(|own| own == word)
    }

    /// The number that follows `name`, such as `rounds=`; `default` if the command line lacks the name.
    ///
    /// # Panics
    /// Panics if the text after `name` is no number.
    pub fn number(&self, name: &str, default: usize) -> usize {
        let value = self.0.iter().find_map(|word| word.strip_prefix(name));
        value.map_or(default, |value| value.parse().expect("a number"))
    }
}

/// The value at this share of the sorted `values`, without interpolation; 0.5 is the median.
///
/// # Panics
/// Panics if `values` is empty.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}
