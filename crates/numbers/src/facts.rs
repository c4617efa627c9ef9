//! What the process knows and the engine reports: records, made for one INFO or sample and read once.

/// What is known of the certificates that TLS uses; none where there is no such certificate.
#[derive(Clone, Debug, Default)]
pub struct CertificateFacts {
    /// The server's own.
    pub server: Option<CertificateFact>,
    /// The server's second one (`tls-alt-cert-file`), if one is set.
    pub server_alt: Option<CertificateFact>,
    /// The certificate for connections that this server opens (`tls-client-cert-file`), if one is set.
    pub client: Option<CertificateFact>,
    /// Of the authorities, the one that expires first.
    pub authority: Option<CertificateFact>,
}

/// What INFO shows of a certificate.
#[derive(Clone, Debug)]
pub struct CertificateFact {
    /// Its serial number, hexadecimal.
    pub serial: String,
    /// When it expires, seconds since the epoch.
    pub expires_at_s: i64,
}

/// What the process knows and the engine reports.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The server's own version.
    pub own_version: &'static str,
    /// Process id.
    pub pid: u32,
    /// Connections that MIGRATE has kept.
    pub migrate_cached_sockets: usize,
    /// The supervisor that started the process, if one did and was asked for: `systemd` or `upstart`.
    pub supervised: Option<&'static str>,
    /// Name and version of the operating system.
    pub os: String,
    /// Path of the executable.
    pub executable: String,
    /// Path of the config file; empty without one.
    pub config_file: String,
    /// How the clock is read.
    pub monotonic_clock: String,
    /// Which event loop runs.
    pub event_loop: String,
    /// Why that one.
    pub event_loop_reason: String,
    /// The listening sockets, as INFO writes them behind `listenerN:`, each with its N: 0 is plain TCP, 1 a
    /// unix socket, 2 TLS.
    pub listeners: Vec<(usize, String)>,
    /// What is known of the certificates that TLS uses.
    pub certificates: CertificateFacts,
    /// Size of a pointer, bits.
    pub arch_bits: u32,
    /// Name of the allocator.
    pub allocator: String,
    /// Bytes in use: what the allocator has given out, and of the entries' chunks the entries only.
    pub used_memory: usize,
    /// Most bytes so far.
    pub used_memory_peak: usize,
    /// When that was, seconds since the epoch.
    pub used_memory_peak_time: i64,
    /// Bytes the process takes before it holds data.
    pub used_memory_startup: usize,
    /// Resident bytes.
    pub resident: usize,
    /// Bytes allocated: the same as `used_memory`.
    pub allocator_allocated: usize,
    /// Bytes in active pages, less what was never touched of the entries' chunks; so for resident pages.
    pub allocator_active: usize,
    /// Bytes in resident pages.
    pub allocator_resident: usize,
    /// Bytes in muzzy pages.
    pub allocator_muzzy: usize,
    /// Bytes of memory in the machine.
    pub total_system_memory: usize,
    /// Processor time: system, user, of children, and of the main thread; microseconds.
    pub cpu: CpuTimes,
    /// Bytes received from clients.
    pub net_input_bytes: u64,
    /// Bytes sent to clients.
    pub net_output_bytes: u64,
    /// Read events processed.
    pub reads_processed: u64,
    /// Write events processed.
    pub writes_processed: u64,
    /// Iterations of the event loop.
    pub eventloop_cycles: u64,
    /// Their duration together, microseconds.
    pub eventloop_duration_sum: u64,
    /// Duration of commands within them, microseconds.
    pub eventloop_duration_cmd_sum: u64,
    /// Longest iteration, microseconds.
    pub longest_iteration_us: u64,
    /// What the primary has sent behind a snapshot that is not loaded yet.
    pub stream_buffer: StreamBufferFacts,
    /// Values waiting to be freed on another thread.
    pub lazyfree_pending: u64,
    /// Values freed there so far.
    pub lazyfreed: u64,
    /// What the main thread's event loop did; none before it was looked at first.
    pub event_loop_counts: Option<EventLoopCounts>,
    /// Parts of memory, bytes, by what INFO debug writes behind `memory_`; none where nobody sums them.
    pub memory_parts: Vec<(String, i64)>,
    /// Largest input buffer of a client recently, bytes.
    pub recent_max_input: usize,
    /// What IO threads did.
    pub io_threads: IoThreads,
    /// The append-only file.
    pub aof: AofFacts,
    /// The snapshot that is received from the primary.
    pub sync: Option<SyncFacts>,
    /// Bytes received from the primary.
    pub net_repl_input_bytes: u64,
}

