//! Tests that written files can be read back and are accepted by the reference, that files of other writers
//! are read, and that malformed files are refused.

use sluice_base::num::IntBuffer;
use sluice_base::{Bytes, Rng};
use sluice_persist::rdb::{
    Compression, ForeignType, Item, LoadError, Loaded, LoadedEntry, ModuleType, Problem, ReadOptions,
    ReadProgress, Reader, SlotSizes, Text, Unknown, Usage, Version, WriteOptions, Writer, fuzz_rdb,
};
use sluice_value::{List, ListContext, ListEncoding, ListLimits, ListRef, PAGE_BYTES, Pages};

const OPTIONS: WriteOptions =
    WriteOptions { version: Version::Valkey, compression: Compression::Strings, checksum: true };

type Row = (Vec<u8>, Vec<u8>, Option<i64>, Usage);

fn rows(file: &[u8]) -> Vec<Row> {
    let mut reader = Reader::of(file, ReadOptions::default());
    let mut rows = Vec::new();
    while let Some(item) = reader.next_of_whole().expect("the file is whole") {
        if let Item::LoadedEntry(LoadedEntry { key, value, expiry_ms, usage, .. }) = item {
            match value {
                Loaded::Str(text) => rows.push((key.into_owned(), text.into_owned(), expiry_ms, usage)),
                Loaded::Pages(pages) => rows.push((key.into_owned(), pages.to_vec(), expiry_ms, usage)),
                Loaded::List(_) | Loaded::Set(_) | Loaded::Hash(_) | Loaded::Zset(_) | Loaded::Stream(_) => {}
            }
        }
    }
    assert_eq!(reader.rest(), b"");
    rows
}

fn random_row(rng: &mut Rng) -> Row {
    let lens = [1, 5, 19, 21, 63, 64, 300, 16_383, 16_384, 70_000];
    let len = lens[rng.below(lens.len() as u64) as usize];
    let letters = 1 + rng.below(256);
    let value = match rng.below(3) {
        0 => ((rng.next_u64() as i64) >> rng.below(64)).to_string().into_bytes(),
        _ => (0..len).map(|_| rng.below(letters) as u8).collect(),
    };
    let key = (0..rng.below(80)).map(|_| rng.below(letters) as u8).collect();
    let expiry = (rng.below(2) == 0).then(|| (rng.next_u64() >> 1) as i64);
    let usage = match rng.below(3) {
        0 => Usage::Absent,
        1 => Usage::Idle(rng.below(1 << 24)),
        _ => Usage::Frequency(rng.next_u64() as u8),
    };
    (key, value, expiry, usage)
}

fn write(rows: &[Row], options: WriteOptions) -> Vec<u8> {
    let mut writer = Writer::new(options);
    writer.aux("valkey-ver", Text::Bytes(b"9.1.2"));
    writer.aux("redis-bits", Text::Int(64));
    writer.db(3, rows.len(), rows.iter().filter(|row| row.2.is_some()).count());
    let mut file = Vec::new();
    for (key, value, expiry, usage) in rows {
        writer.string(key, Text::Bytes(value), *expiry, *usage);
        if writer.pending() > 1000 {
            file.extend(writer.take());
        }
    }
    file.extend(writer.finish());
    file
}

#[test]
fn what_is_written_is_read_back() {
    let mut rng = Rng::new(11);
    for compression in [Compression::Strings, Compression::None] {
        for checksum in [true, false] {
            let wanted: Vec<Row> = (0..100).map(|_| random_row(&mut rng)).collect();
            let file = write(&wanted, WriteOptions { compression, checksum, ..OPTIONS });
            assert_eq!(rows(&file), wanted);
        }
    }
}

#[test]
fn a_string_in_pages_is_read_back_whether_it_gets_smaller_or_not() {
    let mut rng = Rng::new(12);
    let random: Vec<u8> = (0..5 * PAGE_BYTES + 77).map(|_| rng.next_u64() as u8).collect();
    let mut sparse = Pages::copy_from(b"begin");
    sparse.write_at(40 * PAGE_BYTES + 1, b"end");
    let mut half = Pages::copy_from(&random[..3 * PAGE_BYTES]);
    half.write_at(6 * PAGE_BYTES, &random[..100]);
    // Each string has the largest size that it may take in a file with compressed strings.
    let strings = [(Pages::copy_from(&random), random.len()), (sparse, 60_000), (half, 4 * PAGE_BYTES)];
    for compression in [Compression::Strings, Compression::None] {
        for (pages, compressed_max) in &strings {
            let mut writer = Writer::new(WriteOptions { compression, ..OPTIONS });
            let mut file = Vec::new();
            let mut longest = 0;
            writer.db(0, 1, 1);
            writer.pages(b"k", pages, Some(77), Usage::Idle(3), &mut |piece: Bytes| {
                longest = longest.max(piece.len());
                file.extend_from_slice(&piece);
            });
            longest = longest.max(writer.pending());
            file.extend(writer.finish());
            assert_eq!(rows(&file), [(b"k".to_vec(), pages.to_vec(), Some(77), Usage::Idle(3))]);
            let len_max = if compression == Compression::Strings { *compressed_max } else { pages.len() };
            assert!(file.len() <= len_max + 60, "{} of {len_max}", file.len());
            assert!(longest <= (256 << 10) + PAGE_BYTES + 60, "{longest}");
        }
    }
}

