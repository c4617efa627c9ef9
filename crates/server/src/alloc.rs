//! The allocator and its numbers.
//!
//! jemalloc, because entries come and go in sizes that change over months: its size classes and its decay keep resident
//! memory near what is used, and it reports both.

use sluice_keyspace::ChunkMemory;
use std::ptr::null_mut;
use tikv_jemalloc_ctl::{epoch, stats};

// The race checker follows the system's allocator, and would see races in the reuse of memory behind any other.
#[cfg_attr(not(sluice_system_allocator), global_allocator)]
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

impl Allocated {
    /// The numbers with the entries, whose chunks the allocator does not know. `allocated` grows by the entries; the pages
    /// that were touched are active and resident, so that free blocks between entries show as fragmentation.
    ///
    /// A database that was given to another thread to be freed has left the keyspace: its chunks count no more.
    pub fn with_entries(self, memory: ChunkMemory) -> Allocated {
        Allocated {
            allocated: self.allocated + memory.used_bytes,
            active: self.active + memory.touched_bytes,
            resident: self.resident + memory.touched_bytes,
        }
    }
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

/// Starts the allocator's own thread, which gives unused pages back to the system while nobody allocates. To be called after
/// the last fork: a child has no thread but the one that forked.
///
/// # Errors
/// The allocator's text.
pub fn start_background_thread() -> Result<(), String> {
    set_background_thread(cfg!(not(sluice_system_allocator)))
}

/// Ends that thread; pages are then given back by threads that allocate.
///
/// # Errors
/// The allocator's text.
pub fn end_background_thread() -> Result<(), String> {
    set_background_thread(false)
}

fn set_background_thread(runs: bool) -> Result<(), String> {
    tikv_jemalloc_ctl::background_thread::write(runs).map_err(|error| error.to_string())
}

/// Name and version, as INFO shows it.
pub fn name() -> String {
    let version = tikv_jemalloc_ctl::version::read().unwrap_or("unknown");
    format!("jemalloc-{}", version.split('-').next().unwrap_or(version))
}

/// Gives unused pages of every arena back to the system.
///
/// # Errors
/// jemalloc's, as the system's error number.
pub fn purge() -> std::io::Result<()> {
    // 4096 stands for all arenas (MALLCTL_ARENAS_ALL).
    let name = c"arena.4096.purge";
    // SAFETY: the name ends with a zero byte; all other pointers are null, which says that there is no value to read or
    // to write, as this control demands.
    // JUSTIFICATION: MEMORY PURGE has no safe wrapper, and the crate's unsafe one always passes a value.
    let status = unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
    if status == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(status)) }
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

#[cfg(test)]
mod tests {
    use super::*;

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
