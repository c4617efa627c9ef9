//! An LZ4 frame: a header, blocks that are decoded one by one, and an end mark.
//!
//! Invariants: (1) a block yields at most the size that the header allows, which is 4 MiB or less, and at
//! most 255 times the block's own length; no more memory is reserved for a block; (2) if checksums are
//! compared, the bytes of a block are returned only after the block's own checksum, if it has one, matched.

use super::part::{FramePart, PartStop, bad, head};
use lz4_flex::block;
use std::hash::Hasher;
use twox_hash::XxHash32;

/// Decompresses a frame.
#[derive(Debug)]
pub(super) struct Lz4Frame {
    /// Whether the checksums of blocks and of the whole contents are verified.
    checksum: bool,
    /// `None` before the header was read.
    header: Option<Lz4Header>,
    /// The last decoded bytes, if blocks refer to earlier blocks.
    window: Vec<u8>,
    /// Number of bytes that have been decoded.
    brought: u64,
    /// The checksum of all decoded bytes, if the frame ends with one.
    contents: XxHash32,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug)]
struct Lz4Header {
    /// Whether blocks refer to bytes of earlier blocks.
    linked: bool,
    /// Whether a checksum follows each block.
    block_sums: bool,
    /// Whether a checksum of all contents ends the frame.
    content_sum: bool,
    /// Maximum length in bytes of a decoded block.
    block_bytes_max: usize,
    /// Length in bytes of the decoded contents, if the frame states this length.
    content_bytes: Option<u64>,
}

impl Lz4Frame {
    /// A frame before its first byte.
    pub(super) fn new(checksum: bool) -> Lz4Frame {
        let contents = XxHash32::with_seed(0);
        Lz4Frame { checksum, header: None, window: Vec::new(), brought: 0, contents }
    }

    /// Whether the contents, or each block of them, have a checksum; false before the header was read.
    pub(super) fn is_summed(&self) -> bool {
        self.header.is_some_and(|header| header.content_sum || header.block_sums)
    }

