//! A reader of a file that arrives in pieces.

use super::decoder::{DecodeStep, Decoder};
use super::error::{LoadError, Problem};
use super::frame::{CompressionMethod, Envelope, PackedContents, Unpacked, Unpacker, envelope_of};
use super::item::{Item, Loaded, LoadedEntry, ReadOptions, Unknown};

/// The result of [`Reader::next`].
#[derive(Debug)]
pub enum ReadProgress<'a> {
    /// The next item of the file.
    Item(Item<'a>),
    /// The file has ended. Its checksum was right, if it has one and the options compare it.
    End,
    /// The next item is incomplete. The bytes that must be fed next are those at this offset of the file.
    More(u64),
}

/// A reader of a file: bytes are passed to [`Reader::feed`], and [`Reader::next`] returns items.
///
/// Memory: the bytes of the present item. A value is built while its bytes arrive; of a list only one
/// node is kept as bytes, and of a long string nothing. The bytes of a compressed file are kept until
/// they are needed, and decompressed one block at a time, at most 4 MiB.
#[derive(Debug)]
pub struct Reader {
    decoder: Decoder,
    options: ReadOptions,
    outside: FeedKind,
    /// Bytes of the uncompressed file.
    buffer: Vec<u8>,
    /// Number of bytes at the front of `buffer` that were read.
    at: usize,
    /// Decoding is not tried again while `buffer` has fewer bytes than this after `at`.
    wanted: usize,
    /// Offset in the file of the missing bytes.
    missing_at: u64,
}

/// The form of the bytes that are fed.
#[derive(Debug)]
enum FeedKind {
    /// Too few bytes have arrived to decide whether the file is compressed.
    Undecided,
    Plain,
    Compressed(Box<Unpacker>),
}

impl Reader {
    /// A reader before the first byte.
    pub fn new(options: ReadOptions) -> Reader {
        let (decoder, outside) = (Decoder::new(options), FeedKind::Undecided);
        Reader { decoder, options, outside, buffer: Vec::new(), at: 0, wanted: 0, missing_at: 0 }
    }

    /// A reader of a complete file.
    pub fn of(file: &[u8], options: ReadOptions) -> Reader {
        let mut reader = Reader::new(options);
        reader.feed(file);
        reader
    }

    /// Adds bytes that have arrived. Cost: copying the bytes, and from time to time also the earlier bytes
    /// that were not read yet.
    pub fn feed(&mut self, bytes: &[u8]) {
        if let FeedKind::Compressed(unpacker) = &mut self.outside {
            unpacker.feed(bytes);
            return;
        }
        self.make_room();
        self.buffer.extend_from_slice(bytes);
        if matches!(self.outside, FeedKind::Undecided) {
            match envelope_of(&self.buffer) {
                Envelope::Undecided => {
                    (self.wanted, self.missing_at) = (self.buffer.len() + 1, self.buffer.len() as u64)
                }
                Envelope::Absent => (self.outside, self.wanted) = (FeedKind::Plain, 0),
                Envelope::There => {
                    let start = std::mem::take(&mut self.buffer);
                    self.outside = FeedKind::Compressed(Box::new(Unpacker::new(
                        PackedContents::File,
                        start,
                        self.options.checksum,
                    )));
                    self.wanted = 0;
                }
            }
        }
    }

    /// Drops the bytes that were read, if they are half of the buffer or more.
    fn make_room(&mut self) {
        if self.at >= self.buffer.len() / 2 {
            self.buffer.drain(..self.at);
            self.at = 0;
            // The memory of a large value is freed with the value.
            if self.buffer.capacity() > KEPT_BYTES_MAX && self.buffer.len() < KEPT_BYTES_MAX {
                self.buffer.shrink_to(KEPT_BYTES_MAX);
            }
        }
    }

    /// Whether the file is compressed as a whole; may still be false before four bytes have arrived.
    pub fn is_compressed(&self) -> bool {
        matches!(self.outside, FeedKind::Compressed(_))
    }

    /// The version in the file's header; 0 before the header was read.
    pub fn version(&self) -> u32 {
        self.decoder.version()
    }

