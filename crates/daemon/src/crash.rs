//! The crash report: what an operator needs to know when the process ends by a panic or by a fault.
//!
//! The handler of a fault has two parts. The first makes plain system calls only and never allocates, so it
//! works wherever the fault struck. The second part names the functions on the stack. To do so the standard
//! library allocates, but from memory reserved for the report (`ReportMemory::report_begins`), because the
//! fault may have struck inside the allocator. If the report hangs all the same, an alarm ends the process. A
//! fault within the report ends the process at once.
//!
//! SIGALRM, sent by an operator, writes the stack of the main thread, or of the thread to which it was sent,
//! to the log; the process goes on. The handler allocates nothing, because it may interrupt any code.

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize};

/// The log that reports are written to.
#[derive(Debug)]
struct Target {
    log_file: Option<PathBuf>,
    stdout: File,
}

/// The log for reports; set once, before any handler is installed, and never freed. Null until then.
static TARGET: AtomicPtr<Target> = AtomicPtr::new(std::ptr::null_mut());

/// The allocator of the process; set once, before any handler is installed.
static ALLOCATOR: OnceLock<&'static dyn ReportMemory> = OnceLock::new();

/// The version of the program; set once, before any handler is installed.
static VERSION: OnceLock<&'static str> = OnceLock::new();

/// Functions of the process's allocator that a crash report needs.
pub trait ReportMemory: Sync {
    /// From now on the calling thread allocates from separate memory, because the fault may have struck
    /// inside the allocator, whose locks the thread may hold. Other threads are not affected. The process
    /// must end afterwards. Makes plain system calls only.
    fn report_begins(&self);

    /// Size of the last allocation that was refused, bytes; 0: none was. Allocates nothing.
    fn refused(&self) -> usize;
}

/// The signals that cause a report.
const FAULTS: [Signal; 5] =
    [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGABRT];

/// Makes a panic print a report and end the process: state may be inconsistent, and a supervisor or a replica
/// takes over. SIGALRM writes a stack to the log from now on. Reports go to this log file, or to standard
/// output, and contain this version. To be called once, by the main thread. Errors: no free descriptor.
pub fn install(
    log_file: Option<&Path>,
    version: &'static str,
    allocator: &'static dyn ReportMemory,
) -> std::io::Result<()> {
    let _ = ALLOCATOR.set(allocator);
    let _ = VERSION.set(version);
    let stdout = File::from(std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned()?);
    let target = Box::new(Target { log_file: log_file.map(Path::to_path_buf), stdout });
    TARGET.store(Box::into_raw(target), Relaxed);
    std::panic::set_hook(Box::new(|info| {
        let text = report(info);
        with_log(|mut log| {
            let _ = log.write_all(text.as_bytes());
        });
        // The abort below must not cause a second report.
        forget_faults();
        std::process::abort();
    }));
    // The signal stack stays installed as long as the process lives.
    std::mem::forget(SignalStack::install());
    PROGRAM.find();
    // The stack is walked once now, because the first walk loads the library for walking stacks, and a
    // handler must not load a library.
    write_frames(&File::options().write(true).open("/dev/null")?);
    set_action(Signal::SIGALRM, SigHandler::Handler(on_alarm), SaFlags::SA_RESTART);
    Ok(())
}

/// Turns reports of faults on or off; a fault ends the process in either case. Exhausted memory is
/// reported even when they are off.
pub fn report_faults(wanted: bool) {
    let fault = if wanted { SigHandler::SigAction(on_fault) } else { SigHandler::SigDfl };
    let abort = SigHandler::SigAction(if wanted { on_fault } else { on_abort });
    handle(fault, abort);
}

/// Resets the signals: faults end the process without a report.
fn forget_faults() {
    handle(SigHandler::SigDfl, SigHandler::SigDfl);
    // The default action of SIGALRM ends a report that hangs.
    set_action(Signal::SIGALRM, SigHandler::SigDfl, SaFlags::empty());
}

fn handle(fault: SigHandler, abort: SigHandler) {
    for signal in FAULTS {
        let handler = if signal == Signal::SIGABRT { abort } else { fault };
        set_action(signal, handler, SaFlags::SA_ONSTACK | SaFlags::SA_RESETHAND | SaFlags::SA_SIGINFO);
    }
}

fn set_action(signal: Signal, handler: SigHandler, flags: SaFlags) {
    let action = SigAction::new(handler, flags, SigSet::empty());
    // SAFETY: the handlers read only statics that are set before and never freed, and the allocator's number
    // of refused bytes. Afterwards the process ends, except after `on_alarm`, which allocates nothing and
    // leaves `errno` as it was.
    // JUSTIFICATION: there is no safe way to be notified of a fault.
    let _ = unsafe { sigaction(signal, &action) };
}

