//! Tests of manifests and logs of commands: those that other servers write, and the errors for malformed
//! ones.

use sluice_persist::aof::{
    AofFile, AofFileKind, BaseFormat, LogError, LogItem, LogOptions, LogProblem, LogProgress, LogReader,
    LogTail, Manifest, ManifestProblem, ReplicationNote, manifest_name,
};
use sluice_persist::rdb::{
    Compression, Item, Loaded, LoadedEntry, Text, Usage, Version, WriteOptions, Writer,
};
use std::path::{Path, PathBuf};

fn corpus(name: &str) -> Vec<u8> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A command in the format of the log.
fn command(words: &[&str]) -> Vec<u8> {
    let args = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), args.collect::<String>()).into_bytes()
}

/// Reads a log in pieces of `piece` bytes. Returns a line for each item that `line` shows, and how the log
/// ends.
fn read(log: &[u8], piece: usize) -> (Vec<String>, Result<(), LogError>, LogTail) {
    let mut reader = LogReader::new(LogOptions::default());
    let mut pieces = log.chunks(piece);
    let mut lines = Vec::new();
    let ended = loop {
        match reader.next() {
            Ok(LogProgress::Item(item)) => lines.extend(line(item)),
            Ok(LogProgress::More) => match pieces.next() {
                Some(piece) => reader.feed(piece),
                None => break reader.end().map(drop),
            },
            Err(error) => break Err(error),
        }
    };
    (lines, ended, reader.tail())
}

fn line(item: LogItem<'_>) -> Option<String> {
    Some(match item {
        LogItem::Command(request) => request.args().map(text).collect::<Vec<_>>().join(" "),
        LogItem::Timestamp(seconds) => format!("at {seconds}"),
        LogItem::Annotation(Some(ReplicationNote::Id(id))) => format!("history {}", text(&id)),
        LogItem::Annotation(Some(ReplicationNote::Offset(offset))) => format!("offset {offset}"),
        LogItem::Annotation(Some(ReplicationNote::Db(db))) => format!("database {db}"),
        LogItem::Annotation(None) => return None,
        LogItem::PreambleEnd => "end of the preamble".to_owned(),
        LogItem::Preamble(Item::LoadedEntry(LoadedEntry { key, value: Loaded::Str(value), .. })) => {
            format!("{}={}", text(&key), text(&value))
        }
        LogItem::Preamble(Item::LoadedEntry(LoadedEntry { key, value: Loaded::List(list), .. })) => {
            format!("{} of {}", text(&key), list.len())
        }
        LogItem::Preamble(Item::Db(db)) => format!("db {db}"),
        LogItem::Preamble(_) => return None,
    })
}

/// Reads a log whole and byte by byte; both must give the same result.
fn both(log: &[u8]) -> (Vec<String>, Result<(), LogError>, LogTail) {
    let whole = read(log, log.len().max(1));
    let bytes = read(log, 1);
    assert_eq!((&whole.0, &whole.1), (&bytes.0, &bytes.1));
    assert_eq!((whole.2.valid_up_to, whole.2.transaction), (bytes.2.valid_up_to, bytes.2.transaction));
    whole
}

