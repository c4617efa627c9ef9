//! Behaviour of the geo commands. The replies are those of 9.1.2.

use crate::common::{check, check_resp3};

#[test]
fn adding_and_asking() {
    check(&[
        ("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
        ("GEOADD g 13.361389 38.115556 Palermo", ":0"),
        ("GEOADD g CH 13.5 38.1 Palermo", ":1"),
        ("GEOADD g NX 1 1 Palermo 2 2 new", ":1"),
        ("GEOADD g XX CH 13.361389 38.115556 Palermo 3 3 newer", ":1"),
        (
            "ZRANGE g 0 -1 WITHSCORES",
            r#"["new", "3378191666521995", "Palermo", "3479099956230698", "Catania", "3479447370796909"]"#,
        ),
        ("TYPE g", "+zset"),
        ("GEODIST g Palermo Catania", r#""166274.1516""#),
        ("GEODIST g Palermo Catania km", r#""166.2742""#),
        ("GEODIST g Palermo Catania MI", r#""103.3182""#),
        ("GEODIST g Palermo Catania ft", r#""545518.8700""#),
        ("GEODIST g Palermo Palermo", r#""0.0000""#),
        ("GEODIST g Palermo none", "nil"),
        ("GEODIST none a b", "nil"),
        ("GEODIST g Palermo Catania foo", "-ERR unsupported unit provided. please use M, KM, FT, MI"),
        ("GEODIST none a b foo", "-ERR unsupported unit provided. please use M, KM, FT, MI"),
        ("GEODIST g Palermo Catania km x", "-ERR syntax error"),
        ("GEOHASH g Palermo none Catania", r#"["sqc8b49rny0", nil, "sqdtr74hyu0"]"#),
        ("GEOHASH g", "[]"),
        ("GEOHASH none a b", "[nil, nil]"),
        (
            "GEOPOS g Palermo none new",
            r#"[["13.36138933897018433", "38.11555639549629859"], nil-array, ["2.00000256299972534", "2.0000001856465488"]]"#,
        ),
        ("GEOPOS g", "[]"),
        ("GEOPOS none a", "[nil-array]"),
        ("GEOADD g 1 1", "-ERR wrong number of arguments for 'geoadd' command"),
        ("GEOADD g NX XX 1 1 a", "-ERR syntax error"),
        ("GEOADD g NX CH CH", "-ERR syntax error"),
        ("GEOADD g 1 1 a 2", "-ERR syntax error"),
        ("GEOADD g 181 1 a", "-ERR invalid longitude,latitude pair 181.000000,1.000000"),
        ("GEOADD g 1 86 a", "-ERR invalid longitude,latitude pair 1.000000,86.000000"),
        ("GEOADD g x 1 a", "-ERR value is not a valid float"),
        ("GEOADD g 1 x a", "-ERR value is not a valid float"),
        ("GEOADD g 1.5 -86.123456789 a", "-ERR invalid longitude,latitude pair 1.500000,-86.123457"),
        ("GEOADD g -180 -85.05112878 low 180 85.05112878 high 0 0 zero", ":3"),
        (
            "GEOPOS g low high zero",
            r#"[["-179.99999731779098511", "-85.05112751263942528"], ["180", "85.0511287799999991"], ["0.00000268220901489", "0.00000126736058093"]]"#,
        ),
        ("GEOHASH g low high zero", r#"["00bh0hbj200", "bp05b5048p0", "s0000000000"]"#),
        ("SET s v", "+OK"),
        ("GEOADD s 1 1 a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("GEODIST s a b", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("GEOHASH s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("GEOPOS s a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        (
            "GEOSEARCH s FROMLONLAT 1 1 BYRADIUS 1 m",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("GEORADIUS s 1 1 1 m", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("GEORADIUSBYMEMBER s a 1 m", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn searching_circles_and_boxes() {
    check(&[
        (
            "GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 12.758489 38.788135 edge1 17.241510 38.788135 edge2",
            ":4",
        ),
        ("GEORADIUS g 15 37 200 km", r#"["Palermo", "Catania"]"#),
        (
            "GEORADIUS g 15 37 200 km WITHDIST WITHHASH WITHCOORD",
            r#"[["Palermo", "190.4424", :3479099956230698, ["13.36138933897018433", "38.11555639549629859"]], ["Catania", "56.4413", :3479447370796909, ["15.08726745843887329", "37.50266842333162032"]]]"#,
        ),
        (
            "GEORADIUS g 15 37 200 km WITHCOORD WITHDIST DESC",
            r#"[["Palermo", "190.4424", ["13.36138933897018433", "38.11555639549629859"]], ["Catania", "56.4413", ["15.08726745843887329", "37.50266842333162032"]]]"#,
        ),
        ("GEORADIUS g 15 37 300 km ASC", r#"["Catania", "Palermo", "edge2", "edge1"]"#),
        ("GEORADIUS g 15 37 300 km COUNT 1", r#"["Catania"]"#),
        ("GEORADIUS g 15 37 300 km COUNT 3 DESC", r#"["edge1", "edge2", "Palermo"]"#),
        ("GEORADIUS g 15 37 300 km COUNT 2 ANY", r#"["Palermo", "edge1"]"#),
        ("GEORADIUS_RO g 15 37 200 km", r#"["Palermo", "Catania"]"#),
        ("GEORADIUS_RO g 15 37 200 km STORE d", "-ERR syntax error"),
        ("GEORADIUSBYMEMBER g Palermo 100 mi WITHDIST", r#"[["Palermo", "0.0000"], ["edge1", "56.7939"]]"#),
        ("GEORADIUSBYMEMBER_RO g Palermo 600000 ft", r#"["Palermo", "edge1", "Catania"]"#),
        ("GEORADIUSBYMEMBER g none 200 km", "-ERR member none does not exist"),
        ("GEORADIUSBYMEMBER g \"no\\x00ne\" 200 km", "-ERR member no does not exist"),
        ("GEORADIUSBYMEMBER none Palermo x km", "[]"),
        ("GEORADIUSBYMEMBER none Palermo x km FOO", "-ERR syntax error"),
        (
            "GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km WITHDIST",
            r#"[["Palermo", "0.0000"], ["edge1", "91.4007"], ["Catania", "166.2742"]]"#,
        ),
        (
            "GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 400 km ASC WITHCOORD WITHDIST",
            r#"[["Catania", "56.4413", ["15.08726745843887329", "37.50266842333162032"]], ["Palermo", "190.4424", ["13.36138933897018433", "38.11555639549629859"]], ["edge2", "279.7403", ["17.24151045083999634", "38.78813451624225195"]], ["edge1", "279.7405", ["12.7584877610206604", "38.78813451624225195"]]]"#,
        ),
        ("GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 100 km ASC", "[]"),
        ("GEOSEARCH g FROMMEMBER none BYRADIUS 200 km", "-ERR member none does not exist"),
        ("GEOSEARCH none FROMMEMBER Palermo BYRADIUS 200 km", "[]"),
        ("GEORADIUS g 15 37 200 foo", "-ERR unsupported unit provided. please use M, KM, FT, MI"),
        ("GEORADIUS g 15 37 x km", "-ERR need numeric radius"),
        ("GEORADIUS g 15 37 -1 km", "-ERR radius cannot be negative"),
        ("GEORADIUS g 15 97 -1 km", "-ERR invalid longitude,latitude pair 15.000000,97.000000"),
        ("GEORADIUS g 15 37 200 km COUNT 0", "-ERR COUNT must be > 0"),
        ("GEORADIUS g 15 37 200 km COUNT x", "-ERR value is not an integer or out of range"),
        ("GEORADIUS g 15 37 200 km COUNT", "-ERR syntax error"),
        ("GEORADIUS g 15 37 200 km ANY", "-ERR the ANY argument requires COUNT argument"),
        ("GEORADIUS g 15 37 200 km FOO", "-ERR syntax error"),
        ("GEOSEARCH g FROMLONLAT 15 37 BYBOX 400 x km", "-ERR need numeric height"),
        ("GEOSEARCH g FROMLONLAT 15 37 BYBOX x 400 km", "-ERR need numeric width"),
        ("GEOSEARCH g FROMLONLAT 15 37 BYBOX -1 400 km", "-ERR height or width cannot be negative"),
        (
            "GEOSEARCH g FROMLONLAT 15 37 BYBOX 1 400 foo",
            "-ERR unsupported unit provided. please use M, KM, FT, MI",
        ),
        ("GEOSEARCH g FROMLONLAT 15 37 FROMMEMBER Palermo BYBOX 1 400 km", "-ERR syntax error"),
        ("GEOSEARCH g FROMMEMBER Palermo FROMLONLAT 15 37 BYBOX 1 400 km", "-ERR syntax error"),
        (
            "GEOSEARCH g FROMLONLAT 15 37 ASC DESC WITHDIST",
            "-ERR exactly one of BYRADIUS, BYBOX and BYPOLYGON can be specified for GEOSEARCH",
        ),
        (
            "GEOSEARCH g BYRADIUS 200 km ASC WITHDIST",
            "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCH",
        ),
        ("GEOSEARCH g FROMLONLAT 15 37 BYBOX 1 400 km BYRADIUS 200 km", "-ERR syntax error"),
        ("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km BYBOX 1 400 km", "-ERR syntax error"),
        ("GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST", "-ERR syntax error"),
        ("GEOSEARCH none FROMMEMBER a BYRADIUS 1 m ANY", "-ERR the ANY argument requires COUNT argument"),
        ("GEORADIUS g 15 37 0 m", "[]"),
        ("GEORADIUS g 15 37 10000 km", r#"["Palermo", "edge1", "Catania", "edge2"]"#),
        ("GEORADIUS none 15 37 10 km", "[]"),
    ]);
}

#[test]
fn searching_polygons() {
    check(&[
        ("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 2 2 far", ":3"),
        (
            "GEOSEARCH g BYPOLYGON 3 12 37 16 37 14 40 WITHDIST WITHCOORD ASC",
            r#"[["Palermo", "57112.6019", ["13.36138933897018433", "38.11555639549629859"]], ["Catania", "111096.0599", ["15.08726745843887329", "37.50266842333162032"]]]"#,
        ),
        ("GEOSEARCH g BYPOLYGON 4 0 0 0 5 5 5 5 0", r#"["far"]"#),
        // All digits equal those of the reference.
        ("GEOADD h 10.338 5.076 a", ":1"),
        (
            "GEOSEARCHSTORE d h BYPOLYGON 3 81.442 2.945249 -0.754347 -1.408156 -0.166138 84.850 STOREDIST",
            ":1",
        ),
        ("ZSCORE d a", "\"4.239279541036586e+6\""),
        ("GEOSEARCH g BYPOLYGON 3 0 0 0 50 50 50 ASC", r#"["Catania", "Palermo"]"#),
        ("GEOSEARCH g BYPOLYGON 3 12 37 16 37 14 40 BYPOLYGON 3 0 0 0 5 5 5 ASC", "[]"),
        ("GEOSEARCH g BYPOLYGON 2 12 37 16 37", "-ERR GEOSEARCH BYPOLYGON must have at least 3 vertices"),
        (
            "GEOSEARCH g BYPOLYGON -3 12 37 16 37 14 40",
            "-ERR GEOSEARCH BYPOLYGON must have at least 3 vertices",
        ),
        ("GEOSEARCH g BYPOLYGON x 12 37 16 37 14 40", "-ERR invalid number of vertices"),
        ("GEOSEARCH g BYPOLYGON 99999999999 12 37 16 37 14 40", "-ERR invalid number of vertices"),
        ("GEOSEARCH g BYPOLYGON 4 12 37 16 37 14", "-ERR GEOSEARCH BYPOLYGON must have at least 3 vertices"),
        ("GEOSEARCH g BYPOLYGON 3 12 37 16 37 14 WITHDIST", "-ERR value is not a valid float"),
        (
            "GEOSEARCH g BYPOLYGON 3 12 37 16 37 14 99",
            "-ERR invalid longitude,latitude pair 14.000000,99.000000",
        ),
        ("GEOSEARCH g BYPOLYGON 3 12 37 16 37 14 x", "-ERR value is not a valid float"),
        ("GEOSEARCH g FROMLONLAT 15 37 BYPOLYGON 3 12 37 16 37 14 40", "-ERR syntax error"),
        ("GEOSEARCH g BYPOLYGON 3 12 37 16 37 14 40 FROMMEMBER Palermo", "-ERR syntax error"),
        ("GEOSEARCH g BYPOLYGON 3 12 37 16 37 14 40 FROMLONLAT 1 1", "-ERR syntax error"),
        ("GEOSEARCH g BYPOLYGON 3 12 37 16 37 14 40 BYRADIUS 200 km", "-ERR syntax error"),
        ("GEOSEARCH g BYRADIUS 200 km BYPOLYGON 3 12 37 16 37 14 40", "-ERR syntax error"),
        ("GEOSEARCH g BYPOLYGON 3 12 37 13 37 14 37", "[]"),
        ("GEOSEARCH none BYPOLYGON 3 12 37 13 37 14 39", "[]"),
    ]);
}

#[test]
fn storing_what_is_found() {
    check(&[
        ("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
        ("GEORADIUS g 15 37 200 km STORE d", ":2"),
        ("ZRANGE d 0 -1 WITHSCORES", r#"["Palermo", "3479099956230698", "Catania", "3479447370796909"]"#),
        ("GEORADIUS g 15 37 200 km STOREDIST d", ":2"),
        ("ZRANGE d 0 -1 WITHSCORES", r#"["Catania", "56.4412578701582", "Palermo", "190.44242984775784"]"#),
        ("GEORADIUSBYMEMBER g Palermo 200 mi STOREDIST d COUNT 1", ":1"),
        ("ZRANGE d 0 -1 WITHSCORES", r#"["Palermo", "0"]"#),
        ("GEORADIUS g 15 37 200 km STORE d STOREDIST e", ":2"),
        ("EXISTS d e", ":2"),
        (
            "GEORADIUS g 15 37 200 km STORE d WITHDIST",
            "-ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
        ),
        ("GEORADIUS none 15 37 200 km STORE d", ":0"),
        ("EXISTS d", ":0"),
        ("GEORADIUS none 15 37 200 km STORE d", ":0"),
        ("GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 km", ":2"),
        ("ZRANGE d 0 -1 WITHSCORES", r#"["Palermo", "3479099956230698", "Catania", "3479447370796909"]"#),
        ("GEOSEARCHSTORE d g FROMLONLAT 15 37 BYBOX 400 400 km STOREDIST DESC", ":2"),
        ("ZRANGE d 0 -1 WITHSCORES", r#"["Catania", "56.4412578701582", "Palermo", "190.44242984775784"]"#),
        ("OBJECT ENCODING d", r#""listpack""#),
        ("GEOSEARCHSTORE d g BYPOLYGON 3 12 37 16 37 14 40 STOREDIST", ":2"),
        (
            "ZRANGE d 0 -1 WITHSCORES",
            r#"["Palermo", "5.711260191737611e+4", "Catania", "1.1109605986474003e+5"]"#,
        ),
        ("GEOSEARCHSTORE g g FROMMEMBER Palermo BYRADIUS 1 km", ":1"),
        ("ZRANGE g 0 -1", r#"["Palermo"]"#),
        (
            "GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 km WITHDIST",
            "-ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
        ),
        ("GEOSEARCHSTORE d g FROMLONLAT 15 37 BYRADIUS 200 km STORE x", "-ERR syntax error"),
        (
            "GEOSEARCHSTORE d g ASC ASC ASC ASC ASC ASC",
            "-ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for GEOSEARCHSTORE",
        ),
        ("GEOSEARCHSTORE d g FROMLONLAT 80 0 BYRADIUS 1 km", ":0"),
        ("EXISTS d", ":0"),
    ]);
}

#[test]
fn replies_of_the_third_protocol() {
    check_resp3(&[
        ("GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania", ":2"),
        ("GEOPOS g Palermo none", "[[,13.36138933897018433, ,38.11555639549629859], null]"),
        ("GEODIST g Palermo Catania", r#""166274.1516""#),
        ("GEODIST g Palermo none", "null"),
        ("GEOHASH g Palermo none", r#"["sqc8b49rny0", null]"#),
        (
            "GEOSEARCH g FROMLONLAT 15 37 BYRADIUS 200 km ASC WITHDIST WITHHASH WITHCOORD",
            r#"[["Catania", "56.4413", :3479447370796909, [,15.08726745843887329, ,37.50266842333162032]], ["Palermo", "190.4424", :3479099956230698, [,13.36138933897018433, ,38.11555639549629859]]]"#,
        ),
    ]);
}

#[test]
fn the_last_key_to_store_in_is_the_one_that_counts() {
    check(&[
        ("COMMAND GETKEYS GEORADIUS src 0 0 1 km", r#"["src"]"#),
        ("COMMAND GETKEYS GEORADIUS src 0 0 1 km STORE a STOREDIST b", r#"["src", "b"]"#),
        ("COMMAND GETKEYS GEORADIUS src 0 0 1 km STORE store x", r#"["src", "store"]"#),
        ("COMMAND GETKEYS GEORADIUS src 0 0 1 km STORE", r#"["src"]"#),
        ("COMMAND GETKEYS GEORADIUSBYMEMBER src m STORE x y", r#"["src"]"#),
        (
            "COMMAND GETKEYSANDFLAGS GEORADIUSBYMEMBER src m 1 km STORE d storedist e",
            r#"[["src", [+RO, +access]], ["e", [+OW, +update]]]"#,
        ),
    ]);
}
