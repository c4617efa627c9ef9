//! Tests of files and streams that are compressed by Zstd, and of the output of both compression methods.

use super::compressed::{plain, read};
use sluice_persist::rdb::{
    CompressionMethod, Item, Judge, LoadError, PackedStream, Packer, Problem, ReadOptions, ReadProgress,
    Reader, StreamError, fuzz_rdb,
};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, InBuffer, OutBuffer};

const ENVELOPE: &[u8] = b"VCS\x01\x02\0\x01";
/// The beginning of a frame without length and checksum, with a window of 128 KiB.
const HEADER: &[u8] = b"\x28\xb5\x2f\xfd\0\x38";

fn default() -> ReadOptions {
    ReadOptions::default()
}

/// A block of this kind (0: plain, 1: one byte repeated, 2: compressed); `len` is the length in its header.
fn block(kind: u32, len: usize, bytes: &[u8]) -> Vec<u8> {
    [&((len as u32) << 3 | kind << 1).to_le_bytes()[..3], bytes].concat()
}

fn last(mut block: Vec<u8>) -> Vec<u8> {
    block[0] |= 1;
    block
}

fn packed(file: &[u8], codec: CompressionMethod, checksum: bool, piece: usize) -> Vec<u8> {
    let mut packer = Packer::of_file(codec, checksum);
    let mut out = Vec::new();
    for piece in file.chunks(piece) {
        packer.feed(piece);
        out.append(&mut packer.take());
    }
    out.append(&mut packer.finish());
    out
}

#[test]
fn a_file_that_another_library_compressed_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/rdb81-zstd.rdb");
    let file = std::fs::read(path).expect("the file is there");
    // This file has the same data, compressed by LZ4.
    let other = std::fs::read(path.replace("zstd", "lz4")).expect("the file is there");
    let wanted = read(&other, usize::MAX, default()).expect("it is whole");
    assert_eq!(wanted.0.len(), 1501);
    for piece in [1, 1000, usize::MAX] {
        assert_eq!(read(&file, piece, default()).as_ref(), Ok(&wanted), "pieces of {piece}");
    }
    for at in (0..file.len()).step_by(41) {
        let mut bad = file.clone();
        bad[at] ^= 0x10;
        let mut judge = Judge::new(default());
        let judged = bad.chunks(4096).try_for_each(|piece| judge.feed(piece)).and_then(|()| judge.finish());
        assert!(read(&bad, 4096, default()).is_err() && judged.is_err(), "byte {at}");
    }
}

#[test]
fn what_is_written_is_read_by_either_method_and_is_smaller() {
    let (file, rows) = plain();
    for (codec, most) in [(CompressionMethod::Lz4, 60), (CompressionMethod::Zstd, 45)] {
        for (checksum, piece) in [(true, 1000), (false, 1000), (true, 1), (true, usize::MAX)] {
            let packed = packed(&file, codec, checksum, piece);
            let share = packed.len() * 100 / file.len();
            assert!(share < most, "{codec:?}: {share} %");
            let found = read(&[&packed[..], b"behind"].concat(), 4096, default());
            assert_eq!(found, Ok((rows.clone(), b"behind".to_vec())), "{codec:?}, {checksum}, {piece}");
        }
        // A byte that is changed anywhere is either found or does not change the contents.
        let good = packed(&file, codec, true, 1000);
        for at in (7..good.len()).step_by(good.len() / 200) {
            let mut bad = good.clone();
            bad[at] ^= 4;
            if let Ok((found, _)) = read(&bad, 4096, default()) {
                assert!(found == rows, "{codec:?}: byte {at} of {}", good.len());
            }
        }
    }
}

