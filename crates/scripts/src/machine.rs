//! The Lua machine of scripts, as the server opens it: with the tables `server` and `redis`, and
//! read-only globals.
//!
//! Functions that need the server return [`NativeStep::Request`] with a number of [`ScriptRequest`];
//! `scripting/run.rs` of the crate `engine` serves the request. All other functions are implemented here.

use std::ops::Range;
use std::sync::Arc;

use sha1::{Digest, Sha1};
use sluice_base::LogLevel;
use sluice_commands::until_zero;
use sluice_lua::{
    ChunkName, Ctx, Fault, Global, Heap, Library, LoadedChunk, Native, NativeStep, State, TableRef, Value,
    Vm, VmImage,
};

/// A request of a script to the server. There is one variant for each function that makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptRequest {
    /// `server.call`: run a command; an error reply is raised as an error in the script.
    Call,
    /// `server.pcall`: run a command; an error reply is returned to the script.
    Pcall,
    /// `server.log`: write a line to the server's log.
    Log,
    /// `server.setresp`: choose the protocol of replies to the script.
    SetResp,
    /// `server.set_repl`: choose who receives the script's changes.
    SetRepl,
    /// `server.acl_check_cmd`: check the user's permission for a command.
    AclCheckCmd,
    /// `server.breakpoint`: stop the run in the debugger.
    Breakpoint,
    /// `server.debug`: show values in the debugger.
    Debug,
    /// `server.register_function`: register a function of a library.
    RegisterFunction,
}

impl ScriptRequest {
    const ALL: [ScriptRequest; 9] = [
        ScriptRequest::Call,
        ScriptRequest::Pcall,
        ScriptRequest::Log,
        ScriptRequest::SetResp,
        ScriptRequest::SetRepl,
        ScriptRequest::AclCheckCmd,
        ScriptRequest::Breakpoint,
        ScriptRequest::Debug,
        ScriptRequest::RegisterFunction,
    ];

    /// The request with the number that a native function returned; `None` for an unknown number.
    #[inline]
    pub fn of(code: u32) -> Option<ScriptRequest> {
        ScriptRequest::ALL.get(code as usize).copied()
    }
}

/// The kind of code that a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineKind {
    /// Scripts of EVAL and EVALSHA, all in one machine.
    Eval,
    /// The functions of one library.
    Functions,
}

/// A Lua machine with the server's functions.
#[derive(Debug)]
pub struct ScriptMachine {
    /// The Lua machine itself.
    pub vm: Vm,
    /// The global `KEYS`; `None` in a library's machine.
    pub keys: Option<Global>,
    /// The global `ARGV`; `None` in a library's machine.
    pub argv: Option<Global>,
    /// The globals of a library's functions during their runs. While the library is loaded, its program
    /// sees other globals. `None` for EVAL.
    pub run_globals: Option<TableRef>,
    /// Maximum memory of the machine in bytes.
    pub limit: usize,
    /// Whether the machine has the functions of `lua-enable-insecure-api`.
    pub is_insecure: bool,
    /// The name of the machine's chunks in error messages.
    pub chunk_name: Arc<ChunkName>,
}

/// Which of the globals `KEYS` and `ARGV` a script can read. A global that the script cannot read need not
/// be made for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalsRead {
    /// Whether the script can read `KEYS`.
    pub keys: bool,
    /// Whether the script can read `ARGV`.
    pub argv: bool,
}

impl GlobalsRead {
    /// Both globals, for a script that can look up any name.
    pub const ALL: GlobalsRead = GlobalsRead { keys: true, argv: true };
}

/// Names that give access to any global, because they stand for the table of globals, or for functions that
/// compile text or return an environment.
const ANY_GLOBAL: [&[u8]; 5] = [b"_G", b"load", b"loadstring", b"getfenv", b"setfenv"];

/// State of the generator of `math.random` when the server starts.
pub const RANDOM_START: u64 = 0x1234_abcd_330e;

impl ScriptMachine {
    /// Approximate bytes of the machine.
    pub fn bytes(&self) -> usize {
        self.vm.footprint()
    }

