//! Compares numbers and globs with those of a running reference server, byte for byte.
//!
//! The tests run if `SLUICE_PEER_ADDRESS` is `host:port` of a server whose databases 9 to 11 may be emptied;
//! otherwise they print a note.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use sluice_base::{LongDouble, Rng, glob, num};

#[test]
fn incrbyfloat_answers_what_the_reference_answers() {
    let Some(mut peer) = Peer::connect("9") else { return };
    let mut rng = Rng::new(41);
    let mut refused = 0;
    for round in 0..20 {
        let pairs: Vec<(Vec<u8>, Vec<u8>)> =
            (0..1000).map(|_| (hostile_number(&mut rng), hostile_number(&mut rng))).collect();
        for (stored, increment) in &pairs {
            peer.send(&[b"SET", b"f", stored]);
            peer.send(&[b"INCRBYFLOAT", b"f", increment]);
        }
        for (stored, increment) in &pairs {
            assert_eq!(peer.reply(), b"OK");
            let expected = peer.reply();
            let ours = increase(stored, increment);
            refused += usize::from(ours.starts_with(b"ERR"));
            let shown = (stored.escape_ascii().to_string(), increment.escape_ascii().to_string());
            assert_eq!(
                ours.escape_ascii().to_string(),
                expected.escape_ascii().to_string(),
                "round {round}: {shown:?}"
            );
        }
    }
    assert!((2_000..16_000).contains(&refused), "a mix is wanted, not {refused} refusals of 20,000");
}

fn increase(stored: &[u8], increment: &[u8]) -> Vec<u8> {
    let (Some(stored), Some(increment)) = (LongDouble::parse(stored), LongDouble::parse(increment)) else {
        return b"ERR value is not a valid float".to_vec();
    };
    let sum = stored + increment;
    if !sum.is_finite() {
        return b"ERR increment would produce NaN or Infinity".to_vec();
    }
    let mut text = Vec::new();
    sum.push(&mut text);
    text
}

#[test]
fn scores_read_and_print_as_in_the_reference() {
    let Some(mut peer) = Peer::connect("10") else { return };
    let mut rng = Rng::new(42);
    for _ in 0..40 {
        let texts: Vec<Vec<u8>> = (0..1000)
            .map(|_| match rng.below(3) {
                0 => hostile_number(&mut rng),
                1 => format!("{:e}", f64::from_bits(rng.next_u64())).into_bytes(),
                _ => {
                    format!("{}", (rng.next_u64() >> rng.below(64)) as f64 / 10f64.powi(rng.below(30) as i32))
                        .into_bytes()
                }
            })
            .collect();
        for text in &texts {
            peer.send(&[b"DEL", b"z"]);
            peer.send(&[b"ZADD", b"z", text, b"m"]);
            peer.send(&[b"ZSCORE", b"z", b"m"]);
        }
        for text in &texts {
            peer.reply();
            let added = peer.reply();
            let score = peer.reply();
            let mut ours = Vec::new();
            match num::parse_f64(text) {
                None => ours.extend_from_slice(b"ERR value is not a valid float"),
                // In the reference, the score of a small sorted set passes through an integer, which has no
                // negative zero.
                Some(value) => num::push_f64(&mut ours, if value == 0.0 { 0.0 } else { value }),
            }
            let expected = if added == b"1" { score } else { added };
            assert_eq!(
                ours.escape_ascii().to_string(),
                expected.escape_ascii().to_string(),
                "{}",
                text.escape_ascii()
            );
        }
    }
}

#[test]
fn globs_match_what_keys_finds() {
    let Some(mut peer) = Peer::connect("11") else { return };
    let mut rng = Rng::new(43);
    peer.send(&[b"FLUSHDB"]);
    peer.reply();
    let mut random = |len_max: u64, alphabet: &[u8]| -> Vec<u8> {
        (0..rng.below(len_max + 1)).map(|_| alphabet[rng.below(alphabet.len() as u64) as usize]).collect()
    };
    let mut texts: Vec<Vec<u8>> = (0..60).map(|_| random(5, b"abc-]\\^[\xff")).collect();
    texts.sort();
    texts.dedup();
    for text in &texts {
        peer.send(&[b"SET", text, b""]);
        assert_eq!(peer.reply(), b"OK");
    }
    let mut found = 0;
    for _ in 0..20_000 {
        let pattern = random(8, b"ab*?[]^-\\c");
        if pattern == b"*" {
            // For this pattern, KEYS does not compare the names at all.
            continue;
        }
        peer.send(&[b"KEYS", &pattern]);
        let mut expected = peer.array();
        expected.sort();
        let ours: Vec<Vec<u8>> = texts.iter().filter(|text| glob::matches(&pattern, text)).cloned().collect();
        found += ours.len();
        assert_eq!(ours, expected, "{}", pattern.escape_ascii());
    }
    assert!(found > 1000);
    peer.send(&[b"FLUSHDB"]);
    peer.reply();
}

