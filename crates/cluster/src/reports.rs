//! Reports that a node fails: the reporters, and the times of the reports (F-3, F-4).
//!
//! When half of a large cluster fails at once, each message has a report about each of the failed
//! nodes. Therefore the time for storing a report and for reading the count does not depend on the number of
//! reporters.
//!
//! Reporters are positions in the table of nodes; times are milliseconds of the monotonic clock.
//!
//! Invariants: (1) a reporter has at most one report; (2) memory is proportional to the positions of the
//! table, and 0 without reports.

/// The value for "no report".
const NONE: u64 = 0;

/// The reports about one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailureReports {
    /// The time of each reporter's report, by position.
    at: Vec<u64>,
    len: u32,
}

impl FailureReports {
    /// Whether there is no report. O(1).
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of reports, recent and old ones. O(1).
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Stores a report; `true` if the reporter had none yet. A time that is older than that of the stored
    /// report changes nothing.
    pub(crate) fn note(&mut self, by: u32, at: u64) -> bool {
        let position = by as usize;
        if position >= self.at.len() {
            self.at.resize(position + 1, NONE);
        }
        let known = &mut self.at[position];
        let is_first = *known == NONE;
        *known = (*known).max(at).max(1);
        self.len += u32::from(is_first);
        is_first
    }

    /// Removes a reporter's report; `true` if there was one.
    pub(crate) fn remove(&mut self, by: u32) -> bool {
        let Some(known) = self.at.get_mut(by as usize) else { return false };
        let was_there = std::mem::replace(known, NONE) != NONE;
        self.len -= u32::from(was_there);
        self.give_back();
        was_there
    }

    /// Removes the reports for whose time `is_wanted` is false. O(positions).
    pub(crate) fn retain(&mut self, is_wanted: impl Fn(u64) -> bool) {
        for at in self.at.iter_mut().filter(|at| **at != NONE && !is_wanted(**at)) {
            *at = NONE;
            self.len -= 1;
        }
        self.give_back();
    }

    /// The positions of all reporters. O(positions).
    pub(crate) fn reporters(&self) -> impl Iterator<Item = u32> + '_ {
        let at = self.at.iter().zip(0..);
        at.filter(|(at, _)| **at != NONE).map(|(_, position)| position)
    }

    fn give_back(&mut self) {
        if self.len == 0 {
            self.at = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn reports_are_those_of_a_map_whatever_comes_and_goes() {
        let (mut rng, mut reports) = (Rng::new(5), FailureReports::default());
        let mut twin: BTreeMap<u32, u64> = BTreeMap::new();
        for step in 0..4_000_u64 {
            let by = rng.below(40) as u32;
            match rng.below(9) {
                0..=4 => {
                    let at = 1 + rng.below(step + 1);
                    assert_eq!(reports.note(by, at), !twin.contains_key(&by), "step {step}");
                    let known = twin.entry(by).or_insert(at);
                    *known = at.max(*known);
                }
                5..=7 => assert_eq!(reports.remove(by), twin.remove(&by).is_some(), "step {step}"),
                _ => {
                    let oldest = rng.below(step + 1);
                    reports.retain(|at| at > oldest);
                    twin.retain(|_, at| *at > oldest);
                }
            }
            assert!(reports.reporters().eq(twin.keys().copied()), "step {step}");
            assert_eq!((reports.len() as usize, reports.is_empty()), (twin.len(), twin.is_empty()));
            assert!(!reports.is_empty() || reports.at.capacity() == 0, "memory without a report");
        }
    }
}