    /// Decodes the part at the beginning of `input`, and appends the decoded bytes to `plain`.
    pub(super) fn part(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Result<FramePart, PartStop> {
        match self.header {
            None => self.read_header(input),
            Some(header) => self.block(header, input, plain),
        }
    }

    fn read_header(&mut self, input: &[u8]) -> Result<FramePart, PartStop> {
        let &[a, b, c, d, flags, sizes] = head(input, 6)? else { return Err(PartStop::Need(6)) };
        if [a, b, c, d] != FRAME_MAGIC {
            return bad("the magic of an LZ4 frame is missing");
        }
        if flags >> 6 != 1 || flags & 0b10 != 0 || sizes & 0b1000_1111 != 0 {
            return bad("the header of the LZ4 frame is not of a known version");
        }
        if flags & 1 != 0 {
            return bad("the LZ4 frame needs a dictionary");
        }
        let block_bytes_max = match sizes >> 4 {
            4 => 64 << 10,
            5 => 256 << 10,
            6 => 1 << 20,
            7 => 4 << 20,
            _ => return bad("the LZ4 frame has blocks of an unknown size"),
        };
        let has_len = flags & 0b1000 != 0;
        let len = if has_len { 15 } else { 7 };
        let header = head(input, len)?;
        let content_bytes =
            has_len.then(|| header[6..14].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
        if (XxHash32::oneshot(0, &header[4..len - 1]) >> 8) as u8 != header[len - 1] {
            return bad("the header of the LZ4 frame is damaged");
        }
        self.header = Some(Lz4Header {
            linked: flags & 0b10_0000 == 0,
            block_sums: flags & 0b1_0000 != 0,
            content_sum: flags & 0b100 != 0,
            block_bytes_max,
            content_bytes,
        });
        Ok(FramePart::Read(len))
    }

    fn block(&mut self, header: Lz4Header, input: &[u8], plain: &mut Vec<u8>) -> Result<FramePart, PartStop> {
        let word = u32_at(input, 0)?;
        if word == 0 {
            return self.end(header, input);
        }
        let (is_plain, len) = (word & NOT_COMPRESSED != 0, (word & !NOT_COMPRESSED) as usize);
        let Lz4Header { linked, block_sums, content_sum, block_bytes_max, .. } = header;
        if len > block_bytes_max {
            return bad("an LZ4 block is longer than the frame allows");
        }
        let whole = 4 + len + if block_sums { 4 } else { 0 };
        let bytes = &head(input, whole)?[4..4 + len];
        if block_sums && self.checksum && XxHash32::oneshot(0, bytes) != u32_at(input, 4 + len)? {
            return bad("the checksum of an LZ4 block is wrong");
        }
        let start = plain.len();
        if is_plain {
            plain.extend_from_slice(bytes);
        } else {
            plain.resize(start + block_bytes_max.min(len.saturating_mul(GAIN_MAX)), 0);
            match block::decompress_into_with_dict(bytes, &mut plain[start..], &self.window) {
                Ok(made) => plain.truncate(start + made),
                Err(_) => return bad("an LZ4 block is malformed"),
            }
        }
        let made = &plain[start..];
        self.brought += made.len() as u64;
        if content_sum && self.checksum {
            self.contents.write(made);
        }
        if linked {
            let kept = WINDOW_BYTES.saturating_sub(made.len()).min(self.window.len());
            self.window.drain(..self.window.len() - kept);
            self.window.extend_from_slice(&made[made.len().saturating_sub(WINDOW_BYTES)..]);
        }
        Ok(FramePart::Read(whole))
    }

    /// Decodes the end mark and the checksum of the contents.
    fn end(&self, header: Lz4Header, input: &[u8]) -> Result<FramePart, PartStop> {
        let Lz4Header { content_sum, content_bytes, .. } = header;
        if content_sum && u32_at(input, 4)? != self.contents.finish_32() && self.checksum {
            return bad("the checksum of the LZ4 frame is wrong");
        }
        if content_bytes.is_some_and(|announced| announced != self.brought) {
            return bad("the LZ4 frame does not have the announced length");
        }
        Ok(FramePart::Last(if content_sum { 8 } else { 4 }))
    }
}

/// A little-endian integer of four bytes, `behind` bytes after the beginning of `input`.
fn u32_at(input: &[u8], behind: usize) -> Result<u32, PartStop> {
    let (_, bytes) = head(input, behind + 4)?.split_at(behind);
    Ok(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

/// Writes a frame: independent blocks of 64 KiB, either with checksums of the blocks and the
/// contents or without.
pub(super) struct Lz4Packer {
    checksum: bool,
    /// Uncompressed bytes of the block being filled.
    block: Vec<u8>,
    contents: XxHash32,
}

impl Lz4Packer {
    /// Begins a frame, with or without checksums, and appends its header to `out`.
    pub(super) fn begin(checksum: bool, out: &mut Vec<u8>) -> Lz4Packer {
        let sums = if checksum { BLOCK_SUMS | CONTENT_SUM } else { 0 };
        let fields = [FRAME_VERSION | INDEPENDENT | sums, 4 << 4];
        out.extend_from_slice(&FRAME_MAGIC);
        out.extend_from_slice(&fields);
        out.push((XxHash32::oneshot(0, &fields) >> 8) as u8);
        Lz4Packer { checksum, block: Vec::with_capacity(BLOCK_BYTES), contents: XxHash32::with_seed(0) }
    }

    /// Adds bytes; full blocks are appended to `out`.
    pub(super) fn feed(&mut self, mut plain: &[u8], out: &mut Vec<u8>) {
        while !plain.is_empty() {
            let (now, later) = plain.split_at(plain.len().min(BLOCK_BYTES - self.block.len()));
            self.block.extend_from_slice(now);
            if self.block.len() == BLOCK_BYTES {
                self.end_block(out);
            }
            plain = later;
        }
    }

    /// Writes the last block and the end of the frame.
    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        if !self.block.is_empty() {
            self.end_block(out);
        }
        out.extend_from_slice(&[0; 4]);
        if self.checksum {
            out.extend_from_slice(&self.contents.finish_32().to_le_bytes());
        }
    }

    fn end_block(&mut self, out: &mut Vec<u8>) {
        let packed = block::compress(&self.block);
        let (word, bytes) = match packed.len() < self.block.len() {
            true => (packed.len() as u32, &packed),
            false => (self.block.len() as u32 | NOT_COMPRESSED, &self.block),
        };
        out.extend_from_slice(&word.to_le_bytes());
        out.extend_from_slice(bytes);
        if self.checksum {
            out.extend_from_slice(&XxHash32::oneshot(0, bytes).to_le_bytes());
            self.contents.write(&self.block);
        }
        self.block.clear();
    }
}

/// `file` in uncompressed blocks, without checksums. For fuzzing.
pub(super) fn stored(file: &[u8], out: &mut Vec<u8>) {
    let fields = [FRAME_VERSION, 4 << 4];
    out.extend_from_slice(&FRAME_MAGIC);
    out.extend_from_slice(&fields);
    out.push((XxHash32::oneshot(0, &fields) >> 8) as u8);
    for block in file.chunks(BLOCK_BYTES) {
        out.extend_from_slice(&(block.len() as u32 | NOT_COMPRESSED).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&[0; 4]);
}

/// The first bytes of a frame: 0x184D2204, little endian.
const FRAME_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Bits of the first field: the supported version of frames.
const FRAME_VERSION: u8 = 0x40;
/// Bit: blocks do not refer to earlier blocks.
const INDEPENDENT: u8 = 0x20;
/// Bit: a checksum follows each block.
const BLOCK_SUMS: u8 = 0x10;
/// Bit: a checksum of the contents ends the frame.
const CONTENT_SUM: u8 = 0x04;
/// Bit: a block is not compressed.
const NOT_COMPRESSED: u32 = 1 << 31;
/// A block decodes to at most this many times its own length.
const GAIN_MAX: usize = 255;
/// Distance in bytes over which a block may refer back.
const WINDOW_BYTES: usize = 64 << 10;
/// Length in bytes of a written block before compression.
const BLOCK_BYTES: usize = 64 << 10;
