//! The text of a `nodes.conf` of a node of ours: reading it, and damaging it for a test.

use sluice_cluster::{BusTransport, HashSlot, SavedCluster, SlotSet, conf};

/// The part of a file that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// The whole file is missing.
    Lost,
    /// The line `vars` is missing (N-27).
    Epochs,
    /// The node's own line is missing, except for id, address and flags (N-26).
    OwnLine,
}

/// Removes the damaged part from a text.
pub(super) fn damage(text: &[u8], damage: Damage) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter_map(|line| match damage {
        Damage::Lost => None,
        Damage::Epochs if line.starts_with("vars") => None,
        Damage::OwnLine if line.contains("myself") => {
            let words: Vec<&str> = line.split(' ').take(3).collect();
            Some(words.join(" "))
        }
        Damage::Epochs | Damage::OwnLine => Some(line.to_owned()),
    });
    lines.map(|line| line + "\n").collect::<String>().into_bytes()
}

/// Parses the text as a node of ours does.
pub(super) fn read(text: &[u8]) -> Result<SavedCluster, String> {
    let read = conf::read(text, BusTransport::Tcp);
    read.map(|file| file.saved).map_err(|why| format!("{why}: {}", text.escape_ascii()))
}

/// The slots in the words of a line.
pub(super) fn slots(words: &[&str]) -> SlotSet {
    let mut slots = SlotSet::EMPTY;
    for word in words.iter().filter(|word| !word.starts_with('[')) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        if let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) {
            (first..=last).filter_map(HashSlot::new).for_each(|slot| {
                slots.insert(slot);
            });
        }
    }
    slots
}