    /// Which of `KEYS` and `ARGV` a script can read, judged by the texts that occur in the script's program.
    pub fn globals_of(&self, chunk: LoadedChunk) -> GlobalsRead {
        let mut read = GlobalsRead { keys: false, argv: false };
        let is_known = self.vm.visit_texts(chunk, &mut |text| {
            read.keys |= text == b"KEYS";
            read.argv |= text == b"ARGV";
            !ANY_GLOBAL.contains(&text)
        });
        if is_known { read } else { GlobalsRead::ALL }
    }

    /// Sets the maximum memory of the machine in bytes.
    pub fn set_limit(&mut self, bytes: usize) {
        self.vm.set_limit(bytes);
        self.limit = bytes;
    }

    /// Opens a machine that has the Lua libraries for scripts and the server's functions, and may use `limit`
    /// bytes. `is_insecure`: whether the machine also has `getfenv`, `setfenv` and `newproxy`.
    ///
    /// # Errors
    /// The limit is too small for Lua's standard libraries.
    pub fn open(kind: MachineKind, limit: usize, is_insecure: bool) -> Result<ScriptMachine, Fault> {
        let mut vm = Vm::new(limit)?;
        vm.look_into_errors();
        if is_insecure {
            vm.open_insecure()?;
        }
        let (mut keys, mut argv) = (None, None);
        open_server_table(&mut vm.library(), kind)?;
        if kind == MachineKind::Eval {
            keys = Some(vm.declare(b"KEYS")?);
            argv = Some(vm.declare(b"ARGV")?);
            let mut library = vm.library();
            for name in [&b"__server__err__handler"[..], b"__redis__err__handler"] {
                let handler = library.function(Native::plain("error_handler", error_handler), &[])?;
                let globals = library.globals();
                library.field(globals, name, handler)?;
            }
        }
        let globals = vm.globals();
        let meta = refuse_missing_globals(&mut vm.library(), globals)?;
        let mut run_globals = None;
        if kind == MachineKind::Functions {
            // The globals are pinned, because no other reference keeps them alive before the library is
            // loaded.
            vm.pin(globals.into());
            run_globals = Some(globals);
            let of_load = open_load_globals(&mut vm.library(), meta)?;
            vm.set_globals(of_load);
        }
        vm.seal(true);
        vm.heap().host.random = RANDOM_START;
        let chunk_name = ChunkName::new(kind.chunk_name());
        Ok(ScriptMachine { vm, keys, argv, run_globals, limit, is_insecure, chunk_name })
    }

    /// Ends the loading of the library, so that its functions see all globals from now on.
    pub(crate) fn end_load(&mut self) {
        if let Some(all) = self.run_globals {
            self.vm.replace_globals(all);
        }
    }
}

/// The part that the machines of all libraries share. It is made when the first library is loaded.
#[derive(Clone, Debug)]
struct LibraryImage {
    vm: VmImage,
    run_globals: Option<TableRef>,
    chunk_name: Arc<ChunkName>,
}

/// Images for libraries' machines: the first without the functions of `lua-enable-insecure-api`, the second
/// with them.
#[derive(Clone, Debug, Default)]
pub struct LibraryImages([Option<LibraryImage>; 2]);

impl LibraryImages {
    /// A new machine for a library that may use `limit` bytes.
    ///
    /// # Errors
    /// The limit is too small for the shared part.
    pub(crate) fn machine(&mut self, limit: usize, is_insecure: bool) -> Result<ScriptMachine, Fault> {
        let image = match &self.0[usize::from(is_insecure)] {
            Some(image) => image.clone(),
            None => LibraryImage::make(is_insecure)?,
        };
        let mut vm = Vm::of_image(&image.vm, limit)?;
        vm.heap().host.random = RANDOM_START;
        let (run_globals, chunk_name) = (image.run_globals, image.chunk_name.clone());
        self.0[usize::from(is_insecure)] = Some(image);
        Ok(ScriptMachine { vm, keys: None, argv: None, run_globals, limit, is_insecure, chunk_name })
    }

