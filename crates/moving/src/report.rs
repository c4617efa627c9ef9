//! The report: text for people, JSON for programs.
//!
//! Invariant: bytes of the other server are in findings only as `shown.rs` returns them: ASCII
//! without line ends.

use super::finding::{FindingWeight, MoveFinding};
use std::fmt::Write;

/// The findings about one server, and the two ways to print them.
pub struct MoveReport<'a> {
    target: String,
    version: &'a str,
    findings: Vec<MoveFinding>,
}

impl<'a> MoveReport<'a> {
    /// A report about the server at `target`, for a move to a server of `version`.
    pub fn new(target: String, version: &'a str, findings: Vec<MoveFinding>) -> MoveReport<'a> {
        MoveReport { target, version, findings }
    }

    /// The exit status. 0: all is fine; 1: something needs a look; 2: something is missing.
    pub fn status(&self) -> u8 {
        self.findings.iter().map(|finding| finding.weight as u8).max().unwrap_or(0)
    }

    /// The report for people; missing features come first.
    pub fn text(&self) -> String {
        let mut out = format!("Moving from {} to Sluice {}\n", self.target, self.version);
        for (weight, title) in [
            (FindingWeight::Missing, "Missing: would not work here"),
            (FindingWeight::Look, "Needs a look"),
            (FindingWeight::Works, "Works"),
        ] {
            let of_weight = || self.findings.iter().filter(|finding| finding.weight == weight);
            if of_weight().next().is_none() {
                continue;
            }
            let _ = writeln!(out, "\n{title}");
            for finding in of_weight() {
                let _ = writeln!(out, "  {}: {}", finding.about, finding.what);
                if !finding.advice.is_empty() {
                    let _ = writeln!(out, "      -> {}", finding.advice);
                }
            }
        }
        let verdict = match self.status() {
            0 => "Nothing stands in the way. How to move: docs/moving-in.md",
            1 => "Nothing is known to be missing; look at the lines above. How to move: docs/moving-in.md",
            _ => "Something that is used is missing here.",
        };
        let _ = writeln!(out, "\n{verdict}");
        out
    }

    /// The report for programs: one JSON object on one line.
    pub fn json(&self) -> String {
        let findings: Vec<String> = self
            .findings
            .iter()
            .map(|finding| {
                format!(
                    "{{\"weight\":\"{}\",\"about\":{},\"what\":{},\"advice\":{}}}",
                    finding.weight.word(),
                    quoted(finding.about),
                    quoted(&finding.what),
                    quoted(&finding.advice)
                )
            })
            .collect();
        format!(
            "{{\"target\":{},\"version\":{},\"status\":{},\"findings\":[{}]}}\n",
            quoted(&self.target),
            quoted(self.version),
            self.status(),
            findings.join(",")
        )
    }
}

/// An ASCII text as a JSON string; a control character becomes a space.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace(|c: char| c.is_control(), " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_ends_where_its_text_ends() {
        assert_eq!(quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
    }

    #[test]
    fn the_heaviest_finding_is_the_status() {
        let finding = |weight| MoveFinding::new(weight, "keys", "a \"what\"".to_owned(), "do");
        let report = |weights: &[FindingWeight]| {
            MoveReport::new("h:1".to_owned(), "1", weights.iter().copied().map(finding).collect())
        };
        assert_eq!(report(&[]).status(), 0);
        assert_eq!(report(&[FindingWeight::Works, FindingWeight::Look]).status(), 1);
        let report = report(&[FindingWeight::Works, FindingWeight::Missing, FindingWeight::Look]);
        assert_eq!(report.status(), 2);
        let text = report.text();
        let position = |part| text.find(part).unwrap();
        assert!(
            position("\nMissing") < position("\nNeeds a look")
                && position("\nNeeds a look") < position("\nWorks\n")
        );
        let json = report.json();
        assert!(
            json.contains(r#""status":2,"findings":[{"weight":"works","about":"keys","what":"a \"what\"""#)
        );
    }
}
