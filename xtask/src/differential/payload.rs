//! Payloads for RESTORE: strings, lists, sets, hashes and sorted sets in every encoding that files have
//! had, valid or with bytes changed.
//!
//! Types that only one of the servers reads are neither drawn nor produced by a changed byte, because the
//! datasets would differ. Version 81, which ours reads and the reference refuses, is not drawn either.

use super::generator::Generator;
use super::{values, zsets};

/// A payload, mostly a valid one. Its checksum is right, except in a few payloads, which must be refused.
pub(super) fn payload(generator: &mut Generator) -> Vec<u8> {
    let of_zset = generator.chance(20);
    let mut payload =
        if of_zset { zsets::body(generator, text, [listpack, ziplist]) } else { body(generator) };
    if !of_zset && generator.chance(35) {
        spoil(generator, &mut payload);
    }
    let version: u16 = match generator.below(12) {
        0 => 11,
        1 => 6,
        2 => [0, 12, 79, 82, 0xffff][generator.below(5)],
        _ => 80,
    };
    payload.extend_from_slice(&version.to_le_bytes());
    let mut sum = crc64(&payload);
    if generator.chance(4) {
        sum ^= 1 << generator.below(64);
    }
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

/// The arguments of RESTORE: key, time to live, payload, options.
pub(super) fn arguments(generator: &mut Generator) -> Vec<Vec<u8>> {
    let key = if generator.chance(50) {
        values::key(&mut generator.rng)
    } else {
        values::list_key(&mut generator.rng)
    };
    let absolute = generator.chance(20);
    // No time to live is short, because one that ends during the stream would make the datasets differ.
    let ttl: &[&str] = if absolute {
        &["1", "33177117420123", "9223372036854775807", "0", "-1"]
    } else {
        // No time to live leads beyond 2^63 ms, which is an error in ours, while the reference deletes the
        // key.
        &["0", "0", "0", "0", "0", "33177117420123", "9223000000000000000", "-1", "x", ""]
    };
    let mut words = vec![key, generator.pick(ttl), payload(generator)];
    if absolute {
        words.push(generator.token("ABSTTL"));
    }
    if generator.chance(70) {
        words.push(generator.token("REPLACE"));
    }
    if generator.chance(10) {
        words.push(generator.pick(&["IDLETIME", "FREQ", "idletime", "KEEPTTL", ""]));
        words.push(generator.pick(&["0", "5", "255", "256", "-1", "x", "9223372036854775807"]));
    }
    words
}

/// The type byte of a payload, and a value.
fn body(generator: &mut Generator) -> Vec<u8> {
    let elements: Vec<Vec<u8>> =
        (0..generator.below(9)).map(|_| values::content(&mut generator.rng)).collect();
    match generator.below(14) {
        0..3 => {
            let value = values::content(&mut generator.rng);
            [vec![0], text(generator, &value)].concat()
        }
        3 => {
            let mut body = vec![1];
            length(elements.len(), &mut body);
            elements.iter().for_each(|element| body.extend(text(generator, element)));
            body
        }
        4 => [vec![10], text(generator, &ziplist(&elements))].concat(),
        5 => {
            let nodes = 1 + generator.below(3);
            let mut body = vec![14, nodes as u8];
            (0..nodes).for_each(|_| body.extend(text(generator, &ziplist(&elements))));
            body
        }
        6 => {
            let nodes = generator.below(4);
            let mut body = vec![18, nodes as u8];
            for _ in 0..nodes {
                if generator.chance(30) {
                    let element = values::content(&mut generator.rng);
                    body.push(1);
                    body.extend(text(generator, &element));
                } else {
                    body.push(2);
                    body.extend(text(generator, &listpack(&elements)));
                }
            }
            body
        }
        7 => hash(generator),
        8 => {
            // The number of elements may be odd, or a field may occur twice; both servers must refuse such a
            // hash.
            let kind = [13, 16][generator.below(2)];
            let fields = fields(generator);
            let packed = if kind == 13 { ziplist(&fields) } else { listpack(&fields) };
            [vec![kind], text(generator, &packed)].concat()
        }
        9 => {
            let fields = fields(generator);
            [vec![9], text(generator, &zipmap(&fields))].concat()
        }
        10 => {
            let mut body = vec![2];
            length(elements.len(), &mut body);
            elements.iter().for_each(|element| body.extend(text(generator, element)));
            body
        }
        11 => {
            let ints = intset(generator);
            [vec![11], text(generator, &ints)].concat()
        }
        12 => [vec![20], text(generator, &listpack(&elements))].concat(),
        _ => {
            let kind = [8, 23, 30, 100, 243, 250, 254, 255][generator.below(8)];
            [vec![kind], text(generator, b"value")].concat()
        }
    }
}

/// Fields and values alternately; sometimes a duplicate field, or a field without a value.
fn fields(generator: &mut Generator) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for number in 0..generator.below(6) {
        let number = if generator.chance(3) { 0 } else { number };
        all.push(if generator.chance(50) {
            format!("m{number}").into_bytes()
        } else {
            number.to_string().into_bytes()
        });
        all.push(values::content(&mut generator.rng));
    }
    if generator.chance(3) {
        all.pop();
    }
    all
}

