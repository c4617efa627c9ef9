//! The envelope of what is compressed as a whole: a file, or the stream of commands of a primary.
//!
//! `docs/formats/rdb.md` describes the bytes. A file is one envelope and one frame; what follows the frame is
//! not looked at. A stream is one envelope and frames without end.
//!
//! Invariants: (1) a part is decoded when all its bytes are there, and asks for more otherwise; (2) a part
//! yields at most what the frame's format allows for a block, 4 MiB: memory is reserved for no more, and for
//! no length that was announced.

use super::error::{LoadError, Problem};
use super::lz4::{self, Lz4Frame};
use super::part::{FramePart, PartStop, head};
use super::zstd::{self, ZstdFrame};

/// What the first bytes of a file say about an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Envelope {
    /// The file is plain, or none.
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

/// A method of compressing a whole file, or a whole stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompressionMethod {
    /// LZ4.
    Lz4,
    /// Zstd.
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

/// What an envelope says is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackedContents {
    /// An RDB file.
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

/// The bytes that begin what is compressed so.
pub(super) fn envelope(codec: CompressionMethod, contents: PackedContents) -> [u8; 7] {
    let [a, b, c] = *MAGIC;
    [a, b, c, VERSION, codec.number(), 0, contents.number()]
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

/// What is compressed, on its way to plain bytes.
#[derive(Debug)]
pub(super) struct Unpacker {
    contents: PackedContents,
    /// Whether checksums of blocks and contents are compared.
    checksum: bool,
    stage: UnpackStage,
    /// Whether a frame has ended that had checksums.
    is_summed: bool,
    /// Bytes that were fed and are not dropped yet.
    input: Vec<u8>,
    /// Bytes of `input` that are decoded.
    at: usize,
    /// Offset of `input` in the file.
    base: u64,
    /// Bytes of the next part, as far as is known.
    wanted: usize,
}

/// What comes next.
#[derive(Debug)]
enum UnpackStage {
    Envelope,
    Lz4(Box<Lz4Frame>),
    Zstd(Box<ZstdFrame>),
    /// The frame of a file has ended.
    Ended(CompressionMethod),
}

impl Unpacker {
    /// A file or stream of which `start` has arrived. `checksum` is the setting `rdbchecksum`.
    pub(super) fn new(contents: PackedContents, start: Vec<u8>, checksum: bool) -> Unpacker {
        let stage = UnpackStage::Envelope;
        Unpacker { contents, checksum, stage, is_summed: false, input: start, at: 0, base: 0, wanted: 0 }
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

    /// How many bytes the next part lacks, at least, where [`Unpacked::Need`] was the answer.
    pub(super) fn missing(&self) -> usize {
        self.wanted.saturating_sub(self.rest().len())
    }

    /// Whether a frame has ended that had checksums of its own.
    pub(super) fn is_summed(&self) -> bool {
        self.is_summed
    }

    /// Where in the file the next part begins.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// What is wrong where a frame holds more than its file, and where the frame ends before it.
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
            // The third says whether the frame has checksums, which the frame does too.
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

    /// A file ends with its frame; a stream goes on with another.
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

/// A file in an envelope and blocks that are not compressed, without checksums. For fuzzing.
pub(super) fn packed(file: &[u8], codec: CompressionMethod) -> Vec<u8> {
    let mut packed = envelope(codec, PackedContents::File).to_vec();
    match codec {
        CompressionMethod::Lz4 => lz4::stored(file, &mut packed),
        CompressionMethod::Zstd => zstd::stored(file, &mut packed),
    }
    packed
}

/// What begins the envelope.
pub(super) const MAGIC: &[u8; 3] = b"VCS";
/// The first bytes of an envelope of drafts before the release.
pub(super) const DRAFT_MAGIC: &[u8] = b"VKCS";
/// The version of both envelopes.
const VERSION: u8 = 1;
/// What the draft envelope says for an RDB file.
const KIND_RDB_DRAFT: u8 = 0;
