//! The envelope of a compressed file: the bytes of a plain file, in blocks of LZ4.
//!
//! `docs/formats/rdb.md` describes the bytes. A file is one envelope and one frame; what follows the frame is
//! not looked at.
//!
//! Invariants: (1) a part is decoded when all its bytes are there, and asks for more otherwise; (2) a block
//! yields at most what its header allows, 4 MiB, and at most 255 times its bytes: memory is reserved for no
//! more; (3) where checksums are compared, bytes of a block are handed out when the block's own checksum was
//! right.

use super::error::{LoadError, Problem};
use lz4_flex::block;
use std::hash::Hasher;
use twox_hash::XxHash32;

/// What the first bytes of a file say about an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Envelope {
    /// It is a plain file, or none.
    Absent,
    /// More bytes are needed to tell.
    Undecided,
    /// The file is compressed.
    There,
}

/// Whether a file that begins with `head` has an envelope.
pub(super) fn envelope_of(head: &[u8]) -> Envelope {
    let magics: [&[u8]; 2] = [MAGIC, DRAFT_MAGIC];
    if magics.iter().any(|magic| head.starts_with(magic)) {
        Envelope::There
    } else if magics.iter().any(|magic| magic.starts_with(head)) {
        Envelope::Undecided
    } else {
        Envelope::Absent
    }
}

/// What one step brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unpacked {
    /// A part was decoded; it may have brought bytes.
    Part,
    /// The part at this offset of the file needs more bytes.
    Need(u64),
    /// The frame has ended.
    End,
}

/// A compressed file on its way to plain bytes.
#[derive(Debug)]
pub(super) struct Unpacker {
    /// Whether checksums of blocks and contents are compared.
    checksum: bool,
    stage: FrameStage,
    /// Bytes that were fed and are not dropped yet.
    input: Vec<u8>,
    /// Bytes of `input` that are decoded.
    at: usize,
    /// Offset of `input` in the file.
    base: u64,
    /// Bytes of the next part, as far as is known.
    wanted: usize,
    /// The last bytes that were brought, where blocks refer to those of blocks before.
    window: Vec<u8>,
    header: FrameHeader,
    /// Bytes brought.
    brought: u64,
    /// Of all bytes brought, where the frame ends with their checksum.
    contents: XxHash32,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameStage {
    Envelope,
    Header,
    Block,
    Ended,
}

/// What a frame says about itself.
#[derive(Clone, Copy, Debug, Default)]
struct FrameHeader {
    /// Blocks refer to bytes of blocks before.
    linked: bool,
    /// A checksum follows each block.
    block_sums: bool,
    /// A checksum of all contents ends the frame.
    content_sum: bool,
    /// Bytes that a block yields at most.
    block_bytes_max: usize,
    /// Bytes of all contents, if the frame says so.
    content_bytes: Option<u64>,
}

impl Unpacker {
    /// A file of which `start` has arrived. `checksum` is the setting `rdbchecksum`.
    pub(super) fn new(start: Vec<u8>, checksum: bool) -> Unpacker {
        Unpacker {
            checksum,
            stage: FrameStage::Envelope,
            input: start,
            at: 0,
            base: 0,
            wanted: 0,
            window: Vec::new(),
            header: FrameHeader::default(),
            brought: 0,
            contents: XxHash32::with_seed(0),
        }
    }

    /// Takes bytes that have arrived.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.at >= self.input.len() / 2 {
            self.input.drain(..self.at);
            self.base += self.at as u64;
            self.at = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    /// Bytes that were fed and are not decoded; after the end, those behind the frame.
    pub(super) fn rest(&self) -> &[u8] {
        &self.input[self.at..]
    }

    /// Decodes the next part, and appends the bytes that it brings to `plain`.
    ///
    /// # Errors
    /// What is wrong, and where in the compressed file.
    pub(super) fn step(&mut self, plain: &mut Vec<u8>) -> Result<Unpacked, LoadError> {
        let taken = match self.stage {
            FrameStage::Envelope => self.envelope(),
            FrameStage::Header => self.frame_header(),
            FrameStage::Block => self.block(plain),
            FrameStage::Ended => return Ok(Unpacked::End),
        };
        match taken {
            Ok(taken) => {
                self.at += taken;
                self.wanted = 0;
                Ok(Unpacked::Part)
            }
            Err(PartStop::Need(len)) => {
                self.wanted = len;
                Ok(Unpacked::Need(self.offset()))
            }
            Err(PartStop::Bad(problem)) => Err(LoadError { offset: self.offset(), problem }),
        }
    }

    /// How many bytes the next part lacks, at least, where [`Unpacked::Need`] was the answer.
    pub(super) fn missing(&self) -> usize {
        self.wanted.saturating_sub(self.rest().len())
    }

    /// Where in the file the next part begins.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The first `len` bytes of what is not decoded.
    fn head(&self, len: usize) -> Result<&[u8], PartStop> {
        self.rest().get(..len).ok_or(PartStop::Need(len))
    }

