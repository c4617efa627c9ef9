//! Streams compared with ordered maps. Between writes the test takes shares (second owners of the value),
//! which must not change.

use std::collections::{BTreeMap, BTreeSet};

use sluice_base::Rng;
use sluice_base::num::IntBuffer;

use super::{
    ConsumerGroup, Element, PendingEntry, Stream, StreamContext, StreamId, StreamLimits, TrimExtent, TrimTo,
};

type PairModel = Vec<(Vec<u8>, Vec<u8>)>;
type PendingModel = BTreeMap<StreamId, (Vec<u8>, i64, u64)>;

#[derive(Clone, Default, Debug, PartialEq)]
struct Model {
    entries: BTreeMap<StreamId, PairModel>,
    groups: BTreeMap<Vec<u8>, (StreamId, PendingModel, BTreeSet<Vec<u8>>)>,
    last_id: StreamId,
    max_deleted_id: StreamId,
    added: u64,
}

fn text(element: Element<'_>) -> Vec<u8> {
    match element {
        Element::Int(number) => IntBuffer::new().format(number).to_vec(),
        Element::Bytes(bytes) => bytes.to_vec(),
    }
}

/// The contents of a stream, read in both directions and one by one.
fn read(stream: &Stream) -> Model {
    let log = stream.log();
    let pairs = |entry: super::EntryRef<'_>| {
        let pairs: PairModel = entry.pairs().map(|(field, value)| (text(field), text(value))).collect();
        assert_eq!(pairs.len(), entry.len());
        (entry.id(), pairs)
    };
    let forward: Vec<_> = log.entries().map(pairs).collect();
    let mut back: Vec<_> = log.iter_rev(StreamId::MIN, StreamId::MAX).map(pairs).collect();
    back.reverse();
    assert_eq!(forward, back);
    assert_eq!(forward.len() as u64, log.len());
    assert_eq!(log.first_id(), forward.first().map_or(StreamId::MIN, |(id, _)| *id));
    for (id, _) in &forward {
        assert_eq!(log.get(*id).map(|entry| entry.id()), Some(*id));
    }
    let groups = stream.groups().map(|group| {
        let pending: PendingModel = group
            .pending_from(StreamId::MIN)
            .map(|entry| {
                let owner = group.consumer_of(entry.consumer).expect("each has an owner");
                (entry.id, (owner.name().to_vec(), entry.delivered_ms, entry.deliveries))
            })
            .collect();
        assert_eq!(pending.len(), group.pending_len());
        for consumer in group.consumers() {
            let own: Vec<_> = consumer.pending_from(StreamId::MIN).collect();
            let wanted: Vec<_> =
                pending.iter().filter(|(_, (name, ..))| name == consumer.name()).map(|(id, _)| *id).collect();
            assert_eq!(own, wanted);
            assert_eq!(own.len(), consumer.pending_len());
        }
        let names = group.consumers().map(|consumer| consumer.name().to_vec()).collect();
        (group.name().to_vec(), (group.last_id(), pending, names))
    });
    Model {
        groups: groups.collect(),
        entries: forward.into_iter().collect(),
        last_id: log.last_id(),
        max_deleted_id: log.max_deleted_id(),
        added: log.entries_added(),
    }
}

fn some_text(rng: &mut Rng) -> Vec<u8> {
    match rng.below(6) {
        0 => ((rng.next_u64() as i64) >> rng.below(64)).to_string().into_bytes(),
        1 => vec![b'x'; rng.below(200) as usize],
        _ => format!("f{}", rng.below(4)).into_bytes(),
    }
}

/// An id that exists, or one near it.
fn some_id(rng: &mut Rng, model: &Model) -> StreamId {
    let at = rng.below(model.entries.len() as u64 + 1) as usize;
    match model.entries.keys().nth(at) {
        Some(id) if rng.below(4) > 0 => *id,
        Some(id) => id.next().unwrap_or(*id),
        None => StreamId::new(rng.below(50), rng.below(3)),
    }
}