/// Writes the stack of this thread to the log. That is the main thread if the signal was sent to the
/// process, or else the thread to which the signal was sent.
extern "C" fn on_alarm(_: i32) {
    let errno = Errno::last_raw();
    with_log(|mut log| {
        let is_main = nix::unistd::gettid() == nix::unistd::getpid();
        let which = if is_main { "the main thread" } else { "a thread" };
        let _ = writeln!(log, "\n------ Received SIGALRM: {which} is here ------");
        let _ = log.write_all(b"Thread: ");
        let _ = write_thread_name(log);
        let _ = writeln!(log, "Signal stack: {} bytes", SignalStack::bytes());
        write_frames(log);
        let _ = log.write_all(b"------ STACK TRACE DONE ------\n");
    });
    Errno::set_raw(errno);
}

/// Writes the addresses on the stack, which `addr2line -e sluice-server` turns into names. Names are not
/// written, because looking up a name would allocate.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn write_frames(log: &File) {
    let mut frames = [std::ptr::null_mut(); FRAMES_MAX as usize];
    // SAFETY: the array has room for that many.
    // JUSTIFICATION: the safe way allocates, and the thread may be inside the allocator.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES_MAX) };
    for frame in frames.iter().take(usize::try_from(count).unwrap_or(0)) {
        let address = frame.addr();
        if let Some(offset) = PROGRAM.offset_of(address) {
            let _ = writeln!(&*log, "sluice-server(+{offset:#x})[{address:#x}]");
            continue;
        }
        // SAFETY: one frame is read, which the array holds; the descriptor is open.
        // JUSTIFICATION: as above.
        unsafe { libc::backtrace_symbols_fd(frame, 1, std::os::fd::AsRawFd::as_raw_fd(log)) };
    }
}

/// The address range of the program in memory, to print addresses as offsets in the program. The C library
/// would name the program by its first argument, over which the process title is written (`title.rs`).
struct LoadedProgram {
    start: AtomicUsize,
    /// The first address after the program; 0: not known.
    end: AtomicUsize,
}

static PROGRAM: LoadedProgram = LoadedProgram { start: AtomicUsize::new(0), end: AtomicUsize::new(0) };

impl LoadedProgram {
    /// Reads the range from the kernel. Must run before any handler is installed, because reading allocates.
    fn find(&self) {
        let Ok(program) = std::fs::read_link("/proc/self/exe") else { return };
        let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
        let Some((start, end)) = program_in(&maps, program.as_os_str().as_bytes()) else { return };
        // Relaxed: the process has one thread here, and no handler is installed that could read the values.
        self.start.store(start, Relaxed);
        self.end.store(end, Relaxed);
    }

    /// The offset of an address from the program's beginning; `None` outside of the program.
    fn offset_of(&self, address: usize) -> Option<usize> {
        // Relaxed: this runs after `find`, in the same thread or in a thread that was started later.
        let is_inside = address < self.end.load(Relaxed);
        address.checked_sub(self.start.load(Relaxed)).filter(|_| is_inside)
    }
}

