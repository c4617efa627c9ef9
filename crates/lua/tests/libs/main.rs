//! Tests of the libraries: tables of cases, faults found in other servers, and random calls whose results are
//! compared with the reference's.
//!
//! Each case of a table runs once with the whole budget, and again with 1, 3 and 100 units at a time, because
//! pauses must not change results.

#![expect(clippy::disallowed_methods, reason = "programs of one's own need no clock")]

mod calls;
mod cases;
mod faults;
mod oracle;
#[path = "../oracle/peer.rs"]
mod peer;

use sluice_lua::{RunOutcome, Value, Vm, compile};

/// The most bytes that a machine of these tests may use.
const LIMIT: usize = 256 << 20;

fn machine() -> Vm {
    let mut vm = Vm::new(LIMIT).expect("room for the libraries");
    vm.seal(true);
    vm
}

/// The first value that a program returns, as text, or its error after a minus sign.
fn run(vm: &mut Vm, source: &[u8], slice: u64) -> Vec<u8> {
    let proto = match compile(source, b"@user_script") {
        Ok(proto) => proto,
        Err(text) => return [b"-", &text[..]].concat(),
    };
    let chunk = vm.load(&proto).expect("room for the chunk");
    let mut run = vm.start(chunk);
    let outcome = loop {
        match run.resume_unwatched(slice) {
            RunOutcome::OutOfBudget => {}
            outcome => break outcome,
        }
    };
    let first = run.results().first().copied().unwrap_or_default();
    let shown = match outcome {
        RunOutcome::Failed(value) => [b"-", &show(vm, value)[..]].concat(),
        _ => show(vm, first),
    };
    drop(vm.end());
    shown
}

fn show(vm: &mut Vm, value: Value) -> Vec<u8> {
    match (value.as_number(), value.as_str()) {
        (Some(number), _) => format!("{number}").into_bytes(),
        (_, Some(text)) => vm.heap().bytes(text).to_vec(),
        _ => format!("{value:?}").into_bytes(),
    }
}

/// Runs a program without a pause and in slices; the results must be equal.
fn both(source: &[u8]) -> Vec<u8> {
    let whole = run(&mut machine(), source, u64::MAX / 4);
    for slice in [1, 3, 100] {
        let sliced = run(&mut machine(), source, slice);
        assert_eq!(
            whole.escape_ascii().to_string(),
            sliced.escape_ascii().to_string(),
            "slices of {slice}: {}",
            source.escape_ascii()
        );
    }
    whole
}

/// Evaluates an expression and shows its values by `tostring`, separated by bars. Bytes that are not
/// printable ASCII characters are escaped.
fn expression(text: &str) -> String {
    let source = format!(
        "local function show(...) local o = {{}} for i = 1, select('#', ...) do o[i] = tostring((select(i, ...))) end \
         return table.concat(o, '|') end\nlocal function e(f, ...) return select(2, pcall(f, ...)) end\nreturn show({text})"
    );
    plain(&both(source.as_bytes()))
}

/// Bytes as text; a byte that is no printable ASCII character is shown as `\xNN`.
fn plain(bytes: &[u8]) -> String {
    let show = |byte: &u8| match byte {
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    bytes.iter().map(show).collect()
}

/// Checks a table of expressions and their expected values.
fn check(cases: &[(&str, &str)]) {
    let wrong = cases.iter().filter_map(|(text, expected)| {
        let shown = expression(text);
        (shown != *expected).then(|| format!("{text}\n  shows {shown}\n  not   {expected}\n"))
    });
    let wrong: String = wrong.collect();
    assert!(wrong.is_empty(), "{wrong}");
}
