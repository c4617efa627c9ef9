//! The global allocator, and its figures for INFO.
//!
//! The allocator is jemalloc, because the sizes of entries change over months of operation. Jemalloc's size
//! classes and its decay of unused pages keep resident memory near used memory, and it reports both.

use sluice_server::{Allocated, Allocator, ReportMemory};
use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering::Relaxed};
use tikv_jemalloc_ctl::thread::{allocatedp, deallocatedp};
use tikv_jemalloc_ctl::{epoch, stats};

// The race checker understands only the system's allocator; with any other it would report races where memory
// is reused.
#[cfg_attr(not(sluice_system_allocator), global_allocator)]
pub static ALLOCATOR: Noting = Noting(tikv_jemallocator::Jemalloc);

/// The settings that jemalloc reads at its start. A run of free pages is used again for requests of at least
/// 1/8,192 (2^-13) of its size; the default is 1/64. The pages of a long string are allocated one by one, 64
/// KiB each, and become one run of up to 512 MiB when the string is freed. By default the next string's pages
/// would not be taken from that run, and the system would have to clear new pages (BITOP of 512 MB took three
/// times as long; bench/record, `types`).
///
/// With `cache_oblivious:false` large blocks begin at a page boundary. By default each takes one more page,
/// so that it can begin anywhere in its first page. A block of 16 KiB took a quarter more for this, and the
/// pages of a long string, which were never adjacent, were read at two thirds of the speed of adjacent ones
/// (BITCOUNT of 512 MB; bench/record, `types`).
// SAFETY: under this symbol name jemalloc expects a pointer to bytes that end with a zero byte. A reference
// to an array is such a pointer, the array lives as long as the program, and nothing writes to either.
// JUSTIFICATION: this is the only place for the setting; it cannot be changed once jemalloc has started.
#[cfg(not(sluice_system_allocator))]
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8; 50] = b"cache_oblivious:false,lg_extent_max_active_fit:13\0";

/// The allocator, which records the size of the last refused allocation.
pub struct Noting(tikv_jemallocator::Jemalloc);

/// Bytes of the last refused allocation of any thread; 0 if there was none. Relaxed ordering suffices,
/// because the thread whose allocation was refused is the one that reports the size.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

impl Allocator for Noting {
    fn name(&self) -> String {
        name()
    }

    fn allocated(&self) -> Allocated {
        allocated()
    }

    fn cached(&self) -> usize {
        cached()
    }

    fn bytes_of_thread(&self) -> i64 {
        bytes_of_thread()
    }

    fn start_background_thread(&self) -> Result<(), String> {
        set_background_thread(cfg!(not(sluice_system_allocator)))
    }

    fn end_background_thread(&self) -> Result<(), String> {
        set_background_thread(false)
    }

    fn purge(&self) -> std::io::Result<()> {
        purge()
    }

    fn report(&self) -> String {
        report()
    }

    #[cfg(debug_assertions)]
    fn fault_when_growing(&self) {
        fault_when_growing();
    }
}

impl ReportMemory for Noting {
    fn report_begins(&self) {
        report_begins();
    }

    fn refused(&self) -> usize {
        REFUSED.load(Relaxed)
    }
}

impl Noting {
    #[inline]
    fn noted(memory: *mut u8, bytes: usize) -> *mut u8 {
        if memory.is_null() {
            note_refused(bytes);
        }
        memory
    }
}

#[cold]
fn note_refused(bytes: usize) {
    REFUSED.store(bytes, Relaxed);
}