#[test]
fn logs_of_other_servers_are_read() {
    let name = b"a b.aof";
    let manifest = Manifest::parse(&corpus(&format!("valkey-9.1.2-aof/{}", text(&manifest_name(name)))));
    let manifest = manifest.expect("the reference wrote it");
    let loaded: Vec<_> = manifest.loaded().map(|(file, kind)| (text(&file.name), file.seq, kind)).collect();
    assert_eq!(
        loaded,
        [
            ("a b.aof.2.base.rdb".to_owned(), 2, AofFileKind::Base),
            ("a b.aof.2.incr.aof".to_owned(), 2, AofFileKind::Incr)
        ]
    );
    let mut lines = Vec::new();
    for (file, _) in manifest.loaded() {
        let (more, ended, tail) = both(&corpus(&format!("valkey-9.1.2-aof/{}", text(&file.name))));
        assert_eq!(ended, Ok(()));
        assert!(tail.is_complete(), "{tail:?}");
        lines.extend(more);
    }
    lines.retain(|line| !line.starts_with("set t gone PXAT"));
    assert_eq!(
        lines,
        [
            "db 0",
            "s=one",
            "i=12345",
            "l of 3",
            "db 3",
            "other=db",
            "end of the preamble",
            "at 1795324409",
            "SELECT 0",
            "SELECT 3",
            "rpush m 1 2 3",
            "MULTI",
            "SELECT 0",
            "incr i",
            "append s -two",
            "lpop l",
            "EXEC",
            "at 1795324411",
            "incr i",
            "SELECT 3",
            "rename m n",
            "lmove n o left right",
        ]
    );

    let manifest = Manifest::parse(&corpus("redis-8.0.6-aof/appendonly.aof.manifest"));
    let manifest = manifest.expect("another server wrote it");
    let mut lines = Vec::new();
    for (file, _) in manifest.loaded() {
        let (more, ended, tail) = both(&corpus(&format!("redis-8.0.6-aof/{}", text(&file.name))));
        assert_eq!(ended, Ok(()));
        assert!(tail.is_complete(), "{tail:?}");
        lines.extend(more);
    }
    assert_eq!(
        lines,
        [
            "SELECT 0",
            "RPUSH l a b c",
            "SET s one",
            "SELECT 1",
            "SET x y",
            "PEXPIREAT x 1795424432630",
            "SELECT 0",
            "incr n",
            "lpop l"
        ]
    );
}

#[test]
fn a_snapshot_may_stand_before_the_commands_of_a_file() {
    for version in [Version::Common, Version::Valkey] {
        let mut writer =
            Writer::new(WriteOptions { version, compression: Compression::Strings, checksum: true });
        writer.string(b"k", Text::Bytes(b"v"), None, Usage::Absent);
        let preamble = writer.finish();
        let log = [preamble.clone(), command(&["set", "a", "1"])].concat();
        let (lines, ended, tail) = both(&log);
        assert_eq!(ended, Ok(()));
        assert_eq!(lines, ["k=v", "end of the preamble", "set a 1"]);
        assert_eq!(tail.valid_up_to, log.len() as u64);

        // A snapshot without its end has no usable part; a log that is cut off after the snapshot loses one
        // command.
        let (_, ended, tail) = both(&preamble[..preamble.len() - 1]);
        assert_eq!((ended, tail.valid_up_to), (Ok(()), 0));
        assert_eq!(tail.unfinished, preamble.len() as u64 - 1);
        let (_, ended, tail) = both(&log[..log.len() - 1]);
        assert_eq!((ended, tail.valid_up_to), (Ok(()), preamble.len() as u64));

        let mut spoilt = preamble;
        let last = spoilt.len() - 1;
        spoilt[last] ^= 1;
        let (_, ended, tail) = both(&spoilt);
        assert!(matches!(ended, Err(LogError { problem: LogProblem::Preamble(_), .. })), "{ended:?}");
        assert_eq!(tail.valid_up_to, 0);
    }
}

#[test]
fn a_cut_is_found_wherever_it_is() {
    let (one, two) = (command(&["set", "a", "1"]), command(&["set", "b", "22"]));
    let stamp = b"#TS:1795324411\r\n".to_vec();
    let unit = [command(&["MULTI"]), two.clone(), one.clone(), command(&["exec"])].concat();
    let log = [one.clone(), stamp.clone(), unit.clone(), two].concat();
    let ends = [0, one.len(), one.len() + stamp.len(), one.len() + stamp.len() + unit.len(), log.len()];
    for cut in 0..=log.len() {
        let (_, ended, tail) = both(&log[..cut]);
        assert_eq!(ended, Ok(()), "cut at {cut}");
        let valid = ends.iter().copied().filter(|end| *end <= cut).max().expect("0 is one");
        assert_eq!(tail.valid_up_to, valid as u64, "cut at {cut}");
        assert_eq!(tail.is_complete(), valid == cut, "cut at {cut}");
        let begun = one.len() + stamp.len();
        let within = (begun + command(&["MULTI"]).len()..begun + unit.len()).contains(&cut);
        assert_eq!(tail.transaction, within.then_some(begun as u64), "cut at {cut}");
    }
}

