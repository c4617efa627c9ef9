//! Tests of messages that are listed for the clients of a group. They must be the same as those that an
//! engine without groups puts into outboxes, in the same order among the replies, and must count alike.

use sluice_base::Rng;
use sluice_base::SessionKey;
use sluice_resp::Outbox;
use sluice_session::Closing;
use sluice_subscriptions::multicast::OutputGroup;
use sluice_testkit::Rig;
use std::collections::HashMap;

/// An engine with groups and one without, given the same input.
struct Pair {
    listed: Rig,
    plain: Rig,
    clients: Vec<SessionKey>,
    /// Output of each client from either engine.
    got: HashMap<SessionKey, [Vec<u8>; 2]>,
}

impl Pair {
    fn new(clients: usize, directives: &[(&str, &str)]) -> Pair {
        let (mut listed, mut plain) = (Rig::with(directives), Rig::with(directives));
        let clients: Vec<SessionKey> = (0..clients).map(|_| listed.connect()).collect();
        let same: Vec<SessionKey> = (0..clients.len()).map(|_| plain.connect()).collect();
        assert_eq!(clients, same);
        Pair { listed, plain, clients, got: HashMap::new() }
    }

    fn join(&mut self, client: SessionKey, group: u16) {
        self.listed.engine.join_group(client, OutputGroup(group));
    }

    fn run(&mut self, client: SessionKey, words: &[&[u8]]) {
        for rig in [&mut self.listed, &mut self.plain] {
            rig.argv_unread(client, words);
        }
        for client in &self.clients {
            let of = |rig: &Rig| {
                rig.engine.session(*client).map(|session| (session.output_bytes(), session.caller.closing))
            };
            assert_eq!(of(&self.listed), of(&self.plain), "behind {:?}", String::from_utf8_lossy(words[0]));
        }
    }

    /// Takes the listed messages.
    fn take_lists(&mut self) {
        while let Some(output) = self.listed.engine.take_multicast(&mut self.listed.process) {
            for multicast in output.multicasts.iter() {
                for (receivers, from, to) in multicast.lists() {
                    let mut part = Outbox::new();
                    part.append_copy(multicast.text(), from, to);
                    for key in receivers {
                        self.got.entry(*key).or_default()[0].extend(part.flatten());
                    }
                }
            }
        }
    }

    /// Ends an iteration, and takes the output of all clients in random order.
    fn end_iteration(&mut self, rng: &mut Rng) {
        self.take_lists();
        let mut order = self.clients.clone();
        order.sort_by_key(|_| rng.below(1 << 32));
        for key in order {
            let got = self.got.entry(key).or_default();
            for (rig, got) in [&mut self.listed, &mut self.plain].into_iter().zip(got) {
                if let Some((outbox, _)) = rig.engine.take_output(key) {
                    got.extend(outbox.flatten());
                }
            }
            self.compare(key);
        }
    }

    fn compare(&mut self, key: SessionKey) {
        let [listed, plain] = &self.got[&key];
        let session = self.listed.engine.session(key).expect("nobody disconnects");
        if session.caller.closing == Closing::No {
            assert_eq!(String::from_utf8_lossy(listed), String::from_utf8_lossy(plain), "{key:?}");
        } else {
            // Messages listed before the limit was reached are on their way.
            assert!(listed.starts_with(plain));
        }
    }

    /// Lets the clients read all output.
    fn read(&mut self) {
        for key in &self.clients {
            for rig in [&mut self.listed, &mut self.plain] {
                let bytes = rig.engine.session(*key).map_or(0, |session| session.in_flight);
                let now = rig.engine_now();
                rig.engine.sent(*key, bytes, now);
            }
        }
    }
}

trait Clock {
    fn engine_now(&mut self) -> sluice_base::Now;
}

impl Clock for Rig {
    fn engine_now(&mut self) -> sluice_base::Now {
        sluice_control::process::ProcessClock::now(&mut self.process)
    }
}

/// Subscribes all clients but the last, which is to publish.
fn subscribers(pair: &mut Pair, channel: &[u8]) {
    let mut subscribers = pair.clients.clone();
    subscribers.pop();
    for client in subscribers {
        pair.run(client, &[b"SUBSCRIBE", channel]);
    }
    pair.end_iteration(&mut Rng::new(1));
}

/// A random action of a client.
fn step(pair: &mut Pair, rng: &mut Rng) {
    let client = pair.clients[rng.below(pair.clients.len() as u64) as usize];
    let letter = [b'a' + rng.below(3) as u8];
    let pattern = [b"?"[0], b"*"[0]];
    let text = vec![b'x'; [3, 40, 5000][rng.below(3) as usize]];
    let proto = [b'2' + rng.below(2) as u8];
    let words: &[&[u8]] = match rng.below(24) {
        0..=1 => &[b"SUBSCRIBE", &letter],
        2 => &[b"UNSUBSCRIBE", &letter],
        3 => &[b"PSUBSCRIBE", &pattern[..1 + rng.below(2) as usize]],
        4 => &[b"PUNSUBSCRIBE"],
        5 => &[b"SSUBSCRIBE", &letter],
        6 => &[b"SUNSUBSCRIBE"],
        7 => &[b"HELLO", &proto],
        8 => &[b"CLIENT", b"REPLY", b"OFF"],
        9 => &[b"CLIENT", b"REPLY", b"ON"],
        10 => &[b"CLIENT", b"REPLY", b"SKIP"],
        11 => &[b"MULTI"],
        12 => &[b"EXEC"],
        13 => &[b"RESET"],
        14 => &[b"SET", &letter, b"v"],
        15 => &[b"PING"],
        16 => &[b"SPUBLISH", &letter, &text],
        _ => &[b"PUBLISH", &letter, &text],
    };
    pair.run(client, words);
}