// SAFETY: every call goes to jemalloc's implementation unchanged, and its result is returned; recording a
// size allocates nothing and does not unwind. The thread that reports a fault is served by
// `report_memory` instead, whose blocks are aligned as requested, overlap no other, and are never reused.
// JUSTIFICATION: when memory has run out the process ends by SIGABRT, and only this code knows the
// requested size; a fault inside jemalloc can be reported only without jemalloc. The price is a test for
// null after each allocation, and before each call a load and a branch that is never taken.
unsafe impl GlobalAlloc for Noting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_reporting() {
            return report_memory(layout.size(), layout.align());
        }
        // SAFETY: the caller keeps the contract of this very function.
        // JUSTIFICATION: as above, for all four.
        Noting::noted(unsafe { self.0.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_reporting() {
            // The kernel's pages are zero, and no byte is used twice.
            return report_memory(layout.size(), layout.align());
        }
        // SAFETY: as for `alloc`.
        // JUSTIFICATION: as above.
        Noting::noted(unsafe { self.0.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if is_reporting() {
            let larger = report_memory(bytes, layout.align());
            if !larger.is_null() {
                // SAFETY: the old block has `layout.size()` bytes by the caller's contract, the new one has
                // `bytes` and overlaps no other.
                // JUSTIFICATION: as above.
                unsafe { larger.copy_from_nonoverlapping(memory, layout.size().min(bytes)) };
            }
            return larger;
        }
        // SAFETY: as for `alloc`.
        // JUSTIFICATION: as above.
        Noting::noted(unsafe { self.0.realloc(memory, layout, bytes) }, bytes)
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if is_reporting() {
            // The process ends with the report, and the block's owner is not known.
            return;
        }
        // SAFETY: as for `alloc`.
        // JUSTIFICATION: as above.
        unsafe { self.0.dealloc(memory, layout) }
    }
}

/// The kernel's id of the thread that reports a fault; 0 while there is none. Relaxed ordering suffices for
/// this and the two statics below: only the reporting thread allocates from the memory, and a second thread
/// that faults need only see that there is a reporter.
static REPORTER: AtomicI32 = AtomicI32::new(0);
/// The memory from which the reporting thread allocates.
static REPORT_MEMORY: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// Bytes of the report's memory that are in use.
static REPORT_USED: AtomicUsize = AtomicUsize::new(0);

/// Makes this thread allocate from separate memory from now on, because the fault may have happened inside
/// jemalloc, whose locks the thread may hold. Nothing changes if that memory cannot be mapped, or if another
/// thread is reporting already. Other threads are not affected. The process must end afterwards. This
/// function makes only plain system calls.
fn report_begins() {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping wherever the kernel likes touches no memory of ours.
    // JUSTIFICATION: memory that jemalloc does not know; pages that a report does not touch cost nothing.
    let memory = unsafe { libc::mmap(null_mut(), REPORT_BYTES, access, kind | libc::MAP_NORESERVE, -1, 0) };
    if memory == libc::MAP_FAILED {
        return;
    }
    // If two threads fault at the same time, the second one continues with jemalloc.
    let first = REPORT_MEMORY.compare_exchange(null_mut(), memory.cast(), Relaxed, Relaxed);
    if first.is_ok() {
        REPORTER.store(nix::unistd::gettid().as_raw(), Relaxed);
    }
}

/// Whether this thread is reporting a fault.
#[inline]
fn is_reporting() -> bool {
    REPORTER.load(Relaxed) != 0 && is_reporter()
}

#[cold]
fn is_reporter() -> bool {
    REPORTER.load(Relaxed) == nix::unistd::gettid().as_raw()
}

/// A block for the reporting thread; null if no memory is left for it. `align` is a power of two, not larger
/// than a page.
#[cold]
fn report_memory(bytes: usize, align: usize) -> *mut u8 {
    let start = REPORT_USED.load(Relaxed).next_multiple_of(align);
    match start.checked_add(bytes) {
        Some(end) if end <= REPORT_BYTES => {
            REPORT_USED.store(end, Relaxed);
            REPORT_MEMORY.load(Relaxed).wrapping_add(start)
        }
        _ => null_mut(),
    }
}

/// Bytes of address space for the report. Finding the names of functions for the stack trace takes most of
/// the memory: 121 MiB with the debug information of a debug build, because nothing is freed. Only touched
/// pages use memory.
const REPORT_BYTES: usize = 4 << 30;

/// The current figures; a figure that jemalloc does not report is 0. Cost: about 400,000 instructions,
/// because jemalloc walks all its arenas.
fn allocated() -> Allocated {
    let _ = epoch::advance();
    Allocated {
        allocated: stats::allocated::read().unwrap_or(0),
        cached: cached(),
        active: stats::active::read().unwrap_or(0),
        resident: stats::resident::read().unwrap_or(0),
    }
}

/// Bytes in the caches of all threads at the last update of the figures. The caches of running threads
/// are read without stopping the threads, and may be slightly outdated.
fn cached() -> usize {
    // 4096 stands for all arenas (MALLCTL_ARENAS_ALL).
    let name = b"stats.arenas.4096.tcache_bytes\0";
    // SAFETY: the name ends with a zero byte, and jemalloc documents this number as a `size_t`, which `usize`
    // is.
    // JUSTIFICATION: the number has no safe wrapper, and only this number separates used
    // memory from cached memory.
    let read = unsafe { tikv_jemalloc_ctl::raw::read::<usize>(name) };
    read.unwrap_or(0)
}

/// Bytes allocated by this thread, minus the bytes of blocks that it has freed.
fn bytes_of_thread() -> i64 {
    let allocated = allocatedp::read().map_or(0, |bytes| bytes.get());
    let freed = deallocatedp::read().map_or(0, |bytes| bytes.get());
    allocated.wrapping_sub(freed).cast_signed()
}

/// Starts or ends jemalloc's background thread.
fn set_background_thread(runs: bool) -> Result<(), String> {
    tikv_jemalloc_ctl::background_thread::write(runs).map_err(|error| error.to_string())
}

/// Name and version, for INFO.
fn name() -> String {
    let version = tikv_jemalloc_ctl::version::read().unwrap_or("unknown");
    format!("jemalloc-{}", version.split('-').next().unwrap_or(version))
}

/// Returns unused pages of every arena to the system.
///
/// # Errors
/// The error number that jemalloc returns.
fn purge() -> std::io::Result<()> {
    // 4096 stands for all arenas (MALLCTL_ARENAS_ALL).
    let name = c"arena.4096.purge";
    // SAFETY: the name ends with a zero byte; all other pointers are null, which says that there is no value
    // to read or to write, as this control demands.
    // JUSTIFICATION: jemalloc's purge control has no safe wrapper, and the unsafe `raw::write` of
    // `tikv_jemalloc_ctl` always passes a value.
    let status = unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
    if status == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(status)) }
}

