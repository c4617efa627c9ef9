//! Publishers that number their messages, and subscribers that check that each message of a channel
//! arrives once and in order.
//!
//! Every publisher has a channel of its own. *Steady* subscribers receive every channel from its first
//! message to its last. Two subscribe by name, one by pattern, and one uses RESP3, with messages between the
//! replies to its own commands. *Visitors* subscribe and unsubscribe: a visitor receives every message
//! between the confirmations of SUBSCRIBE and UNSUBSCRIBE, and no other message.

use super::{Client, Server, request, until};
use sluice_base::Rng;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Running publishers and subscribers; see the module.
pub struct Feeds {
    stop_visitors: Arc<AtomicBool>,
    stop_publishers: Arc<AtomicBool>,
    publishers: Vec<JoinHandle<u64>>,
    steady: Vec<JoinHandle<u64>>,
    visitors: Vec<JoinHandle<u64>>,
}

/// Number of messages of each channel that all its steady subscribers together have received.
type Received = Arc<[AtomicU64; CHANNELS]>;

const CHANNELS: usize = 2;
const VISITORS: usize = 2;
/// Number of steady subscribers: two by name, one by pattern, one with RESP3.
const STEADY: usize = 4;
/// A publisher waits while more messages than this have not been received, because this test is not about
/// output limits. A message counts once for each steady subscriber.
const AHEAD_MAX: u64 = 5000;
/// The message that follows the last one of a channel.
const END: &[u8] = b"end";

impl Feeds {
    /// Subscribes the steady subscribers, then starts the publishers.
    pub fn start(server: &Server, seed: u64) -> Feeds {
        let (stop_visitors, stop_publishers) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let received = Received::default();
        let mut steady: Vec<Reader> = (0..STEADY).map(|_| Reader::new(server)).collect();
        for reader in &mut steady[..2] {
            (0..CHANNELS).for_each(|channel| reader.subscribe(channel));
        }
        steady[2].ask("PSUBSCRIBE feed[0-9]", b"psubscribe");
        steady[3].hello_3();
        (0..CHANNELS).for_each(|channel| steady[3].subscribe(channel));
        let speaker = steady.remove(3);
        let (count, rng) = (received.clone(), Rng::new(seed));
        let mut threads = vec![std::thread::spawn(move || speaker.speak(rng, &count))];
        for reader in steady {
            let received = received.clone();
            threads.push(std::thread::spawn(move || reader.read_to_the_end(&received)));
        }
        let publishers = (0..CHANNELS).map(|channel| {
            let (client, rng) = (server.client(), Rng::new(seed * 10 + channel as u64));
            let (stop, received) = (stop_publishers.clone(), received.clone());
            std::thread::spawn(move || publish(client, channel, rng, &stop, &received))
        });
        let publishers = publishers.collect();
        let visitors = (0..VISITORS).map(|n| {
            let (reader, rng) = (Reader::new(server), Rng::new(seed * 100 + n as u64));
            let stop = stop_visitors.clone();
            std::thread::spawn(move || reader.visit(rng, &stop))
        });
        let visitors = visitors.collect();
        Feeds { stop_visitors, stop_publishers, publishers, steady: threads, visitors }
    }

    /// Stops all threads; every steady subscriber must have received every message. Returns the number of
    /// published messages, and the number of messages that visitors have received.
    pub fn stop(self) -> (u64, u64) {
        let join = |threads: Vec<JoinHandle<u64>>| -> Vec<u64> {
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        };
        // Visitors wait for messages, so they are stopped first.
        self.stop_visitors.store(true, Relaxed);
        let visited: u64 = join(self.visitors).into_iter().sum();
        self.stop_publishers.store(true, Relaxed);
        let sent: u64 = join(self.publishers).into_iter().sum();
        for got in join(self.steady) {
            assert_eq!(got, sent, "every message came");
        }
        (sent, visited)
    }
}

/// Publishes until stopped, then sends the end mark; returns the number of messages.
fn publish(mut client: Client, channel: usize, mut rng: Rng, stop: &AtomicBool, received: &Received) -> u64 {
    let name = name_of(channel);
    let mut sent = 0;
    while !stop.load(Relaxed) {
        until("the subscribers", || {
            (received[channel].load(Relaxed) + AHEAD_MAX >= sent * STEADY as u64).then_some(())
        });
        let depth = [1, 1, 2, 16, 100][rng.below(5) as usize];
        let mut bytes = Vec::new();
        for n in sent..sent + depth {
            // The server copies short messages for each subscriber, and shares long ones.
            let padding = if rng.below(64) == 0 { 6000 } else { rng.below(40) as usize };
            let text = format!("{n:08}{}", "x".repeat(padding));
            bytes.extend_from_slice(&request(&[b"PUBLISH", name.as_bytes(), text.as_bytes()]));
        }
        client.send(bytes);
        for _ in 0..depth {
            let receivers: usize = client.line()[1..].parse().unwrap();
            assert!((STEADY..=STEADY + VISITORS).contains(&receivers), "{receivers} receivers");
        }
        sent += depth;
    }
    client.send(request(&[b"PUBLISH", name.as_bytes(), END])).line();
    sent
}

fn name_of(channel: usize) -> String {
    format!("feed{channel}")
}

/// One item of a subscriber's input.
enum Event {
    /// A message of this channel.
    Message(usize, Vec<u8>),
    /// A confirmation of this kind.
    Confirmed(Vec<u8>),
    /// The reply to any other command.
    Reply(Vec<u8>),
}

