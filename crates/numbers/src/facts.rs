//! Facts about the process for the engine's reports: records, made for one INFO or one sample and read once.

/// Facts about the certificates of TLS; `None` for a certificate that is not configured.
#[derive(Clone, Debug, Default)]
pub struct CertificateFacts {
    /// The server's own certificate (`tls-cert-file`).
    pub server: Option<CertificateFact>,
    /// The server's second certificate (`tls-alt-cert-file`), if one is set.
    pub server_alt: Option<CertificateFact>,
    /// The certificate for connections that this server opens (`tls-client-cert-file`), if one is set.
    pub client: Option<CertificateFact>,
    /// The certificate that expires first among those of the authorities.
    pub authority: Option<CertificateFact>,
}

/// The values that INFO shows for one certificate.
#[derive(Clone, Debug)]
pub struct CertificateFact {
    /// The serial number, in hexadecimal.
    pub serial: String,
    /// End of validity, in seconds since the epoch.
    pub expires_at_s: i64,
}

/// Facts that the process knows and the engine reports.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Version of Sluice, not the reported Valkey version.
    pub own_version: &'static str,
    /// Id of the process, as `getpid` returns it.
    pub pid: u32,
    /// Connections that MIGRATE keeps open for reuse.
    pub migrate_cached_sockets: usize,
    /// The supervisor that `supervised` asks for and that started the process: `systemd` or `upstart`.
    pub supervised: Option<&'static str>,
    /// Name and version of the operating system.
    pub os: String,
    /// Path of the executable.
    pub executable: String,
    /// Path of the configuration file; empty without one.
    pub config_file: String,
    /// The method of reading the clock.
    pub monotonic_clock: String,
    /// Name of the event loop that runs.
    pub event_loop: String,
    /// The reason why this event loop was chosen.
    pub event_loop_reason: String,
    /// The listening sockets, each with its number N (0 is plain TCP, 1 a unix socket, 2 TLS) and INFO's text
    /// after `listenerN:`.
    pub listeners: Vec<(usize, String)>,
    /// The certificates that TLS uses.
    pub certificates: CertificateFacts,
    /// Size of a pointer, in bits.
    pub arch_bits: u32,
    /// Name of the allocator.
    pub allocator: String,
    /// Bytes in use: all bytes allocated from the allocator, except the part of the chunks for entries that
    /// no entry uses, and freed blocks that the threads' caches keep.
    pub used_memory: usize,
    /// Greatest `used_memory` so far, in bytes.
    pub used_memory_peak: usize,
    /// Time of that peak, in seconds since the epoch.
    pub used_memory_peak_time: i64,
    /// Bytes in use before data was loaded.
    pub used_memory_startup: usize,
    /// Resident bytes of the process, as the kernel reports them.
    pub resident: usize,
    /// Bytes allocated from the allocator, freed blocks in the threads' caches included, and bytes that
    /// entries use.
    pub allocator_allocated: usize,
    /// Bytes in active pages, without the untouched part of the chunks of entries.
    pub allocator_active: usize,
    /// Bytes in resident pages of the allocator, without the untouched part of the chunks of entries.
    pub allocator_resident: usize,
    /// Bytes in muzzy pages of the allocator.
    pub allocator_muzzy: usize,
    /// Bytes of physical memory of the machine.
    pub total_system_memory: usize,
    /// Processor time: kernel, user space, children, and the main thread; in microseconds.
    pub cpu: CpuTimes,
    /// Bytes received, from clients and from the primary.
    pub net_input_bytes: u64,
    /// Bytes sent to clients.
    pub net_output_bytes: u64,
    /// Number of read events processed.
    pub reads_processed: u64,
    /// Number of write events processed.
    pub writes_processed: u64,
    /// Iterations of the event loop.
    pub eventloop_cycles: u64,
    /// Total duration of the iterations, in microseconds.
    pub eventloop_duration_sum: u64,
    /// Duration of commands within iterations, in microseconds.
    pub eventloop_duration_cmd_sum: u64,
    /// Duration of the longest iteration, in microseconds.
    pub longest_iteration_us: u64,
    /// The replication stream received while a snapshot is not yet loaded.
    pub stream_buffer: StreamBufferFacts,
    /// Values waiting to be freed on another thread.
    pub lazyfree_pending: u64,
    /// Values freed on another thread so far.
    pub lazyfreed: u64,
    /// Counters of the main thread's event loop; `None` before they are first read.
    pub event_loop_counts: Option<EventLoopCounts>,
    /// Parts of memory, in bytes, each with the name that INFO debug shows after `memory_`; empty if the
    /// parts were not summed.
    pub memory_parts: Vec<(String, i64)>,
    /// Size of the largest recent input buffer of a client, in bytes.
    pub recent_max_input: usize,
    /// Counters of the I/O threads.
    pub io_threads: IoThreads,
    /// Sizes and syncs of the append-only file.
    pub aof: AofFacts,
    /// The snapshot that is being received from the primary, if any.
    pub sync: Option<SyncFacts>,
    /// Bytes received from the primary.
    pub net_repl_input_bytes: u64,
}