    /// Takes from `other` the images that are missing here.
    pub(crate) fn adopt(&mut self, other: LibraryImages) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            if own.is_none() {
                *own = other;
            }
        }
    }

    /// Approximate bytes of the images.
    pub(crate) fn footprint(&self) -> usize {
        self.0.iter().flatten().map(|image| image.vm.footprint()).sum()
    }
}

impl LibraryImage {
    fn make(is_insecure: bool) -> Result<LibraryImage, Fault> {
        let machine = ScriptMachine::open(MachineKind::Functions, usize::MAX / 2, is_insecure)?;
        let ScriptMachine { vm, run_globals, chunk_name, .. } = machine;
        Ok(LibraryImage { vm: vm.into_image(), run_globals, chunk_name })
    }
}

impl MachineKind {
    fn chunk_name(self) -> &'static [u8] {
        match self {
            MachineKind::Eval => b"@user_script",
            MachineKind::Functions => b"@user_function",
        }
    }
}

/// The globals of a library while it is loaded: only `server` and `redis`, which are one table with the
/// functions `register_function` and `log`, the log levels and the versions.
fn open_load_globals(library: &mut Library<'_>, meta: TableRef) -> Result<TableRef, Fault> {
    const OF_LOAD: [Native; 2] = [
        Native::plain("register_function", |_| {
            Ok(NativeStep::Request(ScriptRequest::RegisterFunction as u32))
        }),
        Native::plain("log", log),
    ];
    let table = library.heap.new_table(0, 16)?;
    for native in OF_LOAD {
        let function = library.function(native, &[])?;
        library.field(table, native.name.as_bytes(), function)?;
    }
    set_log_levels(library, table)?;
    set_versions(library, table)?;
    library.heap.set_metatable(table, Some(meta))?;
    let globals = library.heap.new_table(0, 2)?;
    library.field(globals, b"server", table.into())?;
    library.field(globals, b"redis", table.into())?;
    library.heap.set_metatable(globals, Some(meta))?;
    Ok(globals)
}

fn open_server_table(library: &mut Library<'_>, kind: MachineKind) -> Result<(), Fault> {
    const COMMON: [Native; 9] = [
        Native::plain("call", call),
        Native::plain("pcall", pcall),
        Native::plain("log", log),
        Native::plain("setresp", set_resp),
        Native::resumable("sha1hex", sha1hex, sha1hex_on),
        Native::resumable("error_reply", error_reply, error_reply_on),
        Native::plain("status_reply", status_reply),
        Native::plain("set_repl", set_repl),
        Native::plain("acl_check_cmd", acl_check_cmd),
    ];
    const OF_EVAL: [Native; 3] = [
        Native::plain("breakpoint", |_| Ok(NativeStep::Request(ScriptRequest::Breakpoint as u32))),
        Native::plain("debug", |_| Ok(NativeStep::Request(ScriptRequest::Debug as u32))),
        Native::plain("replicate_commands", |ctx| ctx.one(Value::TRUE)),
    ];
    let table = library.table(b"server", &COMMON)?;
    let more: &[Native] = match kind {
        MachineKind::Eval => &OF_EVAL,
        MachineKind::Functions => &[],
    };
    for native in more {
        let function = library.function(*native, &[])?;
        library.field(table, native.name.as_bytes(), function)?;
    }
    set_log_levels(library, table)?;
    let receivers = [
        ("REPL_NONE", 0),
        ("REPL_AOF", Receivers::AOF),
        ("REPL_SLAVE", Receivers::REPLICAS),
        ("REPL_REPLICA", Receivers::REPLICAS),
        ("REPL_ALL", Receivers::ALL),
    ];
    set_numbers(library, table, receivers.map(|(name, bits)| (name, i32::from(bits))))?;
    set_versions(library, table)?;
    let globals = library.globals();
    library.field(globals, b"redis", table.into())
}

fn set_log_levels(library: &mut Library<'_>, table: TableRef) -> Result<(), Fault> {
    let levels = [("LOG_DEBUG", 0), ("LOG_VERBOSE", 1), ("LOG_NOTICE", 2), ("LOG_WARNING", 3)];
    set_numbers(library, table, levels)
}

