//! A library of functions, from its text to functions that can be called.
//!
//! The first line names it, the rest is a program that registers functions while it runs. Each library has a
//! machine of its own, so that what its functions keep goes with it, and a load that fails leaves nothing
//! behind.

use crate::scripting::machine::{MachineKind, ScriptMachine, ScriptRequest, log_line, thrown};
use crate::scripting::shebang::ScriptFlags;
use sluice_base::quote::{Dialect, split_args};
use sluice_base::{LogLevel, heap};
use sluice_commands::until_zero;
use sluice_lua::{Fault, Heap, Kind, LoadedChunk, Pinned, RunOutcome, TableRef, Value, compile};
use std::sync::Arc;

/// Units of the machine's budget between two looks at the clock, where a library is loaded in one go.
const BUDGET: u64 = 10_000;

/// Bytes that the compiler takes for a byte of a program, at most about.
const COMPILED_PER_BYTE: usize = 16;

/// What whoever loads a library is told that runs for too long.
pub(crate) const LOAD_TIMEOUT: &[u8] = b"Error registering functions: ERR FUNCTION LOAD timeout";

/// The first line of a library: `#!lua name=...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LibraryHead {
    /// The library's name.
    pub name: Vec<u8>,
    /// Bytes of the line, without its end: the program begins behind them.
    pub len: usize,
}

