//! What the process asks of its allocator. The program brings the allocator along.

use sluice_daemon::crash::ReportMemory;
use sluice_keyspace::ChunkMemory;

/// The allocator of the process: its numbers, and what an operator may ask of it.
pub trait Allocator: ReportMemory {
    /// Name and version, as INFO shows it.
    fn name(&self) -> String;

    /// The present numbers. Cost: some microseconds.
    fn allocated(&self) -> Allocated;

    /// Bytes in the caches of all threads when the numbers were brought up to date. Those of a thread that is
    /// at work are read without stopping it, and may be those of a moment before.
    fn cached(&self) -> usize;

    /// Bytes that the thread which calls this has allocated so far, less those that it has freed: below zero
    /// where others had allocated them. Cost: below a microsecond.
    fn bytes_of_thread(&self) -> i64;

    /// Starts the allocator's own thread, which gives unused pages back to the system while no thread
    /// allocates. To be called after the last fork: a child has no thread but the one that forked.
    ///
    /// # Errors
    /// The allocator's text.
    fn start_background_thread(&self) -> Result<(), String>;

    /// Ends that thread; pages are then given back by threads that allocate.
    ///
    /// # Errors
    /// The allocator's text.
    fn end_background_thread(&self) -> Result<(), String>;

    /// Gives unused pages back to the system.
    ///
    /// # Errors
    /// The allocator's, as the system's error number.
    fn purge(&self) -> std::io::Result<()>;

    /// The allocator's own report.
    fn report(&self) -> String;

    /// The allocator faults from now on, with locks held, when it needs memory from the kernel for the main
    /// thread: for the test that such a fault is reported.
    #[cfg(debug_assertions)]
    fn fault_when_growing(&self);
}

/// What the allocator reports, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocated {
    /// Given out, to the program and to the threads' caches.
    pub allocated: usize,
    /// Freed blocks, a part of `allocated`, that the threads' caches keep for the next allocations of their
    /// sizes.
    pub cached: usize,
    /// In pages with something given out.
    pub active: usize,
    /// In pages that are resident.
    pub resident: usize,
}

impl Allocated {
    /// The numbers with the chunks of the entries, which lie in regions of their own that the allocator does
    /// not know: the entries are given out, and the pages that were touched are active and resident, so that
    /// free blocks between entries show as fragmentation.
    ///
    /// A database that was given to another thread to be freed has left the keyspace: its entries no longer
    /// count.
    pub fn with_entries(self, memory: ChunkMemory) -> Allocated {
        Allocated {
            cached: self.cached,
            allocated: self.allocated + memory.used_bytes,
            active: self.active + memory.touched_bytes,
            resident: self.resident + memory.touched_bytes,
        }
    }

    /// What the program uses: as the reference counts, a block that is freed is used no longer, whoever keeps
    /// it. The caches of a thread keep some hundred kilobytes and come and go with what it does, so
    /// `maxmemory` must not feel them.
    pub fn used(self) -> usize {
        self.allocated.saturating_sub(self.cached)
    }
}

/// An allocator without numbers, for tests of the process.
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
