//! The load: requests on many connections from one thread, with a fixed number of outstanding
//! requests per connection.
//!
//! The thread takes the connections in turn. It reads the replies of one, sends the next requests on it, and
//! continues with the next. While the thread waits for one connection, the server works on all others.
//!
//! Invariants: (1) each request has a complete reply before the run counts as done; (2) an error reply ends
//! the run with the server's text.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluice_base::Rng;

use crate::error::Result;
use crate::shell;
use crate::wire::encode;

/// Number of digits of a number in a request.
const DIGITS: usize = 12;

/// Maximum wait for a reply.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time after a slow request during which other requests are watched.
const AFTERMATH: Duration = Duration::from_millis(500);

/// Pause of a probing client before each request.
const PROBE_PAUSE: Duration = Duration::from_micros(500);

/// A request with slots for numbers.
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Offsets of the numbers in `bytes`.
    offsets: Vec<usize>,
}

impl Template {
    /// A template made from words. `#` in a word stands for a number of twelve digits, and a word such as
    /// `$64` for a value of 64 bytes.
    pub(crate) fn new(text: &str) -> Template {
        let words = text.split_whitespace().map(|word| match word.strip_prefix('$') {
            Some(length) => vec![b'v'; length.parse().expect("rows are tested")],
            None => word.replace('#', &"#".repeat(DIGITS)).into_bytes(),
        });
        let mut bytes = Vec::new();
        encode(&words.collect::<Vec<_>>(), &mut bytes);
        let mut offsets = Vec::new();
        let mut at = 0;
        while let Some(next) = bytes[at..].windows(DIGITS).position(|window| window == [b'#'; DIGITS]) {
            offsets.push(at + next);
            at += next + DIGITS;
        }
        Template { bytes, offsets }
    }

    /// Appends a request; `number` is called for each slot.
    fn write(&self, out: &mut Vec<u8>, number: &mut impl FnMut() -> u64) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        for &offset in &self.offsets {
            let mut rest = number();
            for digit in out[start + offset..start + offset + DIGITS].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
    }
}

/// Counts complete replies in a stream that arrives in pieces, without keeping it.
#[derive(Default)]
struct Replies {
    /// The beginning of an incomplete header line.
    line: Vec<u8>,
    /// Missing bytes of a bulk string, line end included.
    skip: usize,
    /// Missing elements of open aggregates.
    open: u64,
}

impl Replies {
    /// Takes `bytes`; returns the number of replies that they complete. Errors: an error reply,
    /// or invalid RESP.
    fn take(&mut self, mut bytes: &[u8]) -> Result<usize> {
        let mut complete = 0;
        loop {
            if self.skip > 0 {
                let here = self.skip.min(bytes.len());
                self.skip -= here;
                bytes = &bytes[here..];
                if self.skip > 0 {
                    return Ok(complete);
                }
                complete += self.element();
            }
            let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
                self.line.extend_from_slice(bytes);
                return Ok(complete);
            };
            self.line.extend_from_slice(&bytes[..=end]);
            bytes = &bytes[end + 1..];
            let ended = self.header()?;
            self.line.clear();
            if ended {
                complete += self.element();
            }
        }
    }

    /// Reads the header line; returns whether it is a complete element.
    fn header(&mut self) -> Result<bool> {
        let text = std::str::from_utf8(&self.line).unwrap_or("").trim_end();
        let number = || text[1..].parse::<i64>().map_err(|_| format!("no length: {text}"));
        match self.line[0] {
            b'+' | b':' | b'_' | b'#' | b',' => Ok(true),
            b'-' => Err(text.to_string().into()),
            b'$' => match usize::try_from(number()?) {
                Ok(length) => {
                    self.skip = length + 2;
                    Ok(false)
                }
                Err(_) => Ok(true),
            },
            b'*' => match u64::try_from(number()?) {
                Ok(count) if count > 0 => {
                    // An aggregate counts as one element of the aggregate around it, unless it is the whole
                    // reply.
                    self.open = self.open.saturating_sub(1) + count;
                    Ok(false)
                }
                _ => Ok(true),
            },
            _ => Err(format!("not a reply: {text}").into()),
        }
    }

    /// Counts an element; returns 1 when it completes a reply.
    fn element(&mut self) -> usize {
        self.open = self.open.saturating_sub(1);
        usize::from(self.open == 0)
    }
}