fn set_versions(library: &mut Library<'_>, table: TableRef) -> Result<(), Fault> {
    let numbers = [
        ("REDIS_VERSION_NUM", version_number(sluice_base::version::REDIS_COMPATIBLE)),
        ("VALKEY_VERSION_NUM", version_number(sluice_base::version::COMPATIBLE)),
    ];
    set_numbers(library, table, numbers)?;
    let texts = [
        ("REDIS_VERSION", sluice_base::version::REDIS_COMPATIBLE),
        ("VALKEY_VERSION", sluice_base::version::COMPATIBLE),
        ("SERVER_NAME", "valkey"),
    ];
    for (name, text) in texts {
        let text = library.heap.new_string(text.as_bytes())?;
        library.field(table, name.as_bytes(), text)?;
    }
    Ok(())
}

fn set_numbers<const N: usize>(
    library: &mut Library<'_>,
    table: TableRef,
    numbers: [(&str, i32); N],
) -> Result<(), Fault> {
    for (name, number) in numbers {
        library.field(table, name.as_bytes(), Value::number(f64::from(number)))?;
    }
    Ok(())
}

/// The receivers of a script's changes: bits of `server.set_repl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receivers(pub u8);

impl Receivers {
    /// The bit of the append-only file.
    pub const AOF: u8 = 1;
    /// The bit of the replicas.
    pub const REPLICAS: u8 = 2;
    /// The bits of both the append-only file and the replicas.
    pub const ALL: u8 = Receivers::AOF | Receivers::REPLICAS;
}

/// A version as one number that has a byte for each part.
fn version_number(version: &str) -> i32 {
    version.split('.').fold(0, |number, part| number << 8 | part.parse::<i32>().unwrap_or(0))
}

/// Sets and returns a metatable that makes reading a missing global an error instead of nil.
fn refuse_missing_globals(library: &mut Library<'_>, globals: TableRef) -> Result<TableRef, Fault> {
    let meta = library.heap.new_table(0, 1)?;
    let index = library.function(Native::plain("__index", missing_global), &[])?;
    library.field(meta, b"__index", index)?;
    library.heap.set_metatable(globals, Some(meta))?;
    Ok(meta)
}

fn missing_global(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    if ctx.count() != 2 {
        return Err(Fault::text("Wrong number of arguments to luaProtectedTableError"));
    }
    if !(ctx.arg(2).is_str() || ctx.arg(2).is_number()) {
        return Err(Fault::text("Second argument to luaProtectedTableError must be a string or number"));
    }
    let name = ctx.check_str(2)?;
    let mut text = b"Script attempted to access nonexistent global variable '".to_vec();
    text.extend_from_slice(until_zero(ctx.heap.bytes(name)));
    text.push(b'\'');
    Err(Fault::text(text))
}

/// The table that scripts get for an error of the server: its field `err` holds the text, with its code.
/// `text` begins with `-` and a code, or has no code.
///
/// # Errors
/// `not enough memory`.
pub fn error_table(heap: &mut Heap, text: &[u8]) -> Result<TableRef, Fault> {
    // The bytes are charged four times, because the text is searched and copied.
    heap.note_bytes(text.len().saturating_mul(4));
    let told = told_parts(text).concat();
    table_of_error(heap, told)
}

fn table_of_error(heap: &mut Heap, told: Vec<u8>) -> Result<TableRef, Fault> {
    let table = heap.new_table(0, 1)?;
    let told = heap.take_string(told)?;
    heap.set_text(table, b"err", told)?;
    Ok(table)
}

/// The code with a space, and the message, which together are the text of the field `err`.
fn told_parts(text: &[u8]) -> [&[u8]; 2] {
    let text = until_zero(text);
    match text.strip_prefix(b"-") {
        Some(coded) => match code_len(coded) {
            0 => [b"ERR ", coded],
            code => [&coded[..code], without_line_ends(&coded[code..])],
        },
        None => [b"ERR ", without_line_ends(text)],
    }
}

