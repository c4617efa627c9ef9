//! A Zstd frame (RFC 8878): a header, blocks, and a checksum of the contents if the header announces one.
//!
//! The library (`zstd_safe`) decodes. This code finds the end of each part, so that the library gets complete
//! parts only, and checks the header before memory is reserved for the window.
//!
//! Invariants: (1) a window has at most 8 MiB, which RFC 8878 recommends every decoder to support; (2) a
//! block decodes to at most 128 KiB; (3) a decoded block is returned at once, whether the window is full or
//! not.

use super::error::Problem;
use super::part::{FramePart, PartStop, bad, head};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

/// Decompresses a frame.
pub(super) struct ZstdFrame {
    decoder: DCtx<'static>,
    stage: ZstdStage,
    /// Maximum length in bytes of a decoded block.
    block_bytes_max: usize,
    /// Whether a checksum of all contents ends the frame.
    content_sum: bool,
}

impl std::fmt::Debug for ZstdFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZstdFrame").field("stage", &self.stage).finish_non_exhaustive()
    }
}

/// The part of the frame that is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZstdStage {
    Header,
    Block,
    /// The checksum at the end of the frame.
    Sum,
}

impl ZstdFrame {
    /// A frame before its first byte.
    pub(super) fn new(checksum: bool) -> Result<ZstdFrame, PartStop> {
        let decoder = DCtx::try_create().and_then(|mut decoder| {
            decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).ok()?;
            decoder.set_parameter(DParameter::ForceIgnoreChecksum(!checksum)).ok()?;
            Some(decoder)
        });
        let Some(decoder) = decoder else { return bad("there is no memory for a decoder of Zstd") };
        Ok(ZstdFrame { decoder, stage: ZstdStage::Header, block_bytes_max: 0, content_sum: false })
    }

    /// Begins another frame.
    pub(super) fn begin_again(&mut self) {
        // Resetting only the session cannot fail.
        let _ = self.decoder.reset(ResetDirective::SessionOnly);
        self.stage = ZstdStage::Header;
    }

    /// Whether the contents have a checksum; known once the header was read.
    pub(super) fn is_summed(&self) -> bool {
        self.content_sum
    }

    /// Decodes the part at the beginning of `input`, and appends the decoded bytes to `plain`.
    pub(super) fn part(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Result<FramePart, PartStop> {
        match self.stage {
            ZstdStage::Header => self.read_header(input, plain),
            ZstdStage::Block => self.block(input, plain),
            ZstdStage::Sum => {
                let sum = head(input, SUM_BYTES)?;
                self.decode(sum, plain, "the checksum of the Zstd frame is wrong")?;
                Ok(FramePart::Last(SUM_BYTES))
            }
        }
    }

    fn read_header(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Result<FramePart, PartStop> {
        let &[a, b, c, d, flags, window_field] = head(input, 6)? else { return Err(PartStop::Need(6)) };
        if [a, b, c, d] != FRAME_MAGIC {
            return bad("the magic of a Zstd frame is missing");
        }
        if flags & 0b1000 != 0 {
            return bad("the header of the Zstd frame is not of a known version");
        }
        if flags & 0b11 != 0 {
            return bad("the Zstd frame needs a dictionary");
        }
        let is_single = flags & 0b10_0000 != 0;
        let (size_at, size_bytes) = match (flags >> 6, is_single) {
            (0, false) => (6, 0),
            (0, true) => (5, 1),
            (log, single) => (if single { 5 } else { 6 }, 1 << log),
        };
        let len = size_at + size_bytes;
        let size = &head(input, len)?[size_at..];
        let size = size.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let content_bytes = match size_bytes {
            0 => None,
            // A size that fits in one byte is never encoded in two bytes, so 256 is added to a size of two
            // bytes.
            2 => Some(size + 256),
            _ => Some(size),
        };
        let window = match content_bytes {
            Some(size) if is_single => size,
            _ => {
                let base = 1u64 << (10 + (window_field >> 3));
                base + base / 8 * u64::from(window_field & 7)
            }
        };
        if window > 1 << WINDOW_LOG_MAX {
            return bad("the Zstd frame needs a window of more than 8 MiB");
        }
        self.block_bytes_max = BLOCK_BYTES_MAX.min(window as usize);
        self.content_sum = flags & 0b100 != 0;
        self.decode(&input[..len], plain, "the header of the Zstd frame is malformed")?;
        self.stage = ZstdStage::Block;
        Ok(FramePart::Read(len))
    }

    fn block(&mut self, input: &[u8], plain: &mut Vec<u8>) -> Result<FramePart, PartStop> {
        let &[a, b, c] = head(input, 3)? else { return Err(PartStop::Need(3)) };
        let word = u32::from_le_bytes([a, b, c, 0]);
        let (is_last, len) = (word & 1 != 0, (word >> 3) as usize);
        if len > self.block_bytes_max {
            return bad("a Zstd block is longer than the frame allows");
        }
        let len = match word >> 1 & 3 {
            REPEATED => 1,
            RESERVED => return bad("a Zstd block is of an unknown kind"),
            _ => len,
        };
        let whole = head(input, 3 + len)?;
        // The library checks that all blocks together have the announced length.
        self.decode(whole, plain, "a Zstd block is malformed")?;
        Ok(match is_last {
            true if self.content_sum => {
                self.stage = ZstdStage::Sum;
                FramePart::Read(whole.len())
            }
            true => FramePart::Last(whole.len()),
            false => FramePart::Read(whole.len()),
        })
    }

    /// Lets the library decode a part, and appends the decoded bytes.
    fn decode(&mut self, part: &[u8], plain: &mut Vec<u8>, wrong: &'static str) -> Result<(), PartStop> {
        let mut input = InBuffer::around(part);
        loop {
            // Room for at least one byte is made, so that a full buffer means that more may follow.
            plain.reserve(self.block_bytes_max.max(1));
            let start = plain.len();
            let mut output = OutBuffer::around_pos(plain, start);
            if self.decoder.decompress_stream(&mut output, &mut input).is_err() {
                return Err(PartStop::Bad(Problem::Frame(wrong)));
            }
            let is_full = output.pos() == output.capacity();
            if input.pos() == part.len() && !is_full {
                return Ok(());
            }
        }
    }
}

/// Writes a frame.
pub(super) struct ZstdPacker {
    encoder: CCtx<'static>,
}

impl ZstdPacker {
    /// Begins a frame, with a checksum of the contents or without.
    pub(super) fn begin(checksum: bool) -> ZstdPacker {
        let mut encoder = CCtx::create();
        for parameter in [CParameter::CompressionLevel(LEVEL), CParameter::ChecksumFlag(checksum)] {
            encoder.set_parameter(parameter).expect("the parameter and its value are known to the library");
        }
        ZstdPacker { encoder }
    }

    /// Adds bytes and appends the compressed bytes to `out`.
    pub(super) fn feed(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        self.encode(plain, ZSTD_EndDirective::ZSTD_e_continue, out);
    }

    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        self.encode(&[], ZSTD_EndDirective::ZSTD_e_end, out);
    }

    fn encode(&mut self, plain: &[u8], end: ZSTD_EndDirective, out: &mut Vec<u8>) {
        let mut input = InBuffer::around(plain);
        loop {
            out.reserve(OUT_BYTES);
            let start = out.len();
            let mut output = OutBuffer::around_pos(out, start);
            let left = self.encoder.compress_stream2(&mut output, &mut input, end);
            // Any bytes can be compressed; only the allocation of the tables can fail, like any allocation.
            let left = left.expect("memory for the tables of Zstd");
            let is_over = match end {
                ZSTD_EndDirective::ZSTD_e_continue => input.pos() == plain.len(),
                ZSTD_EndDirective::ZSTD_e_flush | ZSTD_EndDirective::ZSTD_e_end => left == 0,
            };
            if is_over {
                return;
            }
        }
    }
}

