//! Client-side caching, end to end: clients with caches, whatever thread owns their connections. Once a
//! client has read its input, no copy in its cache differs from the server's value.

use crate::common::{Client, Server, request};
use sluice_base::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};

/// A value of the protocol, of the types that this test receives.
#[derive(Debug, PartialEq)]
enum Sent {
    /// A string, or null.
    Text(Option<String>),
    /// A reply of one line, with its type.
    Line(String),
    /// An invalidation of these keys, or of all keys.
    Told(Option<Vec<String>>),
}

/// A connection in RESP3, and the input received on it.
struct Connection {
    client: Client,
    input: BufReader<std::net::TcpStream>,
}

impl Connection {
    fn new(server: &Server) -> Connection {
        let mut client = server.client();
        let mut input = BufReader::new(client.stream.try_clone().unwrap());
        client.send("HELLO 3\r\n");
        while line(&mut input) != "$7" || line(&mut input) != "modules" {}
        assert_eq!(line(&mut input), "*0");
        Connection { client, input }
    }

    fn run(&mut self, words: &[&str]) -> Sent {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.client.send(request(&words));
        self.next()
    }

    fn next(&mut self) -> Sent {
        let head = line(&mut self.input);
        match head.as_str() {
            ">2" => {
                assert_eq!(self.next(), Sent::Text(Some("invalidate".into())));
                let names = line(&mut self.input);
                let Some(count) = names.strip_prefix('*') else {
                    assert_eq!(names, "_");
                    return Sent::Told(None);
                };
                let name = |_| match self.next() {
                    Sent::Text(Some(name)) => name,
                    other => panic!("{other:?}"),
                };
                Sent::Told(Some((0..count.parse().unwrap()).map(name).collect()))
            }
            "_" => Sent::Text(None),
            head if head.starts_with('$') => {
                let mut text = vec![0; head[1..].parse::<usize>().unwrap() + 2];
                self.input.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                Sent::Text(Some(String::from_utf8(text).unwrap()))
            }
            _ => Sent::Line(head),
        }
    }

    /// All input so far, up to the reply to a PING.
    fn drain(&mut self) -> Vec<Sent> {
        self.client.send("PING\r\n");
        let mut all = Vec::new();
        loop {
            match self.next() {
                Sent::Line(line) if line == "+PONG" => return all,
                sent => all.push(sent),
            }
        }
    }
}

fn line(input: &mut impl BufRead) -> String {
    let mut line = String::new();
    assert!(input.read_line(&mut line).unwrap() > 0, "the connection has ended");
    line.trim_end().to_owned()
}

/// A client with a cache.
struct Cached {
    own: Connection,
    /// The other connection to which invalidations are redirected, if any.
    target: Option<Connection>,
    copies: BTreeMap<String, Option<String>>,
}

impl Cached {
    fn new(server: &Server, options: &[&str], redirects: bool) -> Cached {
        let mut own = Connection::new(server);
        let mut target = redirects.then(|| Connection::new(server));
        let mut words = vec!["CLIENT", "TRACKING", "ON"];
        words.extend(options);
        let id = target.as_mut().map(|target| match target.run(&["CLIENT", "ID"]) {
            Sent::Line(line) => line[1..].to_owned(),
            other => panic!("{other:?}"),
        });
        if let Some(id) = &id {
            words.extend(["REDIRECT", id]);
        }
        assert_eq!(own.run(&words), Sent::Line("+OK".into()));
        Cached { own, target, copies: BTreeMap::new() }
    }

    /// Reads keys in a pipeline. An invalidation on the client's own connection takes effect at its position
    /// among the replies. Invalidations on the other connection are applied by `settle`, and delete all
    /// copies that they name.
    fn read(&mut self, keys: &[String]) {
        let requests: Vec<u8> = keys.iter().flat_map(|key| request(&[b"GET", key.as_bytes()])).collect();
        self.own.client.send(requests);
        let mut left = keys.iter();
        let mut wanted = left.next();
        while let Some(key) = wanted {
            match self.own.next() {
                Sent::Text(copy) => {
                    self.copies.insert(key.clone(), copy);
                    wanted = left.next();
                }
                told => self.drop_told(told),
            }
        }
    }