/// What an event loop did.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventLoopCounts {
    /// Waits that blocked.
    pub parks: u64,
    /// Calls into the kernel.
    pub system_calls: u64,
    /// Completions handled.
    pub events: u64,
    /// Events of connections that were closed meanwhile.
    pub stale_events: u64,
    /// Waits that were lengthened for more to come.
    pub gathered: u64,
    /// Receives that found no buffer.
    pub starvations: u64,
    /// Wake-ups that were merged with a pending one.
    pub wakes_coalesced: u64,
    /// Wake-ups that were sent by a system call.
    pub wakes_sent: u64,
    /// Wake-ups that the loop has received.
    pub wakes_seen: u64,
    /// Connections that could not be accepted.
    pub accept_failures: u64,
    /// Sends that the peer did not take whole.
    pub sends_blocked: u64,
    /// Longest iteration, microseconds by the wall clock.
    pub iteration_max_us: u64,
    /// The thread's processor time in that iteration, microseconds.
    pub iteration_max_cpu_us: u64,
}

/// What the primary has sent behind a snapshot that comes on another connection and is not loaded yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamBufferFacts {
    /// Bytes that it takes now.
    pub bytes: u64,
    /// The most since the last synchronisation began.
    pub peak: u64,
}

impl StreamBufferFacts {
    /// It takes so many bytes.
    pub fn set(&mut self, bytes: usize) {
        self.bytes = bytes as u64;
        self.peak = self.peak.max(self.bytes);
    }
}

/// How far a snapshot is that is received from the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFacts {
    /// Its bytes: -1 before the primary has told, 0 where the primary does not know.
    pub total_bytes: i64,
    /// Bytes of the snapshot that have been received.
    pub read_bytes: u64,
    /// Seconds since something came.
    pub last_io_s: u64,
}

/// How large the append-only file is, and how its disk keeps up.
#[derive(Clone, Copy, Debug, Default)]
pub struct AofFacts {
    /// Bytes of all files with data.
    pub current_bytes: u64,
    /// Bytes of all files with data after the last rewrite; since a start without one, those of the base.
    pub base_bytes: u64,
    /// Bytes that are not written yet.
    pub buffer_bytes: u64,
    /// A sync is under way.
    pub is_syncing: bool,
    /// Syncs that took longer than a second.
    pub delayed_syncs: u64,
    /// Bytes that may still be written to its disk, where that is known.
    pub free_bytes: Option<u64>,
}

/// What IO threads did.
#[derive(Clone, Debug, Default)]
pub struct IoThreads {
    /// I/O threads that have connections.
    pub active: usize,
    /// These and the main thread look for work before they sleep.
    pub is_spinning: bool,
    /// Why so many.
    pub reason: &'static str,
    /// Batches of requests that I/O threads received, parsed and prepared.
    pub reads: u64,
    /// Batches of replies that I/O threads sent.
    pub writes: u64,
    /// Batches at the main thread now.
    pub reads_pending: u64,
    /// Time in which each I/O thread had work, microseconds.
    pub active_us: Vec<u64>,
    /// Times I/O threads slept until woken.
    pub parks: u64,
    /// How often the number of active I/O threads was raised.
    pub grown: u64,
    /// How often the number of active I/O threads was lowered.
    pub shrunk: u64,
    /// Values that I/O threads freed.
    pub freed: u64,
    /// Waits of I/O threads' loops that found something.
    pub polls: u64,
    /// Time that batches waited to be executed, nanoseconds, together: from the iteration in which an I/O
    /// thread received them.
    pub wait_ns: u64,
    /// Time in iterations that executed batches, nanoseconds, together.
    pub service_ns: u64,
    /// Messages that found a ring full and waited at their sender: to I/O threads, and from them.
    pub full: [u64; 2],
    /// Whom connections were given to.
    pub placed: PlacedConnections,
}

/// Connections between the main thread and I/O threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlacedConnections {
    /// Given to I/O threads as they came.
    pub accepts: u64,
    /// Moved because their I/O thread was busier than others.
    pub balanced: u64,
    /// With the main thread now, although I/O threads are active.
    pub kept: usize,
}

/// Processor time, microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    /// In the kernel.
    pub sys: u64,
    /// In user space.
    pub user: u64,
    /// Of children, in the kernel.
    pub sys_children: u64,
    /// Of children, in user space.
    pub user_children: u64,
    /// Of the main thread, in the kernel.
    pub sys_main: u64,
    /// Of the main thread, in user space.
    pub user_main: u64,
    /// Time in which the main thread had work, microseconds.
    pub active_main: u64,
}

/// What any thread of the process can read of the process.
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

/// Running counts of the event loop and the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Bytes received from clients.
    pub net_input_bytes: u64,
    /// Bytes sent to clients.
    pub net_output_bytes: u64,
    /// Bytes received from the primary, which are among the former.
    pub net_repl_input_bytes: u64,
    /// Iterations of the event loop.
    pub cycles: u64,
    /// Their duration together, microseconds.
    pub cycle_us: u64,
}
