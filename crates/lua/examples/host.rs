//! A small example of a host. It shows a function that makes a request to the host, a global that is set for
//! each run, a library whose functions outlive its run, execution in slices, and a run that is ended early.
//! `cargo run -p sluice-lua --example host`.

#![expect(clippy::disallowed_methods, reason = "programs of one's own need no clock")]

use sluice_lua::{Ctx, Fault, Heap, Kind, Native, NativeStep, Pinned, Proto, RunOutcome, Value, Vm, compile};
use std::sync::Arc;

/// Codes of the requests to the host, as [`NativeStep::Request`] has them.
const CALL: u32 = 0;
const REGISTER: u32 = 1;

/// `host.call(name)`: the run is paused until the host has answered.
fn call(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    ctx.check_str(1)?;
    Ok(NativeStep::Request(CALL))
}

/// `host.register(function)`: asks the host to keep a function.
fn register(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    ctx.check_function(1)?;
    Ok(NativeStep::Request(REGISTER))
}

/// `host.length(text)`: returns at once, without a request.
fn length(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let text = ctx.check_str(1)?;
    let len = ctx.heap.bytes(text).len();
    ctx.one(Value::number(len as f64))
}

fn show(heap: &Heap, value: Value) -> String {
    match value.kind() {
        Kind::Number => value.as_number().unwrap_or_default().to_string(),
        Kind::String => value
            .as_str()
            .map(|text| String::from_utf8_lossy(heap.bytes(text)).into_owned())
            .unwrap_or_default(),
        kind => kind.name().to_string(),
    }
}

/// A table with a list of strings.
fn list(heap: &mut Heap, items: &[&str]) -> Result<Value, Fault> {
    let table = heap.new_table(items.len(), 0)?;
    for (at, item) in items.iter().enumerate() {
        let text = heap.new_string(item.as_bytes())?;
        heap.set_int(table, at as i64 + 1, text)?;
    }
    Ok(table.into())
}

/// Continues the started run, at most `slices` times, and pins the functions that it registers. Returns the
/// run's results or its error as text ("dropped" if the run did not end in time), and the pinned functions.
fn finish(vm: &mut Vm, slices: usize) -> Result<(String, Vec<Pinned>), Fault> {
    let mut pins = Vec::new();
    let mut shown = "dropped".to_string();
    for _ in 0..slices {
        let Some(mut run) = vm.run() else { break };
        match run.resume_unwatched(10_000) {
            RunOutcome::Done => {
                let texts: Vec<_> = run.results().iter().map(|value| show(run.objects(), *value)).collect();
                shown = texts.join(", ");
                break;
            }
            RunOutcome::Failed(error) => {
                shown = format!("error: {}", show(run.objects(), error));
                break;
            }
            // The host could serve other clients here.
            RunOutcome::OutOfBudget => {}
            RunOutcome::Call(REGISTER) => {
                let function = run.request_args()[0];
                run.answer(&[]);
                pins.push(vm.pin(function));
            }
            RunOutcome::Call(_) => match show(run.objects(), run.request_args()[0]).as_str() {
                "GET" => {
                    let value = run.heap().new_string(b"value")?;
                    run.answer(&[value]);
                }
                other => {
                    // The error is a table, of which `pcall` returns only the text in `err`.
                    let text = run.heap().new_string(format!("ERR unknown command '{other}'").as_bytes())?;
                    let error = run.heap().new_table(0, 1)?;
                    run.heap().set_text(error, b"err", text)?;
                    run.answer_error(Fault::value(error.into()));
                }
            },
        }
    }
    // `end` returns the objects of a large run, so that another thread could free them.
    drop(vm.end());
    Ok((shown, pins))
}

fn program(source: &str, name: &[u8]) -> Result<Arc<Proto>, Fault> {
    compile(source.as_bytes(), name).map_err(Fault::text)
}

fn main() -> Result<(), Fault> {
    let mut vm = Vm::new(64 << 20)?;
    let functions =
        [Native::plain("call", call), Native::plain("register", register), Native::plain("length", length)];
    vm.library().table(b"host", &functions)?;
    let keys = vm.declare(b"KEYS")?;
    vm.look_into_errors();
    vm.seal(true);

    let source = "local n = 0 host.register(function(k) n = n + 1 return n, k[1] end)";
    let library = vm.load(&program(source, b"@library")?)?;
    vm.start(library);
    let (_, pins) = finish(&mut vm, usize::MAX)?;
    for _ in 0..2 {
        let argument = list(vm.heap(), &["key"])?;
        let function = vm.pinned(pins[0]);
        vm.start_call(function, &[argument]);
        println!("the library's function: {}", finish(&mut vm, usize::MAX)?.0);
    }

    for source in [
        "return host.call('GET') .. ' of ' .. KEYS[1], host.length('abc')",
        "local ok, text = pcall(host.call, 'SET') return ok, text",
        "host.call = nil",
        "while true do end",
    ] {
        let chunk = vm.load(&program(source, b"@user_script")?)?;
        let mut run = vm.start(chunk);
        let table = list(run.heap(), &["a", "b"])?;
        run.set_global(keys, table)?;
        println!("{source}: {}", finish(&mut vm, 100)?.0);
        vm.unload(chunk);
    }

    vm.unpin(pins[0]);
    vm.unload(library);
    while !vm.collect(8192) {}
    println!("{} bytes in use", vm.bytes());
    Ok(())
}
