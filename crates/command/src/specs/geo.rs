//! Geo commands: sorted sets whose scores are points.

use super::shorthand::*;
use crate::spec::{Arg, Arity, Begin, Cat, Find, Flags, Group, KeyFlags, KeySpec, Keys, Spec};

specs! {
    geo:
    GEOADD,
    GEODIST,
    GEOHASH,
    GEOPOS,
    GEORADIUS,
    GEORADIUS_RO,
    GEORADIUSBYMEMBER,
    GEORADIUSBYMEMBER_RO,
    GEOSEARCH,
    GEOSEARCHSTORE,
}

const UNITS: &[Arg] = &[token("m", "M"), token("km", "KM"), token("ft", "FT"), token("mi", "MI")];
/// A circle as the region of a search.
const CIRCLE: &[Arg] = &[double("radius").after("BYRADIUS"), one_of("unit", UNITS)];
/// A box as the region of a search.
const BOX: &[Arg] = &[double("width").after("BYBOX"), double("height"), one_of("unit", UNITS)];

/// The key spec of a key that follows `word`; the command overwrites this key.
const fn store(word: &'static str, from: i8) -> KeySpec {
    KeySpec {
        begin: Begin::Keyword { word, from },
        find: Find::Range { last: 0, step: 1, limit: 0 },
        flags: OW_UPDATE.or(KeyFlags::VARIABLE_FLAGS),
        notes: "",
    }
}

pub static GEOADD: Spec = Spec {
    full_name: "geoadd",
    subcommands: &[],
    group: Group::Geo,
    since: "3.2.0",
    arity: Arity::AtLeast(5),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::GEO,
    keys: Keys::Specs(&[one(1, RW_UPDATE)]),
    args: &[
        key("key", 0),
        one_of("condition", &[token("nx", "NX"), token("xx", "XX")]).optional().since("6.2.0"),
        token("change", "CH").optional().since("6.2.0"),
        block("data", &[double("longitude"), double("latitude"), string("member")]).repeated(),
    ],
    tips: &[],
    history: &[("6.2.0", "`CH`, `NX` and `XX`.")],
    summary: "Adds members with their longitudes and latitudes to a sorted set.",
    complexity: "O(log(N)) for each member, N being the number of elements in the sorted set",
    deprecated: None,
    id: id::GEOADD,
};

pub static GEODIST: Spec = Spec {
    full_name: "geodist",
    subcommands: &[],
    group: Group::Geo,
    since: "3.2.0",
    arity: Arity::AtLeast(4),
    flags: Flags::READONLY,
    acl: Cat::GEO,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("member1"), string("member2"), one_of("unit", UNITS).optional()],
    tips: &[],
    history: &[],
    summary: "Returns the distance between two members.",
    complexity: "O(1)",
    deprecated: None,
    id: id::GEODIST,
};

pub static GEOHASH: Spec = Spec {
    full_name: "geohash",
    subcommands: &[],
    group: Group::Geo,
    since: "3.2.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY,
    acl: Cat::GEO,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("member").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Returns the geohash strings of members.",
    complexity: "O(1) for each member asked for",
    deprecated: None,
    id: id::GEOHASH,
};

pub static GEOPOS: Spec = Spec {
    full_name: "geopos",
    subcommands: &[],
    group: Group::Geo,
    since: "3.2.0",
    arity: Arity::AtLeast(2),
    flags: Flags::READONLY,
    acl: Cat::GEO,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[key("key", 0), string("member").optional().repeated()],
    tips: &[],
    history: &[],
    summary: "Returns the longitudes and latitudes of members.",
    complexity: "O(1) for each member asked for",
    deprecated: None,
    id: id::GEOPOS,
};