/// Length in bytes of the code at the start of a text, including the space after the code; 0 if the text has
/// no space.
fn code_len(text: &[u8]) -> usize {
    memchr::memchr(b' ', text).map_or(0, |space| space + 1)
}

fn without_line_ends(text: &[u8]) -> &[u8] {
    let from = text.iter().position(|byte| !is_line_end(*byte)).unwrap_or(text.len());
    let to = text.iter().rposition(|byte| !is_line_end(*byte)).map_or(from, |last| last + 1);
    &text[from..to]
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// An error to be raised in the script, with the table of [`error_table`] as its value.
#[cold]
pub fn thrown(heap: &mut Heap, text: &[u8]) -> Fault {
    error_table(heap, text).map_or_else(|fault| fault, |table| Fault::value(table.into()))
}

const NO_ARGUMENT: &[u8] = b"Please specify at least one argument for this call";
/// Error for an argument of a command that is neither a string nor a number.
pub const NO_TEXT: &[u8] = b"Command arguments must be strings or integers";

fn call(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    match ctx.count() {
        0 => Err(thrown(ctx.heap, NO_ARGUMENT)),
        _ => Ok(NativeStep::Request(ScriptRequest::Call as u32)),
    }
}

fn pcall(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    match ctx.count() {
        0 => {
            let table = error_table(ctx.heap, NO_ARGUMENT)?;
            ctx.one(table.into())
        }
        _ => Ok(NativeStep::Request(ScriptRequest::Pcall as u32)),
    }
}

fn acl_check_cmd(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    match ctx.count() {
        0 => Err(thrown(ctx.heap, NO_ARGUMENT)),
        _ => Ok(NativeStep::Request(ScriptRequest::AclCheckCmd as u32)),
    }
}

/// `server.log`: joins the strings and numbers after the level with spaces. Each is cut off at its first zero
/// byte.
fn log(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    if ctx.count() < 2 {
        return Err(thrown(ctx.heap, b"server.log() requires two arguments or more."));
    }
    let Some(level) = ctx.to_number(ctx.arg(1)) else {
        return Err(thrown(ctx.heap, b"First argument must be a number (log level)."));
    };
    let level = c_int(level);
    if !(0..=3).contains(&level) {
        return Err(thrown(ctx.heap, b"Invalid log level."));
    }
    let mut line = LOG_PREFIX.to_vec();
    for at in 2..=ctx.count() {
        let value = ctx.arg(at);
        let text = ctx.to_str(value)?;
        match (text, at) {
            // C prints this for a null pointer.
            (None, 2) => line.extend_from_slice(b"(null)"),
            (None, _) => {}
            (Some(text), _) => {
                if at > 2 {
                    line.push(b' ');
                }
                let room = LOG_BYTES_MAX.saturating_sub(line.len());
                line.extend(ctx.heap.bytes(text).iter().take_while(|byte| **byte != 0).take(room));
            }
        }
        if line.len() >= LOG_BYTES_MAX {
            break;
        }
    }
    line.truncate(LOG_BYTES_MAX);
    ctx.charge(ctx.count() as u64 / 4);
    let line = ctx.heap.new_string(&line)?;
    ctx.set(2, line);
    request_with(ctx, ScriptRequest::Log, level)
}

/// The beginning of every line that a script logs.
const LOG_PREFIX: &[u8] = b"<lua> ";

fn set_resp(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    if ctx.count() != 1 {
        return Err(thrown(ctx.heap, b"server.setresp() requires one argument."));
    }
    let version = c_int(ctx.to_number(ctx.arg(1)).unwrap_or(0.0));
    if version != 2 && version != 3 {
        return Err(thrown(ctx.heap, b"RESP version must be 2 or 3."));
    }
    request_with(ctx, ScriptRequest::SetResp, version)
}

fn set_repl(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    if ctx.count() != 1 {
        return Err(thrown(ctx.heap, b"server.set_repl() requires one argument."));
    }
    let flags = c_int(ctx.to_number(ctx.arg(1)).unwrap_or(0.0));
    if flags & !i32::from(Receivers::ALL) != 0 {
        let text = b"Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(thrown(ctx.heap, text));
    }
    request_with(ctx, ScriptRequest::SetRepl, flags)
}

/// Number of bytes of a long text that are processed between two checks of the budget.
const PIECE: usize = 64 << 10;

/// The digest of the bytes of a text that were processed so far, and the number of these bytes.
struct Digesting(Sha1, usize);

fn sha1hex(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    if ctx.count() != 1 {
        return Err(thrown(ctx.heap, b"wrong number of arguments"));
    }
    let value = ctx.arg(1);
    match ctx.to_str(value)? {
        Some(text) => ctx.set(1, text.into()),
        // Any other value counts as an empty text.
        None => ctx.truncate(0),
    }
    digest_on(ctx, Digesting(Sha1::new(), 0))
}

fn sha1hex_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<Digesting>() else { return Ok(NativeStep::Return(0)) };
    digest_on(ctx, *state)
}

