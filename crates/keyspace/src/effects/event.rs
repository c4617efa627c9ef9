//! What happens to keys, in the words of keyspace notifications.

/// What happened to a key, as keyspace notifications name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Event {
    Set,
    Append,
    SetRange,
    IncrBy,
    IncrByFloat,
    LPush,
    RPush,
    LPop,
    RPop,
    LInsert,
    LSet,
    LRem,
    LTrim,
    Del,
    Expire,
    Persist,
    Expired,
    RenameFrom,
    RenameTo,
    MoveFrom,
    MoveTo,
    CopyTo,
    Restore,
}

/// The classes of events that `notify-keyspace-events` chooses among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `g`: commands of no type.
    Generic,
    /// `$`: commands of strings.
    String,
    /// `l`: commands of lists.
    List,
    /// `s`: commands of sets.
    Set,
    /// `h`: commands of hashes.
    Hash,
    /// `z`: commands of sorted sets.
    SortedSet,
    /// `x`: a key expired.
    Expired,
    /// `e`: a key was evicted.
    Evicted,
    /// `t`: commands of streams.
    Stream,
    /// `d`: types of modules.
    Module,
    /// `m`: a look-up found no key.
    Miss,
    /// `n`: a key came into being.
    New,
}

impl Class {
    /// Its letter in `notify-keyspace-events`.
    pub fn letter(self) -> u8 {
        match self {
            Class::Generic => b'g',
            Class::String => b'$',
            Class::List => b'l',
            Class::Set => b's',
            Class::Hash => b'h',
            Class::SortedSet => b'z',
            Class::Expired => b'x',
            Class::Evicted => b'e',
            Class::Stream => b't',
            Class::Module => b'd',
            Class::Miss => b'm',
            Class::New => b'n',
        }
    }
}

impl Event {
    /// The event's name in a notification.
    pub fn name(self) -> &'static str {
        match self {
            Event::Set => "set",
            Event::Append => "append",
            Event::SetRange => "setrange",
            Event::IncrBy => "incrby",
            Event::IncrByFloat => "incrbyfloat",
            Event::LPush => "lpush",
            Event::RPush => "rpush",
            Event::LPop => "lpop",
            Event::RPop => "rpop",
            Event::LInsert => "linsert",
            Event::LSet => "lset",
            Event::LRem => "lrem",
            Event::LTrim => "ltrim",
            Event::Del => "del",
            Event::Expire => "expire",
            Event::Persist => "persist",
            Event::Expired => "expired",
            Event::RenameFrom => "rename_from",
            Event::RenameTo => "rename_to",
            Event::MoveFrom => "move_from",
            Event::MoveTo => "move_to",
            Event::CopyTo => "copy_to",
            Event::Restore => "restore",
        }
    }

    /// The class that has to be chosen for the event to be told.
    pub fn class(self) -> Class {
        match self {
            Event::Set | Event::Append | Event::SetRange | Event::IncrBy | Event::IncrByFloat => {
                Class::String
            }
            Event::LPush
            | Event::RPush
            | Event::LPop
            | Event::RPop
            | Event::LInsert
            | Event::LSet
            | Event::LRem
            | Event::LTrim => Class::List,
            Event::Del
            | Event::Expire
            | Event::Persist
            | Event::RenameFrom
            | Event::RenameTo
            | Event::MoveFrom
            | Event::MoveTo
            | Event::CopyTo
            | Event::Restore => Class::Generic,
            Event::Expired => Class::Expired,
        }
    }
}
