//! Checks whether bytes that arrive in pieces can be a complete file of a readable version. Only the header,
//! the checksum, and the frame of a compressed file are checked.
//!
//! A snapshot that is received over a network is checked on its way to the disk, so that a damaged or
//! foreign file never takes the place of a good one. The values are checked only by the reader.

use super::crc::Sum;
use super::decoder::{HEADER_LEN, SUMMED_FROM, header_of};
use super::error::{LoadError, Problem};
use super::frame::{Envelope, PackedContents, Unpacked, Unpacker, envelope_of};
use super::item::ReadOptions;

/// The check of a file while it arrives. Memory for a compressed file: one block, compressed and
/// decompressed, and the window.
#[derive(Debug)]
pub struct Judge {
    options: ReadOptions,
    outside: JudgedForm,
    file: PlainJudge,
}

/// The form of the bytes.
#[derive(Debug)]
enum JudgedForm {
    /// Too few bytes have arrived to decide; the variant holds them.
    Undecided(Vec<u8>),
    Plain,
    Compressed(Box<Unpacker>),
}

impl Judge {
    /// A check whether a file can be read with these options.
    pub fn new(options: ReadOptions) -> Judge {
        Judge { options, outside: JudgedForm::Undecided(Vec::new()), file: PlainJudge::new(options) }
    }

    /// Whether the header has been read and is that of a readable file.
    pub fn is_accepted(&self) -> bool {
        self.file.version != 0
    }

    /// Adds the next bytes. Errors: the header or a frame is malformed, or the version cannot be read.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        match &mut self.outside {
            JudgedForm::Plain => self.file.feed(bytes),
            JudgedForm::Compressed(unpacker) => {
                unpacker.feed(bytes);
                self.unpack()
            }
            JudgedForm::Undecided(start) => {
                start.extend_from_slice(bytes);
                let start = std::mem::take(start);
                match envelope_of(&start) {
                    Envelope::Undecided => {
                        self.outside = JudgedForm::Undecided(start);
                        Ok(())
                    }
                    Envelope::Absent => {
                        self.outside = JudgedForm::Plain;
                        self.file.feed(&start)
                    }
                    Envelope::There => {
                        let unpacker = Unpacker::new(PackedContents::File, start, self.options.checksum);
                        self.outside = JudgedForm::Compressed(Box::new(unpacker));
                        self.unpack()
                    }
                }
            }
        }
    }

    /// Decompresses the bytes that have arrived, and checks the contents.
    fn unpack(&mut self) -> Result<(), LoadError> {
        let JudgedForm::Compressed(unpacker) = &mut self.outside else { return Ok(()) };
        let mut plain = Vec::new();
        while unpacker.step(&mut plain)? == Unpacked::Part {
            self.file.feed(&plain)?;
            plain.clear();
        }
        Ok(())
    }

    /// Ends the file. Errors: the file is too short for a header and a checksum, its frame has not ended, or
    /// a checksum is wrong.
    pub fn finish(mut self) -> Result<(), LoadError> {
        let cut_off = |offset| Err(LoadError { offset, problem: Problem::CutOff });
        match &mut self.outside {
            JudgedForm::Undecided(start) => cut_off(start.len() as u64),
            JudgedForm::Compressed(unpacker) => match unpacker.step(&mut Vec::new())? {
                Unpacked::End => self.file.finish(),
                Unpacked::Part | Unpacked::Need(_) => cut_off(unpacker.offset()),
            },
            JudgedForm::Plain => self.file.finish(),
        }
    }
}

/// The check of a plain file while it arrives.
#[derive(Debug)]
struct PlainJudge {
    options: ReadOptions,
    /// The bytes of the header that have arrived.
    head: Vec<u8>,
    /// The version in the header; 0 before the header was judged.
    version: u32,
    /// The last bytes, which are not in the sum, because they are the checksum if the file ends there.
    tail: Vec<u8>,
    sum: Sum,
    /// Bytes of the file so far.
    offset: u64,
}

impl PlainJudge {
    fn new(options: ReadOptions) -> PlainJudge {
        PlainJudge { options, head: Vec::new(), version: 0, tail: Vec::new(), sum: Sum::new(), offset: 0 }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        if self.version == 0 {
            let room = HEADER_LEN - self.head.len();
            self.head.extend_from_slice(&bytes[..room.min(bytes.len())]);
            if let Some((_, version)) = header_of(&self.head, self.options.unknown)? {
                self.version = version;
            }
        }
        self.offset += bytes.len() as u64;
        if bytes.len() >= SUM_LEN {
            self.sum.add(&self.tail);
            let (summed, tail) = bytes.split_at(bytes.len() - SUM_LEN);
            self.sum.add(summed);
            self.tail.clear();
            self.tail.extend_from_slice(tail);
        } else {
            self.tail.extend_from_slice(bytes);
            let summed = self.tail.len().saturating_sub(SUM_LEN);
            self.sum.add(&self.tail[..summed]);
            self.tail.drain(..summed);
        }
        Ok(())
    }

    fn finish(self) -> Result<(), LoadError> {
        let error = |problem| LoadError { offset: self.offset, problem };
        let wanted = <[u8; SUM_LEN]>::try_from(self.tail.as_slice()).map_err(|_| error(Problem::CutOff))?;
        if self.version == 0 {
            return Err(error(Problem::CutOff));
        }
        let wanted = u64::from_le_bytes(wanted);
        // Zeros mean that there is no checksum; files of earlier versions have none.
        let is_summed = self.version >= SUMMED_FROM && self.options.checksum && wanted != 0;
        match is_summed && wanted != self.sum.value() {
            true => Err(LoadError { offset: self.offset - SUM_LEN as u64, problem: Problem::Checksum }),
            false => Ok(()),
        }
    }
}

/// Bytes of the checksum.
const SUM_LEN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::{Compression, Text, Usage, Version, WriteOptions, Writer};

    fn file() -> Vec<u8> {
        let options =
            WriteOptions { version: Version::Valkey, compression: Compression::None, checksum: true };
        let mut writer = Writer::new(options);
        writer.db(0, 1, 0);
        writer.string(b"key", Text::Bytes(&[b'v'; 300]), None, Usage::Absent);
        writer.finish()
    }

    fn options() -> ReadOptions {
        ReadOptions::default()
    }

    fn judge(file: &[u8], piece: usize) -> Result<(), LoadError> {
        let mut judge = Judge::new(options());
        file.chunks(piece).try_for_each(|piece| judge.feed(piece))?;
        judge.finish()
    }

    #[test]
    fn a_good_file_is_good_in_pieces_of_any_size() {
        for piece in [1, 3, 7, 8, 9, 64, 1000] {
            assert_eq!(judge(&file(), piece), Ok(()), "pieces of {piece}");
        }
    }

    #[test]
    fn a_changed_byte_anywhere_is_found() {
        let good = file();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x11;
            assert!(judge(&bad, 16).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_foreign_header_is_refused_before_more_has_come() {
        let mut judge = Judge::new(options());
        assert!(judge.feed(b"<htm").is_err());
        let mut future = Judge::new(options());
        assert!(future.feed(b"VALKEY999").is_err());
    }

    #[test]
    fn a_file_that_is_cut_off_is_no_file() {
        let good = file();
        for len in 0..good.len() {
            assert!(judge(&good[..len], 5).is_err(), "{len} bytes");
        }
    }
}
