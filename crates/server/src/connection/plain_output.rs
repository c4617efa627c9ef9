//! Output that is encoded and sent part by part, so that a reply of any size blocks no other client.

use crate::net::Codec;
use sluice_base::heap;
use sluice_evloop::SendBuf;

/// Output that is partly encoded, with the position of the next part.
pub struct PlainOutput {
    buf: SendBuf,
    /// Number of the segment to be encoded next. Even segments are parts of `buf.head`, odd segments are
    /// shared values.
    segment: usize,
    /// Number of bytes of the segment that were encoded.
    within: usize,
}

impl PlainOutput {
    /// Output of which no part was encoded yet.
    pub fn new(buf: SendBuf) -> PlainOutput {
        PlainOutput { buf, segment: 0, within: 0 }
    }

    /// Whether all output was encoded.
    pub fn is_over(&self) -> bool {
        self.segment > 2 * self.buf.shared.len()
    }

    /// The buffer, for reuse.
    pub fn into_buf(self) -> SendBuf {
        self.buf
    }

    /// Heap bytes of the output, without the shared values.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.buf.head) + heap::vec(&self.buf.shared)
    }

    /// Encodes the next [`PART_BYTES`] bytes, or fewer, and appends them to `out`. Returns the number of
    /// plain bytes that were encoded.
    ///
    /// # Errors
    /// The codec can send nothing more. The error is the reason with which the connection ends.
    pub fn encode_part(&mut self, codec: &mut dyn Codec, out: &mut Vec<u8>) -> Result<usize, String> {
        let (mut segment, mut within, mut taken) = (self.segment, self.within, 0);
        let mut parts: Vec<&[u8]> = Vec::new();
        while taken < PART_BYTES && segment <= 2 * self.buf.shared.len() {
            let rest = &self.bytes_of(segment)[within..];
            let part = &rest[..rest.len().min(PART_BYTES - taken)];
            taken += part.len();
            if part.len() < rest.len() {
                within += part.len();
            } else {
                (segment, within) = (segment + 1, 0);
            }
            if !part.is_empty() {
                parts.push(part);
            }
        }
        codec.encode(&parts, out)?;
        (self.segment, self.within) = (segment, within);
        Ok(taken)
    }

    fn bytes_of(&self, segment: usize) -> &[u8] {
        let SendBuf { head, shared } = &self.buf;
        let number = segment / 2;
        if segment % 2 == 1 {
            return &shared[number].bytes;
        }
        let at = |number: usize| shared.get(number).map_or(head.len(), |shared| shared.at.min(head.len()));
        let from = if number == 0 { 0 } else { at(number - 1) };
        &head[from..at(number)]
    }
}

/// Number of bytes that are encoded at a time. Encoding them takes about 100 microseconds.
pub const PART_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::PeerSide;
    use sluice_base::Bytes;
    use sluice_evloop::Shared;
    use sluice_tls::Buffers;

    #[derive(Debug)]
    struct Copying;

    impl Codec for Copying {
        fn decode(&mut self, _: &[u8], _: &mut Buffers) -> Result<PeerSide, String> {
            Ok(PeerSide::Open)
        }

        fn encode(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
            parts.iter().for_each(|part| out.extend_from_slice(part));
            Ok(())
        }

        fn peer_has_ended(&self) -> bool {
            false
        }

        fn end(&mut self, _: &mut Vec<u8>) {}

        fn footprint(&self) -> usize {
            0
        }
    }

    #[test]
    fn all_bytes_come_once_and_in_order_in_parts_of_bounded_size() {
        let value = |byte: u8, len: usize| Bytes::from_vec(vec![byte; len]);
        for (head, shared) in [
            (b"".to_vec(), vec![]),
            (b"abc".to_vec(), vec![]),
            (vec![b'h'; 2 * PART_BYTES], vec![]),
            (
                b"abcdef".to_vec(),
                vec![(0, value(b'1', 5)), (3, value(b'2', PART_BYTES - 8)), (3, value(b'3', 9))],
            ),
            (
                b"ab".to_vec(),
                vec![(1, value(b'x', 3 * PART_BYTES + 1)), (2, value(b'y', 1)), (9, value(b'z', 1))],
            ),
        ] {
            let mut expected = Vec::new();
            let mut from = 0;
            for (at, bytes) in &shared {
                let at = (*at).min(head.len());
                expected.extend_from_slice(&head[from..at]);
                expected.extend_from_slice(bytes);
                from = at;
            }
            expected.extend_from_slice(&head[from..]);
            let shared = shared.into_iter().map(|(at, bytes)| Shared { at, bytes }).collect();
            let mut output = PlainOutput::new(SendBuf { head, shared });
            let mut got = Vec::new();
            while !output.is_over() {
                let before = got.len();
                let taken = output.encode_part(&mut Copying, &mut got).unwrap();
                assert!(taken <= PART_BYTES && got.len() == before + taken);
            }
            assert!(got == expected);
        }
    }
}