    /// Whether the file has ended with zeros in place of a checksum, and is not in a frame with a checksum.
    pub fn is_unsummed(&self) -> bool {
        let is_frame_summed = match &self.outside {
            FeedKind::Compressed(unpacker) => unpacker.is_summed(),
            FeedKind::Undecided | FeedKind::Plain => false,
        };
        self.decoder.is_unsummed() && !is_frame_summed
    }

    /// The key whose value is being read, and the name of the value's type. After an error, the key and
    /// type of the malformed value. `None` if no value is being read.
    pub fn under_way(&self) -> Option<(&[u8], &'static str)> {
        self.decoder.under_way()
    }

    /// The next item. No item follows an error.
    ///
    /// # Errors
    /// The fault of the file, and its offset.
    #[allow(clippy::should_implement_trait, reason = "items borrow from the reader")]
    pub fn next(&mut self) -> Result<ReadProgress<'_>, LoadError> {
        if self.is_compressed() {
            return self.next_of_compressed();
        }
        if self.buffer.len() - self.at < self.wanted {
            return Ok(ReadProgress::More(self.missing_at));
        }
        let (taken, step) = self.decoder.step(&self.buffer[self.at..])?;
        self.at += taken;
        self.wanted = 0;
        Ok(match step {
            DecodeStep::Item(item) => ReadProgress::Item(item),
            DecodeStep::End => ReadProgress::End,
            DecodeStep::Need { bytes, offset } => {
                (self.wanted, self.missing_at) = (bytes, offset);
                ReadProgress::More(offset)
            }
        })
    }

    /// The next item of a compressed file. Decompresses as many blocks as needed.
    fn next_of_compressed(&mut self) -> Result<ReadProgress<'_>, LoadError> {
        loop {
            let mut has_ended = false;
            if self.buffer.len() - self.at >= self.wanted {
                let (taken, step) = self.decoder.step(&self.buffer[self.at..])?;
                self.wanted = 0;
                match step {
                    DecodeStep::Item(item) => {
                        let item = item.into_owned();
                        self.at += taken;
                        return Ok(ReadProgress::Item(item));
                    }
                    DecodeStep::End => has_ended = true,
                    DecodeStep::Need { bytes, .. } => self.wanted = bytes,
                }
                self.at += taken;
            }
            self.make_room();
            let FeedKind::Compressed(unpacker) = &mut self.outside else { return Ok(ReadProgress::End) };
            let offset = unpacker.offset();
            if has_ended && self.at < self.buffer.len() {
                return Err(LoadError { offset, problem: unpacker.mismatches().0 });
            }
            match unpacker.step(&mut self.buffer)? {
                Unpacked::Part => {}
                Unpacked::Need(offset) => return Ok(ReadProgress::More(offset)),
                Unpacked::End if has_ended => return Ok(ReadProgress::End),
                Unpacked::End => return Err(LoadError { offset, problem: unpacker.mismatches().1 }),
            }
        }
    }

    /// The next item of a file that was fed completely; `None` at the end of the file.
    ///
    /// # Errors
    /// The errors of [`Reader::next`]; missing bytes are also an error.
    pub fn next_of_whole(&mut self) -> Result<Option<Item<'_>>, LoadError> {
        match self.next()? {
            ReadProgress::Item(item) => Ok(Some(item)),
            ReadProgress::End => Ok(None),
            ReadProgress::More(offset) => Err(LoadError { offset, problem: Problem::CutOff }),
        }
    }

    /// A lower bound of the missing bytes, after [`ReadProgress::More`].
    pub fn missing(&self) -> u64 {
        match &self.outside {
            FeedKind::Compressed(unpacker) => unpacker.missing() as u64,
            FeedKind::Undecided | FeedKind::Plain => self.wanted.saturating_sub(self.rest().len()) as u64,
        }
    }

    /// The bytes that were fed and not read yet or, if the file is compressed, not decompressed yet. After
    /// the end, these are the bytes after the file.
    pub fn rest(&self) -> &[u8] {
        match &self.outside {
            FeedKind::Compressed(unpacker) => unpacker.rest(),
            FeedKind::Undecided | FeedKind::Plain => &self.buffer[self.at..],
        }
    }
}