/// A text that is nearly a number, or a number that is often at the edge of a range.
fn hostile_number(rng: &mut Rng) -> Vec<u8> {
    let mut text = match rng.below(12) {
        0 => format!("{}", rng.next_u64() as i64),
        1 => format!("{}e{}", rng.next_u64() >> rng.below(64), rng.below(200) as i64 - 100),
        2 => format!("{}.{}", rng.below(100_000), rng.next_u64() >> rng.below(64)),
        3 => format!("-{}.{:05}", rng.next_u64() >> rng.below(64), rng.below(100_000)),
        4 => format!("{:#x}p{}", rng.next_u64() >> rng.below(64), rng.below(300) as i64 - 150),
        5 => format!("0X{:x}.{:x}P{}", rng.below(65536), rng.next_u64(), rng.below(33_000) as i64 - 16_500),
        6 => format!("{}e{}", rng.next_u64(), rng.below(10_100) as i64 - 5_050),
        7 => format!("{}", f64::from_bits(rng.next_u64())),
        8 => format!("{:e}", f64::from_bits(rng.next_u64())),
        9 => {
            let len_max = if rng.below(50) == 0 { 5200 } else { 80 };
            let len = rng.below(len_max);
            let digits: String = (0..len).map(|_| char::from(b'0' + rng.below(10) as u8)).collect();
            format!("{}.{digits}e{}", rng.below(10), rng.below(80) as i64 - 40)
        }
        10 => format!("0.{}5", "0".repeat(rng.below(20) as usize)),
        _ => {
            const WORDS: [&str; 12] = [
                "inf",
                "-inf",
                "Infinity",
                "nan",
                "0",
                "-0",
                "",
                ".",
                "1e4932",
                "-1.18e4932",
                "3.6e-4951",
                "0x",
            ];
            WORDS[rng.below(12) as usize].to_owned()
        }
    }
    .into_bytes();
    if rng.below(6) == 0 {
        const BYTES: &[u8] = b"+-.eExXpP 0159\0\tinf_";
        let byte = BYTES[rng.below(BYTES.len() as u64) as usize];
        text.insert(rng.below(text.len() as u64 + 1) as usize, byte);
    }
    text
}

struct Peer {
    stream: BufReader<TcpStream>,
    pending: Vec<u8>,
}

impl Peer {
    fn connect(database: &str) -> Option<Peer> {
        let Ok(address) = std::env::var("SLUICE_PEER_ADDRESS") else {
            eprintln!("skipped: SLUICE_PEER_ADDRESS is not set");
            return None;
        };
        let stream = TcpStream::connect(&address).expect("the reference server answers");
        let mut peer = Peer { stream: BufReader::new(stream), pending: Vec::new() };
        peer.send(&[b"SELECT", database.as_bytes()]);
        assert_eq!(peer.reply(), b"OK");
        Some(peer)
    }

    fn send(&mut self, args: &[&[u8]]) {
        self.pending.extend(format!("*{}\r\n", args.len()).bytes());
        for arg in args {
            self.pending.extend(format!("${}\r\n", arg.len()).bytes());
            self.pending.extend_from_slice(arg);
            self.pending.extend_from_slice(b"\r\n");
        }
    }

    fn line(&mut self) -> Vec<u8> {
        if !self.pending.is_empty() {
            self.stream.get_mut().write_all(&std::mem::take(&mut self.pending)).expect("sent");
        }
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).expect("a reply");
        line.truncate(line.len().saturating_sub(2));
        line
    }

    fn reply(&mut self) -> Vec<u8> {
        let line = self.line();
        match line.split_first() {
            Some((b'$', b"-1")) => Vec::new(),
            Some((b'$', len)) => {
                let len: usize = std::str::from_utf8(len).expect("digits").parse().expect("a length");
                let mut text = vec![0; len + 2];
                self.stream.read_exact(&mut text).expect("a bulk string");
                text.truncate(len);
                text
            }
            Some((_, text)) => text.to_vec(),
            None => panic!("the connection was closed"),
        }
    }

    fn array(&mut self) -> Vec<Vec<u8>> {
        let line = self.line();
        let len: usize = std::str::from_utf8(&line[1..]).expect("digits").parse().expect("a length");
        (0..len).map(|_| self.reply()).collect()
    }
}
