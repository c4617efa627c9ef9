//! What the data must be at each point of each history: whoever stands there first says so, and all others
//! must have the same.

use sluice_replication::HistoryPoint;
use std::collections::HashMap;

/// See the module.
#[derive(Debug, Default)]
pub struct Histories {
    /// By id: by offset, the fingerprint and who has said so first.
    known: HashMap<String, HashMap<u64, (u64, usize)>>,
    /// Points at which two nodes were compared.
    pub compared: u64,
}

impl Histories {
    /// A node stands at this point with these data. Errors: another had other data there.
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