pub static GEORADIUS: Spec = Spec {
    full_name: "georadius",
    subcommands: &[],
    group: Group::Geo,
    since: "3.2.0",
    arity: Arity::AtLeast(6),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
    acl: Cat::GEO,
    keys: Keys::Fn(&[one(1, RO_ACCESS), store("STORE", 6), store("STOREDIST", 6)], radius_keys),
    args: &[
        key("key", 0),
        double("longitude"),
        double("latitude"),
        double("radius"),
        one_of("unit", UNITS),
        token("withcoord", "WITHCOORD").optional(),
        token("withdist", "WITHDIST").optional(),
        token("withhash", "WITHHASH").optional(),
        block(
            "count-block",
            &[integer("count").after("COUNT"), token("any", "ANY").optional().since("6.2.0")],
        )
        .optional(),
        one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
        one_of(
            "store",
            &[
                key("storekey", 1).after("STORE").shown_as("key"),
                key("storedistkey", 2).after("STOREDIST").shown_as("key"),
            ],
        )
        .optional(),
    ],
    tips: &[],
    history: &[("6.2.0", "`ANY` after `COUNT`."), ("7.0.0", "Case of the units does not matter.")],
    summary: "Returns or stores the members within a distance of a place.",
    complexity: "O(N+log(M)), N being the number of members in the box around the circle, M that of all",
    deprecated: None,
    id: id::GEORADIUS,
};

pub static GEORADIUS_RO: Spec = Spec {
    full_name: "georadius_ro",
    subcommands: &[],
    group: Group::Geo,
    since: "3.2.10",
    arity: Arity::AtLeast(6),
    flags: Flags::READONLY,
    acl: Cat::GEO,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        double("longitude"),
        double("latitude"),
        double("radius"),
        one_of("unit", UNITS),
        token("withcoord", "WITHCOORD").optional(),
        token("withdist", "WITHDIST").optional(),
        token("withhash", "WITHHASH").optional(),
        block(
            "count-block",
            &[integer("count").after("COUNT"), token("any", "ANY").optional().since("6.2.0")],
        )
        .optional(),
        one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
    ],
    tips: &[],
    history: &[("6.2.0", "`ANY` after `COUNT`."), ("7.0.0", "Case of the units does not matter.")],
    summary: "Returns the members within a distance of a place.",
    complexity: "O(N+log(M)), N being the number of members in the box around the circle, M that of all",
    deprecated: None,
    id: id::GEORADIUS_RO,
};

pub static GEORADIUSBYMEMBER: Spec = Spec {
    full_name: "georadiusbymember",
    subcommands: &[],
    group: Group::Geo,
    since: "3.2.0",
    arity: Arity::AtLeast(5),
    flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
    acl: Cat::GEO,
    keys: Keys::Fn(&[one(1, RO_ACCESS), store("STORE", 5), store("STOREDIST", 5)], radius_keys),
    args: &[
        key("key", 0),
        string("member"),
        double("radius"),
        one_of("unit", UNITS),
        token("withcoord", "WITHCOORD").optional(),
        token("withdist", "WITHDIST").optional(),
        token("withhash", "WITHHASH").optional(),
        block("count-block", &[integer("count").after("COUNT"), token("any", "ANY").optional()]).optional(),
        one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
        one_of(
            "store",
            &[
                key("storekey", 1).after("STORE").shown_as("key"),
                key("storedistkey", 2).after("STOREDIST").shown_as("key"),
            ],
        )
        .optional(),
    ],
    tips: &[],
    history: &[("6.2.0", "`ANY` after `COUNT`."), ("7.0.0", "Case of the units does not matter.")],
    summary: "Returns or stores the members within a distance of a member.",
    complexity: "O(N+log(M)), N being the number of members in the box around the circle, M that of all",
    deprecated: None,
    id: id::GEORADIUSBYMEMBER,
};

pub static GEORADIUSBYMEMBER_RO: Spec = Spec {
    full_name: "georadiusbymember_ro",
    subcommands: &[],
    group: Group::Geo,
    since: "3.2.10",
    arity: Arity::AtLeast(5),
    flags: Flags::READONLY,
    acl: Cat::GEO,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        string("member"),
        double("radius"),
        one_of("unit", UNITS),
        token("withcoord", "WITHCOORD").optional(),
        token("withdist", "WITHDIST").optional(),
        token("withhash", "WITHHASH").optional(),
        block("count-block", &[integer("count").after("COUNT"), token("any", "ANY").optional()]).optional(),
        one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
    ],
    tips: &[],
    history: &[("6.2.0", "`ANY` after `COUNT`."), ("7.0.0", "Case of the units does not matter.")],
    summary: "Returns the members within a distance of a member.",
    complexity: "O(N+log(M)), N being the number of members in the box around the circle, M that of all",
    deprecated: None,
    id: id::GEORADIUSBYMEMBER_RO,
};