/// Reads the first line of a library.
///
/// # Errors
/// The text of the error, without a code.
pub(crate) fn library_head(code: &[u8]) -> Result<LibraryHead, Vec<u8>> {
    if !code.starts_with(b"#!") {
        return Err(b"Missing library metadata".to_vec());
    }
    let end = code.iter().position(|byte| matches!(byte, b'\n' | 0)).filter(|at| code[*at] == b'\n');
    let words = end.and_then(|end| split_args(&code[..end], Dialect::Config).ok());
    let (Some(len), Some((engine, options))) = (end, words.as_deref().and_then(<[_]>::split_first)) else {
        return Err(b"Invalid library metadata".to_vec());
    };
    let mut name = None;
    for option in options {
        let given = option.split_at_checked(5).filter(|(word, _)| word.eq_ignore_ascii_case(b"name="));
        match (given, &name) {
            (Some((_, given)), None) => name = Some(given.to_vec()),
            (Some(_), Some(_)) => {
                return Err(b"Invalid metadata value, name argument was given multiple times".to_vec());
            }
            (None, _) => return Err([b"Invalid metadata value given: ", until_zero(option)].concat()),
        }
    }
    let name = name.ok_or_else(|| b"Library name was not given".to_vec())?;
    if !is_name(&name) {
        return Err(
            b"Library names can only contain letters, numbers, or underscores(_) and must be at least one \
                     character long"
                .to_vec(),
        );
    }
    let engine = engine.get(2..).unwrap_or_default();
    match engine.eq_ignore_ascii_case(b"lua") {
        true => Ok(LibraryHead { name, len }),
        false => Err([b"Engine '", engine, b"' not found"].concat()),
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// A function that a library has registered.
#[derive(Debug)]
pub(crate) struct LibraryFunction {
    pub name: Arc<[u8]>,
    /// What it is good for, in the library's words.
    pub description: Option<Box<[u8]>>,
    pub flags: ScriptFlags,
    /// The function in the library's machine.
    pub callback: Pinned,
}

impl LibraryFunction {
    /// Bytes that it takes beside the machine, about.
    fn footprint(&self) -> usize {
        size_of::<LibraryFunction>()
            + self.name.len()
            + self.description.as_ref().map_or(0, |text| text.len())
    }
}

/// A library whose functions can be called.
#[derive(Debug)]
pub(crate) struct Library {
    pub name: Arc<[u8]>,
    /// Its text, the first line included.
    pub code: Arc<[u8]>,
    /// In the order in which they were registered.
    pub functions: Vec<LibraryFunction>,
    /// Bytes that its compiled functions take, about.
    function_bytes: usize,
    /// Its machine: none while a run has it.
    pub machine: Option<Box<ScriptMachine>>,
}

impl Library {
    /// Bytes that it takes beside its machine, about.
    pub(crate) fn footprint(&self) -> usize {
        let functions: usize = self.functions.iter().map(LibraryFunction::footprint).sum();
        size_of::<Library>() + self.name.len() + self.code.len() + self.function_bytes + functions
    }
}

/// What machines of libraries may use, and whether they have the old functions that break out of their
/// sandbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineLimits {
    /// Bytes.
    pub bytes: usize,
    /// `lua-enable-insecure-api`
    pub is_insecure: bool,
}

/// A library that is being loaded: its program runs, and registers functions.
#[derive(Debug)]
pub(crate) struct LibraryLoad {
    pub name: Arc<[u8]>,
    code: Arc<[u8]>,
    functions: Vec<LibraryFunction>,
    /// Bytes of these.
    bytes: usize,
    chunk: LoadedChunk,
    /// Bytes that the compiled program takes, about, and of them those of its functions.
    program_bytes: usize,
    function_bytes: usize,
    /// A library of the same name makes room.
    pub replaces: bool,
    /// Nanoseconds that are left for its program.
    pub ns_left: u64,
}

impl LibraryLoad {
    /// Bytes that it takes beside its machine, about.
    pub(crate) fn footprint(&self) -> usize {
        heap::boxed::<LibraryLoad>() + self.name.len() + self.code.len() + self.bytes + self.program_bytes
    }

    /// Compiles a library and starts its program, in a machine of its own.
    ///
    /// # Errors
    /// The text of the error, without a code.
    pub(crate) fn begin(
        head: LibraryHead,
        code: Arc<[u8]>,
        replaces: bool,
        limits: MachineLimits,
    ) -> Result<(LibraryLoad, Box<ScriptMachine>), Vec<u8>> {
        let wrong = |text: &[u8]| [b"Error compiling function: ", text].concat();
        let no_memory = |_: Fault| wrong(b"not enough memory");
        // As in the reference, a zero byte ends the program.
        let program = until_zero(&code[head.len..]);
        if program.len() > limits.bytes / COMPILED_PER_BYTE {
            return Err(wrong(b"not enough memory"));
        }
        let program = compile(program, b"@user_function").map_err(|text| wrong(&text))?;
        let machine = ScriptMachine::open(MachineKind::Functions, limits.bytes, limits.is_insecure);
        let mut machine = Box::new(machine.map_err(no_memory)?);
        let chunk = machine.vm.load(&program).map_err(no_memory)?;
        machine.vm.start(chunk);
        let name = head.name.into();
        let load = LibraryLoad {
            name,
            code,
            functions: Vec::new(),
            bytes: 0,
            chunk,
            program_bytes: program.bytes(),
            function_bytes: program.inner_bytes(),
            replaces,
            ns_left: u64::MAX,
        };
        Ok((load, machine))
    }

    /// Serves `server.register_function`, for which the program has stopped.
    pub(crate) fn register(&mut self, machine: &mut ScriptMachine) {
        let args = machine.vm.run().map(|run| run.request_args().to_vec()).unwrap_or_default();
        let answered = match read_registration(machine.vm.heap(), &args) {
            // Names and descriptions lie outside of the machine's account.
            Ok(_) if self.bytes > machine.limit / 8 => Err(Fault::memory()),
            Ok(Registration { name, description, flags, callback }) => {
                let callback = machine.vm.pin(callback);
                let function = LibraryFunction { name, description, flags, callback };
                self.bytes += function.footprint();
                self.functions.push(function);
                Ok(())
            }
            Err(text) => Err(thrown(machine.vm.heap(), text.as_bytes())),
        };
        let Some(mut run) = machine.vm.run() else { return };
        match answered {
            Ok(()) => run.answer(&[]),
            Err(fault) => run.answer_error(fault),
        }
    }

    /// Runs the program to its end. `look` is called now and then, and may break it off with the text of an
    /// error; `log` gets what the program logs.
    ///
    /// # Errors
    /// The text of the error, without a code.
    pub(crate) fn run(
        &mut self,
        machine: &mut ScriptMachine,
        look: &mut dyn FnMut() -> Result<(), Vec<u8>>,
        log: &mut dyn FnMut(LogLevel, String),
    ) -> Result<(), Vec<u8>> {
        loop {
            let outcome = machine.vm.run().map_or(RunOutcome::Done, |mut run| run.resume(BUDGET));
            match outcome {
                RunOutcome::Done => return Ok(()),
                RunOutcome::Failed(error) => return Err(failed(machine.vm.heap(), error)),
                RunOutcome::OutOfBudget => look()?,
                RunOutcome::Call(code) => match ScriptRequest::of(code) {
                    Some(ScriptRequest::RegisterFunction) => {
                        look()?;
                        self.register(machine);
                    }
                    Some(ScriptRequest::Log) => {
                        let (level, line) = log_line(machine);
                        log(level, line);
                        answer_nothing(machine);
                    }
                    // A library that is loaded sees none of the others.
                    _ => answer_nothing(machine),
                },
            }
        }
    }

    /// The library, whose program has ended; `machine` is to be given to it.
    ///
    /// # Errors
    /// The text of the error, without a code: a name of a function is no good, or there is no function.
    pub(crate) fn finish(self, machine: &mut ScriptMachine) -> Result<Library, Vec<u8>> {
        let LibraryLoad { name, code, functions, chunk, function_bytes, .. } = self;
        if machine.end_load().is_err() {
            return Err(b"Error registering functions: not enough memory".to_vec());
        }
        machine.vm.end_and_keep();
        machine.vm.unload(chunk);
        let mut names = std::collections::BTreeSet::new();
        for function in &functions {
            if !is_name(&function.name) {
                return Err(
                    b"Function names can only contain letters, numbers, or underscores(_) and must be at \
                             least one character long"
                        .to_vec(),
                );
            }
            if !names.insert(&function.name) {
                return Err(b"Function already exists in the library".to_vec());
            }
        }
        if functions.is_empty() {
            return Err(b"No functions registered".to_vec());
        }
        Ok(Library { name, code, functions, function_bytes, machine: None })
    }
}

/// A library, loaded in one go: see [`LibraryLoad::run`].
///
/// # Errors
/// The text of the error, without a code.
pub(crate) fn load_library(
    head: LibraryHead,
    code: Arc<[u8]>,
    limits: MachineLimits,
    look: &mut dyn FnMut() -> Result<(), Vec<u8>>,
    log: &mut dyn FnMut(LogLevel, String),
) -> Result<Library, Vec<u8>> {
    let (mut load, mut machine) = LibraryLoad::begin(head, code, false, limits)?;
    load.run(&mut machine, look, log)?;
    let library = load.finish(&mut machine)?;
    Ok(Library { machine: Some(machine), ..library })
}

/// What an error that the program has not caught is told as.
pub(crate) fn failed(heap: &mut Heap, error: Value) -> Vec<u8> {
    let told = match error.as_table() {
        Some(table) => {
            let told = heap.get_text(table, b"err");
            text_of(heap, told).unwrap_or_else(|| b"ERR unknown error".to_vec())
        }
        None => [b"ERR ", &*text_of(heap, error).unwrap_or_else(|| b"unknown error".to_vec())].concat(),
    };
    [b"Error registering functions: ", &*told].concat()
}

fn answer_nothing(machine: &mut ScriptMachine) {
    if let Some(mut run) = machine.vm.run() {
        run.answer(&[]);
    }
}

/// The arguments of `server.register_function`.
struct Registration {
    name: Arc<[u8]>,
    description: Option<Box<[u8]>>,
    flags: ScriptFlags,
    callback: Value,
}

/// A text, or a number as a text.
fn text_of(heap: &mut Heap, value: Value) -> Option<Vec<u8>> {
    let text = match value.as_number() {
        Some(number) => heap.number_string(number).ok()?.as_str(),
        None => value.as_str(),
    };
    text.map(|text| heap.bytes(text).to_vec())
}

fn is_function(value: Value) -> bool {
    matches!(value.kind(), Kind::Closure | Kind::Native)
}

fn read_registration(heap: &mut Heap, args: &[Value]) -> Result<Registration, &'static str> {
    match *args {
        [named] => read_named(heap, named),
        [name, callback] => {
            let name =
                text_of(heap, name).ok_or("first argument to server.register_function must be a string")?;
            if !is_function(callback) {
                return Err("second argument to server.register_function must be a function");
            }
            let flags = ScriptFlags::default();
            Ok(Registration { name: name.into(), description: None, flags, callback })
        }
        _ => Err("wrong number of arguments to server.register_function"),
    }
}

