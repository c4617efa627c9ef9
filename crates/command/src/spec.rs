//! The declaration of a command.

/// One command or subcommand. Every field must be written out: a new one is a compile error in each
/// declaration.
#[derive(Debug)]
pub struct Spec {
    /// The full name in lower case, as COMMAND INFO, `cmdstat_` and ACL rules write it: `get`, `config|get`.
    /// [`Spec::name`] and [`Spec::container`] are its parts.
    pub full_name: &'static str,
    /// Subcommands; empty when this is no container.
    pub subcommands: &'static [&'static Spec],
    /// Group of the documentation.
    pub group: Group,
    /// Version of the protocol's first server that had it.
    pub since: &'static str,
    /// How many arguments, the name (and the container's name) included.
    pub arity: Arity,
    /// Behaviour flags, as COMMAND INFO shows them.
    pub flags: Flags,
    /// ACL categories declared by hand; those that follow from flags are added by `derive::acl`.
    pub acl: Cat,
    /// Where its keys are.
    pub keys: Keys,
    /// Documented arguments.
    pub args: &'static [Arg],
    /// Command tips for clients and proxies.
    pub tips: &'static [&'static str],
    /// Version and change, oldest first; our words.
    pub history: &'static [(&'static str, &'static str)],
    /// One sentence; our words.
    pub summary: &'static str,
    /// Cost in the field's notation; our words.
    pub complexity: &'static str,
    /// Deprecated since which version and replaced by what; `None` when current.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Position in `table::ALL` (containers and subcommands alike): the index of its counters. `specs!`
    /// computes it.
    pub id: SpecId,
}

/// Position of a spec in the table of all specs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecId(pub u16);

/// Number of arguments, the command's name included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly that many.
    Exactly(u8),
    /// That many or more.
    AtLeast(u8),
}

impl Arity {
    /// Whether `count` arguments, the name included, fit.
    #[inline]
    pub const fn accepts(self, count: usize) -> bool {
        match self {
            Arity::Exactly(n) => count == n as usize,
            Arity::AtLeast(n) => count >= n as usize,
        }
    }

    /// The signed form of COMMAND INFO: negative for a minimum.
    pub const fn wire(self) -> i64 {
        match self {
            Arity::Exactly(n) => n as i64,
            Arity::AtLeast(n) => -(n as i64),
        }
    }
}

macro_rules! bit_set {
    ($(#[$doc:meta])* $name:ident : $repr:ty { $($(#[$item_doc:meta])* $item:ident = $bit:expr, $text:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub struct $name($repr);
        impl $name {
            /// The empty set.
            pub const NONE: $name = $name(0);
            $($(#[$item_doc])* pub const $item: $name = $name(1 << $bit);)*
            /// Every member with its text on the wire, in the order in which it is listed there; an empty
            /// text for those that never are.
            pub(crate) const NAMED: &'static [($name, &'static str)] = &[$(($name::$item, $text)),*];
            /// The union.
            pub const fn or(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
            /// The set without what is in `other`.
            pub const fn without(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }
            /// Whether all of `other` is in it.
            #[inline]
            pub const fn has(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }
            /// Whether any of `other` is in it.
            #[inline]
            pub const fn has_any(self, other: $name) -> bool {
                self.0 & other.0 != 0
            }
            /// The texts of its members in the order of the wire.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMED.iter().filter(move |(item, text)| self.has(*item) && !text.is_empty()).map(|(_, text)| *text)
            }
            /// The texts of all members in the order of the wire.
            pub fn all_names() -> impl Iterator<Item = &'static str> {
                Self::NAMED.iter().map(|(_, text)| *text).filter(|text| !text.is_empty())
            }
            /// The member with this text, without regard to case.
            pub fn named(text: &[u8]) -> Option<$name> {
                let found = Self::NAMED.iter().find(|(_, name)| !name.is_empty() && name.as_bytes().eq_ignore_ascii_case(text));
                found.map(|(item, _)| *item)
            }
            /// Whether nothing is in it.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
            /// The set as bits.
            pub const fn bits(self) -> $repr {
                self.0
            }
        }
    };
}

