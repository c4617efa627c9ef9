//! The declaration of a command, its parts and its flags.

/// One command or subcommand. Every declaration must give every field, so a new field is a compile
/// error in each.
#[derive(Debug)]
pub struct Spec {
    /// Full name in lower case, as in COMMAND INFO, `cmdstat_` and ACL rules: `get`, `config|get`.
    /// [`Spec::name`] and [`Spec::container`] are its parts.
    pub full_name: &'static str,
    /// Subcommands; empty unless the command is a container.
    pub subcommands: &'static [&'static Spec],
    /// Group in the documentation.
    pub group: Group,
    /// Version that introduced the command. Versions up to 7.2 are of the original server of the protocol,
    /// later ones are of the reference.
    pub since: &'static str,
    /// Number of arguments, including the name (and the container's name).
    pub arity: Arity,
    /// Behaviour flags, in the sense of COMMAND INFO.
    pub flags: Flags,
    /// ACL categories declared by hand; `derive::acl` adds those that follow from flags.
    pub acl: Cat,
    /// Positions of the command's keys in a call.
    pub keys: Keys,
    /// Arguments in the order of the syntax, as COMMAND DOCS lists them.
    pub args: &'static [Arg],
    /// Command tips for clients and proxies.
    pub tips: &'static [&'static str],
    /// Changes of the command, each as a pair of version and text, oldest first. The wording is not the
    /// reference's.
    pub history: &'static [(&'static str, &'static str)],
    /// Summary in one sentence, whose wording is not the reference's.
    pub summary: &'static str,
    /// Cost in O notation; the wording is not the reference's.
    pub complexity: &'static str,
    /// Version that deprecated the command, and the replacement; `None` for a current command.
    pub deprecated: Option<(&'static str, &'static str)>,
    /// Position in `table::ALL` (containers and subcommands alike), which is also the index of its
    /// counters. `specs!` computes it.
    pub id: SpecId,
}

/// Position of a spec in the table of all specs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecId(pub u16);

/// Number of arguments, the command's name included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// This number of arguments, no more and no fewer.
    Exactly(u8),
    /// This number of arguments or more.
    AtLeast(u8),
}

impl Arity {
    /// Whether a call with `count` arguments, the name included, fits.
    #[inline]
    pub const fn accepts(self, count: usize) -> bool {
        match self {
            Arity::Exactly(n) => count == n as usize,
            Arity::AtLeast(n) => count >= n as usize,
        }
    }

    /// The number in COMMAND INFO, which is negative for a minimum.
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
            /// Every member with its name on the wire, in the order of the wire; members that are never
            /// listed have an empty name.
            pub(crate) const NAMED: &'static [($name, &'static str)] = &[$(($name::$item, $text)),*];
            /// The union of both sets.
            pub const fn or(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
            /// The set without the members of `other`.
            pub const fn without(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }
            /// Whether the set contains all members of `other`.
            #[inline]
            pub const fn has(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }
            /// Whether the set contains any member of `other`.
            #[inline]
            pub const fn has_any(self, other: $name) -> bool {
                self.0 & other.0 != 0
            }
            /// Names on the wire of the set's members, in the order of the wire.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMED.iter().filter(move |(item, text)| self.has(*item) && !text.is_empty()).map(|(_, text)| *text)
            }
            /// Names on the wire of all members, in the order of the wire.
            pub fn all_names() -> impl Iterator<Item = &'static str> {
                Self::NAMED.iter().map(|(_, text)| *text).filter(|text| !text.is_empty())
            }
            /// The member with this name on the wire, ignoring case.
            pub fn named(text: &[u8]) -> Option<$name> {
                let found = Self::NAMED.iter().find(|(_, name)| !name.is_empty() && name.as_bytes().eq_ignore_ascii_case(text));
                found.map(|(item, _)| *item)
            }
            /// Whether the set is empty.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
            /// The set as a number with a bit for each member.
            pub const fn bits(self) -> $repr {
                self.0
            }
        }
    };
}

