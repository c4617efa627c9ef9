//! A parameter as one row of the table, and the typed names by which the rest of the server reads values.

use std::marker::PhantomData;

/// One row of the table: everything that is known about a parameter before any file is read.
#[derive(Debug)]
pub struct Param {
    /// The name in files, in CONFIG and in errors; lower case.
    pub name: &'static str,
    /// An older name that is accepted wherever the name is; `None` for most.
    pub alias: Option<&'static str>,
    /// Type, default and bounds.
    pub kind: ParamKind,
    /// Restrictions on reading and changing the value.
    pub traits: Traits,
    /// The chapter of the example file that lists the parameter.
    pub section: Section,
    /// One or two sentences for operators.
    pub doc: &'static str,
    /// Whether setting the parameter has an effect in this server.
    pub honoured: Honoured,
}

/// Whether a parameter has an effect in this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Honoured {
    /// The value has the effect that the parameter's prose describes.
    Yes,
    /// Accepted and remembered; takes effect with the feature named here.
    NotYet(&'static str),
    /// Accepted and remembered for compatibility; never takes effect, for the reason given.
    Ignored(&'static str),
}

/// Type, default and bounds of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum ParamKind {
    /// A switch, written `yes` or `no`.
    Bool {
        /// Value when nothing is configured.
        default: bool,
    },
    /// A whole number within inclusive bounds.
    Int {
        /// Value when nothing is configured.
        default: i128,
        /// The least value that is accepted.
        min: i128,
        /// The greatest value that is accepted.
        max: i128,
        /// The unit in which the number is written.
        unit: UnitOfMeasure,
        /// Accepted values are silently clamped to this range; `None` for no such range.
        clamp: Option<(i128, i128)>,
    },
    /// A string of bytes, which need not be UTF-8.
    Text {
        /// Value when nothing is configured; `None` is "not set".
        default: Option<&'static str>,
        /// The meaning of the empty string.
        empty: Empty,
        /// Whether a zero byte ends the value, as in the reference's C strings.
        storage: ZeroBytes,
        /// A further condition; the error is the reason that the client sees.
        check: Option<TextCheck>,
    },
    /// One of several names. Two names of one value are synonyms; the first is shown.
    Choice {
        /// Each name with the number of its value.
        names: &'static [(&'static str, u8)],
        /// Value when nothing is configured.
        default: u8,
    },
    /// Several names at once, each a set of bits.
    Flags {
        /// Each name with the bits that it sets.
        names: &'static [(&'static str, u32)],
    },
    /// `save`: pairs of seconds and changes.
    Save,
    /// `client-output-buffer-limit`: hard, soft and seconds for each class of client.
    BufferLimits,
    /// `oom-score-adj-values`: the scores of primary, replica and background process.
    OomValues,
    /// Addresses, separated by spaces.
    List {
        /// Value when nothing is configured.
        default: &'static [&'static str],
    },
    /// `notify-keyspace-events`: letters, each for a class of events or a kind of channel.
    NotifyEvents,
    /// `replicaof`: host and port, or nothing.
    ReplicaOf,
    /// `latency-tracking-info-percentiles`: numbers from 0 to 100.
    Percentiles,
    /// `announce-endpoint-for`: groups of a network, a node and an endpoint.
    EndpointRules,
}

/// A condition on a text; the error is the reason that the client sees.
pub type TextCheck = fn(&[u8]) -> Result<(), &'static str>;

/// How a number is written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitOfMeasure {
    /// Decimal digits with an optional sign.
    Plain,
    /// Bytes, with an optional suffix: `b`, `k` = 1,000, `kb` = 1,024, likewise for `m` and `g`.
    Memory,
    /// Bytes as for [`UnitOfMeasure::Memory`], or `n%`, which is kept as `-n`.
    MemoryOrPercent,
    /// Bytes as for [`UnitOfMeasure::Memory`], or a plain negative number.
    SignedMemory,
    /// Octal digits, as for file permissions.
    Octal,
}

/// What an empty string means for a text parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// The empty string is a value like any other.
    Allowed,
    /// The parameter is not set.
    MeansUnset,
}

/// How a text parameter treats zero bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroBytes {
    /// The value ends before the first zero byte.
    UpToZero,
    /// Zero bytes are part of the value.
    Binary,
}

/// Properties of a parameter besides its type; a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits(u16);

