//! Tests of functions and operators that process a long string piece by piece: wherever they are paused, the
//! result must be the same as without a pause.

use super::common::{PLENTY, answer_of, machine, text};
use sluice_lua::{RunOutcome, compile};

/// A program's first line: it makes `s` a string of several pieces, all of which differ.
const READY: &str = "local s = ('0123456789 abc'):rep(14000) ";

fn long() -> Vec<u8> {
    b"0123456789 abc".repeat(14_000)
}

/// The results or the error of a program that runs in slices of `units` units, and the number of its pauses.
fn answer_by(units: u64, source: &str) -> (String, u32) {
    let mut vm = machine(64 << 20);
    let proto = compile(source.as_bytes(), b"=test").expect("a program");
    let chunk = vm.load(&proto).expect("room");
    let mut run = vm.start(chunk);
    let mut suspensions = 0;
    let outcome = loop {
        match run.resume_unwatched(units) {
            RunOutcome::OutOfBudget => suspensions += 1,
            outcome => break outcome,
        }
    };
    let values = match outcome {
        RunOutcome::Done => run.results().to_vec(),
        RunOutcome::Failed(error) => vec![error],
        other => panic!("{source}: {other:?}"),
    };
    let texts: Vec<String> = values.into_iter().map(|value| text(&mut vm, value)).collect();
    (texts.join(" "), suspensions)
}

#[test]
fn a_long_text_comes_out_the_same_wherever_the_run_stands_still() {
    let s = String::from_utf8(long()).expect("ASCII");
    let joined = |parts: &[&str]| parts.concat();
    let rows = [
        ("return s .. 1.5 .. s .. 'y'", joined(&[&s, "1.5", &s, "y"])),
        ("return 'y' .. s", joined(&["y", &s])),
        (
            "local t = setmetatable({}, {__concat = function(_, b) return '<' .. b .. '>' end}) \
          return s .. t .. s",
            joined(&[&s, "<", &s, ">"]),
        ),
        (
            "local t = setmetatable({}, {__concat = function(a, b) return a == s .. s and 'left' or '|' end}) \
          return 'a' .. s .. (t .. s .. s)",
            joined(&["a", &s, "|"]),
        ),
        ("return s:sub(2, -3)", s[1..s.len() - 2].to_owned()),
        ("return s:rep(3)", s.repeat(3)),
        ("return table.concat({s, 'a', 7, s}, s)", joined(&[&s, &s, "a", &s, "7", &s, &s])),
        ("return table.concat({'a', s, s}, ',', 2)", joined(&[&s, ",", &s])),
        ("return (s:sub(1, 20000):gsub('%d', {['1'] = 'one'}))", s[..20_000].replace('1', "one")),
        (
            "return (s:sub(1, 20000):gsub('[abc]', setmetatable({}, {__index = function(_, k) return k .. k end})))",
            s[..20_000].replace('a', "aa").replace('b', "bb").replace('c', "cc"),
        ),
        ("return ('<%s|%9s>'):format(s, s)", joined(&["<", &s, "|", &s, ">"])),
        ("return select(2, pcall(error, s, 0))", s.clone()),
        ("return select(2, pcall(assert, false, s))", s.clone()),
        ("return select(2, pcall(function() error(s) end))", joined(&["test:1: ", &s])),
        ("return select(2, pcall(function() assert(false, s) end))", joined(&["test:1: ", &s])),
    ];
    for (source, wanted) in rows {
        let source = [READY, source].concat();
        let (whole, _) = answer_by(PLENTY, &source);
        assert!(whole == wanted, "{source}: {} bytes, wanted {}", whole.len(), wanted.len());
        for units in [1, 1_000, 5_000] {
            let (answer, suspensions) = answer_by(units, &source);
            assert!(answer == whole, "{source}, {units} units at a time: {} bytes", answer.len());
            assert!(suspensions > 0, "{source}");
        }
    }
}

#[test]
fn no_step_of_a_long_text_takes_more_than_a_piece() {
    // The limit is twice the units of a piece, because a step may exceed the given units once.
    const STEP_MAX: u64 = 2 * (64 << 10) / 16;
    for work in [
        "s = s .. 'y'",
        "s = s:sub(2)",
        "s = s:rep(2)",
        "s = table.concat({s, s}, s)",
        "s = ('%s-%s'):format(s, s)",
        "s = s:gsub('%d', {['1'] = 'one'})",
    ] {
        let source = [READY, work].concat();
        let mut vm = machine(64 << 20);
        let chunk = vm.load(&compile(source.as_bytes(), b"=test").expect("a program")).expect("room");
        let mut run = vm.start(chunk);
        loop {
            let (outcome, units) = run.count_units(1);
            assert!(units <= STEP_MAX, "{work}: {units} units in a step");
            match outcome {
                RunOutcome::OutOfBudget => {}
                RunOutcome::Done => break,
                other => panic!("{work}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_run_that_is_ended_between_two_pieces_leaves_nothing() {
    for work in ["s .. s", "s:sub(2)", "s:rep(9)", "table.concat({s, s}, s)", "s:gsub('%d', {})"] {
        let source = format!("{READY} local x = {work}");
        let mut vm = machine(64 << 20);
        let chunk = vm.load(&compile(source.as_bytes(), b"=test").expect("a program")).expect("room");
        let before = vm.bytes();
        // The run is ended at each of the places where it can be paused.
        for steps in 1.. {
            let mut run = vm.start(chunk);
            let mut is_done = false;
            for _ in 0..steps {
                is_done = !matches!(run.resume_unwatched(2_000), RunOutcome::OutOfBudget);
            }
            drop(run.end());
            assert_eq!(vm.bytes(), before, "{work}, ended behind {steps} steps");
            if is_done {
                assert!(steps > 3, "{work} takes {steps} steps");
                break;
            }
        }
    }
}

#[test]
fn a_long_concatenation_is_no_call_that_a_program_could_make_too_many() {
    let source = |made: &str| {
        format!(
            "local s = ('x'):rep({made}) \
             local function f(n) if n == 0 then return #(s .. s) / #s end return select(2, pcall(f, n - 1)) end \
             local t = {{}} for n = 180, 215 do t[#t + 1] = tostring(f(n)) end return table.concat(t, ' ')"
        )
    };
    let mut vm = machine(64 << 20);
    let short = answer_of(&mut vm, &source("10"));
    assert!(short.starts_with("2 2 ") && short.contains("overflow"), "{short}");
    assert_eq!(answer_of(&mut vm, &source("100000")), short);
}

#[test]
fn a_long_text_that_does_not_fit_is_an_error_that_a_program_can_catch() {
    for work in ["s .. s .. s .. s", "s:rep(4)", "table.concat({s, s, s, s})", "s:gsub('%d', {})"] {
        let source = format!("local s = ('0'):rep(1000000) return pcall(function() local x = {work} end)");
        let mut vm = machine(if work.contains("gsub") { 1 << 20 } else { 3 << 20 });
        assert!(answer_of(&mut vm, &source).contains("not enough memory"), "{work}");
        assert_eq!(answer_of(&mut vm, "return 1"), "1");
    }
}
