//! Tests the checkers by what scripts see of them: exit status, lines of the report, and changes of the
//! files.
#![allow(missing_docs)]

use sluice_base::progress::ProgressDisplay;
use sluice_check::{Console, Meter, check_aof, check_rdb};
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sluice-check-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("writable");
        path
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).expect("readable")
    }

    /// The contents of the files that keep the ends which were cut off the file `name`; removes these files.
    fn take_kept(&self, name: &str) -> Vec<Vec<u8>> {
        let entries =
            std::fs::read_dir(&self.0).expect("readable").map(|entry| entry.expect("readable").path());
        let begin = self.0.join(format!("{name}.cut-")).display().to_string();
        let kept: Vec<PathBuf> =
            entries.filter(|path| path.display().to_string().starts_with(&begin)).collect();
        kept.iter()
            .map(|path| {
                let bytes = std::fs::read(path).expect("readable");
                std::fs::remove_file(path).expect("removable");
                bytes
            })
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Check = fn(&[OsString], &mut Console<'_>) -> i32;

/// Runs a check with the arguments `words`, in which `@` stands for the file, and with `answer` as the
/// user's input; returns the exit status and the lines of the report.
fn run(check: Check, words: &str, file: &Path, answer: &str) -> (i32, Vec<String>) {
    let words: Vec<OsString> = words
        .split(' ')
        .map(|word| if word == "@" { file.as_os_str().to_owned() } else { word.into() })
        .collect();
    let (status, lines, _) = run_on(ProgressDisplay::Bar, check, &words, answer);
    (status, lines)
}

/// Runs a check with a terminal; returns the exit status, the lines of the report, and the bytes sent to
/// the terminal. The clock advances by one second at each reading.
fn run_on(
    display: ProgressDisplay,
    check: Check,
    words: &[OsString],
    answer: &str,
) -> (i32, Vec<String>, String) {
    let (mut out, mut shown, mut now_ns) = (Vec::new(), Vec::new(), 0);
    let mut answers = answer.as_bytes();
    let mut clock = || {
        now_ns += 1_000_000_000;
        now_ns
    };
    let mut console = Console {
        out: &mut out,
        answers: &mut answers,
        meter: Some(Meter::new(&mut shown, display, 80, &mut clock)),
        now_ms: 1_795_324_000_000,
        program: "sluice-check".to_owned(),
    };
    let status = check(words, &mut console);
    let text = String::from_utf8(out).expect("the report is text");
    let shown = String::from_utf8(shown).expect("what is shown is text");
    (status, text.lines().map(str::to_owned).collect(), shown)
}

/// Asserts that some lines begin with these texts, in this order.
fn assert_lines(lines: &[String], wanted: &[&str]) {
    let mut rest = lines.iter();
    for text in wanted {
        assert!(rest.any(|line| line.starts_with(text)), "{text:?} in {lines:#?}");
    }
}

const SET: &[u8] = b"*3\r\n$3\r\nset\r\n$1\r\na\r\n$1\r\n1\r\n";
const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../persist/tests/corpus").join(name)
}

#[test]
fn a_log_of_one_file_is_checked() {
    let folder = Folder::new("one");
    let table: [(&[u8], i32, &[&str]); 8] = [
        (b"", 0, &["AOF "]),
        (SET, 0, &["Start checking Old-Style AOF", "AOF analyzed: filename="]),
        (
            &[SET, b"!!!"].concat(),
            1,
            &["AOF ", "0x              1b: a command or", "AOF analyzed: filename="],
        ),
        (&SET[..20], 1, &["0x               0: Unexpected end of file: 20 bytes"]),
        (&[SET, MULTI, SET].concat(), 1, &["0x              45: Reached EOF before reading EXEC for MULTI"]),
        (&[MULTI, SET, MULTI].concat(), 1, &["0x              2a: Unexpected MULTI in AOF"]),
        (b"*1\r\n$4\r\nexec\r\n", 1, &["0x               0: Unexpected EXEC in AOF"]),
        // The file begins like a manifest, but is a log.
        (b"*2\r\n$4\r\nfile\r\n$4\r\nfile\r\n", 0, &["Start checking Old-Style AOF"]),
    ];
    for (log, status, wanted) in table {
        let path = folder.write("log", log);
        let (ended, lines) = run(check_aof, "@", &path, "");
        assert_eq!(ended, status, "{lines:#?}");
        assert_lines(&lines, wanted);
        let last = lines.last().expect("something is said");
        let name = path.display();
        match (status, log.is_empty()) {
            (0, true) => assert_eq!(*last, format!("AOF {name} is empty")),
            (0, false) => assert_eq!(*last, format!("AOF {name} is valid")),
            _ => {
                assert_eq!(*last, format!("AOF {name} is not valid. Use the --fix option to try fixing it."))
            }
        }
        assert_eq!(folder.read("log"), log, "a check changes nothing");
    }
    let path = folder.write("log", &[SET, b"#x\r\n!!!"].concat());
    let (_, lines) = run(check_aof, "@", &path, "");
    let analyzed =
        format!("AOF analyzed: filename={}, size=34, ok_up_to=31, ok_up_to_line=9, diff=3", path.display());
    assert_lines(&lines, &[&analyzed]);
}

#[test]
fn a_repair_cuts_what_is_not_in_order_when_the_user_agrees() {
    let folder = Folder::new("fix");
    let log = [SET, MULTI, SET, b"!"].concat();
    for (answer, status) in [("", 1), ("n\n", 1), ("no, y\n", 1), ("y\n", 0), ("Yes\n", 0)] {
        let path = folder.write("log", &log);
        let (ended, lines) = run(check_aof, "--fix @", &path, answer);
        assert_eq!(ended, status, "{answer:?} {lines:#?}");
        let left: &[u8] = if status == 0 { SET } else { &log };
        assert_eq!(folder.read("log"), left, "{answer:?}");
        let kept: &[&[u8]] = if status == 0 { &[&log[SET.len()..]] } else { &[] };
        assert_eq!(folder.take_kept("log"), kept, "{answer:?}");
        let shrink =
            format!("This will shrink the AOF {} from 70 bytes, with 43 bytes, to 27 bytes", path.display());
        assert_lines(&lines, &["An incomplete transaction begins at byte 27", &shrink, "Continue? [y/N]: "]);
    }
    // Both repairs are done in the same second.
    for _ in 0..2 {
        let path = folder.write("log", &log);
        let (_, lines) = run(check_aof, "--fix @", &path, "y\n");
        assert!(
            lines.iter().any(|line| line.contains("The bytes that were cut off are kept in ")),
            "{lines:#?}"
        );
    }
    assert_eq!(folder.take_kept("log"), [&log[SET.len()..]; 2]);
    // No question is asked about a valid file.
    let path = folder.write("log", SET);
    assert_eq!(run(check_aof, "--fix @", &path, "").0, 0);
}

/// If the log's name leaves no room for a time, the copy of the bytes that were cut off gets a short name.
#[test]
fn the_end_of_a_file_with_a_long_name_is_kept_under_a_short_one() {
    let folder = Folder::new("long-name");
    let path = folder.write(&"n".repeat(250), &[SET, b"!"].concat());
    let (status, lines) = run(check_aof, "--fix @", &path, "y\n");
    assert_eq!(status, 0, "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("The bytes that were cut off are kept in ")), "{lines:#?}");
    let names = std::fs::read_dir(&folder.0).expect("readable").map(|entry| entry.expect("readable"));
    let kept: Vec<_> =
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with("cut-")).collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(std::fs::read(kept[0].path()).expect("readable"), b"!");
}

/// A repair that cannot save the bytes to cut off changes nothing. The process opens the log through a
/// name in `/proc`, a folder in which no user can create a file, whatever their rights.
#[test]
fn what_cannot_be_kept_is_not_cut_off() {
    let folder = Folder::new("not-kept");
    let log = [SET, b"!"].concat();
    let file = std::fs::File::open(folder.write("log", &log)).expect("there");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let (status, lines) = run(check_aof, "--fix @", &path, "y\n");
    assert_eq!(status, 1, "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("Failed to truncate AOF ")), "{lines:#?}");
    assert_eq!(folder.read("log"), log);
}

#[test]
fn line_ends_that_were_converted_are_told_of() {
    let folder = Folder::new("lf");
    let text = String::from_utf8_lossy(SET).replace("\r\n", "\n");
    let path = folder.write("log", text.as_bytes());
    let (status, lines) = run(check_aof, "@", &path, "");
    assert_eq!(status, 1);
    assert_lines(
        &lines,
        &["0x               0: the record at byte 0 has a line that ends in LF and not in CR LF"],
    );
    assert_eq!(folder.read("log"), text.as_bytes());
}

#[test]
fn a_report_does_not_replace_the_file_that_is_checked() {
    let folder = Folder::new("report");
    let path = folder.write("dump.rdb", b"REDIS0009 is not whole");
    let words = [path.clone().into_os_string(), "--output".into(), path.clone().into_os_string()];
    let (status, lines, _) = run_on(ProgressDisplay::Bar, check_rdb, &words, "");
    assert_eq!(status, 1, "{lines:#?}");
    assert_eq!(folder.read("dump.rdb"), b"REDIS0009 is not whole");
}

#[test]
fn commands_behind_a_mistake_are_told_of() {
    let folder = Folder::new("behind");
    let path = folder.write("log", &[SET, b"*1\r\n$9\r\nping\r\n", SET, SET].concat());
    let (status, lines) = run(check_aof, "@", &path, "");
    assert_eq!(status, 1);
    assert_lines(&lines, &["Valid commands begin again at byte 41: --fix would remove them, too, 54 bytes"]);
}

#[test]
fn a_log_is_cut_to_a_time_at_whole_transactions() {
    let folder = Folder::new("time");
    let exec: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
    let log = [b"#TS:100\r\n", SET, MULTI, b"#TS:200\r\n", SET, exec, b"#TS:300\r\n", SET].concat();
    let ends = [9 + 27, 9 + 27 + 15 + 9 + 27 + 14];
    for (time, status, kept, said) in [
        ("50", 1, log.len(), "has nothing before timestamp 50, aborting..."),
        ("100", 0, ends[0], "to timestamp 100"),
        ("200", 0, ends[1], "to timestamp 200"),
        ("300", 0, log.len(), "is valid"),
        ("x", 1, log.len(), "Invalid timestamp, aborting..."),
    ] {
        let path = folder.write("log", &log);
        let (ended, lines) = run(check_aof, &format!("--truncate-to-timestamp {time} @"), &path, "");
        assert_eq!(ended, status, "{lines:#?}");
        assert!(lines.last().is_some_and(|line| line.ends_with(said)), "{lines:#?}");
        assert_eq!(folder.read("log"), log[..kept], "{time}");
        let cut = if kept < log.len() { vec![log[kept..].to_vec()] } else { Vec::new() };
        assert_eq!(folder.take_kept("log"), cut, "{time}");
    }
}

#[test]
fn the_files_of_a_manifest_are_checked_in_order_and_the_last_alone_is_repaired() {
    let folder = Folder::new("parts");
    let manifest: &[u8] =
        b"file b seq 1 type b\nfile h seq 1 type h\nfile i1 seq 1 type i\nfile i2 seq 2 type i\n";
    let path = folder.write("a.manifest", manifest);
    let bad = [SET, b"!!"].concat();
    let table: [(&str, [&[u8]; 3], i32, &str); 6] = [
        ("@", [SET, b"", SET], 0, "All AOF files and manifest are valid"),
        ("@", [SET, SET, &bad], 1, "AOF i2 is not valid. Use the --fix option to try fixing it."),
        ("--fix @", [SET, &bad, SET], 1, "Failed to truncate AOF i1 because it is not the last file"),
        ("--fix @", [&bad, SET, SET], 1, "Failed to truncate AOF b because it is not the last file"),
        ("--fix @", [SET, SET, &bad], 0, "All AOF files and manifest are valid"),
        (
            "--truncate-to-timestamp 1 @",
            [&[SET, b"#TS:2\r\n"].concat(), SET, SET],
            1,
            "If you insist, please delete",
        ),
    ];
    for (words, contents, status, said) in table {
        for (name, bytes) in ["b", "i1", "i2"].into_iter().zip(contents) {
            folder.write(name, bytes);
        }
        let (ended, lines) = run(check_aof, words, &path, "y\n");
        assert_eq!(ended, status, "{lines:#?}");
        assert_lines(&lines, &["Start checking Multi Part AOF", "Start to check BASE AOF (RESP format)."]);
        assert!(lines.last().is_some_and(|line| line.starts_with(said)), "{said} in {lines:#?}");
    }
    folder.write("i1", b"");
    let (_, lines) = run(check_aof, "@", &path, "");
    assert_lines(
        &lines,
        &[
            "BASE AOF b is valid",
            "Start to check INCR files.",
            "INCR AOF i1 is empty",
            "INCR AOF i2 is valid",
        ],
    );
}

#[test]
fn a_bad_manifest_is_refused_with_its_line() {
    let folder = Folder::new("manifest");
    let path = folder.write("log.manifest", b"file b seq 1 type b\n!!!\n");
    let (status, lines) = run(check_aof, "@", &path, "");
    assert_eq!(status, 1);
    assert_lines(
        &lines,
        &[
            "*** FATAL AOF MANIFEST FILE ERROR ***",
            "Reading the manifest file, at line 2",
            ">>> '!!!'",
            "Invalid AOF manifest file format",
        ],
    );
    let path = folder.write("log.manifest", b"");
    let (status, lines) = run(check_aof, "@", &path, "");
    assert_eq!((status, lines.last().map(String::as_str)), (1, Some("Found an empty AOF manifest")));
    let path = folder.write("log.manifest", b"file gone seq 1 type i\n");
    let (status, lines) = run(check_aof, "@", &path, "");
    assert_eq!(status, 1);
    assert!(
        lines.last().is_some_and(|line| line.ends_with("gone: No such file or directory, aborting...")),
        "{lines:?}"
    );
}

#[test]
fn a_snapshot_before_the_commands_is_checked_with_them() {
    // The reference's check tool mistakes the base file that the reference's own server writes for a file of
    // commands, and refuses it.
    let (status, lines) = run(check_aof, "@", &corpus("valkey-9.1.2-aof/a b.aof.manifest"), "");
    assert_eq!(status, 0, "{lines:#?}");
    assert_lines(
        &lines,
        &[
            "Start to check BASE AOF (RDB format).",
            "[offset 0] Checking RDB file",
            "[offset 27] AUX FIELD valkey-ver = '9.1.2'",
            "[offset 147] Checksum OK",
            "[info] 4 keys read",
            "RDB preamble is OK, proceeding with AOF tail...",
            "BASE AOF a b.aof.2.base.rdb is valid",
            "INCR AOF a b.aof.2.incr.aof is valid",
        ],
    );
    let folder = Folder::new("preamble");
    // A compressed snapshot is checked in the envelope of the release and in that of the drafts before it.
    let compressed = std::fs::read(corpus("rdb81-lz4.rdb")).expect("the corpus is there");
    let (envelope, frame) = compressed.split_at(7);
    for begin in [envelope, b"VKCS\x01\x01\x01\0"] {
        let (status, lines) = run(check_aof, "@", &folder.write("log", &[begin, frame, SET].concat()), "");
        assert_eq!(status, 0, "{lines:#?}");
        assert_lines(
            &lines,
            &["[offset 0] Compressed as a whole", "[info] 1501 keys read", "RDB preamble is OK"],
        );
    }
    let zstd = std::fs::read(corpus("rdb81-zstd.rdb")).expect("the corpus is there");
    let (status, lines) = run(check_aof, "@", &folder.write("log", &[&zstd, SET].concat()), "");
    assert_eq!(status, 0, "{lines:#?}");
    assert_lines(
        &lines,
        &["[offset 0] Compressed as a whole", "[info] 1501 keys read", "RDB preamble is OK"],
    );
    let mut log = std::fs::read(corpus("valkey-9.1.2.rdb")).expect("the corpus is there");
    let snapshot = log.len();
    log.extend_from_slice(SET);
    log.extend_from_slice(b"*2");
    let path = folder.write("log", &log);
    let (status, lines) = run(check_aof, "--fix @", &path, "y\n");
    assert_eq!(status, 0, "{lines:#?}");
    assert_eq!(folder.read("log"), log[..snapshot + SET.len()]);
    // A log whose snapshot is faulty cannot be cut.
    let path = folder.write("log", &log[..200]);
    let (status, lines) = run(check_aof, "--fix @", &path, "y\n");
    assert_eq!(
        (status, lines.last().map(String::as_str)),
        (1, Some("RDB preamble of AOF file is not sane, aborting."))
    );
    assert_lines(&lines, &["--- RDB ERROR DETECTED ---", "[offset 200] Unexpected EOF reading RDB file"]);
    assert_eq!(folder.read("log").len(), 200);
}

#[test]
fn snapshots_are_checked() {
    let folder = Folder::new("rdb");
    let whole = std::fs::read(corpus("valkey-9.1.2.rdb")).expect("the corpus is there");
    let compressed = std::fs::read(corpus("rdb81-lz4.rdb")).expect("the corpus is there");
    let mut summed = whole.clone();
    let last = summed.len() - 1;
    summed[last] ^= 1;
    let mut ended_early = whole.clone();
    ended_early[191] = 0xff;
    let table: [(&[u8], i32, &[&str]); 14] = [
        (
            &ended_early,
            1,
            &[
                "[offset 192] RDB CRC error",
                "[info] 6940 bytes follow the end of the snapshot at byte 200: some of them may belong to it",
                "[offset 192] Check RDB returned error code 1 (0 means success)",
            ],
        ),
        (
            b"REDIS0011\xfe\0\0\x01k\x80\0\0\0\x64value\xff\0\0\0\0\0\0\0\0",
            1,
            &[
                "[offset 19] Unexpected EOF reading RDB file",
                "[info] the item at byte 19 has 100 bytes, which is 86 more than the file has",
            ],
        ),
        (
            &whole,
            0,
            &[
                "[offset 168] Selecting DB ID 0",
                "[offset 7140] Checksum OK",
                "[offset 7140] Check RDB returned error code 0 (0 means success)",
                "[offset 7140] \\o/ RDB looks OK! \\o/",
                "[info] 20 keys read",
                "[info] 2 expires",
                "[info] 0 already expired",
                "[info] 0 functions",
            ],
        ),
        (
            &whole[..200],
            1,
            &[
                "--- RDB ERROR DETECTED ---",
                "[offset 200] Unexpected EOF reading RDB file",
                "[info] 2 keys read",
                "[info] the first 191 bytes",
                "[offset 200] Check RDB returned error code 1 (0 means success)",
            ],
        ),
        (
            &summed,
            1,
            &["[offset 7132] RDB CRC error", "[info] 20 keys read", "[info] the structure is valid"],
        ),
        (b"NOTANRDBFILE", 1, &["[offset 0] Wrong signature trying to load DB from file"]),
        (b"", 1, &["[offset 0] Unexpected EOF reading RDB file"]),
        (b"REDIS0099\xff\0\0\0\0\0\0\0\0", 1, &["[offset 9] Can't handle RDB format version 99"]),
        (
            b"VALKEY981\xff\0\0\0\0\0\0\0\0",
            0,
            &[
                "[offset 9] Future RDB version 981 detected",
                "[offset 18] RDB file was saved with checksum disabled: no check performed.",
                "[offset 18] \\o/ RDB looks OK, but loading requires config 'rdb-version-check relaxed'",
            ],
        ),
        (
            &compressed,
            0,
            &[
                "[offset 0] Compressed as a whole: where a value is malformed, offsets count its decompressed bytes",
                "[offset 23553] Compressed frame OK",
                "[offset 23553] \\o/ RDB looks OK! \\o/",
                "[info] 1501 keys read",
            ],
        ),
        (
            &compressed[..5000],
            1,
            &["[offset 3683] Unexpected EOF reading RDB file", "[info] the item at byte 3683 has 1"],
        ),
        (b"VCS\x01\x03\0\x01", 1, &["[offset 0] Can't handle the compression of the RDB file"]),
        (b"VALKEY081\xff\0\0\0\0\0\0\0\0", 0, &["[offset 18] \\o/ RDB looks OK! \\o/"]),
        (
            b"REDIS0075\x96\x01k",
            1,
            &[
                "[offset 9] Foreign RDB version 75 detected",
                "[offset 9] Unknown object type 150 in RDB file with foreign version 75",
            ],
        ),
    ];
    for (bytes, status, wanted) in table {
        let path = folder.write("dump", bytes);
        let (ended, lines) = run(check_rdb, "@", &path, "");
        assert_eq!(ended, status, "{lines:#?}");
        assert_lines(&lines, &[&format!("[offset 0] Checking RDB file {}", path.display())]);
        assert_lines(&lines, wanted);
    }
    let bad = b"VALKEY080\x12\x03key\x02\x02\x0c\x0c\0\0\0\x02\0\x81a\x02\x07\x02\xff\x01\x05hello\xff\0\0\0\0\0\0\0\0";
    let (status, lines) = run(check_rdb, "@", &folder.write("dump", bad), "");
    assert_eq!(status, 1);
    assert_lines(&lines, &["--- RDB ERROR DETECTED ---", "[additional info] Reading key 'key'"]);
}

#[test]
fn keys_of_types_that_are_not_there_are_counted() {
    let folder = Folder::new("types");
    let path = folder.write("p", b"VALKEY081\x17\x01k\x01\x02/a\x01\x01f\x01v\xff\0\0\0\0\0\0\0\0");
    let (status, lines) = run(check_rdb, "@", &path, "");
    assert_eq!(status, 0, "{lines:#?}");
    assert_lines(&lines, &["[info] 1 keys read", "[info] 1 keys of type path hash"]);
}

#[test]
fn keys_of_redis_are_counted_by_type() {
    let (status, lines) = run(check_rdb, "@ --stats --format info", &corpus("redis-8.0.6-types.rdb"), "");
    assert_eq!(status, 0, "{lines:#?}");
    assert_lines(
        &lines,
        &[
            "[offset 9] Foreign RDB version 12 detected",
            "[info] 13 keys read",
            "[info] 1 functions",
            "[info] db.0.type.string.keys.total:1",
            "[info] db.0.type.set.keys.total:3",
            "[info] db.0.type.stream.keys.total:2",
        ],
    );
}

#[test]
fn statistics_go_where_the_words_say() {
    let folder = Folder::new("stats");
    let (dump, output) = (corpus("valkey-9.1.2.rdb"), folder.0.join("report"));
    let words = format!("@ --output {} --stats --format csv", output.display());
    let (status, lines) = run(check_rdb, &words, &dump, "");
    assert_eq!((status, lines.len()), (0, 0));
    let report = String::from_utf8(folder.read("report")).expect("text");
    for line in [
        "db.0.keys.total,14,4,0,0,0,0,0\n",
        "db.0.keys.value_size,5730,23520,0,0,0,0,0\n",
        "db.3.elements.total,1,100,0,0,0,0,0\n",
        "db.0.elements.num.p50,1.00,3.00,0.00,0.00,0.00,0.00,0.00\n",
    ] {
        assert!(report.contains(line), "{line} in {report}");
    }
}

#[test]
fn a_terminal_shows_how_far_a_check_is_and_the_report_stays_as_it_is() {
    let folder = Folder::new("meter");
    let file = folder.write("a.aof", &SET.repeat(40_000));
    let words = [file.into_os_string()];
    let (status, plain, shown) = run_on(ProgressDisplay::Nothing, check_aof, &words, "");
    assert_eq!((status, shown.as_str()), (0, ""));
    let (_, lines, shown) = run_on(ProgressDisplay::Bar, check_aof, &words, "");
    assert_eq!(lines, plain);
    let looks: Vec<&str> = shown.split('\r').collect();
    assert_eq!(
        looks[1],
        "Checking [######......................] 24.3% of 1 MB, 0.3 MB/s, 3 seconds left\x1b[K"
    );
    assert_eq!(looks.last(), Some(&"\x1b[K"), "the report takes the place of the bar");
    let (_, lines, shown) = run_on(ProgressDisplay::Lines, check_aof, &words, "");
    assert_eq!(lines, plain);
    assert_eq!(shown, "Checking: 100.0% of 1 MB, 0.2 MB/s, finishing\n", "a line every five seconds");
}

#[test]
fn words_that_are_not_understood_get_the_usage() {
    let folder = Folder::new("words");
    let path = folder.write("f", SET);
    for words in ["--foo @", "a b c d", "--fix @ x", "--truncate-to-timestamp @"] {
        let (status, lines) = run(check_aof, words, &path, "");
        assert_eq!(status, 1);
        assert_eq!(
            lines,
            ["Usage: sluice-check [--fix|--truncate-to-timestamp $timestamp] <file.manifest|file.aof>"],
            "{words}"
        );
    }
    for words in ["@ --foo", "@ --format", "@ --format x", "--stats @", "@ --output"] {
        let (status, lines) = run(check_rdb, words, &path, "");
        assert_eq!(status, 1);
        assert_eq!(
            lines,
            ["Usage: sluice-check <rdb-file-name> [--format table|info|csv] [--stats] [--output <file>]"],
            "{words}"
        );
    }
    for check in [check_aof as Check, check_rdb as Check] {
        assert_eq!(run(check, "--version", &path, "").0, 0);
    }
}

#[test]
fn what_stands_beside_keys_is_named() {
    let folder = Folder::new("beside");
    let record = b"\xf7\x81\x45\xe2\x52\x38\xdf\x91\x2c\x03\x02\x01\x02\x05\x05\x03abc\0";
    let value = b"\x07\x01s\x81\x45\xe2\x52\x38\xdf\x91\x2c\x03\x05\x02ab\x00";
    let library = b"\xf5\x17#!lua name=mylib\nreturn";
    let file = [
        &b"REDIS0011\xfa\x03lua\x08return 1"[..],
        record,
        library,
        b"\xfe\x00",
        value,
        b"\x00\x01k\x01v",
        record,
        b"\xff\0\0\0\0\0\0\0\0",
    ]
    .concat();
    let path = folder.write("dump.rdb", &file);
    let (status, lines) = run(check_rdb, "@", &path, "");
    assert_eq!(status, 0, "{lines:#?}");
    let wanted = [
        "[offset 23] AUX FIELD lua = 'return 1'",
        "[offset 43] Module record of ReJSON-RL (encoding version 3), 20 bytes",
        "[offset 68] Library of functions '#!lua name=mylib', 23 bytes",
        "[info] 1 functions",
        "[info] 1 keys of type ReJSON-RL (of a module), which Sluice does not have",
        "[info] 2 records of module type ReJSON-RL beside the keys: Sluice drops them",
    ];
    assert_lines(&lines, &wanted);
}

#[test]
fn what_is_put_right_and_what_is_refused_is_named_by_its_key() {
    let folder = Folder::new("named");
    let path = folder.write("mended", b"REDIS0009\x0f\x01k\x00\x05\x01\x01\x00\xff\0\0\0\0\0\0\0\0");
    let (status, lines) = run(check_rdb, "@", &path, "");
    assert_eq!(status, 0, "{lines:#?}");
    assert_lines(&lines, &["[offset 17] Key 'k', stream of 0 entries with stored length 5"]);
    let path = folder.write("bad", b"REDIS0009\x05\x01k\x02\x01m\0\0\0\0\0\0\0\0\x01m\0\0\0\0\0\0\0\0\xff");
    let (status, lines) = run(check_rdb, "@", &path, "");
    assert_eq!(status, 1, "{lines:#?}");
    assert_lines(&lines, &["[additional info] Reading key 'k'", "[additional info] Reading type zset"]);
}
