//! Shorthand for declarations: the numbering of a file's specs, key specs and documented arguments.

use crate::spec::{Arg, ArgKind, Begin, Find, KeyFlags, KeySpec};

/// Lists the specs of a file, containers before their subcommands: `SPECS` is the list, `id::NAME` the
/// id of the spec `NAME`. An id is the position in the list, counted after the specs of earlier files,
/// so inserting a name changes later ids without a change of any declaration.
macro_rules! specs {
    ($file:ident : $($name:ident),+ $(,)?) => {
        /// The specs of this file by name; the number of a member is its index in the list.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "the members are the names of the specs")]
        enum SpecIndex {
            $($name),+
        }

        /// The ids of this file's specs.
        mod id {
            use crate::spec::SpecId;
            use crate::specs::{File, first_id};

            $(pub(super) const $name: SpecId = SpecId(first_id(File::$file) + super::SpecIndex::$name as u16);)+
        }

        /// Number of specs in this file.
        pub(crate) const COUNT: u16 = [$(SpecIndex::$name),+].len() as u16;

        /// Every spec of this file in the order of the ids.
        pub(crate) static SPECS: [&Spec; COUNT as usize] = [$(&$name),+];
    };
}
pub(super) use specs;

pub(super) const RO: KeyFlags = KeyFlags::RO;
pub(super) const OW_INSERT: KeyFlags = KeyFlags::OW.or(KeyFlags::INSERT);
pub(super) const OW_UPDATE: KeyFlags = KeyFlags::OW.or(KeyFlags::UPDATE);
pub(super) const RM_DELETE: KeyFlags = KeyFlags::RM.or(KeyFlags::DELETE);
pub(super) const RO_ACCESS: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);
pub(super) const RW_DELETE: KeyFlags = KeyFlags::RW.or(KeyFlags::DELETE);
pub(super) const RW_INSERT: KeyFlags = KeyFlags::RW.or(KeyFlags::INSERT);
pub(super) const RW_UPDATE: KeyFlags = KeyFlags::RW.or(KeyFlags::UPDATE);
pub(super) const RW_ACCESS_DELETE: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::DELETE);
pub(super) const RW_ACCESS_UPDATE: KeyFlags = KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE);
pub(super) const RW_ACCESS_UPDATE_VARIABLE_FLAGS: KeyFlags =
    KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE).or(KeyFlags::VARIABLE_FLAGS);

/// One key at a fixed index.
pub(super) const fn one(at: u8, flags: KeyFlags) -> KeySpec {
    range(at, 0, 1, flags)
}

/// Keys from a fixed index to `last` (relative to the first; a negative number counts from the end),
/// every `step`-th argument.
pub(super) const fn range(at: u8, last: i8, step: u8, flags: KeyFlags) -> KeySpec {
    KeySpec { begin: Begin::Index(at), find: Find::Range { last, step, limit: 0 }, flags, notes: "" }
}

/// Keys whose number is an argument. `num_index`, the position of the number, and `first`, that of the first
/// key, are relative to the fixed index `at`.
pub(super) const fn counted(at: u8, num_index: u8, first: u8, step: u8, flags: KeyFlags) -> KeySpec {
    KeySpec { begin: Begin::Index(at), find: Find::KeyNum { num_index, first, step }, flags, notes: "" }
}

/// Keys that cannot be found from the arguments.
pub(super) const fn unknown(flags: KeyFlags) -> KeySpec {
    KeySpec { begin: Begin::Unknown, find: Find::Unknown, flags, notes: "" }
}

impl KeySpec {
    /// Adds a remark, which COMMAND INFO shows.
    pub(super) const fn note(mut self, notes: &'static str) -> KeySpec {
        self.notes = notes;
        self
    }
}

const fn arg(name: &'static str, display: &'static str, kind: ArgKind) -> Arg {
    Arg {
        name,
        display,
        kind,
        token: "",
        key_spec: None,
        optional: false,
        multiple: false,
        multiple_token: false,
        since: "",
        deprecated_since: "",
        summary: "",
    }
}

/// A key that belongs to the given key spec.
pub(super) const fn key(name: &'static str, key_spec: u8) -> Arg {
    let mut this = arg(name, name, ArgKind::Key);
    this.key_spec = Some(key_spec);
    this
}

/// An argument of any bytes.
pub(super) const fn string(name: &'static str) -> Arg {
    arg(name, name, ArgKind::String)
}

/// An argument that is an integer.
pub(super) const fn integer(name: &'static str) -> Arg {
    arg(name, name, ArgKind::Integer)
}

/// An argument that is a floating point number.
pub(super) const fn double(name: &'static str) -> Arg {
    arg(name, name, ArgKind::Double)
}

/// An argument that is a glob pattern.
pub(super) const fn pattern(name: &'static str) -> Arg {
    arg(name, name, ArgKind::Pattern)
}

/// A Unix time; the name says in which unit.
pub(super) const fn unix_time(name: &'static str) -> Arg {
    arg(name, name, ArgKind::UnixTime)
}

/// An argument that is the word `token` itself.
pub(super) const fn token(name: &'static str, token: &'static str) -> Arg {
    let mut this = arg(name, name, ArgKind::PureToken);
    this.token = token;
    this
}

/// A choice between `parts`.
pub(super) const fn one_of(name: &'static str, parts: &'static [Arg]) -> Arg {
    arg(name, "", ArgKind::OneOf(parts))
}

/// Arguments that must be given together.
pub(super) const fn block(name: &'static str, parts: &'static [Arg]) -> Arg {
    arg(name, "", ArgKind::Block(parts))
}

impl Arg {
    /// Puts a token before the argument.
    pub(super) const fn after(mut self, token: &'static str) -> Arg {
        self.token = token;
        self
    }

    /// Assigns an argument other than a key to a key spec, as the reference does.
    pub(super) const fn of_key_spec(mut self, key_spec: u8) -> Arg {
        self.key_spec = Some(key_spec);
        self
    }

    /// Changes the name in the synopsis.
    pub(super) const fn shown_as(mut self, display: &'static str) -> Arg {
        self.display = display;
        self
    }

    /// Marks the argument as one that may be omitted.
    pub(super) const fn optional(mut self) -> Arg {
        self.optional = true;
        self
    }

    /// Marks the argument as one that may be repeated.
    pub(super) const fn repeated(mut self) -> Arg {
        self.multiple = true;
        self
    }

    /// Makes a repetition of the argument repeat its token too.
    pub(super) const fn token_repeated(mut self) -> Arg {
        self.multiple_token = true;
        self
    }

    /// Sets the first version, if the argument is newer than its command.
    pub(super) const fn since(mut self, version: &'static str) -> Arg {
        self.since = version;
        self
    }

    /// Marks the argument as deprecated since a version.
    pub(super) const fn deprecated(mut self, version: &'static str) -> Arg {
        self.deprecated_since = version;
        self
    }

    /// Adds a remark, which COMMAND DOCS shows.
    pub(super) const fn says(mut self, summary: &'static str) -> Arg {
        self.summary = summary;
        self
    }
}
