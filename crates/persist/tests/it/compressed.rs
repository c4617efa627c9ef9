//! Tests of files of version 81: compressed files, and files with Path Hashes.

use sluice_persist::aof::{LogItem, LogOptions, LogProgress, LogReader};
use sluice_persist::rdb::{
    ForeignType, Item, Judge, LoadError, Loaded, LoadedEntry, PayloadError, Problem, ReadOptions,
    ReadProgress, Reader, Unknown, fuzz_rdb, restore,
};
use std::hash::Hasher;
use twox_hash::XxHash32;

const ENVELOPE: &[u8] = b"VCS\x01\x01\0\x01";
/// The envelope of files that were written before version 81 was released.
const DRAFT_ENVELOPE: &[u8] = b"VKCS\x01\x01\x01\0";
/// Bits of an LZ4 frame: version, independent blocks, checksums of blocks, length and checksum
/// of the contents.
const VERSION: u8 = 0x40;
const INDEPENDENT: u8 = 0x20;
const BLOCK_SUMS: u8 = 0x10;
const LENGTH: u8 = 0x08;
const CONTENT_SUM: u8 = 0x04;
/// The header's code for blocks of 64 KiB.
const SMALL_BLOCKS: u8 = 0x40;
const MAX_BLOCK: usize = 64 << 10;