/// The first address of the mappings of the file `program` and the first address after them, from the
/// lines of proc(5)'s `maps`.
fn program_in(maps: &[u8], program: &[u8]) -> Option<(usize, usize)> {
    let mut found = None;
    let is_program = |line: &&[u8]| line.strip_suffix(program).is_some_and(|head| head.ends_with(b" "));
    for line in maps.split(|byte| *byte == b'\n').filter(is_program) {
        let range = std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?;
        let (start, end) = range.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        found = Some((found.map_or(start, |(first, _)| first), end));
    }
    found
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn write_frames(mut log: &File) {
    let _ = log.write_all(b"no stack trace on this system\n");
}

/// A file that is useless if the process ends now: the unfinished snapshot of a save for which all clients
/// wait. Empty: none.
struct Unfinished {
    path: [AtomicU8; PATH_BYTES],
    len: AtomicUsize,
}

static UNFINISHED: Unfinished =
    Unfinished { path: [const { AtomicU8::new(0) }; PATH_BYTES], len: AtomicUsize::new(0) };

/// Sets the file that the handler of a second signal removes; `None` for no file. A file whose path is too
/// long is not removed.
pub fn set_unfinished(path: Option<&Path>) {
    UNFINISHED.len.store(0, Release);
    let bytes = path.map_or(&[][..], |path| path.as_os_str().as_bytes());
    if bytes.len() < PATH_BYTES {
        UNFINISHED.path.iter().zip(bytes).for_each(|(cell, byte)| cell.store(*byte, Relaxed));
        // Pairs with the handler's acquire: the handler copies the bytes of this path.
        UNFINISHED.len.store(bytes.len(), Release);
    }
}

/// Installs a handler that removes the unfinished file if `flag` is set already, because the signal then
/// ends the process at once.
pub(crate) fn remove_unfinished_at(signal: i32, flag: Arc<AtomicBool>) -> std::io::Result<()> {
    let remove = move || {
        if flag.load(Relaxed) {
            remove_unfinished();
        }
    };
    // SAFETY: the closure reads atomics and calls unlink, as a handler may; it neither allocates nor panics.
    // JUSTIFICATION: only a handler can remove the file, because the main thread is in the midst of the save,
    // or waits for the disk, and the process ends at once.
    unsafe { signal_hook::low_level::register(signal, remove) }.map(drop)
}

fn remove_unfinished() {
    let mut path = [0; PATH_BYTES];
    // Pairs with the release in `set_unfinished`.
    let len = UNFINISHED.len.load(Acquire);
    for (cell, byte) in path.iter_mut().zip(&UNFINISHED.path).take(len) {
        *cell = byte.load(Relaxed);
    }
    if len > 0
        && let Ok(path) = CStr::from_bytes_until_nul(&path)
    {
        let _ = nix::unistd::unlink(path);
    }
}

/// A signal stack large enough to name the functions on the stack, for this thread until it is dropped. The
/// standard library's signal stack is too small. Every thread that runs our code has one, because any thread
/// may fault or receive a signal. Only a report touches its pages.
#[derive(Debug)]
pub struct SignalStack {
    memory: *mut libc::c_void,
}

impl SignalStack {
    /// Installs a stack for the calling thread. `None` if the kernel refuses the memory or the stack: the
    /// library's stack stays.
    pub fn install() -> Option<SignalStack> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping wherever the kernel likes touches no memory of ours.
        // JUSTIFICATION: memory from the allocator would count as used.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), SIGNAL_STACK_BYTES, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        let stack = SignalStack { memory };
        let description = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: SIGNAL_STACK_BYTES };
        // SAFETY: the mapping belongs to this signal stack alone, and is undone only after the stack was
        // given up.
        // JUSTIFICATION: after a stack overflow there is no other stack to report it on.
        let done = unsafe { libc::sigaltstack(&description, std::ptr::null_mut()) };
        (done == 0).then_some(stack)
    }

    /// Bytes of this thread's signal stack, whoever installed it; 0: none.
    fn bytes() -> usize {
        let mut present = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: nothing is installed, and the kernel writes to a value that lives on this stack.
        // JUSTIFICATION: a handler has no other source for this.
        let done = unsafe { libc::sigaltstack(std::ptr::null(), &mut present) };
        if done == 0 && present.ss_flags & libc::SS_DISABLE == 0 { present.ss_size } else { 0 }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let none = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: the value is not `Send`, so the thread that uses this signal stack drops it, and no handler
        // runs on the stack then.
        // JUSTIFICATION: the counterpart of `install`.
        unsafe {
            libc::sigaltstack(&none, std::ptr::null_mut());
            libc::munmap(self.memory, SIGNAL_STACK_BYTES);
        }
    }
}

/// Reports the fault, then lets it end the process as it would have without a report.
extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    forget_faults();
    nix::unistd::alarm::set(REPORT_SECONDS_MAX);
    if let Some(allocator) = ALLOCATOR.get() {
        allocator.report_begins();
    }
    // SAFETY: the kernel passes valid pointers to a handler that was installed with SA_SIGINFO; a fault has
    // an address.
    // JUSTIFICATION: the address is the first thing one looks for in a report.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    with_log(|log| {
        let _ = write_out_of_memory(log, signal, code);
        let _ = write_facts(log, signal, code, address, instruction(context));
        let _ =
            write!(&*log, "\n------ STACK TRACE ------\n{:#}", std::backtrace::Backtrace::force_capture());
        let _ = (&*log).write_all(END.as_bytes());
    });
    if let Ok(signal) = Signal::try_from(signal) {
        let _ = raise(signal);
    }
}

/// Reports exhausted memory if that is the reason for the abort, and lets the process end.
extern "C" fn on_abort(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    forget_faults();
    // SAFETY: the kernel passes a valid pointer to a handler that was installed with SA_SIGINFO.
    // JUSTIFICATION: the code distinguishes our own abort from a signal of another process.
    let code = unsafe { (*info).si_code };
    with_log(|log| {
        let _ = write_out_of_memory(log, signal, code);
    });
    let _ = raise(Signal::SIGABRT);
}

/// Writes the size of the refused allocation if the library has aborted for that reason, because the library
/// itself does not log the size.
fn write_out_of_memory(mut log: &File, signal: i32, code: i32) -> std::io::Result<()> {
    let ours = signal == Signal::SIGABRT as i32 && code == libc::SI_TKILL;
    match ALLOCATOR.get().map_or(0, |allocator| allocator.refused()) {
        bytes if ours && bytes > 0 => writeln!(log, "Out Of Memory allocating {bytes} bytes!"),
        _ => Ok(()),
    }
}

