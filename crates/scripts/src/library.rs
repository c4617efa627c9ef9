//! A library of functions: from its text to functions that can be called.
//!
//! The first line has the library's name; the rest is a program that registers functions while it runs.
//! Each library has its own machine, so the data of its functions are freed together with it, and a failed
//! load leaves no data.

use crate::machine::{LibraryImages, ScriptMachine, ScriptRequest, log_line, thrown};
use crate::shebang::ScriptFlags;
use sluice_base::quote::{Dialect, split_args};
use sluice_base::{LogLevel, heap};
use sluice_commands::until_zero;
use sluice_lua::{Fault, Heap, Kind, LoadedChunk, Pinned, RunLimit, RunOutcome, TableRef, Value, compile_as};
use std::sync::Arc;

/// Maximum number of functions that a client's library registers. There is a limit because their names are
/// sorted in one step.
const FUNCTIONS_MAX: usize = 10_000;

/// Maximum number of flags, and maximum number of named arguments, of a function of a client's library.
/// There is a limit because all of them are read in one step.
const WORDS_MAX: usize = 1000;

/// Number of bytes of a word in the arguments of `server.register_function` that are examined. All known
/// words are shorter.
const WORD_BYTES_MAX: usize = 64;

/// Maximum number of lines that a library logs while it is loaded.
const LINES_MAX: u32 = 100;

/// Nanoseconds after which the log reports that the program of an already accepted library still runs. The
/// report is repeated whenever the program's time has doubled.
const SAID_NS: u64 = 10_000_000_000;

/// For each byte of a program, the compiler needs at most about this many bytes of memory.
const COMPILED_PER_BYTE: usize = 16;

/// The error for a client whose library runs for too long while it is loaded.
pub(crate) const LOAD_TIMEOUT: &[u8] = b"Error registering functions: ERR FUNCTION LOAD timeout";

/// The parsed first line of a library: `#!lua name=...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryHead {
    /// The library's name: letters, digits and underscores.
    pub name: Vec<u8>,
    /// Length in bytes of the first line, without its line end; the program follows.
    pub len: usize,
}

/// The error of a load that was broken off; the log does not show it.
const BROKEN_OFF: &[u8] = b"The load was broken off";