/// Whether bytes are the beginning of a log of commands, by the grammar of `docs/formats/aof.md`, read
/// byte by byte. Such bytes may be a log that was cut off.
fn is_beginning(log: &[u8]) -> bool {
    let (mut rest, mut is_open) = (log, false);
    while let Some(first) = rest.first() {
        match first {
            b'#' => match rest.iter().position(|byte| *byte == b'\n') {
                Some(end) => rest = &rest[end + 1..],
                None => return is_annotation_begun(rest),
            },
            b'*' => {
                let mut words = Vec::new();
                let Ok((count, mut behind)) = header(rest, b'*', 1, i32::MAX as u64) else {
                    return header(rest, b'*', 1, i32::MAX as u64) == Err(true);
                };
                for _ in 0..count {
                    match header(behind, b'$', 0, 512 << 20) {
                        Ok((len, tail)) => {
                            let len = len as usize;
                            match tail.get(len..) {
                                None | Some([] | [b'\r']) => return true,
                                Some([b'\r', b'\n', next @ ..]) => {
                                    words.push(tail[..len].to_ascii_lowercase());
                                    behind = next;
                                }
                                Some(_) => return false,
                            }
                        }
                        Err(is_begun) => return is_begun,
                    }
                }
                match words[0].as_slice() {
                    b"multi" if is_open => return false,
                    b"exec" if !is_open => return false,
                    b"multi" => is_open = true,
                    b"exec" | b"discard" => is_open = false,
                    _ => {}
                }
                rest = behind;
            }
            _ => return false,
        }
    }
    true
}

/// Returns the number in a header and the bytes after the header. Errors: whether the bytes are the beginning
/// of a header.
fn header(text: &[u8], marker: u8, least: u64, most: u64) -> Result<(u64, &[u8]), bool> {
    let Some(tail) = text.strip_prefix(&[marker]) else { return Err(text.is_empty()) };
    let mut number = String::new();
    for (at, byte) in tail.iter().enumerate() {
        match byte {
            b'0'..=b'9' => number.push(char::from(*byte)),
            b'\r' if !number.is_empty() => {
                return match tail.get(at + 1) {
                    None => Err(true),
                    Some(b'\n') => Ok((number.parse().expect("it was looked at"), &tail[at + 2..])),
                    Some(_) => Err(false),
                };
            }
            _ => return Err(false),
        }
        let value: Option<u64> = number.parse().ok();
        let is_canonical = value.is_some_and(|value| value.to_string() == number);
        if !is_canonical || !value.is_some_and(|value| (least..=most).contains(&value)) {
            return Err(false);
        }
    }
    Err(true)
}

fn is_annotation_begun(line: &[u8]) -> bool {
    let text = line.strip_suffix(b"\r").unwrap_or(line);
    let all = |text: &[u8], fits: fn(&u8) -> bool| text.iter().all(fits);
    let fits = if let Some(id) = text.strip_prefix(b"#REPL-ID:") {
        id.len() <= 40 && all(id, u8::is_ascii_hexdigit)
    } else if let Some(number) = text.strip_prefix(b"#TS:-") {
        all(number, u8::is_ascii_digit)
    } else if let Some(number) =
        [&b"#TS:"[..], b"#REPL-OFFSET:", b"#REPL-DB:"].iter().find_map(|name| text.strip_prefix(*name))
    {
        all(number, u8::is_ascii_digit)
    } else {
        all(text, |byte| (b' '..=b'~').contains(byte))
    };
    fits && line.len() < 1024
}

/// A log with all kinds of records that servers write.
fn log_of_all_kinds() -> Vec<u8> {
    let mut log = b"#TS:1795324411\r\n".to_vec();
    log.extend(command(&["SELECT", "0"]));
    ReplicationNote::Id(*b"0123456789abcdef0123456789abcdef01234567").push(&mut log);
    ReplicationNote::Offset(12345).push(&mut log);
    log.extend(command(&["set", "key", "a value\r\nof two lines"]));
    log.extend(command(&["MULTI"]));
    log.extend(command(&["rpush", "l", "", "*1\r\n$4\r\nPING\r\n", "0123456789"]));
    log.extend(command(&["EXEC"]));
    ReplicationNote::Db(0).push(&mut log);
    log.extend(command(&["append", "s", &"x".repeat(130)]));
    log
}