fn given(write: impl FnOnce(&mut Writer, &mut dyn FnMut(Bytes)), options: WriteOptions) -> Vec<Bytes> {
    let mut writer = Writer::new(options);
    let mut pieces = Vec::new();
    write(&mut writer, &mut |piece| pieces.push(piece));
    pieces.push(Bytes::from_vec(writer.finish()));
    pieces
}

/// Number of bytes in those of the pieces that have no other owner.
fn own_bytes(pieces: &[Bytes]) -> usize {
    pieces.iter().filter(|piece| !piece.is_shared()).map(|piece| piece.capacity()).sum()
}

#[test]
fn the_pages_of_a_string_are_shared_where_they_are_not_compressed() {
    let mut rng = Rng::new(15);
    let random: Vec<u8> = (0..20 * PAGE_BYTES).map(|_| rng.next_u64() as u8).collect();
    let mut pages = Pages::copy_from(&random);
    pages.write_at(60 * PAGE_BYTES, b"end");
    let options = WriteOptions { compression: Compression::None, ..OPTIONS };
    let pieces =
        given(|writer, mut give| writer.pages(b"k", &pages, None, Usage::Absent, &mut give), options);
    assert!(own_bytes(&pieces) < 1000, "{}", own_bytes(&pieces));
    let zeros =
        pieces.iter().find(|piece| piece.len() == PAGE_BYTES && piece.iter().all(|byte| *byte == 0)).unwrap();
    let holes = pieces.iter().filter(|piece| piece.as_ptr() == zeros.as_ptr()).count();
    assert_eq!(holes, 40);
    let file: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
    assert!(rows(&file)[0].1 == pages.to_vec());
    // A change of the string does not affect a piece that is still to be sent.
    pages.write_at(0, b"another");
    assert!(pieces.iter().flat_map(|piece| piece.iter()).eq(file.iter()));
}

#[test]
fn half_a_gigabyte_of_zeros_is_compressed_to_megabytes() {
    let mut hole = Pages::new();
    hole.write_at((512 << 20) - 1, b"x");
    let pieces = given(|writer, mut give| writer.pages(b"k", &hole, None, Usage::Absent, &mut give), OPTIONS);
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    assert!((5 << 20..7 << 20).contains(&len), "{len}");
    assert!(pieces.iter().all(|piece| piece.len() <= 320 << 10));
}

#[test]
fn a_long_list_is_given_away_in_pieces() {
    let mut rng = Rng::new(16);
    let mut context = ListContext::default();
    let mut values: Vec<Vec<u8>> = (0..100_000).map(|_| rng.next_u64().to_be_bytes().repeat(3)).collect();
    let long: Vec<u8> = (0..1_000_000).map(|_| rng.next_u64() as u8).collect();
    values.insert(50_000, long);
    let list = list_of(&values, &mut context);
    for compression in [Compression::Strings, Compression::None] {
        let pieces = given(
            |writer, mut give| writer.list(b"k", list.view(), -2, None, Usage::Absent, &mut give),
            WriteOptions { compression, ..OPTIONS },
        );
        let own = pieces.iter().filter(|piece| !piece.is_shared());
        assert!(own.map(|piece| piece.len()).max() < Some(270 << 10));
        assert_eq!(pieces.iter().filter(|piece| piece.is_shared()).count(), 1, "the long element");
        let file: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        assert!(lists(&file, context.limits)[0].1 == values);
    }
}

#[test]
fn an_integer_and_its_digits_make_the_same_file() {
    for number in
        [0, 12, -1, 127, 128, -129, 32_767, 32_768, 2_147_483_647, 2_147_483_648, i64::MIN, i64::MAX]
    {
        let file = |text: Text<'_>| {
            let mut writer = Writer::new(OPTIONS);
            writer.string(b"k", text, None, Usage::Absent);
            writer.finish()
        };
        assert_eq!(file(Text::Int(number)), file(Text::Bytes(number.to_string().as_bytes())), "{number}");
    }
}