/// A frame of `contents` with these bits, in blocks of `block_bytes`.
fn frame(contents: &[u8], bits: u8, block_bytes: usize) -> Vec<u8> {
    let mut fields = vec![VERSION | bits, SMALL_BLOCKS];
    if bits & LENGTH != 0 {
        fields.extend_from_slice(&(contents.len() as u64).to_le_bytes());
    }
    let sum = |bytes: &[u8]| XxHash32::oneshot(0, bytes);
    let mut frame = [b"\x04\x22\x4d\x18", &fields[..], &[(sum(&fields) >> 8) as u8]].concat();
    for (number, plain) in contents.chunks(block_bytes).enumerate() {
        let start = number * block_bytes;
        let window =
            if bits & INDEPENDENT == 0 { &contents[start.saturating_sub(MAX_BLOCK)..start] } else { b"" };
        let packed = lz4_flex::block::compress_with_dict(plain, window);
        let (head, block) = match packed.len() < plain.len() {
            true => (packed.len() as u32, &packed[..]),
            false => (plain.len() as u32 | 1 << 31, plain),
        };
        frame.extend_from_slice(&head.to_le_bytes());
        frame.extend_from_slice(block);
        if bits & BLOCK_SUMS != 0 {
            frame.extend_from_slice(&sum(block).to_le_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    if bits & CONTENT_SUM != 0 {
        frame.extend_from_slice(&sum(contents).to_le_bytes());
    }
    frame
}

/// Keys with a text for each value: a string itself, the number of a hash's fields, or the type name of a
/// skipped value.
pub type Rows = Vec<(String, String)>;

/// The contents of a file that is fed in pieces of `piece` bytes, and the bytes after the file.
pub fn read(file: &[u8], piece: usize, options: ReadOptions) -> Result<(Rows, Vec<u8>), LoadError> {
    let (mut reader, mut pieces, mut rows) = (Reader::new(options), file.chunks(piece), Rows::new());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    loop {
        match reader.next()? {
            ReadProgress::Item(Item::LoadedEntry(LoadedEntry { key, value, .. })) => {
                let value = match value {
                    Loaded::Str(value) => text(&value),
                    Loaded::Pages(pages) => text(&pages.to_vec()),
                    Loaded::Hash(hash) => format!("{} fields", hash.len()),
                    other => panic!("{other:?}"),
                };
                rows.push((text(&key), value));
            }
            ReadProgress::Item(Item::Skipped { key, kind, .. }) => rows.push((text(&key), kind.to_string())),
            ReadProgress::Item(_) => {}
            ReadProgress::End => {
                let rest = [reader.rest(), &pieces.collect::<Vec<_>>().concat()].concat();
                return Ok((rows, rest));
            }
            ReadProgress::More(offset) => match pieces.next() {
                Some(piece) => reader.feed(piece),
                None => return Err(LoadError { offset, problem: Problem::CutOff }),
            },
        }
    }
}

fn default() -> ReadOptions {
    ReadOptions::default()
}

/// A plain file of about 230 KB: repetitive strings, random characters, and one string longer than a block.
pub fn plain() -> (Vec<u8>, Rows) {
    let mut file = b"VALKEY081\xfe\x00".to_vec();
    let mut rows = Rows::new();
    let mut noise = 1u32;
    for number in 0..60 {
        let len = if number == 30 { 150_000 } else { number * 40 };
        let value: String = match number % 3 {
            0 => "ab".repeat(len / 2),
            1 => format!("{number} of {len} ").repeat(len / 8),
            _ => (0..len)
                .map(|_| {
                    noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (b' ' + (noise >> 24) as u8 % 94) as char
                })
                .collect(),
        };
        let key = format!("key {number}");
        file.push(0);
        for text in [&key, &value] {
            file.push(0x80);
            file.extend_from_slice(&(text.len() as u32).to_be_bytes());
            file.extend_from_slice(text.as_bytes());
        }
        rows.push((key, value));
    }
    file.extend_from_slice(b"\xff\0\0\0\0\0\0\0\0");
    (file, rows)
}

#[test]
fn a_file_that_another_library_compressed_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/rdb81-lz4.rdb");
    let file = std::fs::read(path).expect("the file is there");
    for piece in [1, 1000, usize::MAX] {
        let (rows, rest) = read(&file, piece, default()).expect("it is whole");
        assert_eq!((rows.len(), rest), (1501, Vec::new()), "pieces of {piece}");
        for (number, (key, value)) in rows[..1500].iter().enumerate() {
            assert_eq!(*key, format!("key:{number:05}"));
            assert_eq!(*value, format!("the value of the key with the number {number:05}, ").repeat(3));
        }
        assert_eq!(rows[1500], ("hash".to_owned(), "2 fields".to_owned()));
    }
    let mut reader = Reader::of(&file, default());
    assert!(reader.is_compressed() && reader.version() == 0);
    assert!(matches!(reader.next_of_whole(), Ok(Some(Item::Aux(..)))));
    assert_eq!(reader.version(), 81);
    // One changed byte anywhere is found, by a checksum or because the rest is malformed.
    for at in (0..file.len()).step_by(211) {
        let mut bad = file.clone();
        bad[at] ^= 0x10;
        assert!(read(&bad, 4096, default()).is_err(), "byte {at}");
    }
}

#[test]
fn frames_of_every_kind_are_read() {
    let (file, rows) = plain();
    for bits in 0..16 {
        let bits = bits << 2;
        for block_bytes in [1000, 10_000, MAX_BLOCK] {
            let packed = [ENVELOPE, &frame(&file, bits, block_bytes), b"behind"].concat();
            for piece in [997, usize::MAX] {
                let found = read(&packed, piece, default());
                let is_right = found.as_ref().is_ok_and(|(found, rest)| *found == rows && rest == b"behind");
                assert!(
                    is_right,
                    "bits {bits:x}, blocks of {block_bytes}, pieces of {piece}: {:?}",
                    found.err()
                );
            }
        }
    }
    // A file may have the older envelope.
    let draft = [DRAFT_ENVELOPE, &frame(&file, CONTENT_SUM, MAX_BLOCK)[..]].concat();
    assert_eq!(read(&draft, 100, default()), Ok((rows.clone(), Vec::new())));
    // The contents may also have version 80 or a version of Redis.
    let older = [b"VALKEY080", &file[9..]].concat();
    assert_eq!(
        read(&[ENVELOPE, &frame(&older, 0, MAX_BLOCK)].concat(), 100, default()),
        Ok((rows, Vec::new()))
    );
}

#[test]
fn what_is_wrong_with_a_frame_is_said_with_its_position() {
    let file = b"VALKEY081\xfe\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";
    let error = |file: &[u8]| {
        let whole = read(file, usize::MAX, default()).expect_err("it is refused");
        assert_eq!(read(file, 1, default()), Err(whole.clone()));
        (whole.offset, whole.problem)
    };
    let good = [ENVELOPE, &frame(file, BLOCK_SUMS | CONTENT_SUM, MAX_BLOCK)].concat();
    assert!(read(&good, 1, default()).is_ok());
    for len in 0..good.len() {
        assert_eq!(error(&good[..len]).1, Problem::CutOff, "{len} bytes");
    }
    // The fields of the envelope at these offsets are its version, the method, a reserved byte, and the kind.
    for (at, byte) in [(3, 2), (4, 3), (5, 1), (6, 0)] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(error(&bad), (0, Problem::Envelope), "byte {at}");
    }
    let damaged = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        error(&bad)
    };
    assert_eq!(damaged(7, 5), (7, Problem::Frame("the magic of an LZ4 frame is missing")));
    let version = Problem::Frame("the header of the LZ4 frame is not of a known version");
    assert_eq!(damaged(11, 0x80), (7, version.clone()));
    assert_eq!(damaged(12, 0x41), (7, version));
    assert_eq!(damaged(11, 0x41), (7, Problem::Frame("the LZ4 frame needs a dictionary")));
    assert_eq!(damaged(12, 0x30), (7, Problem::Frame("the LZ4 frame has blocks of an unknown size")));
    assert_eq!(damaged(13, 0), (7, Problem::Frame("the header of the LZ4 frame is damaged")));
    assert_eq!(damaged(17, 0x70), (14, Problem::Frame("an LZ4 block is longer than the frame allows")));
    assert_eq!(damaged(20, b'v'), (14, Problem::Frame("the checksum of an LZ4 block is wrong")));
    let end = good.len() as u64 - 8;
    assert_eq!(damaged(good.len() - 1, 0), (end, Problem::Frame("the checksum of the LZ4 frame is wrong")));
    // Without `rdbchecksum` the checksums are not compared.
    let unchecked = ReadOptions { checksum: false, ..default() };
    let mut bad = good.clone();
    *bad.last_mut().expect("it has bytes") ^= 1;
    assert!(read(&bad, 1, unchecked).is_ok());
    // A block is malformed if it refers to bytes before the beginning, or if it is cut off.
    let block = |bytes: &[u8]| {
        let (header, end) = (&frame(b"", 0, 1)[..7], [0; 4]);
        [ENVELOPE, header, &(bytes.len() as u32).to_le_bytes(), bytes, &end].concat()
    };
    let malformed = Problem::Frame("an LZ4 block is malformed");
    assert_eq!(error(&block(b"\x10V\x07\x00")), (14, malformed.clone()));
    assert_eq!(error(&block(b"\xf0\xff")), (14, malformed));
    // The frame and the file must end together.
    let more = [ENVELOPE, &frame(&[file, &b"x"[..]].concat(), 0, MAX_BLOCK)].concat();
    assert_eq!(error(&more).1, Problem::Frame("the LZ4 frame holds more than a file"));
    let later = [ENVELOPE, &frame(&[file, &b"x"[..]].concat(), 0, file.len())].concat();
    assert_eq!(error(&later).1, Problem::Frame("the LZ4 frame holds more than a file"));
    let less = [ENVELOPE, &frame(&file[..20], 0, MAX_BLOCK)].concat();
    assert_eq!(error(&less).1, Problem::Frame("the LZ4 frame ends before its file"));
    let mut long = [ENVELOPE, &frame(file, LENGTH, MAX_BLOCK)].concat();
    long[13] += 1;
    long[21] = (XxHash32::oneshot(0, &long[11..21]) >> 8) as u8;
    assert_eq!(error(&long).1, Problem::Frame("the LZ4 frame does not have the announced length"));
}