bit_set! {
    /// Behaviour flags of a command, in the order of COMMAND INFO.
    Flags: u32 {
        /// May change the keyspace.
        WRITE = 0, "write";
        /// Reads the keyspace and changes nothing.
        READONLY = 1, "readonly";
        /// Refused when memory is above its limit.
        DENYOOM = 2, "denyoom";
        /// Provided by a module.
        MODULE = 3, "module";
        /// The command administers the server.
        ADMIN = 4, "admin";
        /// The command belongs to publish/subscribe.
        PUBSUB = 5, "pubsub";
        /// Not callable from scripts.
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
        /// Implies ASKING: a node of a cluster accepts the command for a slot that it imports.
        ASKING = 12, "asking";
        /// Constant or logarithmic time.
        FAST = 13, "fast";
        /// Allowed before the client has authenticated.
        NO_AUTH = 14, "no_auth";
        /// May be called without any key although it has key specs (EVAL with 0 keys).
        NO_MANDATORY_KEYS = 15, "no_mandatory_keys";
        /// Refused while a data set is loaded asynchronously.
        NO_ASYNC_LOADING = 16, "no_async_loading";
        /// Refused inside MULTI, when the command is queued.
        NO_MULTI = 17, "no_multi";
        /// The first key, last key and step of COMMAND INFO do not give all keys of a call.
        MOVABLE_KEYS = 18, "movablekeys";
        /// Executed even while a script is busy.
        ALLOW_BUSY = 19, "allow_busy";
        /// Touches keys that its arguments do not name (SCAN, RANDOMKEY). This flag is never listed on the
        /// wire.
        TOUCHES_ARBITRARY_KEYS = 20, "";
        /// Exists only in sentinel mode, or is hidden. This flag is never listed on the wire.
        SENTINEL_ONLY = 21, "";
        /// Touches every database of the server. This flag is never listed on the wire.
        ALL_DBS = 22, "";
        /// May be propagated although it is not a write. This flag is never listed on the wire.
        MAY_REPLICATE = 23, "";
        /// Allowed only if the configuration permits it (DEBUG, MODULE). This flag is never listed on the
        /// wire.
        PROTECTED = 24, "";
        /// Used between servers, not by users; COMMAND DOCS lists it as `syscmd`, COMMAND INFO does not.
        SYSCMD = 25, "";
    }
}

bit_set! {
    /// ACL categories, in the bit order of the reference.
    Cat: u32 {
        /// `@keyspace`: commands on keys of any type, such as DEL.
        KEYSPACE = 0, "keyspace";
        /// `@read`: commands that read keys.
        READ = 1, "read";
        /// `@write`: commands that change keys.
        WRITE = 2, "write";
        /// `@set`: commands on sets.
        SET = 3, "set";
        /// `@sortedset`: commands on sorted sets.
        SORTEDSET = 4, "sortedset";
        /// `@list`: commands on lists.
        LIST = 5, "list";
        /// `@hash`: commands on hashes.
        HASH = 6, "hash";
        /// `@string`: commands on strings.
        STRING = 7, "string";
        /// `@bitmap`: commands on strings as bitmaps.
        BITMAP = 8, "bitmap";
        /// `@hyperloglog`: commands on HyperLogLogs.
        HYPERLOGLOG = 9, "hyperloglog";
        /// `@geo`: commands on sorted sets of points.
        GEO = 10, "geo";
        /// `@stream`: commands on streams.
        STREAM = 11, "stream";
        /// `@pubsub`: commands on channels and subscriptions.
        PUBSUB = 12, "pubsub";
        /// `@admin`: commands that administer the server.
        ADMIN = 13, "admin";
        /// `@fast`: commands with the flag `FAST`.
        FAST = 14, "fast";
        /// `@slow`: commands without the flag `FAST`.
        SLOW = 15, "slow";
        /// `@blocking`: commands that may block the client.
        BLOCKING = 16, "blocking";
        /// `@dangerous`: commands that may harm the server or its data.
        DANGEROUS = 17, "dangerous";
        /// `@connection`: commands on the connection.
        CONNECTION = 18, "connection";
        /// `@transaction`: MULTI, EXEC and related commands.
        TRANSACTION = 19, "transaction";
        /// `@scripting`: commands on scripts and functions.
        SCRIPTING = 20, "scripting";
    }
}

bit_set! {
    /// Accesses of a command to the keys of a key spec, in the order of COMMAND INFO.
    KeyFlags: u16 {
        /// Reads the value, and does not change it.
        RO = 0, "RO";
        /// Reads and changes the value.
        RW = 1, "RW";
        /// Overwrites the value without reading it.
        OW = 2, "OW";
        /// Deletes the key without reading its value.
        RM = 3, "RM";
        /// Returns, copies or uses the value.
        ACCESS = 4, "access";
        /// Changes the value, not only by adding to it.
        UPDATE = 5, "update";
        /// Adds to the value; never changes or removes parts.
        INSERT = 6, "insert";
        /// Removes parts of the value.
        DELETE = 7, "delete";
        /// The argument only looks like a key.
        NOT_KEY = 8, "not_key";
        /// The key spec may find only some of the keys.
        INCOMPLETE = 9, "incomplete";
        /// The flags depend on the arguments.
        VARIABLE_FLAGS = 10, "variable_flags";
    }
}

