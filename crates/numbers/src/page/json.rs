//! A sample and the details for the metrics endpoint's web page, as JSON. The endpoint's thread makes the
//! text.

use crate::info::sample::MetricsSample;
use crate::info::value::Number;
use crate::page::details::{
    ClientRow, HotKeyRow, JudgedCredentials, MayShow, MoveRow, NodeRow, PageDetails, SlowCommandRow,
};
use crate::page::keys::{LargeSlot, LargestKeys};
use serde_json::{Map, Value, json};

/// The data to show, and the time at which it was gathered.
pub struct PageJson<'a> {
    /// The numbers of the sample.
    pub sample: &'a MetricsSample,
    /// The main thread's answer: clients, logged commands, keys and more.
    pub details: &'a PageDetails,
    /// Result of checking the request's credentials; `None` if the request had none.
    pub judged: Option<JudgedCredentials>,
    /// Time of the sample, in ms since the epoch.
    pub unix_ms: i64,
}

impl PageJson<'_> {
    /// The whole text. Cost: some hundred microseconds.
    pub fn text(&self) -> String {
        let (details, may) = (self.details, self.may_show());
        let names = match self.judged {
            None => "hidden",
            Some(JudgedCredentials::Refused) => "refused",
            Some(JudgedCredentials::Accepted(may)) if !may.key_names => "not allowed",
            Some(JudgedCredentials::Accepted(_)) => "shown",
        };
        json!({
            "at": self.unix_ms,
            "health": self.sample.health.text(),
            "names": names,
            "numbers": numbers(self.sample),
            "commands": commands(self.sample),
            "clients": details.clients.iter().map(client).collect::<Vec<_>>(),
            "slow_reads": details.slow_reads.iter().map(client).collect::<Vec<_>>(),
            "slow_commands": details.slow_commands.iter().map(|entry| logged(entry, may)).collect::<Vec<_>>(),
            "script": details.script.as_ref().map(|script| json!({
                "name": printable(&script.name), "running_ms": script.running_ms,
            })),
            "moves": details.moves.iter().map(slot_move).collect::<Vec<_>>(),
            "nodes": details.nodes.iter().map(node).collect::<Vec<_>>(),
            "node_count": details.node_count,
            "largest": details.largest.as_ref().map(|largest| keys(largest, may)),
            "hottest": details.hottest.as_ref().map(|rows| hot_keys(rows, may)),
            "texts": details.texts.iter().map(|(name, text)| ((*name).to_owned(), json!(text)))
                .collect::<Map<_, _>>(),
        })
        .to_string()
    }

    fn may_show(&self) -> MayShow {
        match self.judged {
            Some(JudgedCredentials::Accepted(may)) => may,
            None | Some(JudgedCredentials::Refused) => MayShow::default(),
        }
    }
}

/// The number of each metric by name; for a metric with labels, a list of labels and numbers.
fn numbers(sample: &MetricsSample) -> Map<String, Value> {
    let mut out: Map<String, Value> = Map::new();
    for (id, labels, number) in sample.numbers() {
        let name = id.family().name;
        if labels.is_empty() {
            out.insert(name.to_owned(), value(number));
            continue;
        }
        let labels: Map<String, Value> =
            labels.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let series = out.entry(name).or_insert_with(|| json!([]));
        if let Value::Array(series) = series {
            series.push(json!([labels, value(number)]));
        }
    }
    out
}

/// Durations of the commands in the sample, since the start or the last CONFIG RESETSTAT.
fn commands(sample: &MetricsSample) -> Vec<Value> {
    let row = |one: &crate::info::sample::CommandLatencies| {
        let percentiles: Map<String, Value> =
            one.percentiles.iter().map(|(percent, us)| (format!("p{percent}"), json!(us))).collect();
        json!({ "name": one.command, "calls": one.count, "us": one.sum_us, "percentiles": percentiles })
    };
    sample.latencies().iter().map(row).collect()
}

/// A float that JSON cannot represent becomes null.
fn value(number: Number) -> Value {
    match number {
        Number::Uint(number) => json!(number),
        Number::Int(number) => json!(number),
        Number::Float(number) => json!(number),
    }
}