/// A hash, field by field, with or without expiries.
fn hash(generator: &mut Generator) -> Vec<u8> {
    let kind = [4, 22][generator.below(2)];
    let all = fields(generator);
    let mut body = vec![kind];
    length(all.len() / 2, &mut body);
    for pair in all.chunks_exact(2) {
        pair.iter().for_each(|part| body.extend(text(generator, part)));
        if kind == 22 {
            let at: i64 = [-1, 33_177_117_420_123, i64::MAX][generator.below(3)];
            body.extend_from_slice(&at.to_le_bytes());
        }
    }
    body
}

/// A zipmap without unused bytes.
fn zipmap(fields: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![(fields.len() / 2).min(254) as u8];
    for (index, part) in fields.iter().enumerate() {
        match part.len() {
            len @ 0..254 => out.push(len as u8),
            len => {
                out.push(254);
                out.extend_from_slice(&(len as u32).to_le_bytes());
            }
        }
        if index % 2 == 1 {
            out.push(0);
        }
        out.extend_from_slice(part);
    }
    out.push(255);
    out
}

/// Changes, removes or adds bytes after the type.
fn spoil(generator: &mut Generator, payload: &mut Vec<u8>) {
    for _ in 0..1 + generator.below(3) {
        if payload.len() < 2 {
            return;
        }
        let at = 1 + generator.below(payload.len() - 1);
        match generator.below(5) {
            0 => payload[at] ^= 1 << generator.below(8),
            1 => payload[at] = [0, 0xff, 0x80, 0x81, 0xc3, 0xfe, 0x7f, 1][generator.below(8)],
            2 => payload[at] = payload[at].wrapping_add(1),
            3 => payload.truncate(at),
            _ => payload.insert(at, [0, 1, 2, 0xff, 0x81][generator.below(5)]),
        }
    }
}

/// A text: raw, as an integer, or compressed without becoming shorter.
fn text(generator: &mut Generator, bytes: &[u8]) -> Vec<u8> {
    let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<i32>().ok());
    let is_canonical = number.is_some_and(|number| number.to_string().as_bytes() == bytes);
    let mut out = Vec::new();
    match number.filter(|_| is_canonical && generator.chance(60)) {
        Some(number) => {
            out.push(0xc2);
            out.extend_from_slice(&number.to_le_bytes());
        }
        None if !bytes.is_empty() && generator.chance(25) => {
            let rows: Vec<u8> =
                bytes.chunks(32).flat_map(|row| [&[row.len() as u8 - 1], row].concat()).collect();
            out.push(0xc3);
            length(rows.len(), &mut out);
            length(bytes.len(), &mut out);
            out.extend(rows);
        }
        None => {
            length(bytes.len(), &mut out);
            out.extend_from_slice(bytes);
        }
    }
    out
}