/// Bytes that are not the beginning of a log never count as a log that was cut off, but each
/// truncated log does.
#[test]
fn a_damaged_log_is_a_log_cut_off_or_wrong_as_the_grammar_says() {
    const BYTES: &[u8] = b"\r\n\r\n0123456789$$**##:- +xA\0\xff";
    let whole = log_of_all_kinds();
    assert!((0..=whole.len()).all(|cut| is_beginning(&whole[..cut])));
    let mut rng = sluice_base::Rng::new(7);
    let mut pick = |below: usize| rng.below(below as u64) as usize;
    let (mut wrong, mut cut_off) = (0, 0);
    for _ in 0..30_000 {
        let mut log = whole.clone();
        for _ in 0..pick(3) {
            let (at, byte) = (pick(log.len()), BYTES[pick(BYTES.len())]);
            match pick(3) {
                0 => log[at] = byte,
                1 => log.insert(at, byte),
                _ => drop(log.remove(at)),
            }
        }
        log.truncate(pick(log.len() + 1));
        let (_, ended, tail) = read(&log, 1 + pick(40));
        let is_begun = is_beginning(&log);
        assert_eq!(ended.is_ok(), is_begun, "{} {ended:?} {tail:?}", log.escape_ascii());
        *if is_begun { &mut cut_off } else { &mut wrong } += 1;
    }
    assert!(wrong > 3000 && cut_off > 3000, "{wrong} wrong, {cut_off} cut off");
}

/// Each byte of a command is replaced by each possible value. A value that cannot stand there must be found
/// although nothing follows it.
#[test]
fn one_impossible_byte_is_found_where_it_stands_however_little_follows() {
    let (good, last) = (command(&["set", "a", "1"]), command(&["rpush", "list", "element"]));
    let mut found = 0;
    for at in 0..last.len() {
        for byte in 0..=u8::MAX {
            let mut damaged = last[..=at].to_vec();
            damaged[at] = byte;
            let log = [good.clone(), damaged].concat();
            let (_, ended, tail) = both(&log);
            assert_eq!(ended.is_ok(), is_beginning(&log), "{}: {ended:?}", log.escape_ascii());
            assert!(ended.is_ok() || tail.valid_up_to == good.len() as u64);
            found += u32::from(ended.is_err());
        }
    }
    assert!(found > 20 * 200, "{found}");
}

/// Line ends are converted, as git and editors do with a file that they take for text, either in all lines or
/// from some line on.
#[test]
fn a_log_whose_line_ends_were_converted_is_wrong_and_not_cut_off() {
    let others = ["valkey-9.1.2-aof/a b.aof.2.incr.aof", "redis-8.0.6-aof/appendonly.aof.2.incr.aof"];
    let mut logs: Vec<Vec<u8>> = others.iter().map(|name| corpus(name)).collect();
    logs.push(log_of_all_kinds());
    for log in logs {
        let ends: Vec<usize> = (0..log.len() - 1).filter(|at| log[*at..].starts_with(b"\r\n")).collect();
        for from in ends {
            let tail = String::from_utf8_lossy(&log[from..]).replace("\r\n", "\n");
            let (_, ended, _) = read(&[&log[..from], tail.as_bytes()].concat(), 100);
            // The line end of an annotation may be converted if no command follows, because an annotation may
            // end with either line end.
            let is_last = !log[from + 2..].contains(&b'*') && !log[from + 2..].contains(&b'$');
            assert!(ended.is_err() || (is_last && log[..from].last() != Some(&b'\n')), "from byte {from}");
        }
    }
    let lf = String::from_utf8_lossy(&command(&["ping"])).replace("\r\n", "\n");
    let (_, ended, tail) = both(lf.as_bytes());
    assert_eq!(ended, Err(LogError { offset: 0, problem: LogProblem::LineFeed }));
    assert_eq!(tail.valid_up_to, 0);
    // A part of a snapshot's magic is not a log.
    for magic in ["R", "REDI", "V", "VALKE"] {
        let (_, ended, _) = both(magic.as_bytes());
        assert_eq!(ended, Err(LogError { offset: 0, problem: LogProblem::Marker(magic.as_bytes()[0]) }));
    }
}