/// A subscriber that checks the numbers of messages.
struct Reader {
    client: Client,
    stream: BufReader<TcpStream>,
    /// The number of the next message of each channel; `None` before the first message.
    next: [Option<u64>; CHANNELS],
    ended: usize,
    got: u64,
}

impl Reader {
    fn new(server: &Server) -> Reader {
        let client = server.client();
        let stream = BufReader::new(client.stream.try_clone().unwrap());
        Reader { client, stream, next: [Some(0); CHANNELS], ended: 0, got: 0 }
    }

    /// Sends a line and reads messages until `confirmation` arrives.
    fn ask(&mut self, line: &str, confirmation: &[u8]) {
        self.client.send(format!("{line}\r\n"));
        loop {
            match self.event() {
                Event::Message(channel, text) => drop(self.take(channel, &text)),
                Event::Confirmed(kind) => {
                    assert_eq!(kind, confirmation);
                    return;
                }
                Event::Reply(reply) => panic!("{:?}", String::from_utf8_lossy(&reply)),
            }
        }
    }

    fn subscribe(&mut self, channel: usize) {
        self.ask(&format!("SUBSCRIBE {}", name_of(channel)), b"subscribe");
    }

    fn hello_3(&mut self) {
        self.client.send("HELLO 3\r\nECHO ready\r\n");
        while self.line() != "ready" {}
    }

    /// Checks a message's number; returns whether the message is the end mark of the channel.
    fn take(&mut self, channel: usize, text: &[u8]) -> bool {
        if text == END {
            self.ended += 1;
            return true;
        }
        let number: u64 = std::str::from_utf8(&text[..8]).unwrap().parse().unwrap();
        let wanted = self.next[channel].unwrap_or(number);
        assert_eq!(number, wanted, "messages of {} in order, each once", name_of(channel));
        assert!(text[8..].iter().all(|byte| *byte == b'x'));
        self.next[channel] = Some(number + 1);
        self.got += 1;
        false
    }

    fn count(&mut self, channel: usize, text: &[u8], received: &Received) {
        if !self.take(channel, text) {
            received[channel].fetch_add(1, Relaxed);
        }
    }

    /// Reads until every channel has ended; returns the number of messages.
    fn read_to_the_end(mut self, received: &Received) -> u64 {
        while self.ended < CHANNELS {
            let Event::Message(channel, text) = self.event() else { panic!("a message is due") };
            self.count(channel, &text, received);
        }
        self.got
    }

    /// Reads messages and sends commands, whose replies must arrive in order too.
    fn speak(mut self, mut rng: Rng, received: &Received) -> u64 {
        let mut said: u64 = 0;
        while self.ended < CHANNELS {
            let depth = [1, 1, 3, 16][rng.below(4) as usize];
            let lines: String = (said..said + depth).map(|n| format!("ECHO {n}\r\n")).collect();
            self.client.send(lines);
            let until = said + depth;
            while said < until {
                match self.event() {
                    Event::Message(channel, text) => self.count(channel, &text, received),
                    Event::Reply(reply) => {
                        assert_eq!(reply, said.to_string().as_bytes(), "replies in order");
                        said += 1;
                    }
                    Event::Confirmed(kind) => panic!("{:?}", String::from_utf8_lossy(&kind)),
                }
            }
        }
        self.got
    }

    /// Subscribes and unsubscribes until stopped; returns the number of messages.
    fn visit(mut self, mut rng: Rng, stop: &AtomicBool) -> u64 {
        while !stop.load(Relaxed) {
            let channel = rng.below(CHANNELS as u64) as usize;
            self.next[channel] = None;
            self.subscribe(channel);
            for _ in 0..rng.below(20) {
                let Event::Message(from, text) = self.event() else { panic!("a message is due") };
                assert_eq!(from, channel);
                assert!(!self.take(channel, &text), "publishers end last");
            }
            self.ask(&format!("UNSUBSCRIBE {}", name_of(channel)), b"unsubscribe");
            self.client.send("ECHO behind\r\n");
            let Event::Reply(reply) = self.event() else { panic!("a message behind the confirmation") };
            assert_eq!(reply, b"behind");
        }
        self.got
    }

    fn event(&mut self) -> Event {
        let header = self.line();
        if header.starts_with('$') {
            return Event::Reply(self.body(&header));
        }
        assert!(header.starts_with(['*', '>']), "{header}");
        let count: usize = header[1..].parse().unwrap();
        let mut words: Vec<Vec<u8>> = (0..count).map(|_| self.word()).collect();
        match &words[0][..] {
            b"message" | b"pmessage" => {
                let text = words.pop().unwrap();
                let channel = words.pop().unwrap();
                Event::Message(usize::from(channel[channel.len() - 1] - b'0'), text)
            }
            _ => Event::Confirmed(words.swap_remove(0)),
        }
    }

    fn word(&mut self) -> Vec<u8> {
        let header = self.line();
        if header.starts_with(':') { header.into_bytes() } else { self.body(&header) }
    }

    fn body(&mut self, header: &str) -> Vec<u8> {
        let len: usize = header.strip_prefix('$').unwrap().parse().unwrap();
        let mut body = vec![0; len + 2];
        self.stream.read_exact(&mut body).unwrap();
        body.truncate(len);
        body
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert!(line.ends_with("\r\n"), "the connection ended behind {line:?}");
        line.truncate(line.len() - 2);
        line
    }
}