fn length(len: usize, out: &mut Vec<u8>) {
    match len {
        0..64 => out.push(len as u8),
        64..16_384 => out.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
        _ => {
            out.push(0x80);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

/// Integers of one width, mostly in order.
fn intset(generator: &mut Generator) -> Vec<u8> {
    let width = [2, 4, 8][generator.below(3)];
    let mut numbers: Vec<i16> = (0..generator.below(9)).map(|_| generator.below(400) as i16 - 200).collect();
    if generator.chance(90) {
        numbers.sort_unstable();
        numbers.dedup();
    }
    let mut out = (width as u32).to_le_bytes().to_vec();
    out.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
    numbers.iter().for_each(|number| out.extend_from_slice(&i64::from(*number).to_le_bytes()[..width]));
    out
}

/// A ziplist; integers from 0 to 127 are written as integers of one byte.
fn ziplist(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut entries = Vec::new();
    let (mut before, mut last) = (0usize, 10);
    for element in elements {
        last = 10 + entries.len();
        let from = entries.len();
        if before < 254 {
            entries.push(before as u8);
        } else {
            entries.push(0xfe);
            entries.extend_from_slice(&(before as u32).to_le_bytes());
        }
        match small_number(element) {
            Some(number) => entries.extend_from_slice(&[0xfe, number]),
            None => {
                match element.len() {
                    len @ 0..64 => entries.push(len as u8),
                    len => {
                        entries.push(0x80);
                        entries.extend_from_slice(&(len as u32).to_be_bytes());
                    }
                }
                entries.extend_from_slice(element);
            }
        }
        before = entries.len() - from;
    }
    let mut out = ((entries.len() + 11) as u32).to_le_bytes().to_vec();
    out.extend_from_slice(&(last as u32).to_le_bytes());
    out.extend_from_slice(&(elements.len() as u16).to_le_bytes());
    out.extend(entries);
    out.push(0xff);
    out
}

/// A listpack with these elements.
fn listpack(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut entries = Vec::new();
    for element in elements {
        let from = entries.len();
        match (small_number(element), element.len()) {
            (Some(number), _) => entries.push(number),
            (None, len @ 0..64) => entries.push(0x80 | len as u8),
            (None, len @ 64..4096) => entries.extend_from_slice(&(0xe000 | len as u16).to_be_bytes()),
            (None, len) => {
                entries.push(0xf0);
                entries.extend_from_slice(&(len as u32).to_le_bytes());
            }
        }
        if small_number(element).is_none() {
            entries.extend_from_slice(element);
        }
        let body = entries.len() - from;
        match body {
            0..128 => entries.push(body as u8),
            128..16_384 => entries.extend_from_slice(&[(body >> 7) as u8, (body & 0x7f) as u8 | 0x80]),
            _ => entries.extend_from_slice(&[
                (body >> 14) as u8,
                (body >> 7 & 0x7f) as u8 | 0x80,
                (body & 0x7f) as u8 | 0x80,
            ]),
        }
    }
    let mut out = ((entries.len() + 7) as u32).to_le_bytes().to_vec();
    out.extend_from_slice(&(elements.len() as u16).to_le_bytes());
    out.extend(entries);
    out.push(0xff);
    out
}

/// An integer from 0 to 127 in its canonical digits.
fn small_number(element: &[u8]) -> Option<u8> {
    let number = std::str::from_utf8(element).ok()?.parse::<u8>().ok().filter(|number| *number < 128)?;
    (number.to_string().as_bytes() == element).then_some(number)
}

/// CRC-64 of Jones, computed bit by bit, independently of the crate that the product uses.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| {
            (sum >> 1) ^ if sum & 1 == 1 { 0x95ac_9329_ac4b_c9b5 } else { 0 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::crc64;

    #[test]
    fn the_checksum_is_the_reference_s() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