fn append(rng: &mut Rng, stream: &mut Stream, model: &mut Model, context: &mut StreamContext) {
    let last = model.last_id;
    let id = match rng.below(4) {
        0 => StreamId::new(last.ms, last.seq + 1 + rng.below(3)),
        1 => StreamId::new(last.ms + 1 + rng.below(100), rng.below(3)),
        _ => StreamId::new(last.ms + 1, 0),
    };
    let pairs: PairModel = if rng.below(2) == 0 {
        vec![(b"field".to_vec(), some_text(rng))]
    } else {
        (0..=rng.below(3)).map(|_| (some_text(rng), some_text(rng))).collect()
    };
    let flat: Vec<&[u8]> = pairs.iter().flat_map(|(field, value)| [&field[..], &value[..]]).collect();
    stream.append(id, flat.iter().copied(), context);
    model.entries.insert(id, pairs);
    model.last_id = id;
    model.added += 1;
}

fn trim(rng: &mut Rng, stream: &mut Stream, model: &mut Model, context: &mut StreamContext) {
    let to = match rng.below(2) {
        0 => TrimTo::Len(rng.below(model.entries.len() as u64 + 2)),
        _ => TrimTo::MinId(some_id(rng, model)),
    };
    let before = model.entries.len();
    match to {
        TrimTo::Len(max) => {
            while model.entries.len() as u64 > max {
                model.entries.pop_first();
            }
        }
        TrimTo::MinId(min) => model.entries = model.entries.split_off(&min),
    }
    assert_eq!(stream.trim(to, TrimExtent::Exact, context), (before - model.entries.len()) as u64);
}

fn change_group(rng: &mut Rng, stream: &mut Stream, model: &mut Model, context: &mut StreamContext) {
    let name = format!("g{}", rng.below(3)).into_bytes();
    let consumer = format!("c{}", rng.below(5)).into_bytes();
    let id = some_id(rng, model);
    match rng.below(8) {
        0 => {
            let is_new = stream.add_group(ConsumerGroup::new(&name, id, None), context);
            assert_eq!(is_new, !model.groups.contains_key(&name));
            model.groups.entry(name).or_insert_with(|| (id, PendingModel::new(), BTreeSet::new()));
        }
        1 if rng.below(10) == 0 => {
            assert_eq!(stream.remove_group(&name, context), model.groups.remove(&name).is_some());
        }
        2 if rng.below(4) == 0 => {
            let removed = stream
                .with_group(&name, context, |group, _, copied| group.remove_consumer(&consumer, copied));
            let wanted = model.groups.get_mut(&name).map(|(_, pending, names)| {
                names.remove(&consumer).then(|| {
                    let before = pending.len();
                    pending.retain(|_, (owner, ..)| *owner != consumer);
                    before - pending.len()
                })
            });
            assert_eq!(removed, wanted);
        }
        3 | 4 => {
            let done = stream.with_group(&name, context, |group, _, copied| group.acknowledge(id, copied));
            let wanted = model.groups.get_mut(&name).map(|(_, pending, _)| pending.remove(&id).is_some());
            assert_eq!(done, wanted);
        }
        _ => {
            let (at, count) = (rng.below(1000) as i64, rng.below(9));
            stream.with_group(&name, context, |group, _, copied| {
                group.add_consumer(&consumer, at, copied);
                let number = group.consumer(&consumer).expect("it was just added").number();
                let entry = PendingEntry { id, delivered_ms: at, deliveries: count, consumer: number };
                group.set_pending(entry, copied);
                group.set_position(id, Some(count), copied);
            });
            if let Some((last, pending, names)) = model.groups.get_mut(&name) {
                (*last, _) = (id, names.insert(consumer.clone()));
                pending.insert(id, (consumer, at, count));
            }
        }
    }
}

