//! The envelope of compressed data: a file, or the command stream of a primary.
//!
//! `docs/formats/rdb.md` describes the bytes. A file is one envelope and one frame; bytes after the
//! frame are ignored. A stream is one envelope followed by any number of frames.
//!
//! Invariants: (1) a part (the envelope, a header, a block or an end mark) is decoded when all its bytes are
//! there; otherwise more bytes are requested; (2) a part yields at most 4 MiB, the largest block of the frame
//! formats. In addition, memory is reserved only for a window, 8 MiB at most, never for an announced length.

use super::error::{LoadError, Problem};
use super::lz4::{self, Lz4Frame};
use super::part::{FramePart, PartStop, head};
use super::zstd::{self, ZstdFrame};

/// Whether a file has an envelope, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Envelope {
    /// The file is plain, or no RDB file.
    Absent,
    /// More bytes are needed to decide.
    Undecided,
    /// The file begins with an envelope.
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

/// A method of compressing a whole file, or a whole stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompressionMethod {
    /// LZ4 in its frame format.
    Lz4,
    /// Zstandard in its frame format.
    Zstd,
}

impl CompressionMethod {
    /// The method's number in an envelope.
    fn number(self) -> u8 {
        match self {
            CompressionMethod::Lz4 => 1,
            CompressionMethod::Zstd => 2,
        }
    }

    fn of_number(number: u8) -> Option<CompressionMethod> {
        [CompressionMethod::Lz4, CompressionMethod::Zstd].into_iter().find(|codec| codec.number() == number)
    }
}

/// The kind of contents that an envelope states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackedContents {
    File,
    /// Commands of a primary.
    Stream,
}

impl PackedContents {
    fn number(self) -> u8 {
        match self {
            PackedContents::File => 1,
            PackedContents::Stream => 2,
        }
    }
}