/// `file` in uncompressed blocks, without a checksum. For fuzzing.
pub(super) fn stored(file: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&FRAME_MAGIC);
    // The header: a window of 128 KiB, and no length of the contents.
    out.extend_from_slice(&[0, 7 << 3]);
    for block in file.chunks(BLOCK_BYTES_MAX) {
        out.extend_from_slice(&((block.len() as u32) << 3).to_le_bytes()[..3]);
        out.extend_from_slice(block);
    }
    out.extend_from_slice(&[1, 0, 0]);
}

/// The compression level: the fastest of the library's regular levels. Valkey 9.2 uses 3, which takes nearly
/// twice as long for the same size of keys and short values.
const LEVEL: i32 = 1;
/// The first bytes of a frame: 0xFD2FB528, little endian.
const FRAME_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Base-2 logarithm of the largest window in bytes.
const WINDOW_LOG_MAX: u32 = 23;
/// Maximum length in bytes of a block, both compressed and decompressed.
const BLOCK_BYTES_MAX: usize = 128 << 10;
/// The type of a block that repeats one byte.
const REPEATED: u32 = 1;
/// The reserved block type, which is malformed.
const RESERVED: u32 = 3;
/// Length in bytes of the checksum.
const SUM_BYTES: usize = 4;
/// Number of bytes of output for which room is made at a time.
const OUT_BYTES: usize = 64 << 10;