impl Traits {
    /// Only the file and the command line may set the parameter.
    pub(crate) const IMMUTABLE: Traits = Traits(1);
    /// Patterns of CONFIG GET do not match the parameter; its exact name does.
    pub const HIDDEN: Traits = Traits(2);
    /// CONFIG SET needs `enable-protected-configs`.
    pub const PROTECTED: Traits = Traits(4);
    /// The value must not reach logs, MONITOR or the commandlog.
    pub(crate) const SENSITIVE: Traits = Traits(8);
    /// CONFIG SET is refused while a dataset is loading.
    pub(crate) const DENY_LOADING: Traits = Traits(16);
    /// The value may consist of several words.
    pub(crate) const MULTI_ARG: Traits = Traits(32);
    /// A value is applied again even if it is unchanged (a certificate file whose content is new).
    pub(crate) const VOLATILE: Traits = Traits(64);
    /// CONFIG INFO names this property: the reference includes the value in its crash report.
    pub const DEBUG: Traits = Traits(128);
    /// `CONFIG GET *` does not list the parameter; every other pattern and its name do. This trait is for
    /// parameters that only this server has, because tools that expect the reference's names could not handle
    /// them.
    pub(crate) const NOT_IN_STAR: Traits = Traits(256);
    /// CONFIG GET shows only that a value is set. CONFIG REWRITE writes the value itself.
    pub(crate) const CONCEALED: Traits = Traits(512);

    /// Whether all traits of `other` are in this set.
    pub const fn has(self, other: Traits) -> bool {
        self.0 & other.0 == other.0
    }

    const fn with(self, other: Traits) -> Traits {
        Traits(self.0 | other.0)
    }
}

/// The chapters of the example file, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Section {
    Network,
    Tls,
    General,
    Security,
    Clients,
    Memory,
    Freeing,
    Snapshots,
    AppendOnly,
    Replication,
    Cluster,
    Scripting,
    CommandLog,
    Latency,
    HotKeys,
    Metrics,
    Events,
    Encodings,
    Threads,
    Defragmentation,
    System,
    Testing,
}

impl Section {
    /// All chapters, in order.
    pub const ALL: [Section; 22] = [
        Section::Network,
        Section::Tls,
        Section::General,
        Section::Security,
        Section::Clients,
        Section::Memory,
        Section::Freeing,
        Section::Snapshots,
        Section::AppendOnly,
        Section::Replication,
        Section::Cluster,
        Section::Scripting,
        Section::CommandLog,
        Section::Latency,
        Section::HotKeys,
        Section::Metrics,
        Section::Events,
        Section::Encodings,
        Section::Threads,
        Section::Defragmentation,
        Section::System,
        Section::Testing,
    ];

    /// The heading of the chapter.
    pub fn title(self) -> &'static str {
        match self {
            Section::Network => "Network",
            Section::Tls => "TLS",
            Section::General => "General",
            Section::Security => "Security",
            Section::Clients => "Clients",
            Section::Memory => "Memory and eviction",
            Section::Freeing => "Expiry and lazy freeing",
            Section::Snapshots => "Snapshots",
            Section::AppendOnly => "Append-only file",
            Section::Replication => "Replication",
            Section::Cluster => "Cluster",
            Section::Scripting => "Scripts",
            Section::CommandLog => "Command log",
            Section::Metrics => "Metrics",
            Section::Latency => "Latency",
            Section::HotKeys => "Hot keys",
            Section::Events => "Keyspace events",
            Section::Encodings => "Encodings of values",
            Section::Threads => "Threads and the event loop",
            Section::Defragmentation => "Active defragmentation",
            Section::System => "Operating system",
            Section::Testing => "For tests",
        }
    }
}

/// The position of a parameter in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParamId(pub(crate) u16);

/// A parameter whose values have type `K`: reading another type is a compile error.
pub struct Id<K> {
    index: u16,
    kind: PhantomData<fn() -> K>,
}

impl<K> Id<K> {
    pub(crate) const fn new(index: u16) -> Id<K> {
        Id { index, kind: PhantomData }
    }