/// The part of the report that needs no allocation.
fn write_facts(
    mut log: &File,
    signal: i32,
    code: i32,
    address: usize,
    instruction: usize,
) -> std::io::Result<()> {
    log.write_all(START.as_bytes())?;
    writeln!(log, "Sluice {} crashed by signal: {signal}, si_code: {code}", version())?;
    writeln!(log, "Accessing address: {address:#x}")?;
    writeln!(log, "Crashed running the instruction at: {instruction:#x}")?;
    write_process(log)
}

/// Writes the kernel's facts about the process: its memory and threads, and where the program is loaded.
fn write_process(mut log: &File) -> std::io::Result<()> {
    log.write_all(b"\n------ PROCESS ------\n")?;
    let mut buffer = [0; 4096];
    let len = File::open("/proc/self/maps")?.read(&mut buffer)?;
    let first_line = buffer[..len].split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    log.write_all(first_line)?;
    log.write_all(b"Crashed in the thread: ")?;
    write_thread_name(log)?;
    let len = File::open("/proc/self/status")?.read(&mut buffer)?;
    log.write_all(&buffer[..len])
}

/// Writes the name of this thread, and a line break.
fn write_thread_name(mut log: &File) -> std::io::Result<()> {
    // There is room for the name, because the kernel's thread names have at most 15 bytes.
    let mut buffer = [0; 32];
    let len = File::open("/proc/thread-self/comm")?.read(&mut buffer)?;
    log.write_all(&buffer[..len])
}

#[cfg(target_arch = "x86_64")]
fn instruction(context: *mut libc::c_void) -> usize {
    // SAFETY: the kernel passes a valid context to a handler that was installed with SA_SIGINFO.
    // JUSTIFICATION: without symbols it is the only information about the location of the fault.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] as usize }
}

#[cfg(target_arch = "aarch64")]
fn instruction(context: *mut libc::c_void) -> usize {
    // SAFETY: the kernel passes a valid context to a handler that was installed with SA_SIGINFO.
    // JUSTIFICATION: without symbols it is the only information about the location of the fault.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc as usize }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn instruction(_: *mut libc::c_void) -> usize {
    0
}

/// Calls `write` with the log: its file, opened by name because it may have been rotated, or standard
/// output. Does not allocate for paths of usual length.
fn with_log(write: impl FnOnce(&File)) {
    // SAFETY: the pointer is null or comes from a box that is never freed.
    // JUSTIFICATION: a handler can be given nothing but a static, and a lock could be held by the thread that
    // it interrupted.
    let Some(target) = (unsafe { TARGET.load(Relaxed).as_ref() }) else { return };
    let opened = target.log_file.as_ref().and_then(|path| crate::named_file::append(path).ok());
    write(opened.as_ref().unwrap_or(&target.stdout));
}

fn report(info: &PanicHookInfo<'_>) -> String {
    let location = info.location().map_or_else(|| "unknown place".to_owned(), ToString::to_string);
    let message = info.payload_as_str().unwrap_or("no message");
    format!(
        "{START}Sluice {} ended by a panic: {message}\nat {location}, thread '{}'\n\n\
         ------ STACK TRACE ------\n{}{END}",
        version(),
        std::thread::current().name().unwrap_or("unnamed"),
        std::backtrace::Backtrace::force_capture(),
    )
}

/// The version that `install` was given. Reads an atomic, as a handler may.
fn version() -> &'static str {
    VERSION.get().copied().unwrap_or_default()
}

const START: &str = "\n\n=== SLUICE BUG REPORT START: Cut & paste starting from here ===\n";
const END: &str =
    "\n=== SLUICE BUG REPORT END. Please send this report with your configuration to the project. ===\n";
/// Bytes of a signal stack: reading the program's debug information takes some hundred KiB.
const SIGNAL_STACK_BYTES: usize = 2 << 20;
/// SIGALRM shows at most this many functions on the stack.
const FRAMES_MAX: i32 = 100;
/// Maximum bytes of a path that the kernel accepts, the terminating zero included.
const PATH_BYTES: usize = 4096;
/// Seconds after which a hanging report is ended.
const REPORT_SECONDS_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::program_in;

    #[test]
    fn the_program_is_found_among_the_mappings() {
        let maps =
            b"1000-2000 r--p 00000000 fe:00 7    /opt/a b\n2000-5000 r-xp 00001000 fe:00 7    /opt/a b\n\
                     7000-8000 r--p 00000000 fe:00 9    /lib/libc.so\n9000-a000 rw-p 00000000 00:00 0\n";
        assert_eq!(program_in(maps, b"/opt/a b"), Some((0x1000, 0x5000)));
        assert_eq!(program_in(maps, b"/opt/c"), None);
        assert_eq!(program_in(b"broken /opt/a b", b"/opt/a b"), None);
    }
}