#[test]
fn what_is_wrong_with_a_frame_is_said_with_its_position() {
    let file = b"VALKEY081\xfe\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";
    let error = |file: &[u8]| {
        let whole = read(file, usize::MAX, default()).expect_err("it is refused");
        assert_eq!(read(file, 1, default()), Err(whole.clone()));
        let mut judge = Judge::new(default());
        let judged = file.chunks(3).try_for_each(|piece| judge.feed(piece)).and_then(|()| judge.finish());
        let is_extra = matches!(whole.problem, Problem::Frame(text) if text.contains("than a file"));
        let is_less = matches!(whole.problem, Problem::Frame(text) if text.contains("before its file"));
        assert!(judged.is_err() || is_extra, "{whole:?}");
        if !is_extra && !is_less {
            assert_eq!(judged, Err(whole.clone()));
        }
        (whole.offset, whole.problem)
    };
    let wrong = |text| Problem::Frame(text);
    let good = packed(file, CompressionMethod::Zstd, true, 100);
    assert!(read(&good, 1, default()).is_ok());
    for len in 0..good.len() {
        assert_eq!(error(&good[..len]).1, Problem::CutOff, "{len} bytes");
    }
    for (at, byte) in [(3, 2), (4, 3), (5, 1), (6, 0), (6, 2)] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(error(&bad), (0, Problem::Envelope), "byte {at}");
    }
    let damaged = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        error(&bad)
    };
    assert_eq!(damaged(7, 5), (7, wrong("the magic of a Zstd frame is missing")));
    assert_eq!(damaged(11, 0x0c), (7, wrong("the header of the Zstd frame is not of a known version")));
    assert_eq!(damaged(11, 0x05), (7, wrong("the Zstd frame needs a dictionary")));
    // The windows are 16 MiB, 9 MiB, and the largest size that the field can express. No memory is reserved
    // for them.
    for field in [14 << 3, 13 << 3 | 1, 0xff] {
        assert_eq!(damaged(12, field), (7, wrong("the Zstd frame needs a window of more than 8 MiB")));
    }
    let end = good.len() as u64 - 4;
    assert_eq!(damaged(good.len() - 1, !good[good.len() - 1]).0, end);
    assert_eq!(
        damaged(good.len() - 2, !good[good.len() - 2]).1,
        wrong("the checksum of the Zstd frame is wrong")
    );
    // Without `rdbchecksum` the checksum is not compared.
    let unchecked = ReadOptions { checksum: false, ..default() };
    let mut bad = good.clone();
    *bad.last_mut().expect("it has bytes") ^= 1;
    assert!(read(&bad, 1, unchecked).is_ok());

    let of_blocks = |blocks: &[Vec<u8>]| [ENVELOPE, HEADER, &blocks.concat()].concat();
    let whole = |kind, len, bytes: &[u8]| of_blocks(&[last(block(kind, len, bytes))]);
    assert!(read(&whole(0, file.len(), file), 1, default()).is_ok());
    assert_eq!(error(&whole(3, 1, b"x")), (13, wrong("a Zstd block is of an unknown kind")));
    assert_eq!(
        error(&whole(0, (128 << 10) + 1, b"x")),
        (13, wrong("a Zstd block is longer than the frame allows"))
    );
    assert_eq!(
        error(&whole(1, (128 << 10) + 1, b"x")),
        (13, wrong("a Zstd block is longer than the frame allows"))
    );
    assert_eq!(error(&whole(2, 4, b"\xff\xff\xff\xff")), (13, wrong("a Zstd block is malformed")));
    // The frame and the file must end together.
    let more = [&file[..], b"x"].concat();
    assert_eq!(error(&whole(0, more.len(), &more)).1, wrong("the Zstd frame holds more than a file"));
    let later = of_blocks(&[block(0, file.len(), file), last(block(0, 1, b"x"))]);
    assert_eq!(error(&later).1, wrong("the Zstd frame holds more than a file"));
    assert_eq!(error(&whole(0, 20, &file[..20])).1, wrong("the Zstd frame ends before its file"));
    // An announced length reserves nothing and is compared with the bytes that follow. Here 2^60 bytes are
    // announced, and then one byte too few.
    let announced = |len: u64, blocks: &[Vec<u8>]| {
        [ENVELOPE, b"\x28\xb5\x2f\xfd\xc0\x38", &len.to_le_bytes(), &blocks.concat()].concat()
    };
    let exact = [last(block(0, file.len(), file))];
    assert!(read(&announced(file.len() as u64, &exact), 1, default()).is_ok());
    assert_eq!(error(&announced(1 << 60, &exact)).1, wrong("a Zstd block is malformed"));
    let more = [block(0, file.len(), file), last(block(0, 0, b""))];
    let length = wrong("a Zstd block is malformed");
    assert_eq!(error(&announced(file.len() as u64 - 1, &more)).1, length);
}

/// Four bytes yield 128 KiB, so blocks are decompressed one by one, when they are needed.
#[test]
fn memory_grows_with_what_is_there() {
    let string = [b"VALKEY081\xfe\x00\x00\x01k\x80", &(80u32 << 20).to_be_bytes()[..]].concat();
    let start = [ENVELOPE, HEADER, &block(0, string.len(), &string)].concat();
    let mut reader = Reader::of(&start, default());
    let zeros = block(1, 128 << 10, &[0]);
    for _ in 0..640 {
        assert!(matches!(reader.next(), Ok(ReadProgress::More(_) | ReadProgress::Item(Item::Db(0)))));
        reader.feed(&zeros);
    }
    // Pages of zeros take no memory.
    assert!(matches!(reader.next(), Ok(ReadProgress::Item(Item::LoadedEntry(_)))));
}

