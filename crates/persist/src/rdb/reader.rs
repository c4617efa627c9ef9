//! Reads a file that arrives in pieces.

use super::decoder::{DecodeStep, Decoder};
use super::error::{LoadError, Problem};
use super::frame::{CompressionMethod, Envelope, PackedContents, Unpacked, Unpacker, envelope_of};
use super::item::{Item, Loaded, LoadedEntry, ReadOptions, Unknown};

/// What [`Reader::next`] returns.
#[derive(Debug)]
pub enum ReadProgress<'a> {
    /// An item.
    Item(Item<'a>),
    /// The file has ended, with the right checksum.
    End,
    /// The next item is not complete: bytes have to be fed, which belong at this offset of the file.
    More(u64),
}

/// A file being read: bytes go in by [`Reader::feed`], items come out by [`Reader::next`].
///
/// Memory: the bytes of the item under way. A value is built while its bytes arrive; of a list only one node
/// is kept as bytes, of a long string no byte. Of a compressed file what was fed is kept until it is asked
/// for, and one block of it, 4 MiB at most, is decompressed at a time.
#[derive(Debug)]
pub struct Reader {
    decoder: Decoder,
    options: ReadOptions,
    outside: FeedKind,
    /// Bytes of the plain file.
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are done with.
    at: usize,
    /// Bytes behind `at` without which another try is useless.
    wanted: usize,
    /// Where the bytes that are missing belong in the file.
    missing_at: u64,
}

/// What the bytes that are fed are.
#[derive(Debug)]
enum FeedKind {
    /// Too few have arrived to tell.
    Undecided,
    Plain,
    Compressed(Box<Unpacker>),
}

impl Reader {
    /// A file of which no byte has arrived.
    pub fn new(options: ReadOptions) -> Reader {
        let (decoder, outside) = (Decoder::new(options), FeedKind::Undecided);
        Reader { decoder, options, outside, buffer: Vec::new(), at: 0, wanted: 0, missing_at: 0 }
    }

    /// A file that is there as a whole.
    pub fn of(file: &[u8], options: ReadOptions) -> Reader {
        let mut reader = Reader::new(options);
        reader.feed(file);
        reader
    }

    /// Takes bytes that have arrived. Cost: a copy of them, and of what is kept now and then.
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

    /// Drops what is done with, where that is half of what is kept.
    fn make_room(&mut self) {
        if self.at >= self.buffer.len() / 2 {
            self.buffer.drain(..self.at);
            self.at = 0;
            // The memory of a large value goes with the value.
            if self.buffer.capacity() > KEPT_BYTES_MAX && self.buffer.len() < KEPT_BYTES_MAX {
                self.buffer.shrink_to(KEPT_BYTES_MAX);
            }
        }
    }

    /// Whether the file is compressed as a whole; not known before four bytes have arrived.
    pub fn is_compressed(&self) -> bool {
        matches!(self.outside, FeedKind::Compressed(_))
    }

    /// The version in the file's header; 0 as long as the header has not been read.
    pub fn version(&self) -> u32 {
        self.decoder.version()
    }

    /// Whether the file has ended with zeros in place of a checksum, and is in no frame with a checksum.
    pub fn is_unsummed(&self) -> bool {
        let is_frame_summed = match &self.outside {
            FeedKind::Compressed(unpacker) => unpacker.is_summed(),
            FeedKind::Undecided | FeedKind::Plain => false,
        };
        self.decoder.is_unsummed() && !is_frame_summed
    }

    /// The key whose value is being read, and the name of its type; behind an error, those of the value that
    /// is malformed.
    pub fn under_way(&self) -> Option<(&[u8], &'static str)> {
        self.decoder.under_way()
    }

    /// The next item. After an error there is none.
    ///
    /// # Errors
    /// What is wrong with the file, and where.
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

    /// The next item of a compressed file. As many blocks are decompressed as it takes.
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

    /// The next item of a file of which no more bytes come; `None` at its end.
    ///
    /// # Errors
    /// As [`Reader::next`]; that bytes are missing is one, too.
    pub fn next_of_whole(&mut self) -> Result<Option<Item<'_>>, LoadError> {
        match self.next()? {
            ReadProgress::Item(item) => Ok(Some(item)),
            ReadProgress::End => Ok(None),
            ReadProgress::More(offset) => Err(LoadError { offset, problem: Problem::CutOff }),
        }
    }

    /// How many bytes are missing, at least, where [`ReadProgress::More`] was the answer.
    pub fn missing(&self) -> u64 {
        match &self.outside {
            FeedKind::Compressed(unpacker) => unpacker.missing() as u64,
            FeedKind::Undecided | FeedKind::Plain => self.wanted.saturating_sub(self.rest().len()) as u64,
        }
    }

    /// Bytes that were fed and are not read, of a compressed file not decompressed; after the end, those
    /// behind the file.
    pub fn rest(&self) -> &[u8] {
        match &self.outside {
            FeedKind::Compressed(unpacker) => unpacker.rest(),
            FeedKind::Undecided | FeedKind::Plain => &self.buffer[self.at..],
        }
    }
}

/// Reads any bytes as a file, fed as a whole and in pieces, to the end or the first mistake: both ways must
/// bring the same. For fuzzing.
pub fn fuzz_rdb(data: &[u8]) {
    let (&first, _) = data.split_first().unwrap_or((&0, &[]));
    let unknown = if first.is_multiple_of(2) { Unknown::Skip } else { Unknown::Refuse };
    let options = ReadOptions { unknown, ..ReadOptions::default() };
    let whole = outline(Reader::of(data, options), &[]);
    let pieces = outline(Reader::new(options), data);
    assert_eq!(whole, pieces);
    if envelope_of(data) == Envelope::Absent {
        // In an envelope the same bytes bring the same items; where a frame is cut off depends on what comes
        // behind.
        for codec in [CompressionMethod::Lz4, CompressionMethod::Zstd] {
            let packed = outline(Reader::new(options), &super::frame::packed(data, codec));
            let same = packed.iter().zip(&whole).take_while(|(packed, plain)| packed == plain).count();
            assert!(same + 1 >= whole.len(), "{packed:?} for {whole:?}");
        }
    }
}

/// What a reader brings, in short, when it is fed `data` piece by piece; its last line says how it ended.
fn outline(mut reader: Reader, mut data: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut piece = 1;
    loop {
        match reader.next() {
            Ok(ReadProgress::Item(Item::LoadedEntry(LoadedEntry {
                key, value: Loaded::List(list), ..
            }))) => {
                // Every element must be there to be read.
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

/// Bytes of memory that a reader keeps between values.
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
        // The text compresses to some 1.8 MB, which are kept until the last of them is there.
        let value: Vec<u8> = (0..8_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        writer.string(b"k", Text::Bytes(&value), None, Usage::Unsaid);
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
