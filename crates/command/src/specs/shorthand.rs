//! Short forms for what declarations repeat: the numbering of a file's specs, key specs and documented
//! arguments.

use crate::spec::{Arg, ArgKind, Begin, Find, KeyFlags, KeySpec};

/// Lists the specs of a file, containers before their subcommands: `SPECS` is the list, `id::NAME` the id of
/// the spec `NAME`. An id is the position in the list behind the files that come before, so inserting a name
/// moves the ids behind it without a change of any declaration.
macro_rules! specs {
    ($file:ident : $($name:ident),+ $(,)?) => {
        /// The specs of this file by name; a member's number is its index in the list.
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

        /// How many specs this file has.
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

/// Keys from a fixed index to `last` (relative to the first; negative: from the end), every `step`-th.
pub(super) const fn range(at: u8, last: i8, step: u8, flags: KeyFlags) -> KeySpec {
    KeySpec { begin: Begin::Index(at), find: Find::Range { last, step, limit: 0 }, flags, notes: "" }
}

/// A number at a fixed index says how many keys follow; `num_index` and `first` are relative to that index.
pub(super) const fn counted(at: u8, num_index: u8, first: u8, step: u8, flags: KeyFlags) -> KeySpec {
    KeySpec { begin: Begin::Index(at), find: Find::KeyNum { num_index, first, step }, flags, notes: "" }
}

/// Keys that the arguments do not show.
pub(super) const fn unknown(flags: KeyFlags) -> KeySpec {
    KeySpec { begin: Begin::Unknown, find: Find::Unknown, flags, notes: "" }
}

impl KeySpec {
    /// With a remark.
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

/// Any bytes.
pub(super) const fn string(name: &'static str) -> Arg {
    arg(name, name, ArgKind::String)
}

/// A whole number.
pub(super) const fn integer(name: &'static str) -> Arg {
    arg(name, name, ArgKind::Integer)
}

/// A floating point number.
pub(super) const fn double(name: &'static str) -> Arg {
    arg(name, name, ArgKind::Double)
}

/// A glob pattern.
pub(super) const fn pattern(name: &'static str) -> Arg {
    arg(name, name, ArgKind::Pattern)
}

/// A Unix time; the name says in which unit.
pub(super) const fn unix_time(name: &'static str) -> Arg {
    arg(name, name, ArgKind::UnixTime)
}

/// A word that stands for itself.
pub(super) const fn token(name: &'static str, token: &'static str) -> Arg {
    let mut this = arg(name, name, ArgKind::PureToken);
    this.token = token;
    this
}

/// A choice.
pub(super) const fn one_of(name: &'static str, parts: &'static [Arg]) -> Arg {
    arg(name, "", ArgKind::OneOf(parts))
}

/// Arguments that stand together.
pub(super) const fn block(name: &'static str, parts: &'static [Arg]) -> Arg {
    arg(name, "", ArgKind::Block(parts))
}

impl Arg {
    /// Behind a token.
    pub(super) const fn after(mut self, token: &'static str) -> Arg {
        self.token = token;
        self
    }

    /// Counted by the reference among the arguments of a key spec.
    pub(super) const fn of_key_spec(mut self, key_spec: u8) -> Arg {
        self.key_spec = Some(key_spec);
        self
    }

    /// Shown under another name.
    pub(super) const fn shown_as(mut self, display: &'static str) -> Arg {
        self.display = display;
        self
    }

    /// May be left out.
    pub(super) const fn optional(mut self) -> Arg {
        self.optional = true;
        self
    }

    /// May be repeated.
    pub(super) const fn repeated(mut self) -> Arg {
        self.multiple = true;
        self
    }

    /// Repeats its token too.
    pub(super) const fn token_repeated(mut self) -> Arg {
        self.multiple_token = true;
        self
    }

    /// Newer than its command.
    pub(super) const fn since(mut self, version: &'static str) -> Arg {
        self.since = version;
        self
    }

    /// Deprecated since a version.
    pub(super) const fn deprecated(mut self, version: &'static str) -> Arg {
        self.deprecated_since = version;
        self
    }

    /// With a remark.
    pub(super) const fn says(mut self, summary: &'static str) -> Arg {
        self.summary = summary;
        self
    }
}
