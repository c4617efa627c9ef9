//! The interface to the allocator, which the program supplies.

use sluice_daemon::crash::ReportMemory;
use sluice_keyspace::ChunkMemory;

/// The allocator of the process: its memory figures, and the operations that an operator may request.
pub trait Allocator: ReportMemory {
    /// Name and version, as INFO shows it.
    fn name(&self) -> String;

    /// The present memory figures. Cost: some microseconds.
    fn allocated(&self) -> Allocated;

    /// Bytes in the caches of all threads when the figures were last updated. The cache of a running
    /// thread is read without stopping the thread, and may be slightly out of date.
    fn cached(&self) -> usize;

    /// Bytes that the calling thread has allocated so far, minus the bytes that it has freed. Negative if
    /// the thread has freed much memory that other threads had allocated. Cost: below a microsecond.
    fn bytes_of_thread(&self) -> i64;

    /// Starts the allocator's own thread, which returns unused pages to the system while no thread
    /// allocates. Called after the last fork, because a child process has only the forking thread.
    ///
    /// # Errors
    /// The allocator's error text.
    fn start_background_thread(&self) -> Result<(), String>;

    /// Ends the background thread; threads that allocate then return pages to the system.
    ///
    /// # Errors
    /// The allocator's error text.
    fn end_background_thread(&self) -> Result<(), String>;

    /// Returns unused pages to the system.
    ///
    /// # Errors
    /// The allocator's error, as an error number of the system.
    fn purge(&self) -> std::io::Result<()>;

    /// The allocator's own report, as text.
    fn report(&self) -> String;

    /// Makes the allocator fault, with locks held, when it next needs memory from the kernel for the main
    /// thread. Used by the test of the crash report.
    #[cfg(debug_assertions)]
    fn fault_when_growing(&self);
}

/// The allocator's memory figures, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocated {
    /// Bytes of blocks that the program or the threads' caches have.
    pub allocated: usize,
    /// Bytes of freed blocks that the threads' caches keep for later allocations; a part of `allocated`.
    pub cached: usize,
    /// Bytes of pages in which at least one block is allocated.
    pub active: usize,
    /// Bytes of resident pages.
    pub resident: usize,
}

impl Allocated {
    /// The figures including the chunks of entries, which are in memory that the allocator does not
    /// manage. Entries count as allocated, and touched pages as active and resident, so that free blocks
    /// between entries show as fragmentation.
    ///
    /// The entries of a database that was handed to another thread to be freed do not count any more.
    pub fn with_entries(self, memory: ChunkMemory) -> Allocated {
        Allocated {
            cached: self.cached,
            allocated: self.allocated + memory.used_bytes,
            active: self.active + memory.touched_bytes,
            resident: self.resident + memory.touched_bytes,
        }
    }

    /// Bytes that the program uses. As in the reference, a freed block is not in use, even if a cache
    /// keeps it. A thread's cache has some hundred kilobytes and changes with the thread's work, so it
    /// must not count for `maxmemory`.
    pub fn used(self) -> usize {
        self.allocated.saturating_sub(self.cached)
    }
}

/// An allocator without memory figures, for tests of the process.
#[cfg(test)]
pub struct NoAllocator;

#[cfg(test)]
impl Allocator for NoAllocator {
    fn name(&self) -> String {
        "none".to_owned()
    }

    fn allocated(&self) -> Allocated {
        Allocated::default()
    }

    fn cached(&self) -> usize {
        0
    }

    fn bytes_of_thread(&self) -> i64 {
        0
    }

    fn start_background_thread(&self) -> Result<(), String> {
        Ok(())
    }

    fn end_background_thread(&self) -> Result<(), String> {
        Ok(())
    }

    fn purge(&self) -> std::io::Result<()> {
        Ok(())
    }

    fn report(&self) -> String {
        String::new()
    }

    #[cfg(debug_assertions)]
    fn fault_when_growing(&self) {}
}

#[cfg(test)]
impl ReportMemory for NoAllocator {
    fn report_begins(&self) {}

    fn refused(&self) -> usize {
        0
    }
}