/// Reads the first line of a library.
///
/// # Errors
/// The text of the error, without a code.
pub fn library_head(code: &[u8]) -> Result<LibraryHead, Vec<u8>> {
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
pub struct LibraryFunction {
    /// The function's name, in its original case.
    pub name: Arc<[u8]>,
    /// The description that the registration gave, if any.
    pub description: Option<Box<[u8]>>,
    /// The flags that the registration gave.
    pub flags: ScriptFlags,
    /// The function in the library's machine.
    pub callback: Pinned,
}

impl LibraryFunction {
    /// Approximate bytes of the function, without the machine.
    fn footprint(&self) -> usize {
        size_of::<LibraryFunction>()
            + self.name.len()
            + self.description.as_ref().map_or(0, |text| text.len())
    }
}

/// A loaded library, whose functions can be called.
#[derive(Debug)]
pub struct Library {
    /// The library's name, in its original case.
    pub name: Arc<[u8]>,
    /// The library's text, including the first line.
    pub code: Arc<[u8]>,
    /// The functions in the order of registration.
    pub functions: Vec<LibraryFunction>,
    /// Approximate bytes of the compiled functions.
    function_bytes: usize,
    /// The library's machine; `None` while a run has taken it.
    pub machine: Option<Box<ScriptMachine>>,
}

impl Library {
    /// Approximate bytes of the library, without its machine.
    pub(crate) fn footprint(&self) -> usize {
        let functions: usize = self.functions.iter().map(LibraryFunction::footprint).sum();
        size_of::<Library>() + self.name.len() + self.code.len() + self.function_bytes + functions
    }
}

/// The options of loading a library: the memory limit of its Lua machine, whether the machine has the
/// insecure functions of old versions, and whether a client asks for the load.
#[derive(Clone, Copy, Debug)]
pub struct MachineLimits {
    /// Maximum memory of a machine in bytes.
    pub bytes: usize,
    /// `lua-enable-insecure-api`: whether `getfenv`, `setfenv` and `newproxy` exist.
    pub is_insecure: bool,
    /// Whether a client asks for the load. A library that was accepted earlier, and now comes from a file
    /// or the primary, is not subject to the limits on clients' requests.
    pub is_wish: bool,
}

impl MachineLimits {
    /// The memory limit in bytes for libraries from the primary or from a log that is replayed. In effect
    /// there is no limit.
    pub(crate) const ACCEPTED_BYTES: usize = usize::MAX / 2;

    /// The memory limit in bytes, at least, of a library from a file while the library is loaded.
    ///
    /// Loading a library runs its program, which may never end. Without a limit a file could take all
    /// memory of the computer, and the kernel would kill the server without a message. With the default
    /// configuration, a server accepts libraries that need 1 GiB. The limit is twice that, or
    /// `script-memory-limit` if that setting is higher. A library that was accepted under a higher limit
    /// needs that limit at the next start. A start that refuses a library logs the reason, and changes no
    /// file.
    pub(crate) const FILE_BYTES_MIN: usize = 2 << 30;

    /// These limits without a bound on bytes, for libraries that the primary has accepted.
    pub fn of_accepted(self) -> MachineLimits {
        MachineLimits { bytes: MachineLimits::ACCEPTED_BYTES, is_wish: false, ..self }
    }

    /// These limits for a library from a file: see `MachineLimits::FILE_BYTES_MIN`.
    pub fn of_file(self) -> MachineLimits {
        MachineLimits { bytes: self.bytes.max(MachineLimits::FILE_BYTES_MIN), is_wish: false, ..self }
    }
}

/// The clock and the log of a caller that loads a library in one call.
pub trait LoadWatch {
    /// Nanoseconds of the monotonic clock; `u64::MAX` breaks the load off.
    fn now_ns(&mut self) -> u64;

    /// Writes a line to the log.
    fn log(&mut self, level: LogLevel, line: &str);
}

/// A library that is being loaded, while its program runs and registers functions.
#[derive(Debug)]
pub struct LibraryLoad {
    /// The library's name, from its first line.
    pub name: Arc<[u8]>,
    code: Arc<[u8]>,
    functions: Vec<LibraryFunction>,
    /// Bytes of the functions registered so far.
    bytes: usize,
    chunk: LoadedChunk,
    /// Approximate bytes of the compiled program.
    program_bytes: usize,
    /// The part of `program_bytes` that is in the program's functions.
    function_bytes: usize,
    /// Whether an existing library of the same name is replaced.
    pub replaces: bool,
    /// Nanoseconds that are left for the program; `u64::MAX` if there is no limit.
    pub ns_left: u64,
    /// The number of lines that the program has logged.
    lines: u32,
    /// Whether a client asks for the load: see [`MachineLimits::is_wish`].
    is_wish: bool,
}

impl LibraryLoad {
    /// Approximate bytes of the load, without the machine.
    pub fn footprint(&self) -> usize {
        heap::boxed::<LibraryLoad>() + self.name.len() + self.code.len() + self.bytes + self.program_bytes
    }

    /// Compiles a library in a new Lua machine. [`LibraryLoad::start`] then starts the library's program.
    ///
    /// # Errors
    /// The text of the error, without a code.
    pub fn begin(
        head: LibraryHead,
        code: Arc<[u8]>,
        replaces: bool,
        limits: MachineLimits,
        images: &mut LibraryImages,
    ) -> Result<(LibraryLoad, Box<ScriptMachine>), Vec<u8>> {
        let wrong = |text: &[u8]| [b"Error compiling function: ", text].concat();
        let no_memory = |_: Fault| wrong(b"not enough memory");
        // As in the reference, a zero byte ends the program.
        let program = until_zero(&code[head.len..]);
        if program.len() > limits.bytes / COMPILED_PER_BYTE {
            return Err(wrong(b"not enough memory"));
        }
        let machine = images.machine(limits.bytes, limits.is_insecure);
        let mut machine = Box::new(machine.map_err(no_memory)?);
        let program = compile_as(program, &machine.chunk_name).map_err(|text| wrong(&text))?;
        let (program_bytes, function_bytes) = (program.linked_bytes(), program.inner_bytes());
        let (chunk, _) = machine.vm.load_owned(program).map_err(no_memory)?;
        let name = head.name.into();
        let load = LibraryLoad {
            name,
            code,
            functions: Vec::new(),
            bytes: 0,
            chunk,
            program_bytes,
            function_bytes,
            replaces,
            ns_left: u64::MAX,
            lines: 0,
            is_wish: limits.is_wish,
        };
        Ok((load, machine))
    }

    /// Starts the library's program in the machine of [`LibraryLoad::begin`].
    pub fn start(&self, machine: &mut ScriptMachine) {
        machine.vm.start(self.chunk);
    }

    /// Serves a request of the program for `server.register_function`.
    pub fn register(&mut self, machine: &mut ScriptMachine) {
        let args = machine.vm.run().map(|run| run.request_args().to_vec()).unwrap_or_default();
        let words_max = if self.is_wish { WORDS_MAX } else { usize::MAX };
        let answered = match read_registration(machine.vm.heap(), &args, words_max) {
            // Names and descriptions have a limit of their own, because the machine does not count them.
            Ok(_) if self.bytes > machine.limit / 8 => Err(Fault::memory()),
            Ok(_) if self.is_wish && self.functions.len() >= FUNCTIONS_MAX => {
                Err(thrown(machine.vm.heap(), b"a library registers at most 10000 functions"))
            }
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

    /// Serves a request of the program for `server.log`. Lines beyond `LINES_MAX` are left out, and one
    /// line of the log reports this.
    pub fn log(&mut self, machine: &mut ScriptMachine, write: &mut dyn FnMut(LogLevel, &str)) {
        self.lines = self.lines.saturating_add(1);
        if self.lines <= LINES_MAX {
            let (level, line) = log_line(machine);
            write(level, &line);
        } else if self.lines == LINES_MAX + 1 {
            let name = String::from_utf8_lossy(&self.name);
            let text = format!(
                "The library '{name}' has logged {LINES_MAX} lines while it is loaded: further lines are left out"
            );
            write(LogLevel::Warning, &text);
        }
        answer_nothing(machine);
    }

    /// Runs the program to its end, or until `watch` breaks the load off.
    ///
    /// # Errors
    /// The text of the error, without a code.
    pub(crate) fn run(
        &mut self,
        machine: &mut ScriptMachine,
        watch: &mut dyn LoadWatch,
    ) -> Result<(), Vec<u8>> {
        let began_ns = watch.now_ns();
        let mut said_ns = SAID_NS;
        let mut limit = RunLimit::until(began_ns, began_ns.saturating_add(said_ns));
        loop {
            let outcome = match machine.vm.run() {
                Some(mut run) => run.resume(&mut limit, &mut || watch.now_ns()),
                None => RunOutcome::Done,
            };
            match outcome {
                RunOutcome::Done => return Ok(()),
                RunOutcome::Failed(error) => return Err(failed(machine.vm.heap(), error)),
                RunOutcome::OutOfBudget if limit.seen_ns() == u64::MAX => return Err(BROKEN_OFF.to_vec()),
                RunOutcome::OutOfBudget => {
                    let ran_ns = limit.seen_ns().saturating_sub(began_ns);
                    while said_ns <= ran_ns {
                        said_ns = said_ns.saturating_mul(2);
                    }
                    let name = String::from_utf8_lossy(&self.name);
                    let ran_s = ran_ns / 1_000_000_000;
                    let text = format!(
                        "The library '{name}' has been running for {ran_s} s while it is loaded. It was accepted before and has no \
                         limit of time: where its program has no end, stop the server and load without that library"
                    );
                    watch.log(LogLevel::Warning, &text);
                    limit = RunLimit::until(limit.seen_ns(), began_ns.saturating_add(said_ns));
                }
                RunOutcome::Call(code) => match ScriptRequest::of(code) {
                    Some(ScriptRequest::RegisterFunction) => self.register(machine),
                    Some(ScriptRequest::Log) => self.log(machine, &mut |level, line| watch.log(level, line)),
                    // A library's program cannot call any other function that makes a request.
                    _ => answer_nothing(machine),
                },
            }
        }
    }

    /// The loaded library, after its program has ended. The caller puts `machine` into it.
    ///
    /// # Errors
    /// The text of the error, without a code: a function's name is not allowed or exists twice, or no
    /// function was registered.
    pub fn finish(self, machine: &mut ScriptMachine) -> Result<Library, Vec<u8>> {
        let LibraryLoad { name, code, functions, chunk, function_bytes, .. } = self;
        machine.end_load();
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

/// Loads a library in one call, and runs its program to the end: see [`LibraryLoad::run`].
///
/// # Errors
/// The text of the error, without a code.
pub(crate) fn load_library(
    head: LibraryHead,
    code: Arc<[u8]>,
    limits: MachineLimits,
    images: &mut LibraryImages,
    watch: &mut dyn LoadWatch,
) -> Result<Library, Vec<u8>> {
    let name = head.name.clone();
    let loaded = load_in_one_go(head, code, limits, images, watch);
    loaded.map_err(|error| match is_out_of_memory(&error) && !limits.is_wish {
        true => beyond_memory(Some(&name), limits.bytes).into_bytes(),
        false => error,
    })
}

/// Whether the load of a library failed because the program needs more memory than its limit.
pub fn is_out_of_memory(error: &[u8]) -> bool {
    error.trim_ascii_end().ends_with(b"not enough memory")
}

/// The message about a library from a file that needs more memory than `bytes` while it is loaded.
pub fn beyond_memory(name: Option<&[u8]>, bytes: usize) -> String {
    let library = match name {
        Some(name) => format!("the library '{}'", String::from_utf8_lossy(name)),
        None => "a library".to_owned(),
    };
    format!(
        "{library} needs more than {} MiB of memory while it is loaded. The files are as they were: start with a \
         script-memory-limit above that, or, where its program takes memory without end, load without that library",
        bytes >> 20
    )
}

fn load_in_one_go(
    head: LibraryHead,
    code: Arc<[u8]>,
    limits: MachineLimits,
    images: &mut LibraryImages,
    watch: &mut dyn LoadWatch,
) -> Result<Library, Vec<u8>> {
    let (mut load, mut machine) = LibraryLoad::begin(head, code, false, limits, images)?;
    load.start(&mut machine);
    load.run(&mut machine, watch)?;
    let library = load.finish(&mut machine)?;
    // The machine's stack is dropped, because the functions of all libraries use one stack, which is kept
    // in `RunBuffers` between runs.
    drop(machine.vm.take_stack());
    Ok(Library { machine: Some(machine), ..library })
}

/// The text of an error that the program has not caught.
pub fn failed(heap: &mut Heap, error: Value) -> Vec<u8> {
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

/// The text of a string or number value; `None` for any other value.
fn text_of(heap: &mut Heap, value: Value) -> Option<Vec<u8>> {
    let text = match value.as_number() {
        Some(number) => heap.number_string(number).ok()?.as_str(),
        None => value.as_str(),
    };
    text.map(|text| {
        heap.note_bytes(heap.bytes(text).len());
        heap.bytes(text).to_vec()
    })
}

/// A word to be looked up, in lower case: the text up to its first zero byte, cut off if the text is
/// longer than any known word. `None` for a value that is neither a string nor a number.
fn word_of(heap: &mut Heap, value: Value) -> Option<Vec<u8>> {
    let text = match value.as_number() {
        Some(number) => heap.number_string(number).ok()?.as_str(),
        None => value.as_str(),
    };
    text.map(|text| {
        let text = heap.bytes(text);
        until_zero(&text[..text.len().min(WORD_BYTES_MAX)]).to_ascii_lowercase()
    })
}

fn is_function(value: Value) -> bool {
    matches!(value.kind(), Kind::Closure | Kind::Native)
}

fn read_registration(
    heap: &mut Heap,
    args: &[Value],
    words_max: usize,
) -> Result<Registration, &'static str> {
    match *args {
        [named] => read_named(heap, named, words_max),
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

fn read_named(heap: &mut Heap, named: Value, words_max: usize) -> Result<Registration, &'static str> {
    let table = named.as_table().ok_or(
        "calling server.register_function with a single argument is only applicable to Lua table (representing named \
         arguments).",
    )?;
    let (mut name, mut description, mut callback, mut flags) = (None, None, None, ScriptFlags::default());
    let (mut at, mut count) = (Value::NIL, 0);
    while let Ok(Some((key, value))) = heap.next(table, at) {
        at = key;
        count += 1;
        if count > words_max {
            return Err("too many arguments given to server.register_function");
        }
        let key = word_of(heap, key)
            .ok_or("named argument key given to server.register_function is not a string")?;
        match &*key {
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
                flags = read_flags(heap, list, words_max)?;
            }
            _ => return Err("unknown argument given to server.register_function"),
        }
    }
    let name: Vec<u8> = name.ok_or("server.register_function must get a function name argument")?;
    let callback = callback.ok_or("server.register_function must get a callback argument")?;
    Ok(Registration { name: name.into(), description, flags, callback })
}

fn read_flags(heap: &mut Heap, list: TableRef, words_max: usize) -> Result<ScriptFlags, &'static str> {
    let mut flags = ScriptFlags::default();
    for index in 1.. {
        let value = heap.get_int(list, index);
        if value.is_nil() {
            break;
        }
        if index as usize > words_max {
            return Err("too many flags given to server.register_function");
        }
        let flag = word_of(heap, value).and_then(|name| ScriptFlags::named(&name));
        flags = flags.or(flag.ok_or("unknown flag given")?);
    }
    Ok(flags)
}

#[cfg(test)]
pub(crate) mod tests;
