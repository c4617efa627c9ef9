//! The allocator and its numbers.
//!
//! jemalloc, because entries come and go in sizes that change over months: its size classes and its decay keep resident
//! memory near what is used, and it reports both.

use tikv_jemalloc_ctl::{epoch, stats};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What jemalloc reports, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocated {
    /// Given out.
    pub allocated: usize,
    /// In pages with something given out.
    pub active: usize,
    /// In pages that are resident.
    pub resident: usize,
}

/// The present numbers. Cost: some microseconds.
pub fn allocated() -> Allocated {
    let _ = epoch::advance();
    Allocated {
        allocated: stats::allocated::read().unwrap_or(0),
        active: stats::active::read().unwrap_or(0),
        resident: stats::resident::read().unwrap_or(0),
    }
}

/// Name and version, as INFO shows it.
pub fn name() -> String {
    let version = tikv_jemalloc_ctl::version::read().unwrap_or("unknown");
    format!("jemalloc-{}", version.split('-').next().unwrap_or(version))
}

/// Gives unused pages of every arena back to the system.
pub fn purge() {
    // The names are jemalloc's; 4096 stands for all arenas.
    let _ = tikv_jemalloc_ctl::background_thread::read();
    purge_arenas();
}

fn purge_arenas() {
    if let Ok(name) = std::ffi::CString::new("arena.4096.purge") {
        // SAFETY: the control named takes no value and returns none.
        // JUSTIFICATION: MEMORY PURGE has no safe wrapper.
        let _ = unsafe { tikv_jemalloc_ctl::raw::write(name.as_bytes_with_nul(), ()) };
    }
}

/// jemalloc's own report.
pub fn report() -> String {
    let mut out = Vec::new();
    match tikv_jemalloc_ctl::stats_print::stats_print(
        &mut out,
        tikv_jemalloc_ctl::stats_print::Options::default(),
    ) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(error) => format!("the allocator's report failed: {error}"),
    }
}