fn step(rng: &mut Rng, stream: &mut Stream, model: &mut Model, context: &mut StreamContext) {
    match rng.below(20) {
        0..9 => append(rng, stream, model, context),
        9..12 => {
            let id = some_id(rng, model);
            let was_there = model.entries.remove(&id).is_some();
            assert_eq!(stream.delete(id, context), was_there);
            if was_there {
                model.max_deleted_id = model.max_deleted_id.max(id);
            }
        }
        12 if rng.below(8) == 0 => trim(rng, stream, model, context),
        13 => {
            let (start, end) = (some_id(rng, model), some_id(rng, model));
            let wanted: Vec<_> = match start <= end {
                true => model.entries.range(start..=end).map(|(id, _)| *id).collect(),
                false => Vec::new(),
            };
            let found: Vec<_> = stream.log().iter(start, end).map(|entry| entry.id()).collect();
            assert_eq!(found, wanted);
            let mut back: Vec<_> = stream.log().iter_rev(start, end).map(|entry| entry.id()).collect();
            back.reverse();
            assert_eq!(back, wanted);
        }
        _ => change_group(rng, stream, model, context),
    }
}

/// A stream that is loaded from the listpacks of another stream.
fn reloaded(stream: &Stream) -> Stream {
    let mut again = Stream::new();
    stream.each_listpack(&mut |master, listpack| {
        again.load_listpack(master, listpack).expect("what is written can be read");
    });
    again
}

#[test]
fn a_stream_does_what_ordered_maps_do_and_shares_never_change() {
    for seed in 0..24 {
        let mut rng = Rng::new(seed);
        let limits = StreamLimits {
            node_max_bytes: [0, 60, 300, 4096][rng.below(4) as usize],
            node_max_entries: [0, 1, 4, 100][rng.below(4) as usize],
        };
        let mut context = StreamContext { limits, ..StreamContext::default() };
        let (mut stream, mut model) = (Stream::new(), Model::default());
        let mut shares: Vec<(Stream, Model)> = Vec::new();
        for number in 0..1500 {
            step(&mut rng, &mut stream, &mut model, &mut context);
            if rng.below(40) == 0 {
                shares.push((stream.share(), model.clone()));
            }
            if rng.below(60) == 0 && !shares.is_empty() {
                let (share, then) = shares.swap_remove(rng.below(shares.len() as u64) as usize);
                assert_eq!(read(&share), then, "seed {seed}, step {number}: a share changed");
            }
            if number % 50 == 0 {
                assert_eq!(read(&stream), model, "seed {seed}, step {number}");
                let entries = read(&reloaded(&stream)).entries;
                assert_eq!(entries, model.entries, "seed {seed}, step {number}: reloaded");
            }
        }
        drop(shares);
        // When nothing is shared, the running count of bytes equals the bytes of all parts of the stream.
        context.garbage.clear();
        assert_eq!(stream.heap_bytes(), stream.own_bytes(), "seed {seed}");
        assert!(!stream.is_shared());
    }
}

#[test]
fn a_write_after_a_share_copies_little() {
    let mut context = StreamContext::default();
    let mut stream = Stream::new();
    for ms in 1..=200_000 {
        stream.append(StreamId::new(ms, 0), [&b"field"[..], b"value"].into_iter(), &mut context);
    }
    let share = stream.share();
    assert!(stream.is_shared());
    stream.append(StreamId::new(200_001, 0), [&b"field"[..], b"value"].into_iter(), &mut context);
    assert!(stream.delete(StreamId::new(77_777, 0), &mut context));
    assert!(context.copied > 0 && context.copied < 40_000, "{}", context.copied);
    assert_eq!(share.log().len(), 200_000);
    assert_eq!(stream.log().len(), 200_000);
}

#[test]
fn trimming_cuts_whole_parts_and_gives_them_away() {
    let mut context = StreamContext::default();
    let mut stream = Stream::new();
    for ms in 1..=300_000 {
        stream.append(StreamId::new(ms, 0), [&b"field"[..], b"value"].into_iter(), &mut context);
    }
    let before = stream.heap_bytes();
    assert_eq!(stream.trim(TrimTo::Len(10), TrimExtent::Exact, &mut context), 299_990);
    assert!(!context.garbage.is_empty() && context.garbage.len() < 200, "{}", context.garbage.len());
    let given: usize = context.garbage.iter().map(Stream::own_bytes).sum();
    assert!(given > before / 10 * 9, "{given} of {before}");
    assert_eq!(read(&stream).entries.len(), 10);
}