/// The first fault of a file.
fn first_error(file: &[u8]) -> LoadError {
    let mut reader = Reader::of(file, ReadOptions::default());
    loop {
        match reader.next_of_whole() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the file was accepted"),
            Err(error) => return error,
        }
    }
}

fn elements(list: ListRef<'_>) -> Vec<Vec<u8>> {
    let mut iter = list.iter(0..usize::MAX);
    let mut all = Vec::new();
    while let Some(item) = iter.next() {
        all.push(item.bytes(&mut IntBuffer::new()).to_vec());
    }
    all
}

/// The lists of a file: the key, the elements and the encoding of each.
fn lists(file: &[u8], limits: ListLimits) -> Vec<(Vec<u8>, Vec<Vec<u8>>, ListEncoding)> {
    let mut reader = Reader::of(file, ReadOptions { list: limits, ..ReadOptions::default() });
    let mut all = Vec::new();
    while let Some(item) = reader.next_of_whole().expect("the file is whole") {
        if let Item::LoadedEntry(LoadedEntry { key, value: Loaded::List(list), .. }) = item {
            all.push((key.into_owned(), elements(list.view()), list.encoding()));
        }
    }
    all
}

fn list_of(values: &[Vec<u8>], context: &mut ListContext) -> List {
    let mut list = List::new();
    for value in values {
        list.convert_before_adding(1, value.len(), context.limits);
        list.push_back(value, context);
    }
    list
}

#[test]
fn lists_are_read_back_with_their_encoding() {
    let mut rng = Rng::new(14);
    for seed in 0..30 {
        let max_listpack_size = [-2, -1, 1, 3, -5][seed % 5];
        let compress_depth = (seed % 2) as u32;
        let mut context = ListContext {
            limits: ListLimits { max_listpack_size, compress_depth, packed_threshold: 0 },
            garbage: Vec::new(),
        };
        let mut values = Vec::new();
        for _ in 0..1 + rng.below(400) {
            let mut value = random_row(&mut rng).1;
            value.truncate(if rng.below(40) == 0 { 70_000 } else { 60 });
            values.push(value);
        }
        let list = list_of(&values, &mut context);
        let mut writer = Writer::new(OPTIONS);
        let mut file = Vec::new();
        writer.list(b"key", list.view(), max_listpack_size, Some(5), Usage::Idle(3), &mut |piece| {
            file.extend_from_slice(&piece);
        });
        writer.string(b"s", Text::Bytes(b"after"), None, Usage::Absent);
        file.extend(writer.finish());
        assert_eq!(rows(&file).len(), 1);
        let read = lists(&file, context.limits);
        assert_eq!((read[0].0.as_slice(), read[0].2), (&b"key"[..], list.encoding()));
        assert!(read[0].1 == values);
    }
}

/// The expected bytes are those that Valkey 9.1.2 dumps for lists of one, two and three nodes, and for a node
/// of one long element.
#[test]
fn lists_have_the_reference_s_bytes() {
    let bytes = |values: &[&[u8]], max_listpack_size: i32| {
        let limits = ListLimits { max_listpack_size, compress_depth: 0, packed_threshold: 0 };
        let mut context = ListContext { limits, garbage: Vec::new() };
        let values: Vec<Vec<u8>> = values.iter().map(|value| value.to_vec()).collect();
        let list = list_of(&values, &mut context);
        let mut writer =
            Writer::new(WriteOptions { compression: Compression::None, checksum: false, ..OPTIONS });
        writer.list(b"k", list.view(), max_listpack_size, None, Usage::Absent, &mut |_| {
            panic!("the list is short")
        });
        let file = writer.finish();
        file[9..file.len() - 9].to_vec()
    };
    let long = [b'w'; 8200];
    let wanted =
        [&b"\x12\x01k\x02\x01\x60\x08"[..], &long, b"\x02\x0a\x0a\0\0\0\x01\0\x81b\x02\xff"].concat();
    assert!(bytes(&[&long, b"b"], -2) == wanted);
    let wanted = b"\x12\x01k\x02\x02\r\r\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff\x02\x0c\x0c\x00\x00\x00\x02\x00\x81c\x02\x07\x01\xff";
    assert_eq!(
        bytes(&[b"a", b"b", b"c", b"7"], 2).escape_ascii().to_string(),
        wanted.escape_ascii().to_string()
    );
    let wanted = b"\x12\x01k\x01\x02\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x07\x01\xff";
    assert_eq!(bytes(&[b"a", b"7"], 2).escape_ascii().to_string(), wanted.escape_ascii().to_string());
    let many: Vec<String> = (0..1000).map(|number| format!("element:{number:08}")).collect();
    let many: Vec<&[u8]> = many.iter().map(String::as_bytes).collect();
    let written = bytes(&many, -2);
    assert_eq!(written.len(), 18_042 - 10 + 2);
    assert!(written.starts_with(b"\x12\x01k\x03\x02\x5f\xf3\xf3\x1f\x00\x00\xc6\x01\x90element:"));
}