/// The envelope for contents of this kind, compressed by this method.
pub(super) fn envelope(codec: CompressionMethod, contents: PackedContents) -> [u8; 7] {
    let [a, b, c] = *MAGIC;
    [a, b, c, VERSION, codec.number(), 0, contents.number()]
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unpacked {
    /// A part was decoded; it may have yielded bytes.
    Part,
    /// The part at this offset of the file needs more bytes.
    Need(u64),
    /// The frame has ended.
    End,
}

/// Decompresses a file or a stream.
#[derive(Debug)]
pub(super) struct Unpacker {
    contents: PackedContents,
    /// Whether checksums of blocks and contents are compared.
    checksum: bool,
    stage: UnpackStage,
    /// Whether the frame that ended last has checksums of its own.
    is_summed: bool,
    /// Bytes that were fed and not dropped yet.
    input: Vec<u8>,
    /// Bytes of `input` that were decoded.
    at: usize,
    /// Offset of `input` in the file.
    base: u64,
    /// Lower bound of the number of bytes of the next part; 0 if no bound is known.
    wanted: usize,
}

/// The part of the envelope or frame that is read next.
#[derive(Debug)]
enum UnpackStage {
    Envelope,
    Lz4(Box<Lz4Frame>),
    Zstd(Box<ZstdFrame>),
    /// The frame of a file has ended.
    Ended(CompressionMethod),
}

impl Unpacker {
    /// A file or stream that begins with `start`. `checksum` says whether checksums are compared; for files
    /// it is the setting `rdbchecksum`.
    pub(super) fn new(contents: PackedContents, start: Vec<u8>, checksum: bool) -> Unpacker {
        let stage = UnpackStage::Envelope;
        Unpacker { contents, checksum, stage, is_summed: false, input: start, at: 0, base: 0, wanted: 0 }
    }

    /// Adds bytes that have arrived.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.at >= self.input.len() / 2 {
            self.input.drain(..self.at);
            self.base += self.at as u64;
            self.at = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    /// Bytes that were fed and not decoded yet; after the end, those after the frame.
    pub(super) fn rest(&self) -> &[u8] {
        &self.input[self.at..]
    }

    /// Decodes the next part and appends the bytes that it yields to `plain`.
    ///
    /// # Errors
    /// The fault and its offset in the compressed file.
    pub(super) fn step(&mut self, plain: &mut Vec<u8>) -> Result<Unpacked, LoadError> {
        let input = &self.input[self.at..];
        let part = match &mut self.stage {
            UnpackStage::Envelope => self.open(),
            UnpackStage::Lz4(frame) => frame.part(input, plain),
            UnpackStage::Zstd(frame) => frame.part(input, plain),
            UnpackStage::Ended(_) => return Ok(Unpacked::End),
        };
        match part {
            Ok(FramePart::Read(len)) => self.at += len,
            Ok(FramePart::Last(len)) => {
                self.at += len;
                self.end_frame();
            }
            Err(PartStop::Need(len)) => {
                self.wanted = len;
                return Ok(Unpacked::Need(self.offset()));
            }
            Err(PartStop::Bad(problem)) => return Err(LoadError { offset: self.offset(), problem }),
        }
        self.wanted = 0;
        Ok(Unpacked::Part)
    }

    /// A lower bound of the bytes that the next part lacks, after [`Unpacked::Need`].
    pub(super) fn missing(&self) -> usize {
        self.wanted.saturating_sub(self.rest().len())
    }

    /// Whether the frame that ended last has checksums of its own; false if none has ended.
    pub(super) fn is_summed(&self) -> bool {
        self.is_summed
    }

    /// Offset in the file of the next part.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The errors for a frame that holds more bytes than one file, and for a frame that ends before the
    /// file in it does.
    pub(super) fn mismatches(&self) -> (Problem, Problem) {
        let (more, less) = match self.stage {
            UnpackStage::Zstd(_) | UnpackStage::Ended(CompressionMethod::Zstd) => {
                ("the Zstd frame holds more than a file", "the Zstd frame ends before its file")
            }
            UnpackStage::Envelope | UnpackStage::Lz4(_) | UnpackStage::Ended(CompressionMethod::Lz4) => {
                ("the LZ4 frame holds more than a file", "the LZ4 frame ends before its file")
            }
        };
        (Problem::Frame(more), Problem::Frame(less))
    }

    fn open(&mut self) -> Result<FramePart, PartStop> {
        let input = self.rest();
        let is_draft = input.starts_with(DRAFT_MAGIC);
        let magic = if is_draft { DRAFT_MAGIC } else { &MAGIC[..] };
        let len = magic.len() + 4;
        let codec = match (is_draft, &head(input, len)?[magic.len()..]) {
            (false, [VERSION, codec, 0, kind]) if *kind == self.contents.number() => {
                CompressionMethod::of_number(*codec)
            }
            // The third byte says whether the frame has checksums, which the frame itself also says.
            (true, [VERSION, codec, 0 | 1, KIND_RDB_DRAFT]) if self.contents == PackedContents::File => {
                CompressionMethod::of_number(*codec).filter(|codec| *codec == CompressionMethod::Lz4)
            }
            _ => None,
        };
        let Some(codec) = codec else { return Err(PartStop::Bad(Problem::Envelope)) };
        self.begin_frame(codec)?;
        Ok(FramePart::Read(len))
    }

    fn begin_frame(&mut self, codec: CompressionMethod) -> Result<(), PartStop> {
        self.stage = match codec {
            CompressionMethod::Lz4 => UnpackStage::Lz4(Box::new(Lz4Frame::new(self.checksum))),
            CompressionMethod::Zstd => UnpackStage::Zstd(Box::new(ZstdFrame::new(self.checksum)?)),
        };
        Ok(())
    }

    /// Ends a frame: a file ends with it; a stream continues with another frame.
    fn end_frame(&mut self) {
        self.is_summed = match &self.stage {
            UnpackStage::Lz4(frame) => frame.is_summed(),
            UnpackStage::Zstd(frame) => frame.is_summed(),
            UnpackStage::Envelope | UnpackStage::Ended(_) => false,
        };
        match (&mut self.stage, self.contents) {
            (UnpackStage::Lz4(_), PackedContents::File) => {
                self.stage = UnpackStage::Ended(CompressionMethod::Lz4)
            }
            (UnpackStage::Zstd(_), PackedContents::File) => {
                self.stage = UnpackStage::Ended(CompressionMethod::Zstd)
            }
            (UnpackStage::Lz4(frame), PackedContents::Stream) => **frame = Lz4Frame::new(self.checksum),
            (UnpackStage::Zstd(frame), PackedContents::Stream) => frame.begin_again(),
            (UnpackStage::Envelope | UnpackStage::Ended(_), _) => {}
        }
    }
}

/// A file in an envelope with uncompressed blocks, without checksums. For fuzzing.
pub(super) fn packed(file: &[u8], codec: CompressionMethod) -> Vec<u8> {
    let mut packed = envelope(codec, PackedContents::File).to_vec();
    match codec {
        CompressionMethod::Lz4 => lz4::stored(file, &mut packed),
        CompressionMethod::Zstd => zstd::stored(file, &mut packed),
    }
    packed
}

/// The first bytes of an envelope.
pub(super) const MAGIC: &[u8; 3] = b"VCS";
/// The first bytes of an envelope of drafts before the release.
pub(super) const DRAFT_MAGIC: &[u8] = b"VKCS";
/// The version of both envelopes.
const VERSION: u8 = 1;
/// The draft envelope's kind for an RDB file.
const KIND_RDB_DRAFT: u8 = 0;