/// A block of a few bytes cannot make the reader reserve the size that the frame allows. A whole file of such
/// blocks is decompressed block by block.
#[test]
fn memory_grows_with_what_is_there() {
    let zeros = vec![0; 4 << 20];
    let packed = lz4_flex::block::compress(&zeros);
    assert!(packed.len() * 255 >= zeros.len(), "what a byte can yield");
    let mut fields = vec![VERSION, 0x70];
    fields.push((XxHash32::oneshot(0, &fields) >> 8) as u8);
    let string = [b"VALKEY081\xfe\x00\x00\x01k\x80", &(80u32 << 20).to_be_bytes()[..]].concat();
    let head = (string.len() as u32 | 1 << 31).to_le_bytes();
    let mut reader =
        Reader::of(&[ENVELOPE, b"\x04\x22\x4d\x18", &fields, &head, &string].concat(), default());
    for _ in 0..20 {
        assert!(matches!(reader.next(), Ok(ReadProgress::More(_) | ReadProgress::Item(Item::Db(0)))));
        reader.feed(&(packed.len() as u32).to_le_bytes());
        reader.feed(&packed);
    }
    let Ok(ReadProgress::Item(Item::LoadedEntry(LoadedEntry { value: Loaded::Pages(pages), .. }))) =
        reader.next()
    else {
        panic!("the string is whole")
    };
    // Pages of zeros take no memory: if the file had been decompressed as it was fed, 80 MiB would
    // have been allocated.
    assert_eq!(pages.len(), 80 << 20);
    assert_eq!(reader.rest(), b"");
}

/// A Path Hash with two paths, of which the first has two fields. If the reader skips it, it must find the
/// next key.
const PATH_HASH: &[u8] = b"\x17\x04tree\x02\x02/a\x02\x01f\x01v\x01g\xc0\x05\x02/b\x01\x01h\x01w";

fn with_path_hash() -> Vec<u8> {
    [b"VALKEY081\xfe\x00", PATH_HASH, b"\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0"].concat()
}