fn digest_on(ctx: &mut Ctx<'_>, mut state: Digesting) -> Result<NativeStep, Fault> {
    loop {
        let text = ctx.arg(1).as_str().map(|text| ctx.heap.bytes(text)).unwrap_or_default();
        let rest = &text[state.1..];
        let piece = &rest[..rest.len().min(PIECE)];
        state.0.update(piece);
        state.1 += piece.len();
        let (is_done, units) = (piece.len() == rest.len(), piece.len() as u64 / 4);
        // The digest of a long text takes time, which the budget must include.
        let has_budget = ctx.charge(units);
        if is_done {
            let digest = ctx.heap.new_string(&hex(&state.0.finalize()))?;
            return ctx.one(digest);
        }
        if !has_budget {
            return Ok(NativeStep::Pause(Box::new(state)));
        }
    }
}

/// SHA-1 as forty hexadecimal digits.
pub(crate) fn sha1_hex(text: &[u8]) -> [u8; 40] {
    hex(&Sha1::digest(text))
}

fn hex(digest: &[u8]) -> [u8; 40] {
    let mut hex = [0; 40];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(digest) {
        pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    hex
}

fn is_one_text(ctx: &Ctx<'_>) -> bool {
    ctx.count() == 1 && ctx.arg(1).is_str()
}

/// An error's text that is being made: its bytes so far, and the ranges of the argument that are still to
/// be copied.
struct ErrorText {
    told: Vec<u8>,
    parts: [Range<usize>; 2],
}

fn error_reply(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let Some(text) = ctx.arg(1).as_str().filter(|_| is_one_text(ctx)) else {
        let table = error_table(ctx.heap, b"wrong number or type of arguments")?;
        return ctx.one(table.into());
    };
    let bytes = ctx.heap.bytes(text);
    let len = bytes.len();
    if len <= PIECE {
        let coded = if bytes.starts_with(b"-") { bytes.to_vec() } else { [b"-", bytes].concat() };
        let table = error_table(ctx.heap, &coded)?;
        return ctx.one(table.into());
    }
    // The positions at which a long text is cut are searched in one step, at memory speed; the text itself is
    // copied in pieces.
    let bytes = until_zero(bytes);
    let start = usize::from(bytes.starts_with(b"-"));
    let code = code_len(&bytes[start..]);
    let parts = match code {
        0 => [start..bytes.len(), 0..0],
        _ => {
            let behind = &bytes[start + code..];
            let trimmed = without_line_ends(behind);
            let from = start + code + behind.iter().take_while(|byte| is_line_end(**byte)).count();
            [start..start + code, from..from + trimmed.len()]
        }
    };
    ctx.charge(len as u64 / 64);
    ctx.heap.room(len)?;
    let mut told = Vec::new();
    told.try_reserve_exact(len + b"ERR ".len()).map_err(|_| Fault::memory())?;
    if code == 0 {
        told.extend_from_slice(b"ERR ");
    }
    write_error(ctx, ErrorText { told, parts })
}

fn error_reply_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<ErrorText>() else { return Ok(NativeStep::Return(0)) };
    write_error(ctx, *state)
}