#[test]
fn lists_and_outboxes_are_what_outboxes_alone_were() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut pair = Pair::new(6, &[("notify-keyspace-events", "KEA")]);
        for _ in 0..400 {
            step(&mut pair, &mut rng);
            if rng.below(8) == 0 {
                pair.end_iteration(&mut rng);
                if rng.below(2) == 0 {
                    pair.read();
                }
                // Between two iterations connections move to other threads.
                let client = pair.clients[rng.below(6) as usize];
                match rng.below(3) {
                    0 => pair.listed.engine.leave_group(client),
                    group => pair.join(client, group as u16),
                }
            }
        }
        pair.end_iteration(&mut rng);
    }
}

#[test]
fn a_client_is_cut_at_its_limit_at_the_same_message() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut pair = Pair::new(4, &[("client-output-buffer-limit", "pubsub 20kb 0 0")]);
        subscribers(&mut pair, b"a");
        (0..3).for_each(|n| pair.join(pair.clients[n], n as u16 % 2));
        for round in 0.. {
            assert!(round < 100, "nobody was cut");
            let text = vec![b'x'; 1 + rng.below(6000) as usize];
            let publisher = pair.clients[3];
            pair.run(publisher, &[b"PUBLISH", b"a", &text]);
            if rng.below(3) == 0 {
                pair.end_iteration(&mut rng);
            }
            if pair.listed.is_closing(pair.clients[0]) {
                break;
            }
        }
    }
}

#[test]
fn one_list_serves_all_messages_to_the_same_receivers() {
    let mut pair = Pair::new(5, &[]);
    subscribers(&mut pair, b"a");
    (0..4).for_each(|n| pair.join(pair.clients[n], 0));
    let publisher = pair.clients[4];
    let lists = |pair: &mut Pair| -> Vec<(usize, usize)> {
        let output = pair.listed.engine.take_multicast(&mut pair.listed.process);
        let output = output.expect("something is listed");
        assert!(pair.listed.engine.take_multicast(&mut pair.listed.process).is_none());
        let all = output.multicasts.iter().flat_map(|multicast| {
            multicast.lists().map(|(receivers, from, to)| {
                let mut part = Outbox::new();
                part.append_copy(multicast.text(), from, to);
                (receivers.len(), part.len())
            })
        });
        all.collect()
    };
    let one = message(b"1").len();
    for text in [b"1", b"2", b"3"] {
        pair.run(publisher, &[b"PUBLISH", b"a", text]);
    }
    assert_eq!(lists(&mut pair), [(4, 3 * one)]);
    pair.run(publisher, &[b"PUBLISH", b"a", b"1"]);
    // The reply to the first client is in its outbox, so later messages to this client go there, too.
    let first = pair.clients[0];
    pair.run(first, &[b"PING"]);
    for text in [b"2", b"3"] {
        pair.run(publisher, &[b"PUBLISH", b"a", text]);
    }
    assert_eq!(lists(&mut pair), [(4, one), (3, 2 * one)]);
}

fn message(text: &[u8]) -> Vec<u8> {
    [b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n", text, b"\r\n"].concat()
}

#[test]
fn listed_bytes_are_in_flight_and_a_peak() {
    let mut pair = Pair::new(2, &[]);
    subscribers(&mut pair, b"a");
    let client = pair.clients[0];
    pair.join(client, 3);
    pair.read();
    pair.listed.run("PUBLISH a 1");
    let bytes = message(b"1").len();
    let session = pair.listed.engine.session(client).expect("connected");
    assert_eq!((session.in_flight, session.outbox.len()), (bytes, 0));
    let line = pair.listed.run(&format!("CLIENT LIST ID {}", session.caller.id.0));
    assert!(line.contains(&format!("oll=1 omem={bytes} ")), "{line}");
    let output = pair.listed.engine.take_multicast(&mut pair.listed.process).expect("it is listed");
    assert_eq!((output.group, output.receivers), (OutputGroup(3), 1));
    assert_eq!(output.multicasts[0].text().len(), bytes);
    let now = pair.listed.engine_now();
    pair.listed.engine.sent(client, bytes, now);
    let session = pair.listed.engine.session(client).expect("connected");
    assert_eq!((session.in_flight, session.caller.traffic.net_out as usize >= bytes), (0, true));
}

#[test]
fn whoever_changes_the_protocol_silently_is_sent_everything_in_order() {
    let mut rng = Rng::new(1);
    for (before, after) in [(b"3", b"2"), (b"2", b"3")] {
        let mut pair = Pair::new(2, &[]);
        let (client, publisher) = (pair.clients[0], pair.clients[1]);
        pair.run(client, &[b"HELLO", before]);
        pair.run(client, &[b"CLIENT", b"REPLY", b"OFF"]);
        pair.run(client, &[b"SUBSCRIBE", b"a"]);
        pair.end_iteration(&mut rng);
        pair.join(client, 0);
        pair.run(publisher, &[b"PUBLISH", b"a", b"1"]);
        pair.run(client, &[b"HELLO", after]);
        pair.run(publisher, &[b"PUBLISH", b"a", b"2"]);
        pair.end_iteration(&mut rng);
        let got = &pair.got[&client][0];
        let position_of = |text: &[u8]| got.windows(text.len()).position(|part| part == text);
        let (first, second) = (position_of(b"$1\r\n1\r\n"), position_of(b"$1\r\n2\r\n"));
        assert!(first.is_some() && first < second, "{}", String::from_utf8_lossy(got));
    }
}