    /// The parameter without its type: to compare with what a [`crate::Change`] lists.
    pub const fn any(self) -> ParamId {
        ParamId(self.index)
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Id<K> {}

impl<K> From<Id<K>> for ParamId {
    fn from(id: Id<K>) -> ParamId {
        id.any()
    }
}

/// Types of values, as markers for [`Id`].
pub mod kind {
    use std::marker::PhantomData;

    /// Marks a parameter that is `yes` or `no`, read by `Config::bool`.
    pub struct Bool;
    /// Marks a number, read by `Config::int` and `Config::uint`.
    pub struct Int;
    /// Marks a string of bytes, read by `Config::text`, `bytes` and `str`.
    pub struct Text;
    /// Marks one of several names, read as `T` by `Config::choice`.
    pub struct Choice<T>(PhantomData<T>);
    /// Marks a set of bits, read by `Config::flags`.
    pub struct Flags;
    /// Marks a list of addresses, read by `Config::list`.
    pub struct List;
    /// Marks a type that only one parameter has, read by an accessor of its own.
    pub struct Special;
}

/// Builders for the rows: a constructor for the type, then one call for each property that differs from the
/// usual.
impl Param {
    const fn of(name: &'static str, kind: ParamKind) -> Param {
        Param {
            name,
            alias: None,
            kind,
            traits: Traits(0),
            section: Section::General,
            doc: "",
            honoured: Honoured::Yes,
        }
    }

    pub(crate) const fn documented(mut self, section: Section, doc: &'static str) -> Param {
        self.section = section;
        self.doc = doc;
        self
    }

    pub(crate) const fn alias(mut self, alias: &'static str) -> Param {
        self.alias = Some(alias);
        self
    }

    const fn with(mut self, traits: Traits) -> Param {
        self.traits = self.traits.with(traits);
        self
    }

    pub(crate) const fn immutable(self) -> Param {
        self.with(Traits::IMMUTABLE)
    }

    pub(crate) const fn hidden(self) -> Param {
        self.with(Traits::HIDDEN)
    }

    pub(crate) const fn not_in_star(self) -> Param {
        self.with(Traits::NOT_IN_STAR)
    }

    pub(crate) const fn protected(self) -> Param {
        self.with(Traits::PROTECTED)
    }

    pub(crate) const fn sensitive(self) -> Param {
        self.with(Traits::SENSITIVE)
    }

    pub(crate) const fn concealed(self) -> Param {
        self.with(Traits::CONCEALED)
    }

    pub(crate) const fn deny_loading(self) -> Param {
        self.with(Traits::DENY_LOADING)
    }

    pub(crate) const fn multi_arg(self) -> Param {
        self.with(Traits::MULTI_ARG)
    }

    pub(crate) const fn volatile(self) -> Param {
        self.with(Traits::VOLATILE)
    }

    pub(crate) const fn debug(self) -> Param {
        self.with(Traits::DEBUG)
    }

    pub(crate) const fn later(mut self, feature: &'static str) -> Param {
        self.honoured = Honoured::NotYet(feature);
        self
    }

    pub(crate) const fn ignored(mut self, why: &'static str) -> Param {
        self.honoured = Honoured::Ignored(why);
        self
    }

    pub(crate) const fn clamped(mut self, low: i128, high: i128) -> Param {
        self.kind = match self.kind {
            ParamKind::Int { default, min, max, unit, .. } => {
                ParamKind::Int { default, min, max, unit, clamp: Some((low, high)) }
            }
            other => other,
        };
        self
    }

    pub(crate) const fn checked(mut self, check: TextCheck) -> Param {
        self.kind = match self.kind {
            ParamKind::Text { default, empty, storage, .. } => {
                ParamKind::Text { default, empty, storage, check: Some(check) }
            }
            other => other,
        };
        self
    }
}

pub(crate) const fn boolean(name: &'static str, default: bool) -> Param {
    Param::of(name, ParamKind::Bool { default })
}

pub(crate) const fn number(name: &'static str, default: i128, min: i128, max: i128) -> Param {
    Param::of(name, ParamKind::Int { default, min, max, unit: UnitOfMeasure::Plain, clamp: None })
}

pub(crate) const fn bytes(name: &'static str, default: i128, min: i128, max: i128) -> Param {
    in_unit(name, default, (min, max), UnitOfMeasure::Memory)
}

pub(crate) const fn in_unit(
    name: &'static str,
    default: i128,
    bounds: (i128, i128),
    unit: UnitOfMeasure,
) -> Param {
    Param::of(name, ParamKind::Int { default, min: bounds.0, max: bounds.1, unit, clamp: None })
}

/// Text for which the empty string is a value like any other.
pub(crate) const fn text(name: &'static str, default: &'static str) -> Param {
    let (empty, storage) = (Empty::Allowed, ZeroBytes::UpToZero);
    Param::of(name, ParamKind::Text { default: Some(default), empty, storage, check: None })
}

/// Text for which the empty string means "not set", the default.
pub(crate) const fn optional(name: &'static str) -> Param {
    let (empty, storage) = (Empty::MeansUnset, ZeroBytes::UpToZero);
    Param::of(name, ParamKind::Text { default: None, empty, storage, check: None })
}

/// Like [`optional`], for values that may contain zero bytes.
pub(crate) const fn optional_binary(name: &'static str) -> Param {
    let (empty, storage) = (Empty::MeansUnset, ZeroBytes::Binary);
    Param::of(name, ParamKind::Text { default: None, empty, storage, check: None })
}

/// Like [`text`], for values that may contain zero bytes.
pub(crate) const fn text_binary(name: &'static str, default: &'static str) -> Param {
    let (empty, storage) = (Empty::Allowed, ZeroBytes::Binary);
    Param::of(name, ParamKind::Text { default: Some(default), empty, storage, check: None })
}

pub(crate) const fn one_of<T: crate::choice::Choice>(name: &'static str, default: u8) -> Param {
    Param::of(name, ParamKind::Choice { names: T::NAMES, default })
}

pub(crate) const fn flags(name: &'static str, names: &'static [(&'static str, u32)]) -> Param {
    Param::of(name, ParamKind::Flags { names }).multi_arg()
}

pub(crate) const fn list(name: &'static str, default: &'static [&'static str]) -> Param {
    Param::of(name, ParamKind::List { default }).multi_arg()
}

pub(crate) const fn special(name: &'static str, kind: ParamKind) -> Param {
    Param::of(name, kind)
}