#[test]
fn approximate_trimming_removes_whole_nodes() {
    let mut context = StreamContext::default();
    let mut stream = Stream::new();
    for ms in 1..=1000 {
        stream.append(StreamId::new(ms, 0), [&b"f"[..], b"v"].into_iter(), &mut context);
    }
    assert_eq!(stream.log().node_count(), 10);
    assert_eq!(stream.trim(TrimTo::Len(550), TrimExtent::Nodes(0), &mut context), 400);
    assert_eq!(stream.trim(TrimTo::Len(1), TrimExtent::Nodes(250), &mut context), 200);
    assert_eq!(stream.trim(TrimTo::MinId(StreamId::new(750, 0)), TrimExtent::Nodes(0), &mut context), 100);
    assert_eq!(stream.log().first_id(), StreamId::new(701, 0));
}

#[test]
fn nodes_that_were_tampered_with_are_refused() {
    let mut context = StreamContext::default();
    let mut stream = Stream::new();
    for ms in 1..=20 {
        let field: &[u8] = if ms % 3 == 0 { b"other" } else { b"field" };
        stream.append(StreamId::new(ms, 7), [field, b"value"].into_iter(), &mut context);
    }
    stream.delete(StreamId::new(4, 7), &mut context);
    let mut nodes = Vec::new();
    stream.each_listpack(&mut |master, listpack| nodes.push((master, listpack.to_vec())));
    let [(master, listpack)] = &nodes[..] else { panic!("one node") };
    let mut again = Stream::new();
    assert_eq!(again.load_listpack(*master, listpack), Ok(()));
    assert!(again.load_listpack(*master, listpack).is_err(), "the same ids a second time");
    let mut rng = Rng::new(5);
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut bytes = listpack.clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        let mut other = Stream::new();
        match other.load_listpack(*master, &bytes) {
            Ok(()) => {
                // A loaded stream can be read, changed and written.
                let model = read(&other);
                other.delete(other.log().first_id(), &mut context);
                other.trim(TrimTo::Len(1), TrimExtent::Exact, &mut context);
                reloaded(&other);
                assert!(!model.entries.is_empty());
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn ids_are_read_as_the_reference_reads_them() {
    let id = |text: &str| StreamId::parse(text.as_bytes(), 9);
    assert_eq!(id("5"), Some(StreamId::new(5, 9)));
    assert_eq!(id("5-3"), Some(StreamId::new(5, 3)));
    assert_eq!(id("05-003"), Some(StreamId::new(5, 3)));
    assert_eq!(id("+5- 3"), Some(StreamId::new(5, 3)));
    assert_eq!(id("5--01"), Some(StreamId::new(5, u64::MAX)));
    assert_eq!(id("7-3\0x"), Some(StreamId::new(7, 3)));
    assert_eq!(id("18446744073709551615-18446744073709551615"), Some(StreamId::MAX));
    for wrong in ["", "-", "+", "x", "1-", "-1", "1-2-3", "5--1", "5 ", "1-x", "18446744073709551616", "5-*"]
    {
        assert_eq!(id(wrong), None, "{wrong}");
    }
    assert_eq!(StreamId::parse(&[b'1'; 128], 0), None);
    assert_eq!(StreamId::parse_with_any_seq(b"5-*"), Some(5));
    assert_eq!(StreamId::parse_with_any_seq(b"5-*x"), None);
    assert_eq!(StreamId::MAX.next(), None);
    assert_eq!(StreamId::MIN.previous(), None);
    assert_eq!(StreamId::new(5, u64::MAX).next(), Some(StreamId::new(6, 0)));
    assert_eq!(StreamId::new(6, 0).previous(), Some(StreamId::new(5, u64::MAX)));
    assert_eq!(StreamId::from_bytes(StreamId::new(5, 6).to_bytes()), StreamId::new(5, 6));
}