#[test]
fn lines_are_counted_as_far_as_they_are_in_order() {
    let log = [command(&["set", "a", "1"]), b"#x\r\n".to_vec(), b"!!!".to_vec()].concat();
    let (_, ended, tail) = both(&log);
    assert_eq!(ended, Err(LogError { offset: 31, problem: LogProblem::Marker(b'!') }));
    assert_eq!((tail.valid_up_to, tail.valid_lines), (31, 8));
}

#[test]
fn what_is_no_record_is_an_error_at_its_position() {
    let good = command(&["set", "a", "1"]);
    let table: [(&str, u64, LogProblem); 30] = [
        ("!!!", 0, LogProblem::Marker(b'!')),
        ("\r\n", 0, LogProblem::Marker(b'\r')),
        ("set a 1\r\n", 0, LogProblem::Marker(b's')),
        ("*0\r\n", 0, LogProblem::Count),
        ("*-1\r\n", 0, LogProblem::Count),
        ("*x\r\n", 0, LogProblem::Count),
        ("*3 \r\n", 0, LogProblem::Count),
        ("*99999999999\r\n", 0, LogProblem::Count),
        ("*1\r\n+OK\r\n", 4, LogProblem::Dollar(b'+')),
        ("*2\r\n$1\r\na\r\n:1\r\n", 11, LogProblem::Dollar(b':')),
        ("*1\r\n$-1\r\n", 4, LogProblem::Length),
        ("*1\r\n$536870913\r\n", 4, LogProblem::Length),
        ("*1\r\n$4\r\npingXX", 8, LogProblem::LineEnd),
        // Each of these is faulty at its first impossible byte, although the line has not ended.
        ("*1x", 0, LogProblem::Count),
        ("*3000000000", 0, LogProblem::Count),
        ("*1\r\n$4x", 4, LogProblem::Length),
        ("*1\r\n$00", 4, LogProblem::Length),
        ("*1\r\n+", 4, LogProblem::Dollar(b'+')),
        ("*1\rx", 0, LogProblem::LineEnd),
        ("*1\r\n$4\r\npingX", 8, LogProblem::LineEnd),
        ("*1\n", 0, LogProblem::LineFeed),
        ("*1\r\n$4\n", 4, LogProblem::LineFeed),
        ("*1\r\n$4\r\nping\n", 8, LogProblem::LineFeed),
        ("\0\0\0\0", 0, LogProblem::Marker(0)),
        ("*1\r\n$9\r\nping\0\0\0\0\0\0\0", 8, LogProblem::LineEnd),
        ("#TS:17x", 0, LogProblem::Annotation),
        ("#REPL-OFFSET:1 ", 0, LogProblem::Annotation),
        ("#\x01\x02", 0, LogProblem::Annotation),
        ("*1\r\n$4\r\nexec\r\n", 0, LogProblem::ExecWithoutMulti),
        ("*1\r\n$5\r\nmulti\r\n*1\r\n$5\r\nMULTI\r\n", 15, LogProblem::NestedMulti),
    ];
    for (bad, at, problem) in table {
        let (_, ended, tail) = both(&[good.clone(), bad.into()].concat());
        let offset = good.len() as u64 + at;
        assert_eq!(ended, Err(LogError { offset, problem }), "{bad:?}");
        assert_eq!(tail.valid_up_to, good.len() as u64, "{bad:?}");
    }
}