/// One connection of the load.
struct Client {
    stream: TcpStream,
    replies: Replies,
    /// Number of requests that have no reply yet.
    owed: usize,
}

impl Client {
    fn open(port: u16) -> Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { stream, replies: Replies::default(), owed: 0 })
    }

    /// Reads until every request has its reply.
    fn settle(&mut self, buffer: &mut [u8]) -> Result<()> {
        while self.owed > 0 {
            let count = self.stream.read(buffer)?;
            if count == 0 {
                return Err("the server closed a connection".into());
            }
            let complete = self.replies.take(&buffer[..count])?;
            self.owed = self.owed.checked_sub(complete).ok_or("more replies than requests")?;
        }
        Ok(())
    }

    fn send(&mut self, bytes: &[u8], requests: usize) -> Result<()> {
        self.stream.write_all(bytes)?;
        self.owed += requests;
        Ok(())
    }
}

/// The connections of a load, their outstanding requests, and the range of the numbers in requests.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Connections that send requests.
    pub(crate) clients: usize,
    /// Outstanding requests per connection.
    pub(crate) depth: usize,
    /// Numbers in requests are random and smaller than this.
    pub(crate) keys: u64,
}

/// Connections to one server.
pub(crate) struct Load {
    clients: Vec<Client>,
    /// Connections that receive a message for each request.
    subscribers: Vec<Client>,
    shape: Shape,
    rng: Rng,
    buffer: Vec<u8>,
}

impl Load {
    pub(crate) fn open(port: u16, shape: Shape) -> Result<Load> {
        let clients = (0..shape.clients).map(|_| Client::open(port)).collect::<Result<_>>()?;
        // The fixed seed gives each server the same keys.
        Ok(Load { clients, subscribers: Vec::new(), shape, rng: Rng::new(1), buffer: vec![0; 256 << 10] })
    }

    /// Adds connections that send `template` once, and then receive a message for each request
    /// of the load.
    pub(crate) fn subscribe(&mut self, port: u16, template: &Template, count: usize) -> Result<()> {
        for _ in 0..count {
            let mut client = Client::open(port)?;
            client.send(&template.bytes, 1)?;
            client.settle(&mut self.buffer)?;
            self.subscribers.push(client);
        }
        Ok(())
    }

    /// Sends `count` requests, rounded up to whole pipelines, and waits for all replies; returns the number
    /// of requests and the seconds that they took.
    pub(crate) fn run(&mut self, template: &Template, count: u64) -> Result<(u64, f64)> {
        let Shape { depth, keys, .. } = self.shape;
        let began = shell::now();
        let mut out = Vec::new();
        let mut sent = 0;
        while sent < count {
            let before = sent;
            for client in &mut self.clients {
                client.settle(&mut self.buffer)?;
                if sent >= count {
                    continue;
                }
                out.clear();
                for _ in 0..depth {
                    template.write(&mut out, &mut || self.rng.below(keys));
                }
                client.send(&out, depth)?;
                sent += depth as u64;
            }
            for subscriber in &mut self.subscribers {
                subscriber.owed += (sent - before) as usize;
                subscriber.settle(&mut self.buffer)?;
            }
        }
        for client in &mut self.clients {
            client.settle(&mut self.buffer)?;
        }
        Ok((sent, began.elapsed().as_secs_f64()))
    }
}

/// Sends writes on one connection, a thousand at a time, so that their replies fit the socket's buffers and
/// the server never waits for this thread.
pub(crate) struct Writer {
    client: Client,
    buffer: Vec<u8>,
    out: Vec<u8>,
    requests: usize,
}

