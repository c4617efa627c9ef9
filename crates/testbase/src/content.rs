//! A keyspace as text: equal for equal data, whatever the hash seed, the encodings and the order of keys.

use sluice_base::num::IntBuffer;
use sluice_keyspace::{Entry, Keyspace, ValueRef};
use sluice_value::Stream;
use sluice_value::stream::{ConsumerGroup, Element, StreamId};

/// A sorted line for each key, with its expiry and its whole value, including expired fields and keys. The
/// line of a stream includes the consumer groups, but not the times at which consumers were seen, which each
/// server takes from its own clock. Cost: O(data).
pub fn content(keyspace: &Keyspace) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, db) in keyspace.iter() {
        for handle in db.iter() {
            let entry = db.entry(handle);
            let expiry = entry.expiry().map_or_else(String::new, |at| format!(" expires {at}"));
            lines.push(format!("{number} {}{expiry}: {}", db.key(handle).escape_ascii(), value(entry)));
        }
    }
    lines.sort();
    lines
}

fn value(entry: Entry<'_>) -> String {
    let mut digits = IntBuffer::new();
    match entry.value() {
        ValueRef::Str(text) => format!("string {}", text.to_vec().escape_ascii()),
        ValueRef::List(list) => {
            let (mut texts, mut elements) = (Vec::new(), list.iter(0..list.len()));
            while let Some(element) = elements.next() {
                texts.push(element.bytes(&mut digits).escape_ascii().to_string());
            }
            format!("list {texts:?}")
        }
        ValueRef::Set(set) => {
            let members = set.iter().map(|member| member.bytes(&mut digits).escape_ascii().to_string());
            format!("set {:?}", sorted(members))
        }
        ValueRef::Hash(hash) => {
            let mut other = IntBuffer::new();
            let fields = hash.iter().map(|field| {
                let name = field.name.bytes(&mut digits).escape_ascii();
                let value = field.value.bytes(&mut other).escape_ascii();
                format!("{name}={value} {:?}", field.expiry)
            });
            format!("hash {:?}", sorted(fields))
        }
        ValueRef::Zset(zset) => {
            let elements = zset.iter_all();
            let elements = elements.map(|(member, score)| format!("{}={score:?}", member.escape_ascii()));
            format!("zset {:?}", sorted(elements))
        }
        ValueRef::Stream(stream) => stream_text(stream),
    }
}

fn sorted(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

fn stream_text(stream: &Stream) -> String {
    let log = stream.log();
    let entries = log.iter(StreamId::MIN, StreamId::MAX).map(|entry| {
        let pairs: Vec<(String, String)> =
            entry.pairs().map(|(field, value)| (element(field), element(value))).collect();
        format!("{} {pairs:?}", id(entry.id()))
    });
    let entries: Vec<String> = entries.collect();
    let groups: Vec<String> = stream.groups().map(group).collect();
    let (last, deleted) = (id(log.last_id()), id(log.max_deleted_id()));
    format!("stream {entries:?} last {last} deleted {deleted} added {} {groups:?}", log.entries_added())
}

fn element(element: Element<'_>) -> String {
    match element {
        Element::Int(number) => number.to_string(),
        Element::Bytes(bytes) => bytes.escape_ascii().to_string(),
    }
}

fn group(group: &ConsumerGroup) -> String {
    let name = |number| group.consumer_of(number).map(|consumer| consumer.name().escape_ascii().to_string());
    let pending = group.pending_from(StreamId::MIN).map(|entry| {
        let consumer = name(entry.consumer);
        format!("{} {consumer:?} at {} times {}", id(entry.id), entry.delivered_ms, entry.deliveries)
    });
    let pending: Vec<String> = pending.collect();
    let consumers: Vec<String> =
        group.consumers().map(|consumer| consumer.name().escape_ascii().to_string()).collect();
    let (last, read) = (id(group.last_id()), group.entries_read());
    format!("{} last {last} read {read:?} {pending:?} {consumers:?}", group.name().escape_ascii())
}

fn id(id: StreamId) -> String {
    format!("{}-{}", id.ms, id.seq)
}