#[test]
fn annotations_that_are_no_time_are_passed_over_whatever_their_length() {
    let long = [b"#TS:", &[b'1'; 5000][..], b"\r\n"].concat();
    let log = [&b"#anything\n#TS:12\n#TS:x\r\n#TS:\r\n"[..], &long, &command(&["ping"])].concat();
    let (lines, ended, tail) = both(&log);
    assert_eq!(ended, Ok(()));
    assert_eq!(lines, ["at 12", "ping"]);
    assert_eq!((tail.valid_up_to, tail.valid_lines), (log.len() as u64, 5 + 3));
    // The end of an annotation is missing: a command appended to the file would become
    // part of the annotation.
    let (_, _, tail) = both(b"#TS:12");
    assert_eq!((tail.valid_up_to, tail.unfinished), (0, 6));
    // No server writes an annotation of that length, so this is no log.
    let (_, ended, _) = both(&long[..4000]);
    assert_eq!(ended, Err(LogError { offset: 0, problem: LogProblem::Annotation }));
}

#[test]
fn bad_manifests_are_refused_with_the_references_words() {
    use ManifestProblem::{Empty, Format, Kind, Line, Order, Path, TwoBases};
    let good = "file i seq 1 type i\n";
    let long = format!("file i seq 2 type i x {}\n", "a".repeat(1024 - 22));
    let behind = |line: &str| format!("{good}{line}");
    let table: [(String, ManifestProblem, Option<usize>); 26] = [
        (String::new(), Empty, None),
        ("\n".into(), Format, Some(1)),
        (behind(" \t\r\n"), Format, Some(2)),
        (behind("file i seq 2 type i"), Line, None),
        (behind(&long), Line, None),
        (behind("file a\0b seq 2 type i\n"), Line, None),
        (behind("!!!\n"), Format, Some(2)),
        (behind("file i seq 2 type\n"), Format, Some(2)),
        (behind("file i seq 2\n"), Format, Some(2)),
        (behind("file i seq 2 type i newkey\n"), Format, Some(2)),
        (behind("filx i seq 2 type i\n"), Format, Some(2)),
        (behind("file i type i a b\n"), Format, Some(2)),
        (behind("file i seq 0 type i\n"), Format, Some(2)),
        (behind("file i seq x type i\n"), Format, Some(2)),
        (behind("file i seq 2 type \"\"\n"), Format, Some(2)),
        (behind("file \"i seq 2 type i\n"), Format, Some(2)),
        (behind("file a/i seq 2 type i\n"), Path, Some(2)),
        (behind("file a\\i seq 2 type i\n"), Path, Some(2)),
        (behind("file \"a\\x2fi\" seq 2 type i\n"), Path, Some(2)),
        (behind("file b seq 1 type b\nfile b seq 2 type b\n"), TwoBases, Some(3)),
        (behind(good), Order, Some(2)),
        (behind("file i seq -1 type i\n"), Order, Some(2)),
        (behind("file i seq 99999999999999999999 type i\n"), Order, Some(2)),
        // The numbers of later files are counted from this one, and must be readable again.
        (behind("file i seq 9223372036854775806 type i\n"), Order, Some(2)),
        (behind("file i seq 2 type z\n"), Kind, Some(2)),
        // A comment is read in pieces of 1,024 bytes, the second of which counts as a line.
        (behind(&format!("#{}\n", "a".repeat(1023))), Format, Some(3)),
    ];
    for (manifest, problem, line) in table {
        let error = Manifest::parse(manifest.as_bytes()).expect_err(&manifest);
        assert_eq!((error.problem, error.line.as_ref().map(|line| line.0)), (problem, line), "{manifest:?}");
    }
    let error = Manifest::parse(behind("  file a/i  seq 2 type i \r\n").as_bytes()).expect_err("a path");
    assert_eq!(error.line, Some((2, b"file a/i  seq 2 type i".to_vec())));
    assert_eq!(error.to_string(), "File can't be a path, just a filename");
}

