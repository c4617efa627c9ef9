//! Events of keys, named as in keyspace notifications.

/// What happened to a key, as keyspace notifications name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Event {
    Set,
    Append,
    SetRange,
    IncrBy,
    IncrByFloat,
    SetBit,
    PfAdd,
    /// A change without an event: a HyperLogLog changed its estimate or its representation, pending entries
    /// of a group changed, or a key was deleted because this server does not serve its slot.
    Silent,
    /// A key that was deleted with its slot is freed. Not published.
    Freed,
    LPush,
    RPush,
    LPop,
    RPop,
    LInsert,
    LSet,
    LRem,
    LTrim,
    SAdd,
    SRem,
    SPop,
    SInterStore,
    SUnionStore,
    SDiffStore,
    SortStore,
    HSet,
    HIncrBy,
    HIncrByFloat,
    HDel,
    HExpire,
    HPersist,
    HExpired,
    XAdd,
    XTrim,
    XDel,
    XSetId,
    XGroupCreate,
    XGroupSetId,
    XGroupDestroy,
    XGroupCreateConsumer,
    XGroupDelConsumer,
    ZAdd,
    ZIncr,
    ZRem,
    ZRemRangeByRank,
    ZRemRangeByScore,
    ZRemRangeByLex,
    ZPopMin,
    ZPopMax,
    ZUnionStore,
    ZInterStore,
    ZDiffStore,
    ZRangeStore,
    GeoRadiusStore,
    GeoSearchStore,
    Del,
    Expire,
    Persist,
    Expired,
    Evicted,
    RenameFrom,
    RenameTo,
    MoveFrom,
    MoveTo,
    CopyTo,
    New,
    KeyMiss,
    Restore,
}

/// Classes of events, from which `notify-keyspace-events` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// `g`: commands for keys of any type.
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
    /// `n`: a key was created.
    New,
}

/// A set of classes of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u16);

impl Classes {
    /// The empty set.
    pub const NONE: Classes = Classes(0);

    /// The classes whose events are changes of keys: all except new keys and look-ups that found no key.
    pub const CHANGES: Classes = {
        let mut bits = 0;
        let mut at = 0;
        while at < Class::ALL.len() {
            if !matches!(Class::ALL[at], Class::New | Class::Miss) {
                bits |= 1 << Class::ALL[at] as u16;
            }
            at += 1;
        }
        Classes(bits)
    };

    /// The classes with these letters; letters of no class are skipped.
    pub fn of_letters(letters: &[u8]) -> Classes {
        let chosen = Class::ALL.iter().filter(|class| letters.contains(&class.letter()));
        Classes(chosen.fold(0, |bits, class| bits | 1 << *class as u16))
    }

    /// Whether the set contains `class`.
    #[inline]
    pub fn has(self, class: Class) -> bool {
        self.0 & 1 << class as u16 != 0
    }