fn read_named(heap: &mut Heap, named: Value) -> Result<Registration, &'static str> {
    let table = named.as_table().ok_or(
        "calling server.register_function with a single argument is only applicable to Lua table (representing named \
         arguments).",
    )?;
    let (mut name, mut description, mut callback, mut flags) = (None, None, None, ScriptFlags::default());
    let mut at = Value::NIL;
    while let Ok(Some((key, value))) = heap.next(table, at) {
        at = key;
        let key = text_of(heap, key)
            .ok_or("named argument key given to server.register_function is not a string")?;
        match &*until_zero(&key).to_ascii_lowercase() {
            b"function_name" => {
                let text = text_of(heap, value)
                    .ok_or("function_name argument given to server.register_function must be a string")?;
                name = Some(text);
            }
            b"description" => {
                let text = text_of(heap, value)
                    .ok_or("description argument given to server.register_function must be a string")?;
                description = Some(text.into());
            }
            b"callback" if is_function(value) => callback = Some(value),
            b"callback" => {
                return Err("callback argument given to server.register_function must be a function");
            }
            b"flags" => {
                let list = value.as_table().ok_or(
                    "flags argument to server.register_function must be a table representing function flags",
                )?;
                flags = read_flags(heap, list).ok_or("unknown flag given")?;
            }
            _ => return Err("unknown argument given to server.register_function"),
        }
    }
    let name: Vec<u8> = name.ok_or("server.register_function must get a function name argument")?;
    let callback = callback.ok_or("server.register_function must get a callback argument")?;
    Ok(Registration { name: name.into(), description, flags, callback })
}

fn read_flags(heap: &mut Heap, list: TableRef) -> Option<ScriptFlags> {
    let mut flags = ScriptFlags::default();
    for index in 1.. {
        let value = heap.get_int(list, index);
        if value.is_nil() {
            break;
        }
        let name = text_of(heap, value)?.to_ascii_lowercase();
        flags = flags.or(ScriptFlags::named(until_zero(&name))?);
    }
    Some(flags)
}

#[cfg(test)]
mod tests;