#[test]
fn a_manifest_may_say_more_than_is_known() {
    let lines = [
        "#comment",
        "file i.1 seq 1 type i newkey newvalue",
        "  SEQ +2x type incr file x FILE 'i 2'  \r",
        "file h seq -7 type h",
        "file b seq 4 type b",
        "#no line end",
    ];
    let manifest = Manifest::parse(lines.join("\n").as_bytes()).expect("in order");
    let seen: Vec<_> = manifest.files().map(|(file, kind)| (text(&file.name), file.seq, kind)).collect();
    assert_eq!(
        seen,
        [
            ("b".to_owned(), 4, AofFileKind::Base),
            ("h".to_owned(), -7, AofFileKind::History),
            ("i.1".to_owned(), 1, AofFileKind::Incr),
            ("i 2".to_owned(), 2, AofFileKind::Incr)
        ]
    );
    assert_eq!(
        text(&manifest.to_bytes()),
        "file b seq 4 type b\nfile h seq -7 type h\nfile i.1 seq 1 type i\nfile \"i 2\" seq 2 type i\n"
    );
}

#[test]
fn a_rewrite_goes_through_the_references_manifests() {
    let name = b"appendonly.aof";
    let mut manifest = Manifest::new();
    manifest.replace_base(name, BaseFormat::Rdb);
    manifest.add_incr(name);
    let first = "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n";
    assert_eq!(text(&manifest.to_bytes()), first);
    // A rewrite begins, fails, begins again, and ends.
    manifest.add_incr(name);
    manifest.add_incr(name);
    assert_eq!(manifest.replace_base(name, BaseFormat::Commands).name, b"appendonly.aof.2.base.aof");
    manifest.retire_incr(1);
    assert_eq!(
        text(&manifest.to_bytes()),
        "file appendonly.aof.2.base.aof seq 2 type b\nfile appendonly.aof.2.incr.aof seq 2 type h\n\
         file appendonly.aof.1.incr.aof seq 1 type h\nfile appendonly.aof.1.base.rdb seq 1 type h\n\
         file appendonly.aof.3.incr.aof seq 3 type i\n"
    );
    let history: Vec<String> = manifest.take_history().iter().map(|file| text(&file.name)).collect();
    assert_eq!(
        history,
        ["appendonly.aof.2.incr.aof", "appendonly.aof.1.incr.aof", "appendonly.aof.1.base.rdb"]
    );
    assert_eq!(Manifest::parse(&manifest.to_bytes()), Ok(manifest.clone()));
    assert_eq!(manifest.base().map(|file| file.seq), Some(2));
    assert_eq!(manifest.incr(), [AofFile { name: b"appendonly.aof.3.incr.aof".to_vec(), seq: 3 }]);

    let mut old = Manifest::of_old_style(name);
    old.add_incr(name);
    assert_eq!(
        text(&old.to_bytes()),
        "file appendonly.aof seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
    );
}

#[test]
fn names_are_quoted_so_that_they_come_back() {
    for (name, quoted) in [
        ("plain~!@$%^&*()[]{}|;:,<>?`=+-_#", false),
        ("a b", true),
        ("a\"b", true),
        ("ä", true),
        ("a\tb\n", true),
        // The reference writes this name without quotes, and refuses the manifest at its next start.
        ("it's", true),
    ] {
        let mut manifest = Manifest::new();
        manifest.add_incr(name.as_bytes());
        let written = manifest.to_bytes();
        assert_eq!(written.starts_with(b"file \""), quoted, "{name}");
        assert_eq!(Manifest::parse(&written), Ok(manifest));
    }
}

#[test]
fn annotations_about_replication_are_read_as_they_are_written() {
    let id = *b"0123456789abcdef0123456789abcdef01234567";
    let mut log = Vec::new();
    ReplicationNote::Id(id).push(&mut log);
    ReplicationNote::Offset(u64::try_from(i64::MAX).unwrap()).push(&mut log);
    ReplicationNote::Db(3).push(&mut log);
    log.extend_from_slice(b"#REPL-ID:short\r\n#REPL-OFFSET:-1\r\n#REPL-OFFSET:\r\n#REPL-OFFSET:7\n");
    for piece in [1, 7, 1000] {
        let (lines, ended, tail) = read(&log, piece);
        let wanted = [
            format!("history {}", text(&id)),
            format!("offset {}", i64::MAX),
            "database 3".to_owned(),
            "offset 7".to_owned(),
        ];
        assert_eq!((lines.as_slice(), ended), (&wanted[..], Ok(())));
        assert_eq!(tail.valid_up_to, log.len() as u64);
    }
}
