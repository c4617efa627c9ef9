//! CLIENT TRACKING BCAST with many changes and many clients: invalidations are sent in slices, each
//! user's rights are checked once, and no key is left out.

use sluice_base::{Rng, SessionKey};
use sluice_testkit::Rig;
use std::collections::{BTreeMap, BTreeSet};

/// Connects a client that acts as `user` and tracks with BCAST and these options.
fn connect(rig: &mut Rig, user: &str, options: &str) -> SessionKey {
    let client = rig.connect();
    rig.run_as(client, &format!("HELLO 3 AUTH {user} x"));
    assert_eq!(rig.run_as(client, &format!("CLIENT TRACKING ON BCAST {options}")), "+OK");
    client
}

/// Arrays of names in a client's output; an empty array stands for all keys. Other replies are skipped.
fn arrays(got: &[u8]) -> Vec<Vec<String>> {
    let got = String::from_utf8_lossy(got);
    let mut lines = got.split("\r\n");
    let mut arrays = Vec::new();
    while let Some(line) = lines.next() {
        if line == ">2" {
            assert_eq!((lines.next(), lines.next()), (Some("$10"), Some("invalidate")));
            let count = lines.next().unwrap().strip_prefix('*').map_or(0, |count| count.parse().unwrap());
            let names = (0..count).map(|_| lines.nth(1).unwrap().to_owned());
            arrays.push(names.collect());
        }
    }
    arrays
}

/// Writes keys with one MSET, and leaves the client's output unread.
fn write(rig: &mut Rig, client: SessionKey, names: &[String]) {
    let mut words: Vec<&[u8]> = vec![b"MSET"];
    names.iter().for_each(|name| words.extend([name.as_bytes(), b"1"]));
    rig.argv_unread(client, &words);
}

const USERS: [&str; 3] =
    ["some on nopass +@all %R~mine:* ~own:*", "all on nopass +@all ~*", "none on nopass +@all"];

/// Number of event-loop iterations until the last of `clients` clients has received all names that its user
/// may read (half of `names`). The fake clock advances 600 µs with each reading, so the time slice of an
/// iteration ends after about three readings.
fn iterations(clients: usize, names: &[String]) -> usize {
    let mut rig = Rig::new();
    for user in USERS {
        rig.check(&format!("ACL SETUSER {user}"), "+OK");
    }
    let clients: Vec<SessionKey> = (0..clients).map(|_| connect(&mut rig, "some", "")).collect();
    rig.process.us_each_look = 600;
    let writer = rig.client;
    write(&mut rig, writer, names);
    let mut told: Vec<Vec<String>> = Vec::new();
    for iteration in 1..100_000 {
        told.extend(arrays(&rig.output(clients[clients.len() - 1])));
        if told.iter().map(Vec::len).sum::<usize>() == names.len() / 2 {
            assert!(told.len() > 1 && told.iter().all(|names| names.len() <= 1024));
            if clients.len() > 1 {
                assert!(arrays(&rig.output(clients[0])) == told, "each client is told the same");
            }
            return iteration;
        }
    }
    panic!("{} names of {}", told.len(), names.len());
}

#[test]
fn what_many_clients_of_a_user_are_told_is_judged_once_and_in_slices() {
    let names: Vec<String> =
        (0..4000).map(|number| format!("{}:{number}", ["mine", "other"][number % 2])).collect();
    let of_one = iterations(1, &names);
    assert!(of_one > 20, "in one go: {of_one} iterations");
    let of_many = iterations(60, &names);
    assert!(of_many < of_one + 5, "{of_many} for 60 clients, {of_one} for one");
}