pub static GEOSEARCH: Spec = Spec {
    full_name: "geosearch",
    subcommands: &[],
    group: Group::Geo,
    since: "6.2.0",
    arity: Arity::AtLeast(7),
    flags: Flags::READONLY,
    acl: Cat::GEO,
    keys: Keys::Specs(&[one(1, RO_ACCESS)]),
    args: &[
        key("key", 0),
        one_of(
            "from",
            &[
                string("member").after("FROMMEMBER"),
                block("fromlonlat", &[double("longitude"), double("latitude")]).after("FROMLONLAT"),
            ],
        )
        .optional(),
        one_of(
            "by",
            &[
                block("circle", CIRCLE),
                block("box", BOX),
                block(
                    "polygon",
                    &[
                        integer("num-vertices").after("BYPOLYGON"),
                        block("vertices", &[double("longitude"), double("latitude")]).repeated(),
                    ],
                )
                .since("9.0.0"),
            ],
        ),
        one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
        block("count-block", &[integer("count").after("COUNT"), token("any", "ANY").optional()]).optional(),
        token("withcoord", "WITHCOORD").optional(),
        token("withdist", "WITHDIST").optional(),
        token("withhash", "WITHHASH").optional(),
    ],
    tips: &[],
    history: &[("7.0.0", "Case of the units does not matter."), ("9.0.0", "`BYPOLYGON`.")],
    summary: "Returns the members inside a circle, a box or a polygon.",
    complexity: "O(N+log(M)), N being the number of members in the box around the shape, M that of all",
    deprecated: None,
    id: id::GEOSEARCH,
};

pub static GEOSEARCHSTORE: Spec = Spec {
    full_name: "geosearchstore",
    subcommands: &[],
    group: Group::Geo,
    since: "6.2.0",
    arity: Arity::AtLeast(8),
    flags: Flags::WRITE.or(Flags::DENYOOM),
    acl: Cat::GEO,
    keys: Keys::Specs(&[one(1, OW_UPDATE), one(2, RO_ACCESS)]),
    args: &[
        key("destination", 0),
        key("source", 1),
        one_of(
            "from",
            &[
                string("member").after("FROMMEMBER"),
                block("fromlonlat", &[double("longitude"), double("latitude")]).after("FROMLONLAT"),
            ],
        )
        .optional(),
        one_of(
            "by",
            &[
                block("circle", CIRCLE),
                block("box", BOX),
                block(
                    "polygon",
                    &[
                        integer("num-vertices").after("BYPOLYGON"),
                        block("vertices", &[double("longitude"), double("latitude")]).repeated(),
                    ],
                )
                .since("9.0.0"),
            ],
        ),
        one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional(),
        block("count-block", &[integer("count").after("COUNT"), token("any", "ANY").optional()]).optional(),
        token("storedist", "STOREDIST").optional(),
    ],
    tips: &[],
    history: &[("7.0.0", "Case of the units does not matter."), ("9.0.0", "`BYPOLYGON`.")],
    summary: "Stores the members inside a circle, a box or a polygon.",
    complexity: "O(N+log(M)), N being the number of members in the box around the shape, M that of all",
    deprecated: None,
    id: id::GEOSEARCHSTORE,
};

/// Finds the source, and the key after the last STORE or STOREDIST; any earlier STORE or STOREDIST has no
/// effect.
fn radius_keys(args: &[&[u8]], found: &mut Vec<(usize, KeyFlags)>) -> Result<(), ()> {
    if args.len() < 5 {
        return Err(());
    }
    found.push((1, RO_ACCESS));
    let is_store = |arg: &[u8]| crate::is_word(arg, "store") || crate::is_word(arg, "storedist");
    let (mut at, mut last) = (5, None);
    while at + 1 < args.len() {
        if is_store(args[at]) {
            at += 1;
            last = Some(at);
        }
        at += 1;
    }
    found.extend(last.map(|at| (at, OW_UPDATE)));
    Ok(())
}
