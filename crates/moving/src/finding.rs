//! Findings: the lines of the report, and the list that they are added to.

use super::facts::{Asked, UnknownFact, WhyUnknown};
use super::shown::shown;

/// How much a finding weighs; its number is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingWeight {
    /// It works here.
    Works = 0,
    /// Somebody has to look.
    Look = 1,
    /// It would not work here.
    Missing = 2,
}

impl FindingWeight {
    /// The word for programs.
    pub fn word(self) -> &'static str {
        match self {
            FindingWeight::Works => "works",
            FindingWeight::Look => "look",
            FindingWeight::Missing => "missing",
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveFinding {
    /// How much it weighs.
    pub weight: FindingWeight,
    /// What part of the server's use it is about.
    pub about: &'static str,
    /// What was found.
    pub what: String,
    /// What to do; empty where there is nothing to do.
    pub advice: String,
}

impl MoveFinding {
    /// A finding.
    pub fn new(weight: FindingWeight, about: &'static str, what: String, advice: &str) -> MoveFinding {
        MoveFinding { weight, about, what, advice: advice.to_owned() }
    }
}

/// Names of one kind that are listed one by one: users, modules, libraries, nodes, slots.
pub(crate) const LISTED: usize = 20;

/// The list that the parts add to.
#[derive(Default)]
pub struct Findings(Vec<MoveFinding>);

impl Findings {
    /// All findings, in the order in which they were added.
    pub(crate) fn into_findings(self) -> Vec<MoveFinding> {
        self.0
    }

    /// Adds a finding.
    pub fn add(&mut self, weight: FindingWeight, about: &'static str, what: impl Into<String>, advice: &str) {
        self.0.push(MoveFinding::new(weight, about, what.into(), advice));
    }

    /// Adds what works, of which there is nothing to do.
    pub fn works(&mut self, about: &'static str, what: impl Into<String>) {
        self.add(FindingWeight::Works, about, what, "");
    }

    /// The part if it is known; else says that it could not be judged.
    pub fn known<'a, T>(&mut self, about: &'static str, part: &'a Asked<T>) -> Option<&'a T> {
        part.as_ref().map_err(|unknown| self.unknown(about, unknown)).ok()
    }

    /// Adds that a part could not be judged.
    pub fn unknown(&mut self, about: &'static str, unknown: &UnknownFact) {
        self.add_unknown(about, "", unknown);
    }

    /// Adds that a part could not be judged at this node of a cluster.
    pub(crate) fn unknown_at(&mut self, node: &str, about: &'static str, unknown: &UnknownFact) {
        self.add_unknown(about, &format!("{node}: "), unknown);
    }

    fn add_unknown(&mut self, about: &'static str, at: &str, UnknownFact { command, why }: &UnknownFact) {
        let (why, advice) = match why {
            WhyUnknown::Rights => (
                "this user has no right to it".to_owned(),
                "ask again as a user with the rights that docs/moving-in.md lists",
            ),
            WhyUnknown::NoCommand => (
                "the server has no such command, or another name for it".to_owned(),
                "look at the server's configuration by hand: rename-command, or a service that hides it",
            ),
            WhyUnknown::Error(code) => (format!("it answers {}", shown(code.as_bytes())), "ask again later"),
            WhyUnknown::Strange => {
                ("its answer is of another kind than usual".to_owned(), "look at this part by hand")
            }
            WhyUnknown::TooMuch => (
                "there are so many that asking would make others wait".to_owned(),
                "look at this part by hand",
            ),
        };
        self.add(FindingWeight::Look, about, format!("not judged: {at}{command}: {why}"), advice);
    }
}
