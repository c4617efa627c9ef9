//! The data at each point of each history: the first node that reaches a point sets its fingerprint, and
//! every later node must have the same one.

use sluice_replication::HistoryPoint;
use std::collections::HashMap;

/// The fingerprints at all points of all histories seen so far.
#[derive(Debug, Default)]
pub struct Histories {
    /// By history id and offset: the fingerprint, and the first node that reported it.
    known: HashMap<String, HashMap<u64, (u64, usize)>>,
    /// Number of comparisons between two nodes at one point.
    pub compared: u64,
}

impl Histories {
    /// Notes a node's fingerprint at a point. Errors: another node had other data there.
    pub fn note(&mut self, node: usize, point: &HistoryPoint, digest: u64) -> Result<(), String> {
        let HistoryPoint { replid, offset } = point;
        if !self.known.contains_key(replid) {
            self.known.insert(replid.clone(), HashMap::new());
        }
        let Some(history) = self.known.get_mut(replid) else { return Ok(()) };
        let (known, by) = *history.entry(*offset).or_insert((digest, node));
        if known != digest {
            return Err(format!(
                "node {node} stands at {replid}:{offset} with data {digest:016x}, but node {by} had {known:016x} there"
            ));
        }
        self.compared += u64::from(by != node);
        Ok(())
    }
}