bit_set! {
    /// Behaviour of a command. The order is that of COMMAND INFO.
    Flags: u32 {
        /// May change the keyspace.
        WRITE = 0, "write";
        /// Reads the keyspace and changes nothing.
        READONLY = 1, "readonly";
        /// Refused when memory is above its limit.
        DENYOOM = 2, "denyoom";
        /// Provided by a module.
        MODULE = 3, "module";
        /// Administrative.
        ADMIN = 4, "admin";
        /// Publish/subscribe.
        PUBSUB = 5, "pubsub";
        /// Not from scripts.
        NOSCRIPT = 6, "noscript";
        /// May block the client.
        BLOCKING = 7, "blocking";
        /// Allowed while the data set is loading.
        LOADING = 8, "loading";
        /// Allowed on a replica with stale data.
        STALE = 9, "stale";
        /// Not shown to MONITOR.
        SKIP_MONITOR = 10, "skip_monitor";
        /// Not recorded in the command log.
        SKIP_COMMANDLOG = 11, "skip_commandlog";
        /// Sets ASKING for the next command.
        ASKING = 12, "asking";
        /// Constant or logarithmic time.
        FAST = 13, "fast";
        /// Allowed before AUTH.
        NO_AUTH = 14, "no_auth";
        /// May be called without any key although it has key specs (EVAL with 0 keys).
        NO_MANDATORY_KEYS = 15, "no_mandatory_keys";
        /// Not while an asynchronous load runs.
        NO_ASYNC_LOADING = 16, "no_async_loading";
        /// Not inside MULTI.
        NO_MULTI = 17, "no_multi";
        /// Its first key is not at a fixed index.
        MOVABLE_KEYS = 18, "movablekeys";
        /// Answered while a script is busy.
        ALLOW_BUSY = 19, "allow_busy";
        /// Touches keys that its arguments do not name (SCAN, RANDOMKEY): never listed on the wire.
        TOUCHES_ARBITRARY_KEYS = 20, "";
        /// Only in sentinel mode or hidden: never listed on the wire.
        SENTINEL_ONLY = 21, "";
        /// Touches every database of the server: never listed on the wire.
        ALL_DBS = 22, "";
        /// May replicate although it is no write: never listed on the wire.
        MAY_REPLICATE = 23, "";
        /// Runs only where the configuration lets it (DEBUG, MODULE): never listed on the wire.
        PROTECTED = 24, "";
        /// For the servers themselves rather than for users; COMMAND DOCS lists it as `syscmd`, COMMAND INFO
        /// does not.
        SYSCMD = 25, "";
    }
}

bit_set! {
    /// ACL categories, in the reference's bit order.
    Cat: u32 {
        /// `@keyspace`
        KEYSPACE = 0, "keyspace";
        /// `@read`
        READ = 1, "read";
        /// `@write`
        WRITE = 2, "write";
        /// `@set`
        SET = 3, "set";
        /// `@sortedset`
        SORTEDSET = 4, "sortedset";
        /// `@list`
        LIST = 5, "list";
        /// `@hash`
        HASH = 6, "hash";
        /// `@string`
        STRING = 7, "string";
        /// `@bitmap`
        BITMAP = 8, "bitmap";
        /// `@hyperloglog`
        HYPERLOGLOG = 9, "hyperloglog";
        /// `@geo`
        GEO = 10, "geo";
        /// `@stream`
        STREAM = 11, "stream";
        /// `@pubsub`
        PUBSUB = 12, "pubsub";
        /// `@admin`
        ADMIN = 13, "admin";
        /// `@fast`
        FAST = 14, "fast";
        /// `@slow`
        SLOW = 15, "slow";
        /// `@blocking`
        BLOCKING = 16, "blocking";
        /// `@dangerous`
        DANGEROUS = 17, "dangerous";
        /// `@connection`
        CONNECTION = 18, "connection";
        /// `@transaction`
        TRANSACTION = 19, "transaction";
        /// `@scripting`
        SCRIPTING = 20, "scripting";
    }
}

bit_set! {
    /// What a command does with the keys of one key spec, in the order of COMMAND INFO.
    KeyFlags: u16 {
        /// Reads.
        RO = 0, "RO";
        /// Reads and writes.
        RW = 1, "RW";
        /// Overwrites without reading.
        OW = 2, "OW";
        /// Deletes without reading.
        RM = 3, "RM";
        /// Returns, copies or uses the value.
        ACCESS = 4, "access";
        /// Changes the value.
        UPDATE = 5, "update";
        /// Adds to the value, never changes or removes.
        INSERT = 6, "insert";
        /// Removes from the value.
        DELETE = 7, "delete";
        /// Named like a key, but is none.
        NOT_KEY = 8, "not_key";
        /// May find only part of the keys.
        INCOMPLETE = 9, "incomplete";
        /// The flags depend on the arguments.
        VARIABLE_FLAGS = 10, "variable_flags";
    }
}

/// Group of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Group {
    Generic,
    String,
    List,
    Set,
    SortedSet,
    Hash,
    PubSub,
    Transactions,
    Connection,
    Server,
    Scripting,
    HyperLogLog,
    Cluster,
    Sentinel,
    Geo,
    Stream,
    Bitmap,
}

impl Group {
    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Hash => "hash",
            Group::PubSub => "pubsub",
            Group::Transactions => "transactions",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Scripting => "scripting",
            Group::HyperLogLog => "hyperloglog",
            Group::Cluster => "cluster",
            Group::Sentinel => "sentinel",
            Group::Geo => "geo",
            Group::Stream => "stream",
            Group::Bitmap => "bitmap",
        }
    }
}

impl Spec {
    /// Lower-case name; of a subcommand, without its container: `get` of `config|get`. Costs a walk over the
    /// container's name.
    pub const fn name(&self) -> &'static str {
        match self.bar() {
            Some(bar) => self.full_name.split_at(bar + 1).1,
            None => self.full_name,
        }
    }

    /// Name of the container in front of a subcommand's; `None` for a top-level command.
    pub const fn container(&self) -> Option<&'static str> {
        match self.bar() {
            Some(bar) => Some(self.full_name.split_at(bar).0),
            None => None,
        }
    }

    /// Where the container's name ends; `None` for a top-level command.
    const fn bar(&self) -> Option<usize> {
        let name = self.full_name.as_bytes();
        let mut at = 0;
        while at < name.len() {
            if name[at] == b'|' {
                return Some(at);
            }
            at += 1;
        }
        None
    }
}

