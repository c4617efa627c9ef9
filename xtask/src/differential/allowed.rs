//! Known and intended differences: `conformance/differences.toml`.

use std::path::Path;

use crate::error::Result;
use crate::wire::{Reply, parse};
use crate::{glob, table};

/// Known differences, and how often each occurred.
#[derive(Default)]
pub(crate) struct Allowed {
    entries: Vec<Entry>,
}

/// One difference: patterns in which `*` matches any text.
struct Entry {
    /// The command's full name.
    command: String,
    /// All words of the call, with one blank between them.
    call: String,
    /// Our server's reply: its RESP type byte, directly followed by its content, e.g. `-ERR *`.
    ours: String,
    /// The reference's reply, in the same form.
    peer: String,
    reason: String,
    met: u64,
}

impl Allowed {
    /// Reads the table in the file `path`.
    pub(crate) fn load(path: &Path) -> Result<Allowed> {
        let table = table::read_table(path)?;
        let mut entries = Vec::new();
        for entry in table.get("difference").and_then(toml::Value::as_array).into_iter().flatten() {
            let text = |name: &str| entry.get(name).and_then(toml::Value::as_str).map(str::to_string);
            let any = |name: &str| text(name).unwrap_or_else(|| "*".to_string());
            let needed =
                |name: &str| text(name).ok_or(format!("{}: a difference has no {name}", path.display()));
            let (command, reason) = (needed("command")?, needed("reason")?);
            entries.push(Entry {
                command,
                call: any("call"),
                ours: any("ours"),
                peer: any("peer"),
                reason,
                met: 0,
            });
        }
        Ok(Allowed { entries })
    }

    /// Whether a difference between raw replies is a known one; if so, it is counted.
    pub(crate) fn permits(&mut self, name: &str, words: &[Vec<u8>], ours: &[u8], peer: &[u8]) -> bool {
        if self.entries.iter().all(|entry| !glob::matches(&entry.command, name)) {
            return false;
        }
        let (Some(ours), Some(peer)) = (parse(ours), parse(peer)) else { return false };
        self.permits_parsed(name, words, &ours, &peer)
    }

    /// Whether a difference between replies is a known one; if so, it is counted.
    pub(crate) fn permits_parsed(
        &mut self,
        name: &str,
        words: &[Vec<u8>],
        ours: &Reply,
        peer: &Reply,
    ) -> bool {
        let call = String::from_utf8_lossy(&words.join(&b' ')).into_owned();
        let text = |reply: &Reply| format!("{}{}", reply.kind as char, reply.string());
        let (ours, peer) = (text(ours), text(peer));
        let found = self.entries.iter_mut().find(|entry| {
            glob::matches(&entry.command, name)
                && glob::matches(&entry.call, &call)
                && glob::matches(&entry.ours, &ours)
                && glob::matches(&entry.peer, &peer)
        });
        found.map(|entry| entry.met += 1).is_some()
    }

    /// Prints the differences that occurred, and warns of those that did not.
    pub(crate) fn report(&self) {
        for entry in &self.entries {
            let (command, reason) = (&entry.command, &entry.reason);
            match entry.met {
                0 => println!("warning: the known difference in {command} was not met: {reason}"),
                met => println!("known difference in {command}, met {met} times: {reason}"),
            }
        }
    }
}
