//! Runs programs with the reference's Lua and with this machine. Values, errors with their positions, and the
//! order of `pairs` must be equal.
//!
//! Comparisons with the reference run if `SLUICE_PEER_SERVER` names its binary, and otherwise report that
//! they were skipped; tests that pause or collect between any two instructions always run.
//! `SLUICE_ORACLE_PROGRAMS` is the number of random programs, and `SLUICE_ORACLE_SEED` the first seed.

#![expect(clippy::disallowed_methods, reason = "programs of one's own need no clock")]

mod cases;
mod grammar;
mod peer;
mod stock;

use std::fmt::Write as _;

use peer::Peer;
use sluice_base::Rng;
use sluice_lua::{Ctx, Fault, Native, NativeStep, RunOutcome, Value, Vm, compile};

/// Number of random programs if `SLUICE_ORACLE_PROGRAMS` is not set.
const PROGRAMS: u64 = 10_000;

/// Number of programs that are sent before their replies are read.
const BATCH: u64 = 100;

fn main_vm() -> Vm {
    let mut vm = Vm::new(256 << 20).expect("room for the libraries");
    vm.look_into_errors();
    // The globals are as in the server, where reading a missing global is an error.
    for name in [&b"KEYS"[..], b"ARGV"] {
        vm.library().table(name, &[]).expect("room");
    }
    let mut library = vm.library();
    let globals = library.globals();
    let meta = library.heap.new_table(0, 1).expect("room");
    let index = library.function(Native::plain("__index", missing_global), &[]).expect("room");
    library.field(meta, b"__index", index).expect("room");
    library.heap.set_metatable(globals, Some(meta)).expect("room");
    vm.seal(true);
    vm
}

fn missing_global(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let mut text = b"Script attempted to access nonexistent global variable '".to_vec();
    let name = ctx.check_str(2)?;
    text.extend_from_slice(ctx.heap.bytes(name));
    text.push(b'\'');
    Err(Fault::text(text))
}

/// The result of a program on this machine, in the form of the reference's reply.
fn ours(vm: &mut Vm, source: &[u8], slice: u64) -> Vec<u8> {
    collecting(vm, source, slice, 0)
}

/// The result of a program that runs in slices, with some work of the collector at each pause.
fn collecting(vm: &mut Vm, source: &[u8], slice: u64, work: usize) -> Vec<u8> {
    let proto = match compile(source, b"@user_script") {
        Ok(proto) => proto,
        Err(text) => return [b"-ERR Error compiling script (new function): ", &*text].concat(),
    };
    let chunk = vm.load(&proto).expect("room for the chunk");
    let mut run = vm.start(chunk);
    if slice < 1000 {
        run.stepwise();
    }
    let outcome = loop {
        match run.resume_unwatched(slice) {
            RunOutcome::OutOfBudget if work > 0 => {
                vm.collect(work);
                run = vm.run().expect("the run is open");
            }
            RunOutcome::OutOfBudget => {}
            outcome => break outcome,
        }
    };
    let first = run.results().first().copied().unwrap_or_default();
    let shown = match outcome {
        RunOutcome::Failed(value) => [b"-", &*show_error(vm, value)].concat(),
        _ => show(vm, first),
    };
    drop(vm.end());
    shown
}

fn show(vm: &mut Vm, value: Value) -> Vec<u8> {
    match (value.as_number(), value.as_str()) {
        (Some(number), _) => format!(":{}", number as i64).into_bytes(),
        (_, Some(text)) => vm.heap().bytes(text).to_vec(),
        _ => format!("{value:?}").into_bytes(),
    }
}

/// Shows an error as the reference's server does. An error that is not a string is converted to text.
fn show_error(vm: &mut Vm, value: Value) -> Vec<u8> {
    match (value.as_number(), value.is_nil(), value.as_str()) {
        (Some(number), ..) => show_number(vm, number),
        (_, true, _) => b"nil".to_vec(),
        _ if value.is_function() => b"function: ".to_vec(),
        _ if value.as_thread().is_some() => b"thread: ".to_vec(),
        _ if value.is_boolean() => {
            if value.truthy() {
                b"true".to_vec()
            } else {
                b"false".to_vec()
            }
        }
        (_, _, None) => b"unknown error".to_vec(),
        _ => show(vm, value),
    }
}

