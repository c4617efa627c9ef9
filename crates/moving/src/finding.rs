//! The findings, each of which is a line of the report, and the list that collects them.

use super::facts::{Asked, UnknownFact, WhyUnknown};
use super::shown::shown;

/// How much a finding weighs. The greatest weight in a report is, as a number, the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingWeight {
    /// This server supports what was found.
    Works = 0,
    /// An operator has to look at what was found.
    Look = 1,
    /// This server does not support what was found.
    Missing = 2,
}

impl FindingWeight {
    /// The weight as the JSON report names it.
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
    /// The weight of the finding; the heaviest finding of a report gives the exit status.
    pub weight: FindingWeight,
    /// The subject of the finding, such as `users` or `keys`.
    pub about: &'static str,
    /// The finding as a sentence, printable ASCII.
    pub what: String,
    /// The action that the finding needs; empty where no action is needed.
    pub advice: String,
}

impl MoveFinding {
    /// A finding about the part `about`; an empty `advice` means that no action is needed.
    pub fn new(weight: FindingWeight, about: &'static str, what: String, advice: &str) -> MoveFinding {
        MoveFinding { weight, about, what, advice: advice.to_owned() }
    }
}

/// A finding lists at most this many users, modules, libraries, nodes or slots by name, and counts the
/// others.
pub(crate) const LISTED: usize = 20;

/// The list that every part of the judgement adds to.
#[derive(Default)]
pub struct Findings(Vec<MoveFinding>);

impl Findings {
    /// All findings, in the order in which they were added.
    pub(crate) fn into_findings(self) -> Vec<MoveFinding> {
        self.0
    }

    /// Appends a finding; an empty `advice` means that no action is needed.
    pub fn add(&mut self, weight: FindingWeight, about: &'static str, what: impl Into<String>, advice: &str) {
        self.0.push(MoveFinding::new(weight, about, what.into(), advice));
    }

    /// Appends a finding that needs no action.
    pub fn works(&mut self, about: &'static str, what: impl Into<String>) {
        self.add(FindingWeight::Works, about, what, "");
    }

    /// Returns the part if it is known; otherwise adds the finding that the part could not be judged, and
    /// returns `None`.
    pub fn known<'a, T>(&mut self, about: &'static str, part: &'a Asked<T>) -> Option<&'a T> {
        part.as_ref().map_err(|unknown| self.unknown(about, unknown)).ok()
    }

    /// Adds a finding that a part could not be judged.
    pub fn unknown(&mut self, about: &'static str, unknown: &UnknownFact) {
        self.add_unknown(about, "", unknown);
    }

    /// Adds a finding that a part could not be judged, for one node of a cluster.
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
            WhyUnknown::Error(code) => {
                (format!("its reply is {}", shown(code.as_bytes())), "ask again later")
            }
            WhyUnknown::Strange => {
                ("its reply has an unexpected type".to_owned(), "look at this part by hand")
            }
            WhyUnknown::TooMuch => (
                "there are so many that a full reply would block other clients".to_owned(),
                "look at this part by hand",
            ),
        };
        self.add(FindingWeight::Look, about, format!("not judged: {at}{command}: {why}"), advice);
    }
}