    /// An integer of four bytes, little endian, that stands so many bytes behind.
    fn u32_at(&self, behind: usize) -> Result<u32, PartStop> {
        let (_, bytes) = self.head(behind + 4)?.split_at(behind);
        Ok(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
    }

    fn envelope(&mut self) -> Result<usize, PartStop> {
        let is_draft = self.rest().starts_with(DRAFT_MAGIC);
        let magic = if is_draft { DRAFT_MAGIC } else { MAGIC };
        let len = magic.len() + 4;
        let is_known = match (is_draft, &self.head(len)?[magic.len()..]) {
            (false, fields) => fields == [VERSION, CODEC_LZ4, 0, KIND_RDB],
            // The third says whether the frame has checksums, which the frame does too.
            (true, fields) => matches!(fields, [VERSION, CODEC_LZ4, 0 | 1, KIND_RDB_DRAFT]),
        };
        if !is_known {
            return Err(PartStop::Bad(Problem::Envelope));
        }
        self.stage = FrameStage::Header;
        Ok(len)
    }

    fn frame_header(&mut self) -> Result<usize, PartStop> {
        let &[a, b, c, d, flags, sizes] = self.head(6)? else { return Err(PartStop::Need(6)) };
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
        let header = self.head(len)?;
        let content_bytes =
            has_len.then(|| header[6..14].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
        if (XxHash32::oneshot(0, &header[4..len - 1]) >> 8) as u8 != header[len - 1] {
            return bad("the header of the LZ4 frame is damaged");
        }
        self.header = FrameHeader {
            linked: flags & 0b10_0000 == 0,
            block_sums: flags & 0b1_0000 != 0,
            content_sum: flags & 0b100 != 0,
            block_bytes_max,
            content_bytes,
        };
        self.stage = FrameStage::Block;
        Ok(len)
    }

    fn block(&mut self, plain: &mut Vec<u8>) -> Result<usize, PartStop> {
        let head = self.u32_at(0)?;
        if head == 0 {
            return self.end();
        }
        let (is_plain, len) = (head & NOT_COMPRESSED != 0, (head & !NOT_COMPRESSED) as usize);
        let FrameHeader { linked, block_sums, content_sum, block_bytes_max, .. } = self.header;
        if len > block_bytes_max {
            return bad("an LZ4 block is longer than the frame allows");
        }
        let whole = 4 + len + if block_sums { 4 } else { 0 };
        let bytes = &self.head(whole)?[4..4 + len];
        if block_sums && self.checksum && XxHash32::oneshot(0, bytes) != self.u32_at(4 + len)? {
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
        Ok(whole)
    }

    /// The mark behind the last block, and the checksum of the contents.
    fn end(&mut self) -> Result<usize, PartStop> {
        let FrameHeader { content_sum, content_bytes, .. } = self.header;
        if content_sum && self.u32_at(4)? != self.contents.finish_32() && self.checksum {
            return bad("the checksum of the LZ4 frame is wrong");
        }
        if content_bytes.is_some_and(|announced| announced != self.brought) {
            return bad("the LZ4 frame has not the announced length");
        }
        self.stage = FrameStage::Ended;
        Ok(if content_sum { 8 } else { 4 })
    }
}

/// A file in an envelope: blocks that are not compressed, without checksums. For fuzzing.
pub(super) fn packed(file: &[u8]) -> Vec<u8> {
    let fields = [0x40, 0x40];
    let mut packed = [MAGIC, &[VERSION, CODEC_LZ4, 0, KIND_RDB], &FRAME_MAGIC, &fields].concat();
    packed.push((XxHash32::oneshot(0, &fields) >> 8) as u8);
    for block in file.chunks(64 << 10) {
        packed.extend_from_slice(&(block.len() as u32 | NOT_COMPRESSED).to_le_bytes());
        packed.extend_from_slice(block);
    }
    packed.extend_from_slice(&[0; 4]);
    packed
}

/// Why a part is not decoded.
enum PartStop {
    /// The part has at least so many bytes.
    Need(usize),
    Bad(Problem),
}

fn bad<T>(reason: &'static str) -> Result<T, PartStop> {
    Err(PartStop::Bad(Problem::Frame(reason)))
}

/// What begins the envelope.
pub(super) const MAGIC: &[u8] = b"VCS";
/// What began the envelope before the release that brought it.
pub(super) const DRAFT_MAGIC: &[u8] = b"VKCS";
/// The version of both envelopes.
const VERSION: u8 = 1;
/// The one method of compression that is known.
const CODEC_LZ4: u8 = 1;
/// What is compressed is an RDB file.
const KIND_RDB: u8 = 1;
/// What the draft envelope says for an RDB file.
const KIND_RDB_DRAFT: u8 = 0;
/// What begins an LZ4 frame: 0x184D2204, little endian.
const FRAME_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// The bit that says that a block is not compressed.
const NOT_COMPRESSED: u32 = 1 << 31;
/// Bytes that one byte of a block yields at most.
const GAIN_MAX: usize = 255;
/// How far back a block may refer.
const WINDOW_BYTES: usize = 64 << 10;