    /// The union of both sets.
    #[must_use]
    pub fn or(self, other: Classes) -> Classes {
        Classes(self.0 | other.0)
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Class {
    /// All classes, in the order of their numbers.
    const ALL: [Class; 12] = [
        Class::Generic,
        Class::String,
        Class::List,
        Class::Set,
        Class::Hash,
        Class::SortedSet,
        Class::Expired,
        Class::Evicted,
        Class::Stream,
        Class::Module,
        Class::Miss,
        Class::New,
    ];

    /// The letter of the class in `notify-keyspace-events`.
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
            Event::SetBit => "setbit",
            Event::PfAdd => "pfadd",
            Event::Silent | Event::Freed => "silent",
            Event::LPush => "lpush",
            Event::RPush => "rpush",
            Event::LPop => "lpop",
            Event::RPop => "rpop",
            Event::LInsert => "linsert",
            Event::LSet => "lset",
            Event::LRem => "lrem",
            Event::LTrim => "ltrim",
            Event::SAdd => "sadd",
            Event::SRem => "srem",
            Event::SPop => "spop",
            Event::SInterStore => "sinterstore",
            Event::SUnionStore => "sunionstore",
            Event::SDiffStore => "sdiffstore",
            Event::SortStore => "sortstore",
            Event::HSet => "hset",
            Event::HIncrBy => "hincrby",
            Event::HIncrByFloat => "hincrbyfloat",
            Event::HDel => "hdel",
            Event::HExpire => "hexpire",
            Event::HPersist => "hpersist",
            Event::HExpired => "hexpired",
            Event::XAdd => "xadd",
            Event::XTrim => "xtrim",
            Event::XDel => "xdel",
            Event::XSetId => "xsetid",
            Event::XGroupCreate => "xgroup-create",
            Event::XGroupSetId => "xgroup-setid",
            Event::XGroupDestroy => "xgroup-destroy",
            Event::XGroupCreateConsumer => "xgroup-createconsumer",
            Event::XGroupDelConsumer => "xgroup-delconsumer",
            Event::ZAdd => "zadd",
            Event::ZIncr => "zincr",
            Event::ZRem => "zrem",
            Event::ZRemRangeByRank => "zremrangebyrank",
            Event::ZRemRangeByScore => "zremrangebyscore",
            Event::ZRemRangeByLex => "zremrangebylex",
            Event::ZPopMin => "zpopmin",
            Event::ZPopMax => "zpopmax",
            Event::ZUnionStore => "zunionstore",
            Event::ZInterStore => "zinterstore",
            Event::ZDiffStore => "zdiffstore",
            Event::ZRangeStore => "zrangestore",
            Event::GeoRadiusStore => "georadiusstore",
            Event::GeoSearchStore => "geosearchstore",
            Event::Del => "del",
            Event::Expire => "expire",
            Event::Persist => "persist",
            Event::Expired => "expired",
            Event::Evicted => "evicted",
            Event::RenameFrom => "rename_from",
            Event::RenameTo => "rename_to",
            Event::MoveFrom => "move_from",
            Event::MoveTo => "move_to",
            Event::CopyTo => "copy_to",
            Event::New => "new",
            Event::KeyMiss => "keymiss",
            Event::Restore => "restore",
        }
    }

    /// Whether the event is published at all.
    pub fn is_published(self) -> bool {
        !matches!(self, Event::Silent | Event::Freed)
    }

    /// The class that must be selected for the event to be recorded, and published if it is published at all.
    pub fn class(self) -> Class {
        match self {
            Event::Set
            | Event::Append
            | Event::SetRange
            | Event::IncrBy
            | Event::IncrByFloat
            | Event::SetBit
            | Event::PfAdd
            | Event::Silent => Class::String,
            Event::LPush
            | Event::RPush
            | Event::LPop
            | Event::RPop
            | Event::LInsert
            | Event::LSet
            | Event::LRem
            | Event::LTrim
            | Event::SortStore => Class::List,
            Event::SAdd
            | Event::SRem
            | Event::SPop
            | Event::SInterStore
            | Event::SUnionStore
            | Event::SDiffStore => Class::Set,
            Event::HSet
            | Event::HIncrBy
            | Event::HIncrByFloat
            | Event::HDel
            | Event::HExpire
            | Event::HPersist
            | Event::HExpired => Class::Hash,
            Event::XAdd
            | Event::XTrim
            | Event::XDel
            | Event::XSetId
            | Event::XGroupCreate
            | Event::XGroupSetId
            | Event::XGroupDestroy
            | Event::XGroupCreateConsumer
            | Event::XGroupDelConsumer => Class::Stream,
            Event::ZAdd
            | Event::ZIncr
            | Event::ZRem
            | Event::ZRemRangeByRank
            | Event::ZRemRangeByScore
            | Event::ZRemRangeByLex
            | Event::ZPopMin
            | Event::ZPopMax
            | Event::ZUnionStore
            | Event::ZInterStore
            | Event::ZDiffStore
            | Event::ZRangeStore
            | Event::GeoRadiusStore
            | Event::GeoSearchStore => Class::SortedSet,
            Event::Del
            | Event::Expire
            | Event::Persist
            | Event::RenameFrom
            | Event::RenameTo
            | Event::MoveFrom
            | Event::MoveTo
            | Event::CopyTo
            | Event::Restore => Class::Generic,
            Event::Expired | Event::Freed => Class::Expired,
            Event::Evicted => Class::Evicted,
            Event::New => Class::New,
            Event::KeyMiss => Class::Miss,
        }
    }
}