/// Valkey 9.1.2 reads these types but no longer writes them.
#[test]
fn old_lists_are_read() {
    let ziplist = b"\x12\0\0\0\x0e\0\0\0\x02\0\x00\x02ab\x04\xfe\x07\xff";
    let file = [
        b"REDIS0009\x01\x01a\x03\x01x\xc0\x05\x01z",
        &b"\x0a\x01b\x12"[..],
        ziplist,
        b"\x0e\x01c\x02\x12",
        ziplist,
        b"\x12",
        ziplist,
        b"\xff\0\0\0\0\0\0\0\0",
    ];
    let texts = |values: &[&str]| values.iter().map(|value| value.as_bytes().to_vec()).collect::<Vec<_>>();
    let wanted = [
        (b"a".to_vec(), texts(&["x", "5", "z"]), ListEncoding::Listpack),
        (b"b".to_vec(), texts(&["ab", "7"]), ListEncoding::Listpack),
        (b"c".to_vec(), texts(&["ab", "7", "ab", "7"]), ListEncoding::Quicklist),
    ];
    assert_eq!(lists(&file.concat(), ListLimits::default()), wanted);
}

#[test]
fn files_before_version_5_have_no_checksum() {
    let rest = |version: u8, end: &[u8]| {
        let file = [format!("REDIS{version:04}\0\x01k\x01v").as_bytes(), b"\xff", end].concat();
        let mut reader = Reader::of(&file, ReadOptions::default());
        assert!(matches!(reader.next_of_whole(), Ok(Some(Item::LoadedEntry(_)))));
        let ended = reader.next_of_whole().map_err(|error| error.problem)?.is_none();
        assert!(ended);
        Ok(reader.rest().to_vec())
    };
    for version in 1..5 {
        assert_eq!(rest(version, b""), Ok(Vec::new()));
        assert_eq!(rest(version, b"12345678"), Ok(b"12345678".to_vec()));
    }
    for version in 5..12 {
        assert_eq!(rest(version, b""), Err(Problem::CutOff));
        assert_eq!(rest(version, b"12345678"), Err(Problem::Checksum));
        assert_eq!(rest(version, &[0; 8]), Ok(Vec::new()));
    }
}

#[test]
fn lists_that_cannot_be_are_refused() {
    let problem = |body: &[u8]| {
        let file = [b"VALKEY080", body].concat();
        first_error(&file)
    };
    let listpack = b"\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x07\x01\xff";
    assert_eq!(problem(&[b"\x12\x01k\x01\x03", &listpack[..]].concat()).problem, Problem::List);
    let mut bad = *listpack;
    bad[5] = 3;
    assert_eq!(problem(&[b"\x12\x01k\x01\x02", &bad[..]].concat()).problem, Problem::List);
    assert_eq!(problem(b"\x0a\x01k\x0b\x0b\0\0\0\x0a\0\0\0\x01\0\xff").problem, Problem::List);
    assert_eq!(problem(b"\x01\x01k\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01x").problem, Problem::CutOff);
}

/// The expected bytes are those that Valkey 9.1.2 writes for the same data and settings.
#[test]
fn the_reference_s_bytes() {
    let mut writer = Writer::new(WriteOptions { checksum: false, ..OPTIONS });
    writer.aux("valkey-ver", Text::Bytes(b"9.1.2"));
    writer.aux("redis-bits", Text::Int(64));
    writer.aux("repl-offset", Text::Int(0));
    writer.db(0, 8, 1);
    writer.string(b"s", Text::Bytes(b"hello"), None, Usage::Absent);
    writer.string(b"big", Text::Int(1_234_567_890), None, Usage::Absent);
    writer.string(b"i16", Text::Int(-3000), None, Usage::Absent);
    writer.string(b"i64", Text::Int(12_345_678_901_234), None, Usage::Absent);
    writer.string(b"e", Text::Bytes(b"v"), Some(33_177_117_420_123), Usage::Absent);
    writer.string(b"k", Text::Bytes(b"v"), None, Usage::Idle(1));
    writer.string(b"k", Text::Bytes(b"v"), None, Usage::Frequency(6));
    let wanted = b"VALKEY080\xfa\nvalkey-ver\x059.1.2\xfa\nredis-bits\xc0@\xfa\x0brepl-offset\xc0\x00\xfe\x00\xfb\x08\x01\
        \x00\x01s\x05hello\x00\x03big\xc2\xd2\x02\x96I\x00\x03i16\xc1H\xf4\x00\x03i64\x0e12345678901234\
        \xfc[jL\xa6,\x1e\x00\x00\x00\x01e\x01v\xf8\x01\x00\x01k\x01v\xf9\x06\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";
    assert_eq!(writer.finish().escape_ascii().to_string(), wanted.escape_ascii().to_string());
}