/// For tests of the crash report: from now on jemalloc faults, while it holds locks, as soon as its first
/// arena (the main thread's) needs memory from the kernel.
#[cfg(debug_assertions)]
fn fault_when_growing() {
    use std::ffi::c_void;
    use tikv_jemalloc_sys::extent_hooks_t;

    extern "C" fn fault(
        _: *mut extent_hooks_t,
        _: *mut c_void,
        _: usize,
        _: usize,
        _: *mut bool,
        _: *mut bool,
        _: std::ffi::c_uint,
    ) -> *mut c_void {
        // This is the signal of an invalid memory access, raised at this instruction.
        let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSEGV);
        null_mut()
    }

    static NAME: &std::ffi::CStr = c"arena.0.extent_hooks";
    let mut old: *mut extent_hooks_t = null_mut();
    let mut size = size_of_val(&old);
    // SAFETY: this control writes one pointer, to the hooks in use, to `old`, which has room for it; `size`
    // is its size.
    // JUSTIFICATION: only hooks make jemalloc fault while it holds its locks; they have no safe wrapper.
    // Tests only.
    let status = unsafe {
        tikv_jemalloc_sys::mallctl(NAME.as_ptr(), (&raw mut old).cast(), &raw mut size, null_mut(), 0)
    };
    assert_eq!(status, 0);
    // SAFETY: jemalloc's own table of hooks, which lives as long as the process.
    // JUSTIFICATION: as above.
    let hooks = unsafe { extent_hooks_t { alloc: Some(fault), ..std::ptr::read(old) } };
    let mut new: *mut extent_hooks_t = Box::into_raw(Box::new(hooks));
    // SAFETY: this control takes one pointer to hooks that live as long as the arena: these are never freed.
    // JUSTIFICATION: as above.
    let status = unsafe {
        tikv_jemalloc_sys::mallctl(NAME.as_ptr(), null_mut(), null_mut(), (&raw mut new).cast(), size)
    };
    assert_eq!(status, 0);
}

/// The text of jemalloc's statistics.
fn report() -> String {
    let mut out = Vec::new();
    match tikv_jemalloc_ctl::stats_print::stats_print(
        &mut out,
        tikv_jemalloc_ctl::stats_print::Options::default(),
    ) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(error) => format!("the allocator's report failed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_block_is_used_no_longer_though_a_cache_keeps_it() {
        // The blocks have sizes that the thread caches keep. Other tests of this process allocate at the same
        // time, so the margin is wide.
        let block = |n: usize| vec![1_u8; 512 << (n % 6)];
        let mut blocks: Vec<Vec<u8>> = (0..6000).map(block).collect();
        let full = allocated();
        blocks.clear();
        let freed = allocated();
        assert!(full.used() > freed.used() + (9 << 20), "{full:?} {freed:?}");
        assert!(freed.cached > 50_000, "{freed:?}");
        assert!(freed.used() + freed.cached == freed.allocated);
    }

    #[test]
    fn what_a_thread_holds_is_known_without_reading_all_numbers() {
        let before = bytes_of_thread();
        let blocks: Vec<Vec<u8>> = (0..100).map(|_| vec![1; 1 << 10]).collect();
        let held = bytes_of_thread() - before;
        assert!((100 << 10..110 << 10).contains(&held), "{held}");
        std::thread::spawn(move || drop(blocks)).join().expect("nothing panics there");
        assert!(bytes_of_thread() - before >= 100 << 10, "another thread has freed them");
    }

    #[test]
    fn the_size_classes_are_those_that_sums_assume() {
        for bytes in (1..300_000).step_by(7).chain([8, 16, 48, 128, 4096, 14_336, 16_384, 1 << 20]) {
            // SAFETY: this function takes any size but 0, and touches no memory.
            // JUSTIFICATION: it has no safe wrapper.
            let given = unsafe { tikv_jemalloc_sys::nallocx(bytes, 0) };
            assert_eq!(sluice_base::heap::block(bytes), given, "{bytes}");
        }
    }

    #[test]
    fn a_purge_gives_pages_back() {
        purge().expect("the control exists and takes no value");
        let mut blocks: Vec<Vec<u8>> = (0..4096).map(|_| vec![1; 16 << 10]).collect();
        let full = allocated().resident;
        blocks.clear();
        purge().expect("again");
        let freed = full.saturating_sub(allocated().resident);
        assert!(freed > 32 << 20, "{freed} of 64 MiB");
    }
}
