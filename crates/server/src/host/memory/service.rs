//! The memory of the process, as `maxmemory` and INFO count it.

use crate::allocator::Allocated;
use crate::host::Host;
use crate::host::memory::SignsOfGrowth;
use crate::lazyfree::LazyFreeThread;
use sluice_base::LogLevel;
use sluice_control::process::ProcessMemory;
use sluice_daemon::usage;
use sluice_keyspace::Keyspace;
use sluice_storage::plain_error;

/// How long a reading of the allocator's figures is valid for `maxmemory`.
const MEMORY_FRESH_NS: u64 = 1_000_000;
/// How long a reading is valid for a sample of the metrics endpoint. The cron reads ten times a second by
/// default. If each sample read the allocator, that would take two thirds of the sample's time, because
/// jemalloc walks all its arenas and their lists of free pages.
const MEMORY_RECENT_NS: u64 = 300_000_000;
/// How long a reading is valid for INFO while no other command runs. The reference reads its allocator
/// equally often.
const MEMORY_SHOWN_NS: u64 = 100_000_000;
/// How long a reading is valid for the memory peak while no sign shows growth.
const MEMORY_AT_REST_NS: u64 = 1_000_000_000;

impl Host {
    /// Reads the figures of the allocator, and updates the peak. This is also called at the end of a load.
    /// INFO reads new figures early only after commands, and a load is no command, so INFO would otherwise
    /// show the memory from the middle of the load for a tenth of a second.
    pub(crate) fn read_memory(&mut self, keyspace: &Keyspace) -> Allocated {
        let loading = self.incoming.load.as_ref().map(|load| load.chunk_memory()).unwrap_or_default();
        let numbers = self.allocator.allocated().with_entries(keyspace.chunk_memory().plus(loading));
        self.memory.numbers = numbers;
        self.memory.read_at_ns = self.clock.recent().mono_ns;
        if numbers.used() > self.memory.peak {
            self.memory.peak = numbers.used();
            self.memory.peak_s = self.clock.recent().unix_s();
        }
        numbers
    }

    /// Updates the memory peak. The figures are read only once a second while no sign shows growth and no
    /// load runs, because a reading costs some 400,000 instructions. This is most of the work of an idle
    /// server, and was a twelfth of the work of a server that answered single GETs at a tenth of its
    /// capacity.
    pub(in crate::host) fn watch_peak(&mut self, keyspace: &Keyspace, commands: u64) {
        let signs = SignsOfGrowth {
            commands,
            input_bytes: self.counts_now().net_input_bytes,
            bytes_of_thread: self.allocator.bytes_of_thread(),
            entry_bytes: keyspace.chunk_memory().used_bytes,
        };
        let now_ns = self.clock.recent().mono_ns;
        let is_recent = now_ns.saturating_sub(self.memory.read_at_ns) < MEMORY_AT_REST_NS;
        if is_recent && !signs.show_growth(&self.memory.signs) && self.incoming.load.is_none() {
            return;
        }
        self.memory.signs = signs;
        self.read_memory(keyspace);
    }

    /// The allocator's figures as last read, normally by the cron. If that reading is too old, they are read
    /// again.
    pub(in crate::host) fn recent_memory(&mut self, keyspace: &Keyspace) -> Allocated {
        match self.clock.recent().mono_ns.saturating_sub(self.memory.read_at_ns) > MEMORY_RECENT_NS {
            true => self.read_memory(keyspace),
            false => self.memory.numbers,
        }
    }

    /// The allocator's figures for INFO; `commands` is the number of commands other than INFO so far. The
    /// reading is at most a tenth of a second old, and newer than the last of these commands.
    pub(in crate::host) fn shown_memory(&mut self, keyspace: &Keyspace, commands: u64) -> Allocated {
        let age_ns = self.clock.recent().mono_ns.saturating_sub(self.memory.read_at_ns);
        if age_ns < MEMORY_SHOWN_NS && self.memory.shown_after == commands {
            return self.memory.numbers;
        }
        self.memory.shown_after = commands;
        self.read_memory(keyspace)
    }

    /// Resident bytes of the process, at most a tenth of a second old.
    pub(in crate::host) fn shown_resident(&mut self) -> usize {
        let now_ns = self.clock.recent().mono_ns;
        if self.memory.resident == 0 || now_ns.saturating_sub(self.memory.resident_at_ns) >= MEMORY_SHOWN_NS {
            self.memory.resident_at_ns = now_ns;
            self.memory.resident = usage::resident_bytes();
        }
        self.memory.resident
    }

    /// Bytes allocated at this moment.
    pub fn allocated_now(&mut self, keyspace: &Keyspace) -> usize {
        self.read_memory(keyspace).allocated
    }
}

impl ProcessMemory for Host {
    fn used_memory(&mut self, keyspace: &Keyspace) -> usize {
        if self.clock.recent().mono_ns.saturating_sub(self.memory.read_at_ns) > MEMORY_FRESH_NS {
            self.read_memory(keyspace);
        }
        self.memory.numbers.used()
    }

    fn counted_memory(&mut self, keyspace: &Keyspace) -> usize {
        self.read_memory(keyspace);
        self.memory.numbers.used().saturating_sub(self.bio.as_ref().map_or(0, LazyFreeThread::pending_bytes))
    }

    fn purge_memory(&mut self) {
        if let Err(error) = self.allocator.purge() {
            self.note(LogLevel::Warning, &format!("MEMORY PURGE failed: {}", plain_error(&error)));
        }
    }

    fn malloc_stats(&mut self) -> String {
        self.allocator.report()
    }
}