#[test]
fn a_path_hash_is_refused_by_its_key_and_left_out_when_relaxed() {
    let file = with_path_hash();
    let relaxed = ReadOptions { unknown: Unknown::Skip, ..default() };
    let packed = [ENVELOPE, &frame(&file, 0, MAX_BLOCK)].concat();
    for file in [file, packed] {
        for piece in [1, usize::MAX] {
            let refused = Problem::Unsupported { kind: ForeignType::PathHash, key: b"tree".to_vec() };
            assert_eq!(read(&file, piece, default()), Err(LoadError { offset: 11, problem: refused }));
            let (rows, _) = read(&file, piece, relaxed).expect("the rest is in order");
            let wanted = [("tree", "path hash"), ("k", "v")].map(|(key, value)| (key.into(), value.into()));
            assert_eq!(rows, wanted);
        }
    }
    // In files of Redis, this type number has another meaning.
    let redis = [b"REDIS0011", &with_path_hash()[9..]].concat();
    assert!(read(&redis, 100, relaxed).is_err());
    // A payload with a Path Hash counts as unsupported, not as malformed.
    let payload = [&PATH_HASH[..1], &PATH_HASH[6..], &81u16.to_le_bytes(), &[0; 8]].concat();
    let unsummed = ReadOptions { checksum: false, ..default() };
    assert_eq!(
        restore(&payload, unsummed).map(|_| ()),
        Err(PayloadError::Unsupported(ForeignType::PathHash))
    );
}

#[test]
fn an_update_within_a_snapshot_is_refused() {
    let file = b"VALKEY081\xf2*1\r\n$4\r\nPING\r\n\xff\0\0\0\0\0\0\0\0";
    let problem = Problem::Unknown(0xf2);
    assert_eq!(read(file, 100, default()), Err(LoadError { offset: 9, problem }));
}

#[test]
fn the_version_of_a_file_is_judged_on_its_way() {
    let whole = |magic: &[u8]| {
        let mut judge = Judge::new(default());
        judge.feed(&[magic, b"\xff\0\0\0\0\0\0\0\0"].concat()).and_then(|()| judge.finish())
    };
    assert_eq!((whole(b"VALKEY080"), whole(b"VALKEY081")), (Ok(()), Ok(())));
    let version = whole(b"VALKEY082").map_err(|error| error.problem);
    assert_eq!(version, Err(Problem::Version(82)));
    // For a compressed file, the version of the contents counts.
    let packed = |magic: &[u8]| {
        let file = [magic, b"\xff\0\0\0\0\0\0\0\0"].concat();
        let mut judge = Judge::new(default());
        [ENVELOPE, &frame(&file, CONTENT_SUM, MAX_BLOCK)]
            .concat()
            .chunks(5)
            .try_for_each(|piece| judge.feed(piece))
            .and_then(|()| judge.finish())
            .map_err(|error| error.problem)
    };
    assert_eq!((packed(b"VALKEY081"), packed(b"VALKEY082")), (Ok(()), Err(Problem::Version(82))));
    assert_eq!(whole(&ENVELOPE[..6]).map_err(|error| error.problem), Err(Problem::Envelope));
}

#[test]
fn a_log_may_begin_with_a_compressed_snapshot() {
    let (file, rows) = plain();
    let log_of =
        |envelope: &[u8]| [envelope, &frame(&file, CONTENT_SUM, MAX_BLOCK), b"*1\r\n$4\r\nPING\r\n"].concat();
    let (released, draft) = (log_of(ENVELOPE), log_of(DRAFT_ENVELOPE));
    for (log, piece) in
        [(&released, 1), (&released, 1000), (&released, usize::MAX), (&draft, 1), (&draft, 1000)]
    {
        let (mut reader, mut pieces) = (LogReader::new(LogOptions::default()), log.chunks(piece));
        let (mut keys, mut commands) = (0, 0);
        loop {
            match reader.next().expect("the log is in order") {
                LogProgress::Item(LogItem::Preamble(Item::LoadedEntry(_))) => keys += 1,
                LogProgress::Item(LogItem::Command(_)) => commands += 1,
                LogProgress::Item(_) => {}
                LogProgress::More => match pieces.next() {
                    Some(piece) => reader.feed(piece),
                    None => break,
                },
            }
        }
        assert_eq!((keys, commands), (rows.len(), 1), "pieces of {piece}");
        assert_eq!(reader.tail().valid_up_to, log.len() as u64);
    }
}

#[test]
fn any_bytes_in_a_frame_are_read_or_refused() {
    let mut hasher = XxHash32::with_seed(7);
    let (file, _) = plain();
    let good = [ENVELOPE, &frame(&file[..3000], 0, 1000)].concat();
    for round in 0..200u32 {
        let mut bytes = good.clone();
        for _ in 0..=round % 3 {
            hasher.write_u32(round);
            let random = hasher.finish_32() as usize;
            // Changes are made after the frame's header, because the header's checksum would refuse nearly
            // every change there.
            let at = 14 + random % (bytes.len() - 14);
            bytes[at] = (random >> 24) as u8;
        }
        fuzz_rdb(&bytes);
    }
}
