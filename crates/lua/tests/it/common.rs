//! Helpers of the tests: a new machine, and the result of a program as text.

use sluice_lua::{RunOutcome, Value, Vm, compile};

pub(crate) const PLENTY: u64 = u64::MAX >> 2;

pub(crate) fn machine(limit: usize) -> Vm {
    let mut vm = Vm::new(limit).expect("room for the libraries");
    vm.seal(true);
    vm
}

/// The result of a program in a new machine: its values as texts, or its error.
pub(crate) fn answer(source: &str) -> String {
    answer_of(&mut machine(64 << 20), source)
}

pub(crate) fn answer_of(vm: &mut Vm, source: &str) -> String {
    let proto = match compile(source.as_bytes(), b"=test") {
        Ok(proto) => proto,
        Err(text) => return String::from_utf8_lossy(&text).into_owned(),
    };
    let chunk = vm.load(&proto).expect("room for the chunk");
    let mut run = vm.start(chunk);
    let outcome = run.resume_unwatched(PLENTY);
    let values = run.results().to_vec();
    let text = match outcome {
        RunOutcome::Done => {
            let texts: Vec<String> = values.into_iter().map(|value| text(vm, value)).collect();
            texts.join(" ")
        }
        RunOutcome::Failed(value) => text(vm, value),
        outcome => format!("{outcome:?}"),
    };
    drop(vm.end());
    text
}

pub(crate) fn text(vm: &mut Vm, value: Value) -> String {
    match (value.as_number(), value.as_str()) {
        (Some(number), _) => {
            let text = vm.heap().number_string(number).expect("room");
            super::common::text(vm, text)
        }
        (_, Some(string)) => String::from_utf8_lossy(vm.heap().bytes(string)).into_owned(),
        _ if value == Value::TRUE => "true".to_string(),
        _ if value == Value::FALSE => "false".to_string(),
        _ => value.type_name().to_string(),
    }
}
