//! A primary that the test plays. It answers a replica's handshake and sends the data of the test.

use super::{Client, DEADLINE, until};
use std::io::Read;
use std::net::TcpListener;

/// The replication id of the played primary.
pub const REPLID: &str = "0123456789abcdef0123456789abcdef01234567";

/// A listener for replicas; see the module.
pub struct PlayedPrimary {
    listener: TcpListener,
    pub port: u16,
}

impl PlayedPrimary {
    pub fn new() -> PlayedPrimary {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        PlayedPrimary { listener, port }
    }

    /// The next connection of a replica.
    pub fn accept(&self) -> Link {
        let stream = until("a replica", || self.listener.accept().ok()).0;
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Link { client: Client { stream } }
    }
}

/// The connection of a replica to the played primary.
pub struct Link {
    client: Client,
}

impl Link {
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.client.send(bytes);
    }

    /// The next line that is not part of a request.
    pub fn line(&mut self) -> String {
        self.client.line()
    }

    /// A second handle of the connection, for another thread.
    pub fn duplicate(&self) -> Link {
        Link { client: Client { stream: self.client.stream.try_clone().unwrap() } }
    }

    /// Checks that the replica ends the connection; what the replica has sent before does not matter.
    pub fn expect_end(&mut self) {
        let mut rest = Vec::new();
        match self.client.stream.read_to_end(&mut rest) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            other => drop(other.unwrap()),
        }
    }

    /// The next request, its words separated by spaces.
    pub fn request(&mut self) -> String {
        let mut header = self.client.line();
        while !header.starts_with('*') {
            header = self.client.line();
        }
        let words = header[1..].parse().unwrap();
        let mut request = Vec::new();
        for _ in 0..words {
            self.client.line();
            request.push(self.client.line());
        }
        request.join(" ")
    }

    /// Answers the handshake; returns the request for the data.
    pub fn shake_hands(&mut self) -> String {
        loop {
            let request = self.request();
            match request.split(' ').next().unwrap() {
                "PING" => self.send("+PONG\r\n"),
                "PSYNC" | "SYNC" => return request,
                "REPLCONF" | "AUTH" => self.send("+OK\r\n"),
                _ => panic!("{request}"),
            }
        }
    }

    pub fn send_snapshot(&mut self, snapshot: &[u8]) {
        self.send(format!("${}\r\n", snapshot.len()));
        self.send(snapshot);
    }

    /// Reads acknowledgements until one has this offset; none may have a larger offset.
    pub fn acknowledged(&mut self, offset: u64) {
        loop {
            let request = self.request();
            let words: Vec<&str> = request.split(' ').collect();
            assert_eq!(words[..2], ["REPLCONF", "ACK"], "{request}");
            let acked: u64 = words[2].parse().unwrap();
            assert!(acked <= offset, "{acked} was acknowledged, {offset} was sent");
            if acked == offset {
                return;
            }
        }
    }
}

/// A snapshot of these strings in database 0.
pub fn snapshot(pairs: &[(&str, &str)]) -> Vec<u8> {
    use sluice_persist::rdb::{Compression, Text, Usage, Version, WriteOptions, Writer};
    let options = WriteOptions { version: Version::Valkey, compression: Compression::None, checksum: true };
    let mut writer = Writer::new(options);
    writer.db(0, pairs.len(), 0);
    for (key, value) in pairs {
        writer.string(key.as_bytes(), Text::Bytes(value.as_bytes()), None, Usage::Absent);
    }
    writer.finish()
}
