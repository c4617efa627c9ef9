//! Files written are read back, and the reference accepts them.
#![allow(missing_docs)]

use sluice_base::Rng;
use sluice_persist::rdb::{Item, Options, Problem, Reader, Text, Usage, Version, Writer, fuzz_rdb};

const OPTIONS: Options = Options { version: Version::Valkey, compression: true, checksum: true };

type Row = (Vec<u8>, Vec<u8>, Option<i64>, Usage);

fn rows(file: &[u8]) -> Vec<Row> {
    let mut reader = Reader::new(file).expect("the header is known");
    let mut rows = Vec::new();
    while let Some(item) = reader.next().expect("the file is whole") {
        if let Item::String { key, value, expiry_ms, usage } = item {
            rows.push((key.into_owned(), value.into_owned(), expiry_ms, usage));
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
        0 => Usage::Unsaid,
        1 => Usage::Idle(rng.below(1 << 24)),
        _ => Usage::Frequency(rng.next_u64() as u8),
    };
    (key, value, expiry, usage)
}

fn write(rows: &[Row], options: Options) -> Vec<u8> {
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
    for compression in [true, false] {
        for checksum in [true, false] {
            let wanted: Vec<Row> = (0..100).map(|_| random_row(&mut rng)).collect();
            let file = write(&wanted, Options { compression, checksum, ..OPTIONS });
            assert_eq!(rows(&file), wanted);
        }
    }
}

#[test]
fn an_integer_and_its_digits_make_the_same_file() {
    for number in
        [0, 12, -1, 127, 128, -129, 32_767, 32_768, 2_147_483_647, 2_147_483_648, i64::MIN, i64::MAX]
    {
        let file = |text: Text<'_>| {
            let mut writer = Writer::new(OPTIONS);
            writer.string(b"k", text, None, Usage::Unsaid);
            writer.finish()
        };
        assert_eq!(file(Text::Int(number)), file(Text::Bytes(number.to_string().as_bytes())), "{number}");
    }
}

/// The bytes of 9.1.2 for the same data and settings.
#[test]
fn the_reference_s_bytes() {
    let mut writer = Writer::new(Options { checksum: false, ..OPTIONS });
    writer.aux("valkey-ver", Text::Bytes(b"9.1.2"));
    writer.aux("redis-bits", Text::Int(64));
    writer.aux("repl-offset", Text::Int(0));
    writer.db(0, 8, 1);
    writer.string(b"s", Text::Bytes(b"hello"), None, Usage::Unsaid);
    writer.string(b"big", Text::Int(1_234_567_890), None, Usage::Unsaid);
    writer.string(b"i16", Text::Int(-3000), None, Usage::Unsaid);
    writer.string(b"i64", Text::Int(12_345_678_901_234), None, Usage::Unsaid);
    writer.string(b"e", Text::Bytes(b"v"), Some(33_177_117_420_123), Usage::Unsaid);
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
fn mistakes_are_named_with_their_place() {
    let problem = |file: &[u8]| {
        let mut reader = match Reader::new(file) {
            Ok(reader) => reader,
            Err(error) => return (error.offset, error.problem),
        };
        loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the file was accepted"),
                Err(error) => return (error.offset, error.problem),
            }
        }
    };
    assert_eq!(problem(b""), (0, Problem::Magic));
    assert_eq!(problem(b"VALKEY999"), (0, Problem::Magic));
    assert_eq!(problem(b"REDIS0012"), (0, Problem::Magic));
    assert_eq!(problem(b"VALKEY080"), (9, Problem::CutOff));
    assert_eq!(problem(b"VALKEY080\xff1234567"), (10, Problem::CutOff));
    assert_eq!(problem(b"VALKEY080\xff12345678"), (10, Problem::Checksum));
    assert_eq!(problem(b"VALKEY080\x01"), (9, Problem::Unknown(1)));
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
        std::fs::write(&path, write(&rows, Options { version, ..OPTIONS })).expect("the file can be written");
        let output = std::process::Command::new(&checker).arg(&path).output().expect("the checker runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        std::fs::remove_file(&path).expect("the file is there");
        assert!(output.status.success(), "{said}");
        assert!(said.contains("200 keys read"), "{said}");
    }
}