/// Copies the remaining parts of an error's text.
fn write_error(ctx: &mut Ctx<'_>, mut state: ErrorText) -> Result<NativeStep, Fault> {
    while let Some(part) = state.parts.iter_mut().find(|part| part.start < part.end) {
        let bytes = ctx.arg(1).as_str().map(|text| ctx.heap.bytes(text)).unwrap_or_default();
        let end = part.end.min(part.start + PIECE);
        state.told.extend_from_slice(&bytes[part.start..end]);
        let units = (end - part.start) as u64 / 16;
        part.start = end;
        if !ctx.charge(units) {
            return Ok(NativeStep::Pause(Box::new(state)));
        }
    }
    let table = table_of_error(ctx.heap, state.told)?;
    ctx.one(table.into())
}

fn status_reply(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let table = match is_one_text(ctx) {
        true => {
            let table = ctx.heap.new_table(0, 1)?;
            let text = ctx.arg(1);
            ctx.heap.set_text(table, b"ok", text)?;
            table
        }
        false => error_table(ctx.heap, b"wrong number or type of arguments")?,
    };
    ctx.one(table.into())
}

/// The reference's error handler, for scripts that call it by its name. In this server other code adds
/// the chunk and the line to uncaught errors, so this function adds neither.
fn error_handler(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let error = ctx.arg(1);
    if error.is_table() {
        return ctx.one(error);
    }
    let shown = match ctx.to_str(error)? {
        Some(text) => [b"-ERR ", ctx.heap.bytes(text)].concat(),
        None => format!("-ERR {}", error.plain_text()).into_bytes(),
    };
    let table = error_table(ctx.heap, &shown)?;
    ctx.one(table.into())
}

/// The level and the line of a request of `server.log`.
pub fn log_line(machine: &mut ScriptMachine) -> (LogLevel, String) {
    let level = match first_number(machine) {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        _ => LogLevel::Warning,
    };
    let Some(asking) = machine.vm.run() else { return (level, String::new()) };
    let text = asking.request_args().get(1).and_then(|value| value.as_str());
    let text = text.map(|text| asking.objects().bytes(text)).unwrap_or_default();
    (level, String::from_utf8_lossy(text).into_owned())
}

/// Maximum length in bytes of a line that a script logs.
const LOG_BYTES_MAX: usize = 1023;

/// The first argument of the request; the native function has made sure that it is a number.
pub fn first_number(machine: &mut ScriptMachine) -> i32 {
    let Some(asking) = machine.vm.run() else { return 0 };
    let first = asking.request_args().first().and_then(|value| value.as_number());
    first.unwrap_or_default() as i32
}

/// Converts a number to `int` as C does on the reference's processors: a number out of range
/// becomes the smallest `int`.
fn c_int(number: f64) -> i32 {
    let whole = number.trunc();
    if (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&whole) { whole as i32 } else { i32::MIN }
}

