//! Digests of values, which DEBUG DIGEST-VALUE shows.

use crate::common::{Bench, check};
use sluice_commands::serialized_len;

/// The digest of a string depends only on its bytes, so another key with the same bytes, written in one
/// piece, has the same digest.
#[test]
fn digest_value_does_not_see_how_a_large_string_is_kept() {
    let mut bench = Bench::new();
    let text = "digest".repeat(40_000);
    bench.run(&format!("SET whole {text}"));
    bench.run(&format!("SETRANGE pages 100000 {}", &text[100_000..]));
    bench.run(&format!("SETRANGE pages 0 {}", &text[..100_000]));
    let digest = |bench: &mut Bench, key: &str| bench.run(&format!("DEBUG DIGEST-VALUE {key}"));
    assert_eq!(digest(&mut bench, "pages"), digest(&mut bench, "whole"));
    bench.check("OBJECT ENCODING pages", "\"raw\"");
    let db = bench.keyspace.db(0);
    let found = db.find(bench.keyspace.key(b"pages")).unwrap();
    assert_eq!(serialized_len(db.entry(found.handle).value(), -2), 240_005);
    bench.run("APPEND pages x");
    assert_ne!(digest(&mut bench, "pages"), digest(&mut bench, "whole"));
}

#[test]
fn digests_of_sorted_sets_hold_the_shortest_digits_of_scores() {
    check(&[
        ("ZADD z 7e16 a", ":1"),
        ("DEBUG DIGEST-VALUE z", "[+07ffe1cf51a956190520afd1fcf4918898fa95d5]"),
        ("ZADD z 1e15 a", ":0"),
        ("DEBUG DIGEST-VALUE z", "[+907f70c1c08fa0cc4323da52d5068a9dcaeb2539]"),
        ("ZADD z 0.1 a", ":0"),
        ("DEBUG DIGEST-VALUE z", "[+6605f56364a85f2c14bc54c5b4318ac4616eb60a]"),
        ("ZADD z inf a", ":0"),
        ("DEBUG DIGEST-VALUE z", "[+693af63fc2885cc02fbc107a856fc4b9687305ed]"),
    ]);
}