/// A stream of a primary, in one piece for each of `said`. With `ends`, each piece is a frame; otherwise all
/// pieces are one frame, which is flushed after each of them.
fn stream(said: &[&[u8]], ends: bool) -> Vec<Vec<u8>> {
    let mut encoder = CCtx::create();
    let mut encode = |bytes: &[u8], end| {
        let mut out = Vec::with_capacity(1 << 20);
        let mut input = InBuffer::around(bytes);
        let left = encoder.compress_stream2(&mut OutBuffer::around(&mut out), &mut input, end);
        assert_eq!(left, Ok(0));
        out
    };
    let mut pieces = Vec::new();
    for one in said {
        let end = if ends { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_flush };
        pieces.push(encode(one, end));
    }
    pieces[0].splice(0..0, *b"VCS\x01\x02\0\x02");
    pieces
}

#[test]
fn what_a_primary_flushes_is_handed_out_at_once() {
    let said: [&[u8]; 3] = [b"*1\r\n$4\r\nPING\r\n", &[b'x'; 300_000], b"*1\r\n$4\r\nPING\r\n"];
    for ends in [false, true] {
        for piece in [1, 7, usize::MAX] {
            let (mut packed, mut plain) = (PackedStream::default(), Vec::new());
            let mut wanted = Vec::new();
            for (number, sent) in stream(&said, ends).iter().enumerate() {
                for piece in sent.chunks(piece) {
                    packed.feed(piece, &mut plain).expect("it is in order");
                }
                wanted.extend_from_slice(said[number]);
                assert!(plain == wanted, "{ends}, {piece}: {} of {}", plain.len(), wanted.len());
            }
        }
    }
}

#[test]
fn a_stream_may_be_plain_and_empty_lines_come_before_either() {
    let feed = |pieces: &[&[u8]]| {
        let (mut packed, mut plain) = (PackedStream::default(), Vec::new());
        pieces.iter().try_for_each(|piece| packed.feed(piece, &mut plain)).map(|()| plain)
    };
    let command: &[u8] = b"*1\r\n$4\r\nPING\r\n";
    assert_eq!(feed(&[b"\n", b"\n*1", &command[2..]]), Ok([b"\n\n", command].concat()));
    assert_eq!(feed(&[b"V", b"ALUE"]), Ok(b"VALUE".to_vec()));
    let sent = &stream(&[command], false)[0];
    assert_eq!(feed(&[b"\n", &sent[..3], &sent[3..]]), Ok([b"\n", command].concat()));
    // A file is not accepted as a stream, and a malformed stream fails.
    let file = feed(&[ENVELOPE]);
    assert_eq!(file, Err(StreamError::Bad(LoadError { offset: 0, problem: Problem::Envelope })));
    let bad = feed(&[&sent[..7], b"garbage"]);
    assert!(matches!(bad, Err(StreamError::Bad(LoadError { offset: 7, .. }))), "{bad:?}");
    // The stream is compressed by LZ4 and has one uncompressed block with the command.
    let header = b"VCS\x01\x01\0\x02\x04\x22\x4d\x18\x40\x40\xc0";
    let len = (command.len() as u32 | 1 << 31).to_le_bytes();
    assert_eq!(feed(&[header, &len, command]), Ok(command.to_vec()));
}

#[test]
fn a_burst_that_yields_more_than_a_query_buffer_may_have_is_refused() {
    let mut packed = PackedStream::default();
    let start = [&b"VCS\x01\x02\0\x02"[..], HEADER].concat();
    let burst = block(1, 128 << 10, b"x").repeat((1 << 30) / (128 << 10) + 2);
    let mut plain = Vec::new();
    assert_eq!(packed.feed(&start, &mut plain), Ok(()));
    assert_eq!(packed.feed(&burst[..4 * 80], &mut plain), Ok(()));
    assert_eq!(plain.len(), 80 * (128 << 10));
    plain.clear();
    assert_eq!(packed.feed(&burst, &mut plain), Err(StreamError::TooMuch));
}

#[test]
fn any_bytes_in_a_frame_are_read_or_refused() {
    let (file, _) = plain();
    let good = packed(&file[..3000], CompressionMethod::Zstd, false, 1000);
    let mut seed = 7u64;
    for round in 0..400u32 {
        let mut bytes = good.clone();
        for _ in 0..=round % 3 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = 7 + (seed >> 33) as usize % (bytes.len() - 7);
            bytes[at] = (seed >> 20) as u8;
        }
        fuzz_rdb(&bytes);
    }
}