/// Makes a request whose first argument is replaced by `number`. The caller has checked `number`.
fn request_with(ctx: &mut Ctx<'_>, request: ScriptRequest, number: i32) -> Result<NativeStep, Fault> {
    ctx.set(1, Value::number(f64::from(number)));
    Ok(NativeStep::Request(request as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_requests() {
        for (at, request) in ScriptRequest::ALL.into_iter().enumerate() {
            assert_eq!((request as usize, ScriptRequest::of(at as u32)), (at, Some(request)));
        }
        assert_eq!(ScriptRequest::of(ScriptRequest::ALL.len() as u32), None);
    }

    #[test]
    fn versions_are_numbers_of_a_byte_for_each_part() {
        assert_eq!(version_number("7.2.4"), 0x0007_0204);
        assert_eq!(version_number("9.1.2"), 0x0009_0102);
    }

    #[test]
    fn errors_get_a_code_and_lose_line_ends() {
        let mut machine = ScriptMachine::open(MachineKind::Eval, 64 << 20, false).unwrap();
        let heap = machine.vm.heap();
        let mut shown = |text: &[u8]| {
            let table = error_table(heap, text).unwrap();
            let err = heap.get_text(table, b"err").as_str().unwrap();
            String::from_utf8(heap.bytes(err).to_vec()).unwrap()
        };
        assert_eq!(shown(b"no code"), "ERR no code");
        assert_eq!(shown(b"-CODE and a text\r\n"), "CODE and a text");
        assert_eq!(shown(b"-WORD"), "ERR WORD");
        assert_eq!(shown(b"\r\ntext\r\n"), "ERR text");
    }

    #[test]
    fn scripts_see_the_globals_that_they_name_or_can_look_for() {
        let mut machine = ScriptMachine::open(MachineKind::Eval, 64 << 20, false).unwrap();
        let rows = [
            ("return 1", (false, false)),
            ("return KEYS[1]", (true, false)),
            ("return function() return #ARGV end", (false, true)),
            ("local f = function(a) return function() return a, KEYS, ARGV end end return f", (true, true)),
            ("return _G['KE' .. 'YS']", (true, true)),
            ("return function() for k in pairs(_G) do f(k) end end", (true, true)),
            ("return loadstring('return ARGV')", (true, true)),
            ("return load(function() end)", (true, true)),
            ("local keys = {} keys.ARG = 'KEYS1' return keys", (false, false)),
        ];
        for (script, (keys, argv)) in rows {
            let program = sluice_lua::compile(script.as_bytes(), b"=test").unwrap();
            let (chunk, _) = machine.vm.load_owned(program).unwrap();
            assert_eq!(machine.globals_of(chunk), GlobalsRead { keys, argv }, "{script}");
        }
    }

    /// The result of a script that gets `units` of the budget at a time.
    #[expect(clippy::disallowed_methods, reason = "a program of one's own needs no clock")]
    fn answer(script: &str, units: u64) -> String {
        let mut machine = ScriptMachine::open(MachineKind::Eval, 64 << 20, false).unwrap();
        let chunk = machine.vm.load(&sluice_lua::compile(script.as_bytes(), b"=test").unwrap()).unwrap();
        let mut run = machine.vm.start(chunk);
        loop {
            match run.resume_unwatched(units) {
                sluice_lua::RunOutcome::OutOfBudget => {}
                sluice_lua::RunOutcome::Done => break,
                other => panic!("{script}: {other:?}"),
            }
        }
        let text = run.results()[0].as_str().unwrap();
        String::from_utf8(run.objects().bytes(text).to_vec()).unwrap()
    }

    #[test]
    fn long_texts_are_digested_and_told_in_pieces_as_in_one_step() {
        // The texts have lengths around the length of a piece, and all beginnings and ends that an error's
        // text may have.
        for len in [PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7] {
            let text = "text-".repeat(len / 5 + 1)[..len].to_owned();
            let program =
                |work: &str| format!("local s = ('text-'):rep({}):sub(1, {len}) {work}", len / 5 + 1);
            let digest = String::from_utf8(sha1_hex(text.as_bytes()).to_vec()).unwrap();
            let told = [
                ("s", format!("ERR {text}")),
                ("'-' .. s", format!("ERR {text}")),
                ("'CODE ' .. s", format!("CODE {text}")),
                ("'-CODE \\r\\n' .. s .. '\\n\\n'", format!("CODE {text}")),
                ("s .. ' ' .. s", format!("{text} {text}")),
                ("s .. '\\0' .. s", format!("ERR {text}")),
                ("s .. '\\n'", format!("ERR {text}\n")),
                ("('\\n'):rep(#s)", format!("ERR {}", "\n".repeat(len))),
                ("'A ' .. ('\\n'):rep(#s)", "A ".to_owned()),
            ];
            for units in [1, 3_000, u64::MAX >> 2] {
                assert!(answer(&program("return redis.sha1hex(s)"), units) == digest, "{len}, {units}");
                for (given, wanted) in &told {
                    let shown = answer(&program(&format!("return redis.error_reply({given}).err")), units);
                    assert!(shown == *wanted, "{given}, {len}, {units}: {} bytes", shown.len());
                }
            }
        }
    }
}