#[test]
fn a_file_of_the_reference_is_read() {
    let file = b"VALKEY080\xfa\nvalkey-ver\x059.1.2\xfa\nredis-bits\xc0@\xfa\x05ctime\xc2\x8f\xfb\xffj\xfa\x08used-mem\xc2\xc8\
        \x81\x0f\x00\xfa\x0erepl-stream-db\xc0\x00\xfa\x07repl-id(c1b84a1bb9397509b7b9801e549c9499d125e5c7\xfa\x0brepl-offset\
        \xc0\x00\xfa\x08aof-base\xc0\x00\xfe\x00\xfb\x03\x02\xf8\x01\x00\x01k\x01v\xfcy*\xf0\xf7\xa1\x01\x00\x00\xf8\x01\x00\
        \x01z\xc3\t\x1e\x01bb\xe0\x11\x00\x01bb\xfc\xda\xa3\xee\xf7\xa1\x01\x00\x00\xf8\x01\x00\x03exp\xc0\x01\xff\xf2o\xfbbV\
        \xd2L.";
    let rows = rows(file);
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[1].1, [b'b'; 30]);
    assert_eq!(rows[2], (b"exp".to_vec(), b"1".to_vec(), Some(1_795_160_974_298), Usage::Idle(1)));
}

#[test]
fn mistakes_are_named_with_their_position() {
    let problem = |file: &[u8]| {
        let LoadError { offset, problem } = first_error(file);
        (offset, problem)
    };
    assert_eq!(problem(b""), (0, Problem::CutOff));
    assert_eq!(problem(b"VALKEY"), (6, Problem::CutOff));
    for magic in ["PK", "REDIX", "REDIS00x1", "VALKEY08 ", "REDKEY001", "VALKEY0", "redis0011"] {
        let is_prefix = magic == "VALKEY0";
        let wanted = if is_prefix { (7, Problem::CutOff) } else { (0, Problem::Magic) };
        assert_eq!(problem(magic.as_bytes()), wanted, "{magic}");
    }
    for (magic, version) in
        [("VALKEY999", 999), ("VALKEY082", 82), ("REDIS0014", 14), ("REDIS0080", 80), ("REDIS0000", 0)]
    {
        assert_eq!(problem(magic.as_bytes()), (0, Problem::Version(version)), "{magic}");
    }
    assert_eq!(problem(b"VALKEY080"), (9, Problem::CutOff));
    assert_eq!(problem(b"VALKEY080\xff1234567"), (10, Problem::CutOff));
    assert_eq!(problem(b"VALKEY080\xff12345678"), (10, Problem::Checksum));
    assert_eq!(problem(b"VALKEY080\x08"), (9, Problem::Unknown(8)));
    assert_eq!(problem(b"REDIS0011\xf3"), (9, Problem::Unknown(0xf3)));
    assert_eq!(problem(b"VALKEY080\xf6\x01f"), (9, Problem::OldFunction));
    assert_eq!(problem(b"VALKEY080\xf4\x80\0\0\x40\0"), (10, Problem::Length));
    assert_eq!(problem(b"VALKEY080\xfe\xc0"), (10, Problem::Length));
    assert_eq!(problem(b"VALKEY080\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff"), (19, Problem::CutOff));
    assert_eq!(
        problem(b"VALKEY080\x00\xc3\x01\x81\xff\xff\xff\xff\xff\xff\xff\xffz"),
        (10, Problem::Compression)
    );
}

#[test]
fn noise_neither_panics_nor_grows() {
    let mut rng = Rng::new(77);
    let file = write(&(0..20).map(|_| random_row(&mut rng)).collect::<Vec<_>>(), OPTIONS);
    for _ in 0..2000 {
        let mut noise = file.clone();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(noise.len() as u64) as usize;
            noise[at] = rng.next_u64() as u8;
        }
        noise.truncate(rng.below(noise.len() as u64 + 1) as usize);
        fuzz_rdb(&noise);
    }
}