/// Where a command's keys are.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// As these specs say; empty for a command without keys.
    Specs(&'static [KeySpec]),
    /// Specs for the documentation, and a pure function for what they cannot express. It pushes the position
    /// and flags of each key found in the arguments; `Err` when the arguments are not a valid call.
    Fn(&'static [KeySpec], KeysFn),
}

/// Finds the keys of one call: see [`Keys::Fn`]. The arguments begin with the command's name, and are as many
/// as its arity asks for or not: it checks what it indexes.
pub type KeysFn = fn(args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), ()>;

impl Keys {
    /// The declared specs.
    #[inline]
    pub const fn specs(&self) -> &'static [KeySpec] {
        match *self {
            Keys::Specs(specs) | Keys::Fn(specs, _) => specs,
        }
    }
}

/// One group of keys of a command.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Where the search starts.
    pub begin: Begin,
    /// How keys follow from there.
    pub find: Find,
    /// What is done with them.
    pub flags: KeyFlags,
    /// A remark that COMMAND INFO shows; our words; empty for none.
    pub notes: &'static str,
}

impl KeySpec {
    /// What its flags allow.
    pub const fn access(&self) -> KeyAccess {
        if self.flags.has_any(KeyFlags::RW.or(KeyFlags::OW).or(KeyFlags::RM)) {
            KeyAccess::Write
        } else {
            KeyAccess::Read
        }
    }
}

/// Where the search for keys starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument.
    Index(u8),
    /// After this keyword, searched from argument `from` (backwards when negative).
    Keyword {
        /// The keyword, upper case.
        word: &'static str,
        /// First argument looked at.
        from: i8,
    },
    /// Not expressible.
    Unknown,
}

/// How keys follow from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// From the start to `last` (relative to the start; negative: from the end), every `step`-th;
    /// `limit` n > 1 with negative `last` stops after 1/n of the arguments.
    Range {
        /// Last key relative to the first; negative counts from the last argument.
        last: i8,
        /// Distance of keys.
        step: u8,
        /// Divisor of the arguments looked at; 0 or 1 for none.
        limit: u8,
    },
    /// An argument says how many keys follow.
    KeyNum {
        /// Position of the number, relative to the start.
        num_index: u8,
        /// Position of the first key, relative to the start.
        first: u8,
        /// Distance of keys.
        step: u8,
    },
    /// Not expressible.
    Unknown,
}

/// What a key spec lets its command do, for rights and routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAccess {
    /// Reads only.
    Read,
    /// May write.
    Write,
}

/// A documented argument, as COMMAND DOCS shows it.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// Name.
    pub name: &'static str,
    /// Text shown in a synopsis; mostly the name; empty for a block or choice, which shows its parts.
    pub display: &'static str,
    /// Type, with the parts of a block or choice.
    pub kind: ArgKind,
    /// Token that precedes it (or is it); empty for none.
    pub token: &'static str,
    /// Which key spec it belongs to, for keys.
    pub key_spec: Option<u8>,
    /// May be left out.
    pub optional: bool,
    /// May be repeated.
    pub multiple: bool,
    /// When repeated, the token is repeated too.
    pub multiple_token: bool,
    /// First version; empty when as old as its command.
    pub since: &'static str,
    /// Deprecated since; empty for current.
    pub deprecated_since: &'static str,
    /// A remark; our words; empty for none.
    pub summary: &'static str,
}

/// Type of a documented argument.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum ArgKind {
    String,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    PureToken,
    OneOf(&'static [Arg]),
    Block(&'static [Arg]),
}

impl Arg {
    /// Its flags as COMMAND DOCS names them.
    pub fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        let flags = [
            (self.optional, "optional"),
            (self.multiple, "multiple"),
            (self.multiple_token, "multiple_token"),
        ];
        flags.into_iter().filter(|(set, _)| *set).map(|(_, name)| name)
    }
}

impl ArgKind {
    /// Its name on the wire.
    pub const fn name(&self) -> &'static str {
        match self {
            ArgKind::String => "string",
            ArgKind::Integer => "integer",
            ArgKind::Double => "double",
            ArgKind::Key => "key",
            ArgKind::Pattern => "pattern",
            ArgKind::UnixTime => "unix-time",
            ArgKind::PureToken => "pure-token",
            ArgKind::OneOf(_) => "oneof",
            ArgKind::Block(_) => "block",
        }
    }

    /// The parts of a choice or block; empty for any other type.
    pub const fn parts(&self) -> &'static [Arg] {
        match *self {
            ArgKind::OneOf(parts) | ArgKind::Block(parts) => parts,
            ArgKind::String
            | ArgKind::Integer
            | ArgKind::Double
            | ArgKind::Key
            | ArgKind::Pattern
            | ArgKind::UnixTime
            | ArgKind::PureToken => &[],
        }
    }
}