fn client(row: &ClientRow) -> Value {
    json!({
        "id": row.id,
        "address": row.address,
        "name": printable(&row.name),
        "library": printable(&row.library),
        "user": printable(&row.user),
        "command": row.command,
        "flags": row.flags,
        "age_s": row.age_s,
        "idle_s": row.idle_s,
        "output_bytes": row.output_bytes,
        "held_bytes": row.held_bytes,
        "commands": row.commands,
    })
}

fn slot_move(row: &MoveRow) -> Value {
    let progress = row.progress.map(|progress| {
        json!({
            "keys": progress.keys,
            "keys_left": progress.keys_left,
            "bytes": progress.bytes,
            "bytes_left": progress.bytes_left,
            "holds_writers": progress.holds_writers,
            "braked": progress.is_braked,
        })
    });
    json!({
        "leaves": row.leaves,
        "slots": row.slots,
        "node": row.node,
        "state": row.state,
        "message": row.message,
        "at_s": row.updated_s,
        "progress": progress,
    })
}

fn node(row: &NodeRow) -> Value {
    json!({
        "id": row.id,
        "name": printable(&row.name),
        "address": row.address,
        "myself": row.is_myself,
        "replica": row.is_replica,
        "primary": row.primary,
        "slots": row.slots,
        "health": row.health,
        "linked": row.is_linked,
        "pong_age_ms": row.pong_age_ms,
    })
}

/// Without the right to arguments only the name of the command is shown, because the arguments may contain
/// key names and values.
fn logged(entry: &SlowCommandRow, may: MayShow) -> Value {
    let shown = if may.arguments { entry.argv.len() } else { entry.argv.len().min(1) };
    json!({
        "id": entry.id,
        "at_s": entry.at_s,
        "us": entry.us,
        "words": entry.argv.iter().take(shown).map(|word| printable(word)).collect::<Vec<_>>(),
        "hidden": entry.argv.len() - shown,
        "client": entry.address,
        "client_name": printable(&entry.client_name),
    })
}

fn keys(largest: &LargestKeys, may: MayShow) -> Value {
    let rows: Vec<Value> = largest
        .keys
        .iter()
        .map(|key| {
            let name = may.key_names.then(|| printable(&key.name) + if key.is_cut { "…" } else { "" });
            json!({
                "db": key.db,
                "name": name,
                "bytes": key.bytes,
                "type": key.kind.name(),
                "elements": key.elements,
            })
        })
        .collect();
    let slot = |slot: &LargeSlot| json!({ "slot": slot.slot, "keys": slot.keys, "bytes": slot.bytes });
    let slots: Vec<Value> = largest.slots.iter().map(slot).collect();
    json!({ "keys": rows, "slots": slots, "seen": largest.seen, "whole": largest.is_whole })
}

fn hot_keys(rows: &[HotKeyRow], may: MayShow) -> Vec<Value> {
    let name = |row: &HotKeyRow| may.key_names.then(|| printable(&row.name));
    rows.iter().map(|row| json!({ "db": row.db, "name": name(row), "per_second": row.per_second })).collect()
}

/// Bytes as text: each byte that is not part of a printable UTF-8 character becomes `\x` and two digits; a
/// backslash is doubled.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => out.push_str("\\\\"),
                // Invisible marks, and marks that change the direction of text, are escaped, because they
                // could make a name look like another.
                letter if letter.is_control() || is_unseen(letter) => {
                    letter.to_string().bytes().for_each(|byte| push_byte(&mut out, byte));
                }
                letter => out.push(letter),
            }
        }
        chunk.invalid().iter().for_each(|byte| push_byte(&mut out, *byte));
    }
    out
}

fn push_byte(out: &mut String, byte: u8) {
    out.push_str(&format!("\\x{byte:02x}"));
}

fn is_unseen(letter: char) -> bool {
    matches!(
        letter,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_seen_are_shown_by_number() {
        assert_eq!(printable(b"plain key:1"), "plain key:1");
        assert_eq!(printable("größe".as_bytes()), "größe");
        assert_eq!(printable(b"a\x00b\xff\n\\"), "a\\x00b\\xff\\x0a\\\\");
        assert_eq!(printable("a\u{202e}b".as_bytes()), "a\\xe2\\x80\\xaeb");
    }
}
