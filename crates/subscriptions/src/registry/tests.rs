//! The registry compared with a naive set: random subscriptions, ends of subscriptions, and removed clients.

use super::*;
use sluice_base::Rng;
use std::collections::BTreeSet;

fn client(slot: u32, generation: u32) -> SessionKey {
    SessionKey { slot, generation }
}

/// The receivers of a message, sorted; a client appears once for each copy that it receives.
fn receivers(pubsub: &mut PubSub, kind: TopicKind, channel: &[u8]) -> Vec<SessionKey> {
    pubsub.outgoing.targets.clear();
    let count = pubsub.publish(kind, channel);
    let mut all: Vec<SessionKey> =
        pubsub.outgoing.targets.iter().flat_map(|topic| pubsub.subscribers(*topic)).copied().collect();
    assert_eq!(all.len(), count);
    all.sort_unstable();
    all
}

#[test]
fn the_registry_is_that_of_a_naive_set() {
    let mut rng = Rng::new(7);
    let mut ours = PubSub::default();
    let mut naive: BTreeSet<(usize, SessionKey, Vec<u8>)> = BTreeSet::new();
    let mut generations = [0; 6];
    for _ in 0..20_000 {
        let slot = rng.below(6) as usize;
        let who = client(slot as u32, generations[slot]);
        let kind = KINDS[rng.below(3) as usize];
        let name = vec![b'a' + rng.below(4) as u8];
        match rng.below(20) {
            0..=9 => {
                ours.subscribe(kind, who, &name);
                naive.insert((kind as usize, who, name));
            }
            10..=18 => {
                ours.unsubscribe(kind, who, &name);
                naive.remove(&(kind as usize, who, name));
            }
            _ => {
                ours.forget(who);
                naive.retain(|(_, client, _)| *client != who);
                generations[slot] += 1;
            }
        }
        check(&mut ours, &naive);
    }
}

fn check(ours: &mut PubSub, naive: &BTreeSet<(usize, SessionKey, Vec<u8>)>) {
    for channel in [&b"a"[..], b"b", b"c", b"d", b"e"] {
        let of = |kinds: &[TopicKind]| {
            let mut all: Vec<SessionKey> = naive
                .iter()
                .filter(|(kind, _, name)| kinds.iter().any(|k| *k as usize == *kind) && name == channel)
                .map(|(_, who, _)| *who)
                .collect();
            all.sort_unstable();
            all
        };
        assert_eq!(
            receivers(ours, TopicKind::Channel, channel),
            of(&[TopicKind::Channel, TopicKind::Pattern])
        );
        assert_eq!(receivers(ours, TopicKind::Shard, channel), of(&[TopicKind::Shard]));
    }
    let clients: BTreeSet<SessionKey> = naive.iter().map(|(_, who, _)| *who).collect();
    assert_eq!(ours.clients(), clients.len());
    for who in clients {
        let counts = KINDS.map(|kind| {
            naive.iter().filter(|(of, client, _)| *of == kind as usize && *client == who).count() as u32
        });
        let got = ours.subscribed(who);
        assert_eq!([got.channels, got.patterns, got.shards], counts);
        assert_eq!(got.bytes as usize, counts.iter().sum::<u32>() as usize * (1 + SUBSCRIPTION_BYTES));
    }
    for kind in KINDS {
        let names: BTreeSet<&[u8]> =
            naive.iter().filter(|(of, ..)| *of == kind as usize).map(|(_, _, name)| &name[..]).collect();
        let listed: Vec<&[u8]> = ours.iter(kind).collect();
        let is_ordered = match kind {
            TopicKind::Channel | TopicKind::Pattern => listed.is_sorted(),
            TopicKind::Shard => listed.is_sorted_by_key(|name| sluice_base::key_slot(name)),
        };
        assert!(is_ordered && listed.len() == names.len());
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names);
    }
}

#[test]
fn a_stale_client_has_no_subscriptions() {
    let mut pubsub = PubSub::default();
    pubsub.subscribe(TopicKind::Channel, client(1, 1), b"a");
    assert_eq!(pubsub.subscribed(client(1, 2)), Subscribed::default());
    pubsub.unsubscribe(TopicKind::Channel, client(1, 2), b"a");
    pubsub.forget(client(1, 2));
    assert_eq!(pubsub.subscriber_count(TopicKind::Channel, b"a"), 1);
}

#[test]
fn ten_thousand_subscribers_come_and_go_in_any_order() {
    let mut pubsub = PubSub::default();
    for slot in 0..10_000 {
        pubsub.subscribe(TopicKind::Channel, client(slot, 1), b"news");
    }
    assert_eq!(receivers(&mut pubsub, TopicKind::Channel, b"news").len(), 10_000);
    for slot in (0..10_000).step_by(2).chain((1..10_000).step_by(2)) {
        pubsub.forget(client(slot, 1));
    }
    assert_eq!((pubsub.clients(), pubsub.count(TopicKind::Channel)), (0, 0));
}

#[test]
fn of_many_patterns_those_are_found_that_match() {
    let mut rng = sluice_base::Rng::new(7);
    let mut draw = |len_max: u64| -> Vec<u8> {
        let alphabet = b"*?[\\ab\x00\xff]^-";
        let len = rng.below(len_max + 1);
        (0..len).map(|_| alphabet[rng.below(alphabet.len() as u64) as usize]).collect()
    };
    let mut pubsub = PubSub::default();
    let mut patterns = BTreeSet::new();
    while patterns.len() < 400 {
        let pattern = draw(4);
        pubsub.subscribe(TopicKind::Pattern, client(1, 1), &pattern);
        patterns.insert(pattern);
    }
    let mut matched = 0;
    for _ in 0..2_000 {
        let channel = draw(3);
        let mut targets = Vec::new();
        pubsub.find_targets(TopicKind::Channel, &channel, &mut targets);
        let found: Vec<&[u8]> = targets.iter().map(|target| pubsub.name(*target)).collect();
        let expected: Vec<&[u8]> =
            patterns.iter().map(Vec::as_slice).filter(|pattern| glob::matches(pattern, &channel)).collect();
        assert_eq!(found, expected, "{channel:?}");
        matched += found.len();
    }
    assert!(matched > 2_000, "{matched}");
}