impl Writer {
    pub(crate) fn open(port: u16) -> Result<Writer> {
        let client = Client::open(port)?;
        Ok(Writer { client, buffer: vec![0; 256 << 10], out: Vec::new(), requests: 0 })
    }

    /// Adds a request with these words.
    pub(crate) fn push(&mut self, words: &[&[u8]]) -> Result<()> {
        encode(words, &mut self.out);
        self.added()
    }

    fn added(&mut self) -> Result<()> {
        self.requests += 1;
        if self.requests == 1000 { self.finish() } else { Ok(()) }
    }

    /// Sends the added requests and waits for the replies.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.client.send(&self.out, std::mem::take(&mut self.requests))?;
        self.out.clear();
        self.client.settle(&mut self.buffer)
    }
}

/// Sends `count` requests on one connection, with the numbers counted from 0.
pub(crate) fn fill(port: u16, template: &Template, count: u64) -> Result<()> {
    let mut writer = Writer::open(port)?;
    for index in 0..count {
        template.write(&mut writer.out, &mut || index);
        writer.added()?;
    }
    writer.finish()
}

/// Sends `template` `probes` times on one connection, one at a time with [`PROBE_PAUSE`] between them, while
/// the load sends the same template; returns the seconds until each reply.
pub(crate) fn probe(port: u16, mut load: Load, template: &Template, probes: usize) -> Result<Vec<f64>> {
    let keys = load.shape.keys;
    let mut rng = Rng::new(2);
    // These requests warm up the server and are not counted.
    load.run(template, 10_000)?;
    beside(
        move |is_over| {
            while !is_over() {
                load.run(template, 5000)?;
            }
            Ok(())
        },
        || {
            let mut pinger = Pinger::open(port)?;
            (0..probes).map(|_| pinger.ask(template, &mut || rng.below(keys))).collect()
        },
    )
}

/// The seconds that a client waits for each PING while [`fill`] runs on another connection.
pub(crate) fn waits_beside_fill(port: u16, template: &Template, count: u64) -> Result<Vec<f64>> {
    let ping = Template::new("PING");
    let mut waits = Vec::new();
    let watched = std::sync::Mutex::new(&mut waits);
    beside(
        |is_over| {
            let mut pinger = Pinger::open(port)?;
            let mut waits = watched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            while !is_over() {
                waits.push(pinger.ask(&ping, &mut || 0)?);
            }
            Ok(())
        },
        || fill(port, template, count),
    )?;
    Ok(waits)
}

/// Runs `other` on a thread of its own while `work` runs. The argument of `other` returns whether `work` is
/// done.
fn beside<T>(
    other: impl FnOnce(&dyn Fn() -> bool) -> Result<()> + Send,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    // Relaxed ordering suffices on both sides: the flag orders nothing, and the join publishes the thread's
    // results.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other =
            scope.spawn(|| other(&|| is_over.load(Ordering::Relaxed)).map_err(|error| error.to_string()));
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        match other.join() {
            Ok(result) => result?,
            Err(_) => return Err("the thread beside the measurement panicked".into()),
        }
        done
    })
}

/// A client that pauses before each request.
struct Pinger {
    client: Client,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

impl Pinger {
    fn open(port: u16) -> Result<Pinger> {
        Ok(Pinger { client: Client::open(port)?, buffer: vec![0; 4096], out: Vec::new() })
    }

