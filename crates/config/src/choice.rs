//! The values of parameters that are one of several names, as Rust types.

/// A type of values that have names in the config file.
pub trait Choice: Copy + 'static {
    /// Every name with its value; the first name of a value is the one that is shown.
    const NAMES: &'static [(&'static str, u8)];
    /// The value with that number; the first value of `NAMES` for a number without a name.
    fn from_number(number: u8) -> Self;
}

macro_rules! choices {
    ($( $(#[$doc:meta])* $name:ident { $( $variant:ident = $text:literal $(| $synonym:literal)* ),+ $(,)? } )+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $( #[doc = concat!("`", $text, "`")] $variant ),+ }

        impl Choice for $name {
            const NAMES: &'static [(&'static str, u8)] =
                &[ $( ($text, $name::$variant as u8) $(, ($synonym, $name::$variant as u8))* ),+ ];

            fn from_number(number: u8) -> Self {
                const ALL: &[$name] = &[ $( $name::$variant ),+ ];
                ALL.get(usize::from(number)).copied().unwrap_or(ALL[0])
            }
        }
    )+ };
}

choices! {
    /// The policy that selects keys for eviction, or forbids eviction.
    EvictionPolicy {
        VolatileLru = "volatile-lru", VolatileLfu = "volatile-lfu", VolatileRandom = "volatile-random",
        VolatileTtl = "volatile-ttl", AllkeysLru = "allkeys-lru", AllkeysLfu = "allkeys-lfu",
        AllkeysRandom = "allkeys-random", NoEviction = "noeviction",
    }
    /// The facility of the system log to which log lines are sent.
    SyslogFacility {
        User = "user", Local0 = "local0", Local1 = "local1", Local2 = "local2", Local3 = "local3",
        Local4 = "local4", Local5 = "local5", Local6 = "local6", Local7 = "local7",
    }
    /// The least important level whose lines are still logged.
    LogLevel { Debug = "debug", Verbose = "verbose", Notice = "notice", Warning = "warning", Nothing = "nothing" }
    /// The supervisor that is notified when the server is ready.
    Supervisor { Upstart = "upstart", Systemd = "systemd", Auto = "auto", No = "no" }
    /// How BGSAVE takes a snapshot.
    BgsaveMethod { Fork = "fork", Forkless = "forkless" }
    /// When the append-only file is forced to disk.
    AppendFsync { EverySecond = "everysec", Always = "always", No = "no" }
    /// How a replica takes in a full copy that arrives over the socket.
    DisklessLoad {
        Disabled = "disabled", OnEmptyDb = "on-empty-db", SwapDb = "swapdb", FlushBeforeLoad = "flush-before-load",
    }
    /// Whether TLS clients must show a certificate.
    TlsAuthClients { No = "no", Yes = "yes", Optional = "optional" }
    /// Which part of a client's certificate names its user.
    TlsUserField { CommonName = "CN", Uri = "URI", Off = "off" }
    /// Whether the kernel's out-of-memory score is adjusted.
    OomScoreAdj { No = "no", Relative = "yes" | "relative", Absolute = "absolute" }
    /// Which channels a new user may use.
    AclPubsubDefault { AllChannels = "allchannels", ResetChannels = "resetchannels" }
    /// Clients that may use a guarded command: none, all, or those of this machine.
    Guard { No = "no", Yes = "yes", Local = "local" }
    /// How nodes name themselves to clients.
    EndpointType { Ip = "ip", Hostname = "hostname", Unknown = "unknown-endpoint" }
    /// What to do when `nodes.conf` cannot be saved.
    ClusterSaveBehavior { Sync = "sync", BestEffort = "best-effort" }
    /// What to do when a command from the replication stream fails.
    PropagationErrorBehavior { Ignore = "ignore", Panic = "panic", PanicOnReplicas = "panic-on-replicas" }
    /// The shape of log lines.
    LogFormat { Legacy = "legacy", Logfmt = "logfmt", Json = "json" }
    /// How log lines write the time.
    LogTimestampFormat { Legacy = "legacy", Iso8601 = "iso8601", Milliseconds = "milliseconds" }
    /// Which versions of snapshot files are loaded.
    RdbVersionCheck { Strict = "strict", Relaxed = "relaxed" }
    /// What is compressed in snapshots: single strings, or the whole file.
    RdbCompression { No = "no", Yes = "yes", Lzf = "lzf", Lz4 = "lz4", Zstd = "zstd" }
    /// The strongest compression that a primary uses for the data it sends to replicas.
    ReplCompression { No = "no", Yes = "yes", Lz4 = "lz4", Zstd = "zstd" }
    /// Which interface of the kernel the event loop uses.
    EventLoop { Auto = "auto", IoUring = "io_uring", Epoll = "epoll", Poll = "poll" }
}

impl RdbCompression {
    /// Whether strings are compressed, one by one.
    pub fn is_of_strings(self) -> bool {
        matches!(self, RdbCompression::Yes | RdbCompression::Lzf)
    }
}

/// The bits of `shutdown-on-sigint` and `shutdown-on-sigterm`.
pub mod shutdown {
    /// Save even where no save point is configured.
    pub const SAVE: u32 = 1;
    /// Do not save a snapshot, even where save points are configured.
    pub const NOSAVE: u32 = 2;
    /// Do not wait for lagging replicas.
    pub const NOW: u32 = 4;
    /// Shut down even if something fails that would otherwise prevent it.
    pub const FORCE: u32 = 8;
    /// Refuse to shut down a node whose vote counts in a cluster.
    pub const SAFE: u32 = 16;
    /// Hand over to a replica first.
    pub const FAILOVER: u32 = 32;

    pub(crate) const NAMES: &[(&str, u32)] = &[
        ("default", 0),
        ("save", SAVE),
        ("nosave", NOSAVE),
        ("now", NOW),
        ("force", FORCE),
        ("safe", SAFE),
        ("failover", FAILOVER),
    ];
}