/// Group of a command in the documentation.
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
    /// Name of the group on the wire.
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
    /// Lower-case name, for a subcommand without its container: `get` of `config|get`. Costs a walk over
    /// the container's name.
    pub const fn name(&self) -> &'static str {
        match self.bar() {
            Some(bar) => self.full_name.split_at(bar + 1).1,
            None => self.full_name,
        }
    }

    /// Name of a subcommand's container; `None` for a top-level command.
    pub const fn container(&self) -> Option<&'static str> {
        match self.bar() {
            Some(bar) => Some(self.full_name.split_at(bar).0),
            None => None,
        }
    }

    /// Length of the container's name; `None` for a top-level command.
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

/// Positions of a command's keys.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// The keys are determined by these specs; the list is empty for a command without keys.
    Specs(&'static [KeySpec]),
    /// Specs for the documentation, and a pure function that finds the keys of a call, because specs
    /// cannot express them. The function adds position and flags of each key; it returns `Err` if the
    /// arguments are not a valid call.
    Fn(&'static [KeySpec], KeysFn),
}

/// Finds the keys of one call: see [`Keys::Fn`]. The arguments begin with the command's name; their
/// number may violate the arity, so the function must check each index.
pub type KeysFn = fn(args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), ()>;

impl Keys {
    /// The key specs, with or without a function.
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
    /// Start of the search.
    pub begin: Begin,
    /// Rule that finds the keys from the start on.
    pub find: Find,
    /// Accesses of the command to these keys.
    pub flags: KeyFlags,
    /// A remark shown by COMMAND INFO; empty for none. The wording is not the reference's.
    pub notes: &'static str,
}

impl KeySpec {
    /// The access that the flags of the key spec permit.
    pub const fn access(&self) -> KeyAccess {
        if self.flags.has_any(KeyFlags::RW.or(KeyFlags::OW).or(KeyFlags::RM)) {
            KeyAccess::Write
        } else {
            KeyAccess::Read
        }
    }
}

/// Start of the search for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The search starts at this argument, where 0 is the command's name.
    Index(u8),
    /// The search starts after this keyword, which is searched from argument `from` on (backwards if `from`
    /// is negative).
    Keyword {
        /// The keyword, upper case.
        word: &'static str,
        /// First argument to be compared.
        from: i8,
    },
    /// Not expressible as a key spec.
    Unknown,
}

/// Rule that finds the keys from the start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Every `step`-th argument from the start to `last`. A `limit` n > 1 with a negative `last` restricts
    /// the keys to 1/n of the arguments from the start on.
    Range {
        /// Position of the last key relative to the first; a negative number counts from the last
        /// argument, which is -1.
        last: i8,
        /// Distance between two keys, in arguments.
        step: u8,
        /// Divisor of the number of arguments; 0 or 1 for none.
        limit: u8,
    },
    /// An argument gives the number of keys.
    KeyNum {
        /// Position of the number relative to the start.
        num_index: u8,
        /// Position of the first key relative to the start.
        first: u8,
        /// Distance between two keys, in arguments.
        step: u8,
    },
    /// Not expressible as a key spec.
    Unknown,
}

/// Access of a command to the keys of a key spec, for permissions and routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAccess {
    /// Only reads the keys.
    Read,
    /// May change the keys.
    Write,
}

/// A documented argument, as COMMAND DOCS shows it.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// Name of the argument in COMMAND DOCS.
    pub name: &'static str,
    /// Name in a synopsis, usually the same; empty for a block or choice, whose parts are shown instead.
    pub display: &'static str,
    /// Type of the argument, including the parts of a block or choice.
    pub kind: ArgKind,
    /// Token before the argument, or the token that is the argument; empty for none.
    pub token: &'static str,
    /// Index of the key spec that the argument belongs to; given for keys and for a few other arguments.
    pub key_spec: Option<u8>,
    /// Whether the argument may be omitted.
    pub optional: bool,
    /// Whether the argument may be repeated.
    pub multiple: bool,
    /// Whether a repetition repeats the token too.
    pub multiple_token: bool,
    /// First version that has the argument; empty if the argument is as old as its command.
    pub since: &'static str,
    /// Version of the deprecation; empty for a current argument.
    pub deprecated_since: &'static str,
    /// A remark; empty for none. The wording is not the reference's.
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
    /// Names of the argument's flags in COMMAND DOCS.
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
    /// Name of the type on the wire.
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

    /// Parts of a choice or block; empty for any other type.
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