    /// Sends one request after a pause; returns the seconds until its reply.
    fn ask(&mut self, template: &Template, number: &mut impl FnMut() -> u64) -> Result<f64> {
        std::thread::sleep(PROBE_PAUSE);
        self.out.clear();
        template.write(&mut self.out, number);
        let began = shell::now();
        self.client.send(&self.out, 1)?;
        self.client.settle(&mut self.buffer)?;
        Ok(began.elapsed().as_secs_f64())
    }
}

/// Repeats `count` times: opens a connection, makes one request, and closes the connection.
pub(crate) fn churn(port: u16, template: &Template, count: u64) -> Result<()> {
    let mut buffer = vec![0; 4096];
    for index in 0..count {
        let mut client = Client::open(port)?;
        let mut out = Vec::new();
        template.write(&mut out, &mut || index);
        client.send(&out, 1)?;
        client.settle(&mut buffer)?;
    }
    Ok(())
}

/// Sends one request, and then PINGs on other connections until [`AFTERMATH`] has passed since the request's
/// reply, because servers free much memory after the reply. Returns the longest wait for a PING in seconds.
pub(crate) fn wait_behind(port: u16, template: &Template) -> Result<f64> {
    let (mut slow, mut other) = (Client::open(port)?, Client::open(port)?);
    let mut buffer = vec![0; 256 << 10];
    let ping = Template::new("PING");
    for client in [&mut slow, &mut other] {
        client.send(&ping.bytes, 1)?;
        client.settle(&mut buffer)?;
    }
    let began = shell::now();
    slow.send(&template.bytes, 1)?;
    other.send(&ping.bytes, 1)?;
    other.settle(&mut buffer)?;
    let mut longest = began.elapsed().as_secs_f64();
    slow.settle(&mut buffer)?;
    let mut pinger = Pinger::open(port)?;
    let replied = shell::now();
    while replied.elapsed() < AFTERMATH {
        longest = longest.max(pinger.ask(&ping, &mut || 0)?);
    }
    Ok(longest)
}

/// Connections that have made one request and are kept.
pub(crate) struct Idle {
    _clients: Vec<Client>,
}

impl Idle {
    /// Opens `count` connections, each of which makes one request.
    pub(crate) fn open(port: u16, count: usize) -> Result<Idle> {
        let ping = Template::new("PING");
        let mut buffer = vec![0; 4096];
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            let mut client = Client::open(port)?;
            client.send(&ping.bytes, 1)?;
            client.settle(&mut buffer)?;
            clients.push(client);
        }
        Ok(Idle { _clients: clients })
    }
}

#[cfg(test)]
mod tests {
    use super::{Replies, Template};

    #[test]
    fn replies_are_counted_however_they_are_cut() {
        let raw = b"+OK\r\n$3\r\na\nb\r\n$-1\r\n*2\r\n$1\r\n\n\r\n*2\r\n:1\r\n*0\r\n:7\r\n*0\r\n*1\r\n*1\r\n*1\r\n:1\r\n*-1\r\n";
        for first in 0..raw.len() {
            for second in first..raw.len() {
                let mut replies = Replies::default();
                let parts = [&raw[..first], &raw[first..second], &raw[second..]];
                let count: usize = parts.iter().map(|part| replies.take(part).expect("replies")).sum();
                assert_eq!((count, replies.open, replies.skip), (8, 0, 0), "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn the_last_byte_of_a_reply_counts_it_and_none_before() {
        let raw = b"*2\r\n*2\r\n:1\r\n$1\r\nx\r\n$2\r\nab\r\n";
        let mut replies = Replies::default();
        for byte in &raw[..raw.len() - 1] {
            assert_eq!(replies.take(&[*byte]).expect("a part"), 0);
        }
        assert_eq!(replies.take(b"\n").expect("the end"), 1);
    }

    #[test]
    fn an_error_reply_ends_the_run_with_its_text() {
        let error = Replies::default().take(b"+OK\r\n-ERR no such thing\r\n").expect_err("an error");
        assert_eq!(error.to_string(), "-ERR no such thing");
        assert!(Replies::default().take(b"hello\r\n").is_err());
    }

    #[test]
    fn numbers_take_the_slots_and_lengths_stay_right() {
        let template = Template::new("MSET k:# $3 k:# x");
        let mut numbers = [7, 123_456_789_012].into_iter();
        let mut out = b"before".to_vec();
        template.write(&mut out, &mut || numbers.next().expect("two numbers"));
        let wanted = b"before*5\r\n$4\r\nMSET\r\n$14\r\nk:000000000007\r\n$3\r\nvvv\r\n$14\r\nk:123456789012\r\n$1\r\nx\r\n";
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(wanted));
    }
}