/// Clients of three users, with and without NOLOOP, get changes while earlier changes are still being
/// sent. After the last change of a key its name is sent once more, and no client gets a name that its
/// user may not read.
#[test]
fn nothing_is_left_out_while_changes_are_on_their_way() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut rig = Rig::new();
        for user in USERS {
            rig.check(&format!("ACL SETUSER {user}"), "+OK");
        }
        let mut clients = Vec::new();
        for options in ["", "NOLOOP", "PREFIX mine: PREFIX own:1", "PREFIX own:1 NOLOOP"] {
            for user in ["some", "all", "none"] {
                clients.push((connect(&mut rig, user, options), user, options));
            }
        }
        rig.process.us_each_look = 600;
        // For each client, the names that must still be sent to it.
        let mut due: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for round in 0..40 {
            let writer = clients[rng.below(12) as usize];
            let writer = if writer.1 == "all" { writer.0 } else { rig.client };
            let from = rng.below(300);
            let names: Vec<String> = (from..from + 1 + rng.below(200))
                .map(|number| format!("{}:{number}", ["mine", "other", "own"][number as usize % 3]))
                .collect();
            // The output is read before the change, because a name that was sent before a change does not
            // report it.
            (0..12).for_each(|at| read(&mut rig, &clients, at, &mut due));
            write(&mut rig, writer, &names);
            for (at, (client, user, options)) in clients.iter().enumerate() {
                for name in &names {
                    let may_read = *user == "all" || *user == "some" && !name.starts_with("other");
                    let is_below = !options.contains("PREFIX")
                        || name.starts_with("own:1")
                        || options.contains("mine") && name.starts_with("mine:");
                    let is_own = options.contains("NOLOOP") && writer == *client;
                    if may_read && is_below && !is_own {
                        due.entry(at).or_default().insert(name.clone());
                    }
                }
            }
            let iterations = if round == 39 { 1000 } else { rng.below(12) };
            (0..iterations).for_each(|_| rig.end_iteration());
        }
        (0..12).for_each(|at| read(&mut rig, &clients, at, &mut due));
        due.retain(|_, names| !names.is_empty());
        assert!(due.is_empty(), "seed {seed}: {due:?}");
    }
}

/// Output of a client in the iterations that have ended.
fn output_so_far(rig: &mut Rig, client: SessionKey) -> Vec<u8> {
    let Some((outbox, _)) = rig.engine.take_output_up_to(client, u64::MAX) else { return Vec::new() };
    rig.engine.sent(client, outbox.len(), rig.process.now);
    outbox.flatten()
}

fn read(
    rig: &mut Rig,
    clients: &[(SessionKey, &str, &str)],
    at: usize,
    due: &mut BTreeMap<usize, BTreeSet<String>>,
) {
    let (client, user, options) = clients[at];
    let sent = output_so_far(rig, client);
    for names in arrays(&sent) {
        assert!(!names.is_empty() && names.is_sorted(), "{names:?}");
        for name in names {
            assert!(user == "all" || user == "some" && !name.starts_with("other"), "{user}: {name}");
            assert!(!options.contains("PREFIX") || !name.starts_with("other"), "{options}: {name}");
            due.entry(at).or_default().remove(&name);
        }
    }
}

/// A user who loses the right to read keys while their names are being sent gets no more of these names.
#[test]
fn rights_are_those_of_the_moment_at_which_a_piece_is_told() {
    let mut rig = Rig::new();
    rig.check(&format!("ACL SETUSER {}", USERS[0]), "+OK");
    let client = connect(&mut rig, "some", "");
    rig.process.us_each_look = 600;
    let names: Vec<String> = (0..3000).map(|number| format!("mine:{number:04}")).collect();
    let writer = rig.client;
    write(&mut rig, writer, &names);
    let mut told = 0;
    while told == 0 {
        told = arrays(&rig.output(client)).len();
    }
    rig.argv_unread(rig.client, &[b"ACL", b"SETUSER", b"some", b"resetkeys"]);
    let before = arrays(&rig.output(client)).len();
    let after: usize = (0..400).map(|_| arrays(&rig.output(client)).len()).sum();
    assert!(before <= 1 && after == 0, "{before} {after}");
}

/// If the changed keys do not fit in the list of changes, every BCAST client is told to drop all its copies;
/// later changes are sent by name again.
#[test]
fn clients_drop_all_copies_where_more_has_changed_than_is_listed() {
    let mut rig = Rig::new();
    rig.check(&format!("ACL SETUSER {}", USERS[1]), "+OK");
    let client = connect(&mut rig, "all", "");
    let long = "x".repeat(1 << 20);
    for line in ["MULTI".to_owned(), format!("SET {long} 1")] {
        rig.run(&line);
    }
    for number in 0..70 {
        rig.run(&format!("SET {number}{long} 1"));
    }
    rig.argv_unread(rig.client, &[b"EXEC"]);
    assert_eq!(arrays(&rig.output(client)), [Vec::<String>::new()]);
    rig.run("SET k 1");
    assert_eq!(arrays(&rig.output(client)), [["k"]]);
}