    fn drop_told(&mut self, sent: Sent) {
        match sent {
            Sent::Told(None) => self.copies.clear(),
            Sent::Told(Some(names)) => names.iter().for_each(|name| drop(self.copies.remove(name))),
            other => panic!("{other:?}"),
        }
    }

    fn settle(&mut self) {
        let mut sent = self.own.drain();
        sent.extend(self.target.as_mut().map(Connection::drain).unwrap_or_default());
        sent.into_iter().for_each(|told| self.drop_told(told));
    }
}

fn key(rng: &mut Rng) -> String {
    format!("key:{}", rng.below(60))
}

/// Sends random writes in pipelines.
fn write(server: &Server, seed: u64) {
    let mut rng = Rng::new(seed);
    let mut client = server.client();
    for _ in 0..12 {
        let mut requests = Vec::new();
        for _ in 0..40 {
            let (one, two, value) = (key(&mut rng), key(&mut rng), rng.below(1 << 30).to_string());
            let line = match rng.below(100) {
                0..70 => format!("SET {one} {value}"),
                70..78 => format!("SET {one} {value} PX {}", 1 + rng.below(20)),
                78..86 => format!("DEL {one} {two}"),
                86..94 => format!("COPY {one} {two} REPLACE"),
                94..98 => format!("MSET {one} {value} {two} {value}"),
                98 => "SWAPDB 0 1".to_owned(),
                _ => "FLUSHDB".to_owned(),
            };
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            requests.extend(request(&words));
        }
        client.send(requests);
        (0..40).for_each(|_| drop(client.line()));
    }
}

fn caches_are_never_stale(arguments: &[&str]) {
    let server = Server::start(arguments);
    let kinds: [(&[&str], bool); 5] =
        [(&[], false), (&["BCAST"], false), (&["NOLOOP", "OPTOUT"], false), (&[], true), (&["BCAST"], true)];
    let mut clients: Vec<Cached> =
        kinds.iter().map(|(options, redirects)| Cached::new(&server, options, *redirects)).collect();
    let mut control = Connection::new(&server);
    let mut kept = 0;
    for round in 0..12 {
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let server = &server;
                scope.spawn(move || write(server, round * 2 + writer));
            }
            for (number, client) in clients.iter_mut().enumerate() {
                scope.spawn(move || {
                    let mut rng = Rng::new(1000 + round * 100 + number as u64);
                    for _ in 0..20 {
                        let keys: Vec<String> = (0..1 + rng.below(30)).map(|_| key(&mut rng)).collect();
                        client.read(&keys);
                    }
                });
            }
        });
        // Expired keys are deleted when they are accessed, so all invalidations for these keys are sent
        // before the caches are checked.
        let held: BTreeMap<String, Sent> = (0..60)
            .map(|number| format!("key:{number}"))
            .map(|key| (key.clone(), control.run(&["GET", &key])))
            .collect();
        let mut expiring = BTreeSet::new();
        for key in held.keys() {
            let Sent::Line(left) = control.run(&["PTTL", key]) else { panic!("a number") };
            if left[1..].parse::<i64>().unwrap() >= 0 {
                expiring.insert(key.clone());
            }
        }
        for (number, client) in clients.iter_mut().enumerate() {
            client.settle();
            for (key, copy) in &client.copies {
                // A key with an expiry may be deleted at any moment.
                if !expiring.contains(key) {
                    assert_eq!(
                        &held[key],
                        &Sent::Text(copy.clone()),
                        "{key}, client {number}, round {round}"
                    );
                    kept += 1;
                }
            }
        }
    }
    assert!(kept > 100, "{kept}");
}

#[test]
fn caches_of_the_main_threads_clients_are_never_stale() {
    caches_are_never_stale(&[]);
}

#[test]
fn caches_of_io_threads_clients_are_never_stale() {
    caches_are_never_stale(&["--io-threads", "3", "--io-threads-always-active", "yes"]);
}

#[test]
fn caches_are_never_stale_while_rows_make_room() {
    caches_are_never_stale(&["--io-threads", "2", "--tracking-table-max-keys", "20"]);
}