#[test]
fn the_reference_s_checker_accepts_the_file() {
    let Some(home) = std::env::var_os("SLUICE_PEER_HOME") else {
        println!("skipped: SLUICE_PEER_HOME names no reference");
        return;
    };
    let checker = std::path::Path::new(&home).join("bin/valkey-check-rdb");
    let mut rng = Rng::new(3);
    for version in [Version::Valkey, Version::Common] {
        let rows: Vec<Row> = (0..200).map(|_| random_row(&mut rng)).collect();
        let path = std::env::temp_dir().join(format!("sluice-rdb-{}-{version:?}.rdb", std::process::id()));
        let mut writer = Writer::new(WriteOptions { version, ..OPTIONS });
        writer.function(b"#!lua name=lib\nserver.register_function('f', function() return 1 end)");
        writer.db(0, rows.len() + 3, 0);
        for (key, value, expiry, usage) in &rows {
            writer.string(key, Text::Bytes(value), *expiry, *usage);
        }
        let mut file = Vec::new();
        for (count, len) in [(3, 5), (3000, 40), (5, 20_000)] {
            let values: Vec<Vec<u8>> = (0..count).map(|_| random_row(&mut rng).1.repeat(len)).collect();
            let mut context = ListContext::default();
            let list = list_of(
                &values.iter().map(|value| value[..value.len().min(len)].to_vec()).collect::<Vec<_>>(),
                &mut context,
            );
            let key = format!("a list of {count}");
            writer.list(key.as_bytes(), list.view(), -2, None, Usage::Absent, &mut |piece| {
                file.extend_from_slice(&piece)
            });
            file.extend(writer.take());
        }
        file.extend(writer.finish());
        std::fs::write(&path, file).expect("the file can be written");
        let output = std::process::Command::new(&checker).arg(&path).output().expect("the checker runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        std::fs::remove_file(&path).expect("the file is there");
        assert!(output.status.success(), "{said}");
        assert!(said.contains("203 keys read"), "{said}");
    }
}

/// The contents of a file as text, which must not depend on the size of the pieces.
fn outline(file: &[u8], piece: usize, options: ReadOptions) -> Result<Vec<String>, LoadError> {
    let mut reader = Reader::new(options);
    let mut pieces = file.chunks(piece);
    let mut lines = Vec::new();
    loop {
        match reader.next()? {
            ReadProgress::Item(Item::LoadedEntry(LoadedEntry { key, value: Loaded::List(list), .. })) => {
                lines.push(format!("{key:?} {:?}", elements(list.view())));
            }
            ReadProgress::Item(item) => lines.push(format!("{item:?}")),
            ReadProgress::End => return Ok(lines),
            ReadProgress::More(offset) => match pieces.next() {
                Some(piece) => reader.feed(piece),
                None => return Err(LoadError { offset, problem: Problem::CutOff }),
            },
        }
    }
}

#[test]
fn a_file_in_pieces_reads_as_the_whole_one() {
    let mut rng = Rng::new(21);
    let mut rows: Vec<Row> = (0..30).map(|_| random_row(&mut rng)).collect();
    let long: Vec<u8> = (0..1_200_000).map(|_| rng.next_u64() as u8).collect();
    rows.push((b"long".to_vec(), long, None, Usage::Absent));
    let mut file = write(&rows, OPTIONS);
    let options = ReadOptions::default();
    let whole = outline(&file, file.len(), options).expect("it is well-formed");
    assert_eq!(whole.len(), 2 + 2 + 31);
    for piece in [1, 2, 7, 100, 4096, 65_536] {
        assert!(outline(&file, piece, options).as_ref() == Ok(&whole), "{piece}");
    }
    // Any missing or changed byte is noticed.
    for cut in [file.len() - 1, file.len() - 8, file.len() - 9, 1_000_000, 500, 9, 5] {
        let error = outline(&file[..cut], 1000, options).expect_err("it is cut off");
        assert_eq!(error.problem, Problem::CutOff);
        assert!(error.offset <= cut as u64);
    }
    file[600_000] ^= 1;
    assert_eq!(outline(&file, 1000, options).expect_err("a bit is wrong").problem, Problem::Checksum);
    assert!(outline(&file, 1000, ReadOptions { checksum: false, ..options }).is_ok());
}

/// An announced length reserves nothing, because the reader takes the bytes that arrive and waits for more.
#[test]
fn announced_lengths_are_not_believed() {
    let huge = b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff";
    for before in [
        &b"VALKEY080\x00\x01k"[..],
        b"VALKEY080\x00",
        b"VALKEY080\x12\x01k",
        b"VALKEY080\x12\x01k\x01\x02",
        b"VALKEY080\x12\x01k\x01\x01",
        b"VALKEY080\x01\x01k",
        b"VALKEY080\x0a\x01k",
        b"VALKEY080\xfa\x01k",
        b"VALKEY080\xf5",
        b"VALKEY080\x00\x01k\xc3",
    ] {
        let mut reader = Reader::new(ReadOptions::default());
        reader.feed(before);
        reader.feed(huge);
        reader.feed(&[1; 100]);
        for _ in 0..10 {
            match reader.next() {
                Ok(ReadProgress::More(_)) => reader.feed(&[1; 100]),
                Err(error) => {
                    // The fed bytes are elements of one byte each. Where the kind of a container is expected,
                    // the number 1 does not mean a listpack.
                    assert!(matches!(error.problem, Problem::List | Problem::Compression), "{error:?}");
                    break;
                }
                Ok(other) => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn hints_imports_and_functions_are_items() {
    let code = b"#!lua name=lib\nserver.register_function('f', function() return 1 end)";
    let mut writer = Writer::new(WriteOptions { compression: Compression::None, ..OPTIONS });
    writer.aux("valkey-ver", Text::Bytes(b"9.1.2"));
    writer.function(code);
    writer.db(0, 1, 0);
    writer.string(b"k", Text::Bytes(b"v"), None, Usage::Absent);
    let file = writer.finish();
    let lines = outline(&file, 3, ReadOptions::default()).expect("it is well-formed");
    assert!(lines[1].starts_with("Function("));
    let mut reader = Reader::of(&file, ReadOptions::default());
    let functions = std::iter::from_fn(|| match reader.next_of_whole() {
        Ok(Some(Item::Function(code))) => Some(Some(code.into_owned())),
        Ok(Some(_)) => Some(None),
        Ok(None) | Err(_) => None,
    });
    assert_eq!(functions.flatten().collect::<Vec<_>>(), [code.to_vec()]);

    let name = [b'n'; 40];
    let file = [
        b"VALKEY080\xf3\x28",
        &name[..],
        b"\x02\x00\x05\x40\x64\x40\xc8\xfe\x00\xf4\x7f\xff\x03\x01\xf7\x81\0\0\0\0\0\0\0\x01\x02\x01",
        b"\x01\x05\x02\x06\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x05\x02ab\x00\xff\0\0\0\0\0\0\0\0",
    ]
    .concat();
    let mut reader = Reader::of(&file, ReadOptions::default());
    match reader.next_of_whole() {
        Ok(Some(Item::SlotImport { name: read, ranges })) => {
            assert_eq!((&*read, ranges), (&name[..], vec![(0, 5), (100, 200)]));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(reader.next_of_whole(), Ok(Some(Item::Db(0)))));
    match reader.next_of_whole() {
        Ok(Some(Item::Slot(sizes))) => {
            assert_eq!(sizes, SlotSizes { slot: 16_383, keys: 3, expires: 1 });
        }
        other => panic!("{other:?}"),
    }
    match reader.next_of_whole() {
        Ok(Some(Item::ModuleRecord { module, bytes })) => {
            let at = file.windows(2).position(|two| two == b"\xf7\x81").expect("it is there");
            assert_eq!((module, bytes), (ModuleType(1), (file.len() - 9 - at) as u64));
        }
        other => panic!("{other:?}"),
    }
    assert!(reader.next_of_whole().expect("it is well-formed").is_none());
    let short = b"VALKEY080\xf3\x01A\x01\0\0\xff\0\0\0\0\0\0\0\0";
    assert_eq!(first_error(short), LoadError { offset: 10, problem: Problem::ImportName });
    for (range, start, end) in [
        (&b"\x05\x04"[..], 5, 4),
        (b"\x00\x80\0\0\x40\0", 0, 16_384),
        (b"\x81\xff\0\0\0\0\0\0\0\x01", 255 << 56, 1),
        (b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff", 0, u64::MAX),
        // These ranges overlap the range before them, which is slot 5.
        (b"\x05\x05", 5, 5),
        (b"\x00\x40\x40", 0, 64),
    ] {
        let file = [b"VALKEY080\xf3\x28", &name[..], b"\x02\x00\x05", range].concat();
        let error = LoadError { offset: 54, problem: Problem::ImportRange { start, end } };
        assert_eq!(first_error(&file), error);
    }
    // An announced number reserves no memory beyond the bytes that are there.
    let many = [b"VALKEY080\xf3\x28", &name[..], b"\x81\x10\0\0\0\0\0\0\0"].concat();
    assert_eq!(first_error(&many), LoadError { offset: 51, problem: Problem::Length });
}

/// A value of each type that this server lacks: the type's number, the type itself, its name in messages, and
/// the value.
const OTHERS: &[(u8, ForeignType, &str, &[u8])] = &[
    (
        7,
        ForeignType::Module(ModuleType(0x45e2_5238_df91_2c03)),
        "ReJSON-RL (of a module)",
        b"\x81\x45\xe2\x52\x38\xdf\x91\x2c\x03\x01\x05\x02\x06\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x05\x02ab\x00",
    ),
    (23, ForeignType::PathHash, "path hash", b"\x01\x02/a\x01\x01f\x01v"),
];

#[test]
fn values_of_other_types_are_named_or_passed_over() {
    for (number, kind, name, value) in OTHERS {
        let file = [
            b"VALKEY080\xfc\0\0\0\0\0\0\0\x01".as_slice(),
            &[*number],
            b"\x02k\n",
            value,
            b"\x00\x01s\x01v\xff\0\0\0\0\0\0\0\0",
        ]
        .concat();
        let problem = Problem::Unsupported { kind: *kind, key: b"k\n".to_vec() };
        let error = LoadError { offset: 18, problem };
        assert_eq!(first_error(&file), error);
        assert_eq!(
            error.to_string(),
            format!("key 'k\\n' at byte 18 holds a value of type {name}, which this version cannot load")
        );
        let relaxed = ReadOptions { unknown: Unknown::Skip, ..ReadOptions::default() };
        let mut reader = Reader::of(&file, relaxed);
        match reader.next_of_whole() {
            Ok(Some(Item::Skipped { key, kind: named, offset, .. })) => {
                assert_eq!((key.as_slice(), named, offset), (&b"k\n"[..], *kind, 18));
            }
            other => panic!("{number}: {other:?}"),
        }
        // The expiry of a skipped key does not apply to the next key.
        match reader.next_of_whole() {
            Ok(Some(Item::LoadedEntry(entry))) => {
                assert_eq!((&*entry.key, entry.expiry_ms), (&b"s"[..], None))
            }
            other => panic!("{number}: {other:?}"),
        }
        assert!(reader.next_of_whole().expect("the file is whole").is_none());
        let whole = outline(&file, file.len(), relaxed);
        assert!(whole.is_ok());
        assert_eq!(outline(&file, 1, relaxed), whole);
    }
    // A value in the first format of modules does not delimit itself.
    let file = b"REDIS0009\x06\x01k\x05";
    let relaxed = ReadOptions { unknown: Unknown::Skip, ..ReadOptions::default() };
    let kind = ForeignType::Module(ModuleType(5));
    let problem = Problem::Unsupported { kind, key: b"k".to_vec() };
    assert_eq!(outline(file, 9, relaxed), Err(LoadError { offset: 9, problem }));
}

#[test]
fn unknown_versions_are_read_where_that_is_wanted() {
    let relaxed = ReadOptions { unknown: Unknown::Skip, ..ReadOptions::default() };
    for magic in ["REDIS0014", "REDIS0987", "VALKEY082", "VALKEY999"] {
        let file = [magic.as_bytes(), b"\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0"].concat();
        assert_eq!(outline(&file, 4, relaxed).map(|lines| lines.len()), Ok(1));
        assert!(matches!(first_error(&file).problem, Problem::Version(_)));
    }
    assert!(outline(b"REDIS0000\xff", 1, relaxed).is_err());
    for version in 1..=13 {
        let file = format!("REDIS{version:04}\0\x01k\x01v");
        let file = [file.as_bytes(), b"\xff\0\0\0\0\0\0\0\0"].concat();
        assert_eq!(outline(&file, 1, ReadOptions::default()).map(|lines| lines.len()), Ok(1));
    }
}

#[test]
fn lists_without_elements_are_passed_over_and_empty_plain_nodes_refused() {
    let empty = b"\x07\0\0\0\0\0\xff";
    let file = [
        b"VALKEY080\x01\x01a\0\x12\x01b\0\x12\x01c\x01\x02\x07",
        &empty[..],
        b"\xfc\0\0\0\0\0\0\0\x01\x0e\x01d\x01\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff\x00\x01s\x01v\xff\0\0\0\0\0\0\0\0",
    ]
    .concat();
    let lines = outline(&file, 1, ReadOptions::default()).expect("it is well-formed");
    assert_eq!(lines.iter().filter(|line| line.starts_with("Empty")).count(), 4);
    assert!(lines[4].contains("expiry_ms: None"), "{}", lines[4]);
    let plain = b"VALKEY080\x12\x01k\x01\x01\x00";
    assert_eq!(first_error(plain), LoadError { offset: 13, problem: Problem::List });
}
