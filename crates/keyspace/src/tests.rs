use super::*;
use sluice_base::HashSeed;

fn access() -> Access {
    Access { now: Now { mono_ns: 0, unix_us: 1_000_000 }, touch: Touch::Lru(7), expiry: ExpiryMode::Delete }
}

#[test]
fn strings_of_every_length_come_back_from_under_keys_of_every_length() {
    let mut keyspace = Keyspace::new(1, HashSeed { k0: 1, k1: 2 });
    let mut effects = Effects::default();
    for key_len in (0..40).chain([100, 254, 255, 256, 300]) {
        for value_len in (0..40).chain([500, 700, 1000, 1010, 1020, 1030, 5000]) {
            for expiry in [SetExpiry::Clear, SetExpiry::At(i64::MAX)] {
                let (name, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
                let mut db = keyspace.write(0, access(), &mut effects);
                let key = db.key(&name);
                db.set(key, Payload::Str(&value), expiry, Event::Set);
                let entry = db.get(key).unwrap();
                assert_eq!(entry.str().unwrap().to_vec(), value, "key {key_len}, value {value_len}");
                assert_eq!(entry.key(), name);
                assert_eq!(entry.expiry().is_some(), expiry != SetExpiry::Clear);
            }
        }
        keyspace.db(0).check();
    }
}