/// Entry point of the fuzzer: reads any bytes as a file, whole and in pieces, to the end or the first
/// fault. Both ways must give the same result.
pub fn fuzz_rdb(data: &[u8]) {
    let (&first, _) = data.split_first().unwrap_or((&0, &[]));
    let unknown = if first.is_multiple_of(2) { Unknown::Skip } else { Unknown::Refuse };
    let options = ReadOptions { unknown, ..ReadOptions::default() };
    let whole = outline(Reader::of(data, options), &[]);
    let pieces = outline(Reader::new(options), data);
    assert_eq!(whole, pieces);
    if envelope_of(data) == Envelope::Absent {
        // In an envelope the same bytes give the same items. Only the last line may differ, because the
        // position at which a frame is cut off depends on the following bytes.
        for codec in [CompressionMethod::Lz4, CompressionMethod::Zstd] {
            let packed = outline(Reader::new(options), &super::frame::packed(data, codec));
            let same = packed.iter().zip(&whole).take_while(|(packed, plain)| packed == plain).count();
            assert!(same + 1 >= whole.len(), "{packed:?} for {whole:?}");
        }
    }
}

/// A summary of the items that a reader returns when `data` is fed in pieces; the last line is the result.
fn outline(mut reader: Reader, mut data: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut piece = 1;
    loop {
        match reader.next() {
            Ok(ReadProgress::Item(Item::LoadedEntry(LoadedEntry {
                key, value: Loaded::List(list), ..
            }))) => {
                // Every element must be readable.
                let count = super::list::elements(list.view()).len();
                assert!(count > 0 && count == list.len());
                lines.push(format!("{key:?} list of {count}"));
            }
            Ok(ReadProgress::Item(Item::LoadedEntry(LoadedEntry {
                key, value: Loaded::Hash(hash), ..
            }))) => {
                let found = hash.view().iter().count();
                assert!(found > 0 && found == hash.len());
                lines.push(format!("{key:?} hash of {found}"));
            }
            Ok(ReadProgress::Item(Item::LoadedEntry(LoadedEntry {
                key,
                value: Loaded::Stream(stream),
                ..
            }))) => lines.push(format!("{key:?} {:?}", super::stream::elements(&stream))),
            Ok(ReadProgress::Item(Item::LoadedEntry(LoadedEntry {
                key, value: Loaded::Set(set), ..
            }))) => {
                let count = super::set::members(set.view()).len();
                assert!(count > 0 && count == set.len());
                lines.push(format!("{key:?} set of {count}"));
            }
            Ok(ReadProgress::Item(item)) => lines.push(format!("{item:?}")),
            Ok(ReadProgress::More(_)) if !data.is_empty() => {
                let (now, later) = data.split_at(piece.min(data.len()));
                reader.feed(now);
                (data, piece) = (later, piece % 7 + 1);
            }
            ended => {
                lines.push(format!("{ended:?}"));
                return lines;
            }
        }
    }
}

/// Maximum capacity in bytes of the buffer that a reader keeps between values.
const KEPT_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::{Compression, Text, Usage, Version, WriteOptions, Writer};

    #[test]
    fn the_memory_of_a_large_value_goes_with_it() {
        let options =
            WriteOptions { version: Version::Valkey, compression: Compression::Strings, checksum: true };
        let mut writer = Writer::new(options);
        // The text compresses to some 1.8 MB, and the reader keeps these bytes until the last one has
        // arrived.
        let value: Vec<u8> = (0..8_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        writer.string(b"k", Text::Bytes(&value), None, Usage::Absent);
        let start = writer.take();
        let mut reader = Reader::new(ReadOptions::default());
        let mut largest = 0;
        let mut entries = 0;
        for piece in start.chunks(100_000) {
            reader.feed(piece);
            largest = largest.max(reader.buffer.capacity());
            while let ReadProgress::Item(_) = reader.next().expect("the file is well-formed") {
                entries += 1;
            }
        }
        assert_eq!(entries, 1);
        reader.feed(b"\xfe");
        assert!(reader.buffer.capacity() <= KEPT_BYTES_MAX, "{}", reader.buffer.capacity());
        println!("{largest} bytes at most for {} of the file", start.len());
        assert!(largest <= 2 * start.len() + 200_000);
    }
}
