//! Runs a program from a file, in slices of BUDGET units: `cargo run --release -p sluice-lua --example run --
//! FILE [BUDGET]`. Prints the program's results or its error, the processor time, the number of slices and
//! the bytes of the heap.

#![expect(clippy::disallowed_methods, reason = "programs of one's own need no clock")]

mod clock;

use sluice_lua::{RunOutcome, Value, Vm, compile};

fn show(vm: &mut Vm, value: Value) -> String {
    match (value.as_number(), value.as_str(), value.as_table()) {
        (Some(number), _, _) => format!("{number}"),
        (_, Some(text), _) => String::from_utf8_lossy(vm.heap().bytes(text)).into_owned(),
        (_, _, Some(table)) => {
            let mut out = Vec::new();
            for index in 1.. {
                let item = vm.heap().get_int(table, index);
                if item.is_nil() {
                    break;
                }
                out.push(show(vm, item));
            }
            format!("[{}]", out.join(", "))
        }
        _ => format!("{value:?}"),
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().unwrap_or_default();
    let budget = args.next().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX / 4);
    let source = std::fs::read(&file).expect("the first argument is a file");
    let mut vm = Vm::new(4 << 30).expect("room for the libraries");
    vm.seal(true);
    let proto = match compile(&source, b"@user_script") {
        Ok(proto) => proto,
        Err(text) => return println!("ERR {}", String::from_utf8_lossy(&text)),
    };
    let chunk = vm.load(&proto).expect("room for the chunk");
    let begin = clock::now();
    let mut run = vm.start(chunk);
    let mut slices = 1;
    let outcome = loop {
        match run.resume_unwatched(budget) {
            RunOutcome::OutOfBudget => slices += 1,
            outcome => break outcome,
        }
    };
    let values = run.results().to_vec();
    let took = clock::now() - begin;
    match outcome {
        RunOutcome::Failed(value) => println!("ERR {}", show(&mut vm, value)),
        _ => {
            let shown: Vec<String> = values.into_iter().map(|value| show(&mut vm, value)).collect();
            println!("{}", shown.join("\n"));
        }
    }
    eprintln!("{:.3} ms, {slices} slices, {} bytes", took.as_secs_f64() * 1e3, vm.bytes());
    drop(vm.end());
}