/// Counters of one event loop.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventLoopCounts {
    /// Number of waits that blocked in the kernel.
    pub parks: u64,
    /// Number of calls into the kernel.
    pub system_calls: u64,
    /// Number of completed operations that were handled.
    pub events: u64,
    /// Number of events of connections that had been closed before the events were handled.
    pub stale_events: u64,
    /// Number of waits that were lengthened to gather more events.
    pub gathered: u64,
    /// Number of receives that found no free buffer.
    pub starvations: u64,
    /// Number of wake-ups merged with a pending one.
    pub wakes_coalesced: u64,
    /// Number of wake-ups sent by a system call.
    pub wakes_sent: u64,
    /// Number of wake-ups that the loop has received.
    pub wakes_seen: u64,
    /// Number of connections that could not be accepted.
    pub accept_failures: u64,
    /// Number of sends of which the peer took only a part.
    pub sends_blocked: u64,
    /// Duration of the longest iteration by the wall clock, in microseconds.
    pub iteration_max_us: u64,
    /// Processor time of the thread in that iteration, in microseconds.
    pub iteration_max_cpu_us: u64,
}

/// The replication stream that arrives on one connection while the snapshot, sent on another, is
/// not yet loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamBufferFacts {
    /// Bytes that are buffered now.
    pub bytes: u64,
    /// Most bytes buffered since the last synchronisation began.
    pub peak: u64,
}

impl StreamBufferFacts {
    /// Sets the buffered bytes, and raises the peak if needed.
    pub fn set(&mut self, bytes: usize) {
        self.bytes = bytes as u64;
        self.peak = self.peak.max(self.bytes);
    }
}

/// Progress of a snapshot that is being received from the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFacts {
    /// Size of the snapshot in bytes: -1 until the primary has announced it, 0 if the primary does
    /// not know it.
    pub total_bytes: i64,
    /// Bytes of the snapshot that have been received.
    pub read_bytes: u64,
    /// Seconds since the last bytes were received.
    pub last_io_s: u64,
}

/// The size of the append-only file, and the state of its disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct AofFacts {
    /// Bytes of all files with data.
    pub current_bytes: u64,
    /// Bytes of all files with data after the last rewrite; if there was no rewrite since the start, bytes of
    /// the base file.
    pub base_bytes: u64,
    /// Bytes that are not yet written to the file.
    pub buffer_bytes: u64,
    /// Whether a sync is under way.
    pub is_syncing: bool,
    /// Syncs that took longer than a second.
    pub delayed_syncs: u64,
    /// Free bytes of the file's disk, if known.
    pub free_bytes: Option<u64>,
}

/// Counters of the I/O threads, all together unless stated otherwise.
#[derive(Clone, Debug, Default)]
pub struct IoThreads {
    /// I/O threads that have connections.
    pub active: usize,
    /// Whether I/O threads and the main thread poll for work before they sleep.
    pub is_spinning: bool,
    /// The reason for the present number of active threads.
    pub reason: &'static str,
    /// Batches of requests that I/O threads received, parsed and prepared.
    pub reads: u64,
    /// Batches of replies that I/O threads sent.
    pub writes: u64,
    /// Batches that are at the main thread now.
    pub reads_pending: u64,
    /// Busy time of each I/O thread, in microseconds.
    pub active_us: Vec<u64>,
    /// Number of times that I/O threads slept until woken.
    pub parks: u64,
    /// Number of times that the number of active I/O threads was raised.
    pub grown: u64,
    /// Number of times that the number of active I/O threads was lowered.
    pub shrunk: u64,
    /// Values that I/O threads freed.
    pub freed: u64,
    /// Number of waits of I/O threads that returned events.
    pub polls: u64,
    /// Total waiting time of batches, in nanoseconds: from the start of the iteration in which an I/O
    /// thread received the batch to its execution.
    pub wait_ns: u64,
    /// Total duration of iterations that executed batches, in nanoseconds.
    pub service_ns: u64,
    /// Number of messages that found a full ring (the queue between two threads) and waited at the sender.
    /// The first number counts messages to I/O threads, the second those from I/O threads.
    pub full: [u64; 2],
    /// Placement of connections on threads.
    pub placed: PlacedConnections,
}

/// Numbers of connections given to I/O threads or kept by the main thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlacedConnections {
    /// Connections given to I/O threads when they were accepted.
    pub accepts: u64,
    /// Connections moved because their I/O thread was busier than others.
    pub balanced: u64,
    /// Connections that the main thread has now although I/O threads are active.
    pub kept: usize,
}

/// Processor times of the process and the main thread, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    /// Time in the kernel, all threads.
    pub sys: u64,
    /// Time in user space, all threads.
    pub user: u64,
    /// Time of child processes in the kernel.
    pub sys_children: u64,
    /// Time of child processes in user space.
    pub user_children: u64,
    /// Time of the main thread in the kernel.
    pub sys_main: u64,
    /// Time of the main thread in user space.
    pub user_main: u64,
    /// Busy time of the main thread, in microseconds.
    pub active_main: u64,
}

/// Numbers about the process that any of its threads can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessNumbers {
    /// Resident bytes: [`Facts::resident`].
    pub resident: usize,
    /// Processor time in the kernel, microseconds.
    pub sys: u64,
    /// Processor time in user space, microseconds.
    pub user: u64,
    /// Processor time of children in the kernel, microseconds.
    pub sys_children: u64,
    /// Processor time of children in user space, microseconds.
    pub user_children: u64,
}

/// Running counts of the event loop and the network, for rates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Bytes received, from clients and from the primary.
    pub net_input_bytes: u64,
    /// Bytes sent to clients.
    pub net_output_bytes: u64,
    /// Bytes received from the primary; included in `net_input_bytes`.
    pub net_repl_input_bytes: u64,
    /// Iterations of the event loop.
    pub cycles: u64,
    /// Total duration of the iterations, in microseconds.
    pub cycle_us: u64,
}