fn show_number(vm: &mut Vm, number: f64) -> Vec<u8> {
    let text = vm.heap().number_string(number).expect("room");
    show(vm, text)
}

/// The reference's reply without the server's additions to an error.
fn plain(reply: &[u8]) -> Vec<u8> {
    let Some(error) = reply.strip_prefix(b"-") else { return reply.to_vec() };
    let error =
        error.strip_prefix(b"ERR ").filter(|_| !error.starts_with(b"ERR Error comp")).unwrap_or(error);
    let end = error.windows(9).rposition(|part| part == b" script: ").unwrap_or(error.len());
    let mut error = error[..end].to_vec();
    error.insert(0, b'-');
    error
}

/// A result in a form that can be compared. The reference's reply has spaces for the line ends in an error,
/// and a zero byte ends the error. The address of an error that is a function or a thread is removed.
fn flat(mut text: Vec<u8>) -> Vec<u8> {
    for kind in [&b"-function: "[..], b"-thread: "] {
        if text.starts_with(kind) {
            text.truncate(kind.len());
        }
    }
    if text.first() == Some(&b'-') {
        text.truncate(text.iter().position(|byte| *byte == 0).unwrap_or(text.len()));
        text.iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    }
    text
}

/// Once more differences than this are recorded, further ones are left out.
const SHOWN: usize = 10;

/// Records where two results differ; only the first program is shown whole.
fn report(out: &mut String, seed: u64, source: &str, got: &[u8], expected: &[u8]) {
    if out.matches("\nseed ").count() > SHOWN {
        return;
    }
    let from = got.iter().zip(expected).take_while(|(a, b)| a == b).count().saturating_sub(40);
    let part = |text: &[u8]| text[from.min(text.len())..].iter().take(160).copied().collect::<Vec<u8>>();
    let program = if out.is_empty() { source } else { "" };
    let (ours, peer) = (part(got), part(expected));
    writeln!(
        out,
        "{program}\nseed {seed}\n  ours      {}\n  reference {}",
        ours.escape_ascii(),
        peer.escape_ascii()
    )
    .expect("a string");
}

