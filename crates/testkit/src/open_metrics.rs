//! A checker of OpenMetrics text, written from the specification, independent of the code that it checks.

use std::collections::{BTreeMap, BTreeSet};

/// The samples of a text by name, each with its labels as written and its value.
pub type MetricSamples = BTreeMap<String, Vec<(String, f64)>>;

/// Checks a text of OpenMetrics 1.0. Errors: the fault and its line.
pub fn check_open_metrics(text: &str) -> Result<MetricSamples, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("it does not end in # EOF")?;
    let mut checker = Checker::default();
    for line in body.lines() {
        let checked = match line.strip_prefix("# ") {
            Some(comment) => checker.comment(comment),
            None => checker.sample(line),
        };
        checked.map_err(|reason| format!("{reason}: {line}"))?;
    }
    checker.end_family()?;
    Ok(checker.samples)
}

#[derive(Default)]
struct Checker {
    /// The name of the current metric family; `kind` is its type.
    family: String,
    kind: String,
    /// Whether a sample of the family was read.
    has_samples: bool,
    known: BTreeSet<String>,
    series: BTreeSet<String>,
    /// The labels, bound and count of the last bucket of a histogram.
    bucket: Option<(String, f64, f64)>,
    samples: MetricSamples,
}

impl Checker {
    fn comment(&mut self, comment: &str) -> Result<(), String> {
        let mut words = comment.splitn(3, ' ');
        let (what, name) = (words.next().unwrap_or(""), words.next().ok_or("a comment without a name")?);
        let rest = words.next().unwrap_or("");
        if name != self.family {
            self.end_family()?;
            if !self.known.insert(name.to_owned()) {
                return Err("a family in two pieces".to_owned());
            }
            (self.family, self.kind) = (name.to_owned(), String::new());
            self.has_samples = false;
        } else if self.has_samples {
            return Err("a comment behind a sample of its family".to_owned());
        }
        match what {
            "TYPE" if self.kind.is_empty() => self.kind = rest.to_owned(),
            "HELP" => {}
            "UNIT" if name.ends_with(&format!("_{rest}")) => {}
            _ => return Err("a comment that is none".to_owned()),
        }
        Ok(())
    }

    fn sample(&mut self, line: &str) -> Result<(), String> {
        let (series, number) = line.rsplit_once(' ').ok_or("a sample without a number")?;
        let number: f64 = match number {
            "+Inf" => f64::INFINITY,
            number => number.parse().map_err(|_| "a number that is none")?,
        };
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').ok_or("labels without an end")?),
            None => (series, ""),
        };
        check_labels(labels)?;
        let ending = name.strip_prefix(self.family.as_str()).ok_or("a sample outside its family")?;
        let endings: &[&str] = match self.kind.as_str() {
            "counter" => &["_total", "_created"],
            "gauge" | "unknown" => &[""],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_count", "_sum", "_created"],
            _ => return Err("a sample ahead of its type, or of an unknown one".to_owned()),
        };
        if !endings.contains(&ending) {
            return Err(format!("{ending:?} is no ending of a {}", self.kind));
        }
        if self.kind != "gauge" && self.kind != "unknown" && number < 0.0 {
            return Err("a counter below 0".to_owned());
        }
        if ending == "_bucket" {
            self.check_bucket(labels, number)?;
        }
        if !self.series.insert(series.to_owned()) {
            return Err("a sample that was there before".to_owned());
        }
        self.has_samples = true;
        self.samples.entry(name.to_owned()).or_default().push((labels.to_owned(), number));
        Ok(())
    }

    /// Checks that bounds rise, counts do not fall, and the last bound is infinity.
    fn check_bucket(&mut self, labels: &str, count: f64) -> Result<(), String> {
        let (others, bound) = labels.split_once("le=\"").ok_or("a bucket without a bound")?;
        let bound = bound.strip_suffix('"').ok_or("a bound that is not the last label")?;
        let bound = if bound == "+Inf" {
            f64::INFINITY
        } else {
            bound.parse().map_err(|_| "a bound that is none")?
        };
        if let Some((before, last, below)) = &self.bucket {
            let is_same = before == others;
            if is_same && (*last >= bound || *below > count) || !is_same && last.is_finite() {
                return Err("buckets out of order".to_owned());
            }
        }
        self.bucket = Some((others.to_owned(), bound, count));
        Ok(())
    }

    fn end_family(&mut self) -> Result<(), String> {
        match self.bucket.take() {
            Some((_, last, _)) if last.is_finite() => Err(format!("{} has no last bucket", self.family)),
            _ => Ok(()),
        }
    }
}

/// Checks `name="value",name="value"`: values must be escaped, and no name may occur twice.
fn check_labels(labels: &str) -> Result<(), String> {
    let (mut rest, mut names) = (labels, BTreeSet::new());
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").ok_or("a label without a value")?;
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if name.is_empty() || !is_name(name) || !names.insert(name.to_owned()) {
            return Err(format!("{name:?} is no name of a label, or is there twice"));
        }
        let mut letters = value.char_indices();
        let end = loop {
            match letters.next().ok_or("a value without an end")? {
                (at, '"') => break at,
                (_, '\\') => match letters.next() {
                    Some((_, '\\' | '"' | 'n')) => {}
                    _ => return Err("an escape that is none".to_owned()),
                },
                _ => {}
            }
        };
        rest = &value[end + 1..];
        if !rest.is_empty() {
            rest = rest.strip_prefix(',').ok_or("labels without a comma")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_open_metrics;

    #[test]
    fn what_is_valid_is_read_and_what_is_not_is_found() {
        let good = "# HELP a x\n# TYPE a counter\na_total{b=\"\\\"c\"} 1\na_total{b=\"d\"} 2.5\n# TYPE e gauge\ne -1\n# EOF\n";
        assert_eq!(check_open_metrics(good).map(|samples| samples.len()), Ok(2));
        for bad in [
            "# TYPE a gauge\na 1\n",
            "a 1\n# EOF\n",
            "# TYPE a counter\na 1\n# EOF\n",
            "# TYPE a gauge\na 1\na 2\n# EOF\n",
            "# TYPE a gauge\n# TYPE b gauge\nb 1\n# TYPE a gauge\na 1\n# EOF\n",
            "# TYPE a gauge\na{b=\"c} 1\n# EOF\n",
            "# TYPE a gauge\na{b=\"c\",b=\"d\"} 1\n# EOF\n",
            "# TYPE a gauge\na{b=\"\\x\"} 1\n# EOF\n",
            "# TYPE a gauge\na one\n# EOF\n",
            "# TYPE a gauge\na 1\n# UNIT a seconds\n# EOF\n",
            "# TYPE a histogram\na_bucket{le=\"2\"} 1\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 1\n# EOF\n",
            "# TYPE a histogram\na_bucket{le=\"1\"} 1\n# EOF\n",
        ] {
            assert!(check_open_metrics(bad).is_err(), "{bad}");
        }
    }
}
