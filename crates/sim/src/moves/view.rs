//! A node's view of the cluster, read from CLUSTER NODES and from `nodes.conf`; and the writes that a
//! node's keys contain.

use sluice_base::key_slot;
use sluice_base::num::IntBuffer;
use sluice_engine::Engine;
use sluice_keyspace::{Str, ValueRef};
use std::collections::BTreeMap;

/// A node as its line in CLUSTER NODES or `nodes.conf` describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLine {
    pub id: String,
    pub is_myself: bool,
    pub is_primary: bool,
    pub is_failing: bool,
    pub primary: String,
    pub epoch: u64,
    /// Ranges of slots, first and last slot of each.
    pub slots: Vec<(u16, u16)>,
}

impl NodeLine {
    pub fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }

    /// A slot that both nodes own, by their lines.
    pub fn shared_with(&self, other: &NodeLine) -> Option<u16> {
        let mut firsts = self.slots.iter().chain(&other.slots).map(|(first, _)| *first);
        firsts.find(|slot| self.has(*slot) && other.has(*slot))
    }
}

/// Parses the lines of a text.
pub fn lines_of(text: &str) -> Vec<NodeLine> {
    text.lines().filter_map(line_of).collect()
}

/// Parses the line with the flag `myself`; an empty line if there is none.
pub fn own_line(text: &str) -> NodeLine {
    lines_of(text).into_iter().find(|line| line.is_myself).unwrap_or_default()
}

fn line_of(line: &str) -> Option<NodeLine> {
    let words: Vec<&str> = line.split(' ').collect();
    let flags: Vec<&str> = words.get(2)?.split(',').collect();
    let bounds = |word: &&str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    (words[0] != "vars").then(|| NodeLine {
        id: words[0].to_owned(),
        is_myself: flags.contains(&"myself"),
        is_primary: flags.contains(&"master"),
        is_failing: flags.contains(&"fail") || flags.contains(&"fail?"),
        primary: words[3].to_owned(),
        epoch: words[6].parse().unwrap_or_default(),
        slots: words.iter().skip(8).filter_map(bounds).collect(),
    })
}

/// A key: the number of its database, and its name.
pub type KeyName = (usize, Vec<u8>);

/// A key in printable form.
pub fn shown((number, name): &KeyName) -> String {
    format!("{} of database {number}", name.escape_ascii())
}

/// The hash slot of a key.
pub fn slot_of(key: &KeyName) -> u16 {
    key_slot(&key.1)
}

/// The ids of the writes in each key, in the order of the writes; those in a set are sorted.
pub fn content_of(engine: &Engine) -> BTreeMap<KeyName, Vec<u64>> {
    let mut content = BTreeMap::new();
    for (number, db) in engine.keyspace().iter() {
        for handle in db.iter() {
            content.insert((number, db.key(handle).to_vec()), ids_of(db.entry(handle).value()));
        }
    }
    content
}

/// The ids of the writes in one key, in the order of [`content_of`].
pub fn ids_in(engine: &Engine, (number, name): &KeyName) -> Vec<u64> {
    let keyspace = engine.keyspace();
    let db = keyspace.db(*number);
    let found = db.find(keyspace.key(name));
    found.map(|found| ids_of(db.entry(found.handle).value())).unwrap_or_default()
}

fn ids_of(value: ValueRef<'_>) -> Vec<u64> {
    let mut buffer = IntBuffer::new();
    let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse().ok();
    match value {
        ValueRef::Str(Str::Int(number)) => vec![number as u64],
        ValueRef::Str(text) => {
            let mut all = Vec::new();
            text.for_each_slice(|slice| all.extend_from_slice(slice));
            all.split(|byte| *byte == b',').filter_map(number).collect()
        }
        ValueRef::List(list) => {
            let (mut ids, mut elements) = (Vec::new(), list.iter(0..list.len()));
            while let Some(element) = elements.next() {
                ids.extend(number(element.bytes(&mut buffer)));
            }
            ids
        }
        ValueRef::Set(set) => {
            let mut ids: Vec<u64> =
                set.iter().filter_map(|member| number(member.bytes(&mut buffer))).collect();
            ids.sort_unstable();
            ids
        }
        ValueRef::Hash(_) | ValueRef::Zset(_) | ValueRef::Stream(_) => Vec::new(),
    }
}