#[test]
fn cases_answer_as_the_reference_does() {
    let Some(mut peer) = Peer::start() else { return };
    let mut wrong = String::new();
    for source in cases::all() {
        let expected = flat(plain(&peer.eval(source.as_bytes())));
        let got = flat(ours(&mut main_vm(), source.as_bytes(), u64::MAX / 4));
        if got != expected {
            let (got, expected) = (got.escape_ascii(), expected.escape_ascii());
            writeln!(wrong, "{source}\n  ours      {got}\n  reference {expected}").expect("a string");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Calls of library functions that continue after they have called another function. `@` is replaced by extra
/// arguments or by nothing, and `R` by extra results or by nothing.
const CONTINUED: &[&str] = &[
    "tostring(setmetatable({}, {__tostring = function(...) return 'n' .. select('#', ...) R end})@)",
    "pcall(function(...) return select('#', ...) R end@)",
    "pcall(error@)",
    "xpcall(function(...) return select('#', ...) R end, function(...) return select('#', ...) end@)",
    "xpcall(function() error('e', 0) end, function(...) return select('#', ...) R end@)",
    "type(load(function(...) return nil R end, '=x'@))",
    "select(2, load(function(...) error(select('#', ...), 0) R end, '=x'@))",
    "(function(f) return f and f() end)(load((function() local n = 0 return function(...) n = n + 1 \
      if n == 1 then return 'return ' .. select('#', ...) R end end end)(), '=x'@))",
    "('abc'):gsub('.', function(...) return select('#', ...) R end, nil@)",
    "('abc'):gsub('.', setmetatable({}, {__index = function(...) return select('#', ...) R end}), nil@)",
    "('abc'):gmatch('.'@)()",
    "('abc'):gmatch('.')('x'@)",
    "(function(t, ...) table.sort(t, ...) return table.concat(t, ',') end)({3, 1, 2}, \
      function(a, b, ...) if select('#', ...) > 0 then error('more') end return a < b R end@)",
    "(function(t, ...) return table.foreach(t, ...) end)({1, 2}, function(k, ...) if k == 2 then \
      return select('#', ...) R end end@)",
    "table.foreachi({1, 2}, function(k, ...) if k == 2 then return select('#', ...) R end end@)",
    "setmetatable({}, {__index = function(...) return select('#', ...) R end}).x",
    "(function(t) t.x = 1 return rawget(t, 'y') end)(setmetatable({}, {__newindex = function(t, ...) \
      rawset(t, 'y', select('#', ...)) return 1 R end}))",
    "setmetatable({}, {__call = function(...) return select('#', ...) R end})(1@)",
    "(function(m) return setmetatable({}, m) == setmetatable({}, m) end)({__eq = function(...) \
      return select('#', ...) == 2 R end})",
    "(function(m) return setmetatable({}, m) < setmetatable({}, m) end)({__lt = function(...) \
      return select('#', ...) == 2 R end})",
    "(function(m) return setmetatable({}, m) <= setmetatable({}, m) end)({__le = function(...) \
      return select('#', ...) == 2 R end})",
    "(setmetatable({}, {__concat = function(...) return select('#', ...) R end}) .. 'x') .. 'y'",
    "-setmetatable({}, {__unm = function(...) return select('#', ...) R end})",
    "setmetatable({}, {__add = function(...) return select('#', ...) R end}) + 1",
    "coroutine.resume(coroutine.create(function(...) return select('#', coroutine.yield(...)) R end)@)",
    "coroutine.wrap(function(...) return select('#', ...) R end)(1@)",
    "(function(c, ...) c(...) return c(...) end)(coroutine.wrap(function(...) \
      return select('#', coroutine.yield(...)) R end)@)",
    "(function(...) for k, v in ... do return k, v end end)(function(...) return select('#', ...) R end@)",
    "table.concat({1, 2}, '-', 1, 2@)",
    "table.remove({1, 2, 3}, 1@)",
    "table.maxn({1, 2}@)",
    "('ab'):rep(2@)",
    "('ab'):upper('x'@)",
    "('%s'):format('x'@)",
    "unpack({1, 2}, 1, 2@)",
    "tonumber('1', 10@)",
    "next({1}, nil@)",
    "rawset({}, 1, 2@)[1]",
    "cmsgpack.unpack(cmsgpack.pack(1)@)",
    "struct.unpack('b', 'x', 1@)",
    "#struct.pack('b', 1@)",
    "math.max(1@)",
    "bit.band(1, 1@)",
];

#[test]
fn calls_that_go_on_behind_a_call_find_their_results_whatever_else_is_there() {
    let mut peer = Peer::start();
    for call in CONTINUED {
        for more in ["", ", 7", ", 'more', nil", ", nil, nil, {}"] {
            for results in ["", ", 'second'", ", nil, 'third'"] {
                let call = call.replace('@', more).replace('R', results);
                let source = format!(
                    "local function show(...) local o = {{}} for i = 1, select('#', ...) do \
                     o[i] = type((select(i, ...))) == 'table' and 'table' or tostring((select(i, ...))) end \
                     return table.concat(o, '|') end return show(pcall(function() return {call} end))"
                );
                let got = flat(ours(&mut main_vm(), source.as_bytes(), u64::MAX / 4));
                for slice in [1, 7] {
                    let stopped = flat(ours(&mut main_vm(), source.as_bytes(), slice));
                    assert_eq!(
                        got.escape_ascii().to_string(),
                        stopped.escape_ascii().to_string(),
                        "{source}"
                    );
                }
                if let Some(peer) = &mut peer {
                    let expected = flat(plain(&peer.eval(source.as_bytes())));
                    let (got, expected) =
                        (got.escape_ascii().to_string(), expected.escape_ascii().to_string());
                    assert_eq!(got, expected, "{source}");
                }
            }
        }
    }
}

/// About one of this many random programs ends the reference: when a program throws a table, the reference
/// reads the field `err` without protection from an error of the table's `__index`.
const DEADLY_OF: u64 = 100_000;

/// The reference's replies; `None` for a program that ends the reference.
fn batch_replies(peer: &mut Peer, sources: &[String]) -> Vec<Option<Vec<u8>>> {
    let mut replies = Vec::new();
    let mut fails = sources.iter().find_map(|source| peer.send(source.as_bytes()).err());
    while fails.is_none() && replies.len() < sources.len() {
        match peer.reply_in_time() {
            Ok(reply) => replies.push(Some(reply)),
            Err(error) => fails = Some(error),
        }
    }
    // Each of the remaining programs runs alone, to find the one that ends the reference.
    for source in &sources[replies.len()..] {
        if let Some(error) = fails.take() {
            assert!(!peer.ending().is_empty(), "{source}\nno reply in time: {error}");
            *peer = Peer::start().expect("the reference is at hand");
        }
        let reply = peer.send(source.as_bytes()).and_then(|()| peer.reply_in_time());
        replies.push(reply.map_err(|error| fails = Some(error)).ok());
    }
    if fails.is_some() {
        *peer = Peer::start().expect("the reference is at hand");
    }
    replies
}

#[test]
fn random_programs_answer_as_in_the_reference() {
    let Some(mut peer) = Peer::start() else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let programs = number("SLUICE_ORACLE_PROGRAMS").unwrap_or(PROGRAMS);
    let seed = number("SLUICE_ORACLE_SEED").unwrap_or(1);
    let mut vm = main_vm();
    let (mut failed, mut wrong, mut wrongs, mut deadly) = (0, 0, String::new(), 0);
    for batch in 0..programs.div_ceil(BATCH) {
        let seeds = seed + batch * BATCH..seed + (batch + 1) * BATCH;
        let sources: Vec<String> = seeds.clone().map(|seed| grammar::program(&mut Rng::new(seed))).collect();
        let replies = batch_replies(&mut peer, &sources);
        for ((seed, source), reply) in seeds.zip(&sources).zip(replies) {
            let Some(reply) = reply else {
                println!("the reference ends at the program of seed {seed}");
                deadly += 1;
                ours(&mut vm, source.as_bytes(), u64::MAX / 4);
                continue;
            };
            let expected = flat(plain(&reply));
            let got = flat(ours(&mut vm, source.as_bytes(), u64::MAX / 4));
            failed += u64::from(got.starts_with(b"-"));
            if got != expected {
                wrong += 1;
                report(&mut wrongs, seed, source, &got, &expected);
            }
        }
        // Constants stay in memory with their chunk, so each batch gets a new machine.
        vm = main_vm();
    }
    assert!(wrong == 0, "{wrong} of {programs} programs differ\n{wrongs}");
    assert!(deadly <= 1 + programs / DEADLY_OF, "the reference ends at {deadly} of {programs} programs");
    assert!(
        failed * 2 < programs,
        "{failed} of {programs} programs end with an error: too many to find much"
    );
}

/// Number of random programs that are run with a pause after every few instructions.
const STOPPED: u64 = 300;

#[test]
fn a_run_that_stands_still_at_every_instruction_answers_the_same() {
    let sources = (1..=STOPPED).map(|seed| grammar::program(&mut Rng::new(seed)));
    let cases =
        cases::all().into_iter().filter(|source| !source.contains("collectgarbage")).map(str::to_string);
    for source in cases.chain(sources) {
        let whole = ours(&mut main_vm(), source.as_bytes(), u64::MAX / 4);
        for slice in [1, 2, 13] {
            let stopped = ours(&mut main_vm(), source.as_bytes(), slice);
            let (whole, stopped) = (whole.escape_ascii().to_string(), stopped.escape_ascii().to_string());
            assert!(whole == stopped, "{source}\nat once    {whole}\nby {slice:>2}      {stopped}");
        }
    }
}

#[test]
fn collecting_between_any_two_instructions_changes_no_answer() {
    let sources = (1..=STOPPED).map(|seed| grammar::program(&mut Rng::new(seed)));
    let cases =
        cases::all().into_iter().filter(|source| !source.contains("collectgarbage")).map(str::to_string);
    for source in cases.chain(sources) {
        let whole = ours(&mut main_vm(), source.as_bytes(), u64::MAX / 4);
        for (slice, work) in [(1, 1), (1, 20), (3, 5), (7, 1 << 30)] {
            let stopped = collecting(&mut main_vm(), source.as_bytes(), slice, work);
            // Freed slots are used again, so addresses differ, and results with an address are not compared.
            if whole.windows(2).any(|part| part == b"0x") {
                continue;
            }
            let (whole, stopped) = (whole.escape_ascii().to_string(), stopped.escape_ascii().to_string());
            assert!(whole == stopped, "{source}\nat once    {whole}\nby {slice}, {work}: {stopped}");
        }
    }
}
