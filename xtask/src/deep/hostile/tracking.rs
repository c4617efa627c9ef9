//! Clients with CLIENT TRACKING that fill the invalidation table beyond its limit of keys or bytes, that
//! connect and leave repeatedly, and that ask for thousands of prefixes.

use std::path::Path;
use std::time::Duration;

use crate::wire::{Connection, encode};
use crate::{Result, shell};

use super::program::Program;
use super::scene::{Measured, Scene, nothing, play, processor_ticks};

/// Duration of the programs that repeat their requests, and maximum time until a lowered limit holds.
const GOES_ON_FOR: Duration = Duration::from_secs(4);
/// `tracking-table-max-keys` of the programs that exceed it with absent keys.
const KEYS_MAX: u64 = 100_000;
/// Maximum excess of the table over its limit of keys whenever INFO is read, in percent of the limit.
const BEYOND_PERCENT: u64 = 10;
/// Number of names in one request.
const NAMES: usize = 1000;
/// Number of clients that track and leave; `TABLE_KEYS` is the number of keys in the table at that time.
const LEAVING: usize = 2000;
const TABLE_KEYS: usize = 500_000;
/// Maximum processor time for leaving clients beside a large table, as a multiple of that
/// beside an empty one.
const LEAVING_FACTOR: u64 = 3;
/// Number of prefixes of one client.
const PREFIXES: usize = 5000;

pub(super) fn programs() -> Vec<Program> {
    let rows: [(&str, u64, fn(&Path) -> Result<Measured>); 7] = [
        ("absent keys beyond tracking-table-max-keys", 200, by_keys),
        ("absent keys beyond tracking-table-max-keys, by four clients", 200, by_keys_of_four),
        ("300 absent names of 1 MiB", 150, by_bytes),
        ("clients that track and leave beside a large table", 400, leaving),
        ("present keys in one of 10,000 databases", 400, in_many_databases),
        ("prefixes by the thousands", 200, prefixes),
        ("a lower tracking-table-max-keys", 400, lowered),
    ];
    let of = |(name, memory_max_mib, run)| Program::new(format!("tracking: {name}"), memory_max_mib, run);
    rows.into_iter().map(of).collect()
}

/// A client with tracking on.
fn tracker(scene: &Scene) -> Result<Connection> {
    let mut client = scene.client()?;
    client.speak(3)?;
    expect_ok(&mut client, &[b"CLIENT", b"TRACKING", b"ON"])?;
    Ok(client)
}

fn expect_ok(client: &mut Connection, request: &[&[u8]]) -> Result<()> {
    let reply = client.ask(request)?;
    match reply.text == b"OK" {
        true => Ok(()),
        false => {
            Err(format!("{} was answered {}", String::from_utf8_lossy(request[0]), reply.string()).into())
        }
    }
}

/// Reads `count` keys, from the number `first` on, in requests of [`NAMES`] keys each.
fn read(client: &mut Connection, first: usize, count: usize) -> Result<()> {
    for at in (first..first + count).step_by(NAMES) {
        let mut words = vec!["MGET".to_owned()];
        words.extend((at..at + NAMES).map(|number| format!("absent:{number}")));
        let mut request = Vec::new();
        encode(&words, &mut request);
        client.send(&request);
        if let Some(end) = client.receive(1).end {
            return Err(format!("MGET of {NAMES} names: {end:?}").into());
        }
    }
    Ok(())
}

/// The number in the field `name` of INFO.
fn info(client: &mut Connection, name: &str) -> Result<u64> {
    let text = client.ask(&[b"INFO"])?.string();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(line.ok_or_else(|| format!("INFO has no {name}"))?.trim().parse()?)
}

fn check_keys(scene: &mut Scene, most: u64, bound: u64) {
    let held = most <= bound + bound * BEYOND_PERCENT / 100;
    scene.check(held, || format!("tracking_total_keys was {most} of {bound}"));
}

fn by_keys(binary: &Path) -> Result<Measured> {
    beyond(binary, 1)
}

fn by_keys_of_four(binary: &Path) -> Result<Measured> {
    beyond(binary, 4)
}

/// Clients that continuously read new names, [`NAMES`] in each request; INFO is read in between.
fn beyond(binary: &Path, clients: usize) -> Result<Measured> {
    let bound = KEYS_MAX.to_string();
    play(binary, &["--tracking-table-max-keys", &bound], &nothing, &|scene| {
        let mut trackers = (0..clients).map(|_| tracker(scene)).collect::<Result<Vec<_>>>()?;
        let mut asker = scene.client()?;
        let (began, mut next, mut most) = (shell::now(), 0, 0);
        while began.elapsed() < GOES_ON_FOR {
            for tracker in &mut trackers {
                read(tracker, next, 20 * NAMES)?;
                next += 20 * NAMES;
            }
            most = most.max(info(&mut asker, "tracking_total_keys")?);
        }
        check_keys(scene, most, KEYS_MAX);
        scene.check(next as u64 > 2 * KEYS_MAX, || format!("only {next} names were read"));
        Ok(())
    })
}

/// Names so large that a few of them exceed the table's limit of bytes.
fn by_bytes(binary: &Path) -> Result<Measured> {
    play(binary, &[], &nothing, &|scene| {
        let mut client = tracker(scene)?;
        for number in 0..300 {
            let mut name = vec![b'x'; 1 << 20];
            name.extend_from_slice(format!("{number}").as_bytes());
            client.ask(&[b"GET", &name])?;
        }
        Ok(())
    })
}

/// Clients that track, read one key and leave, measured beside an empty table and then beside a large one.
fn leaving(binary: &Path) -> Result<Measured> {
    play(binary, &[], &nothing, &|scene| {
        let beside_none = ticks_of_leaving(scene)?;
        let mut holder = tracker(scene)?;
        read(&mut holder, 0, TABLE_KEYS)?;
        let beside_many = ticks_of_leaving(scene)?;
        // A tick is a hundredth of a second, so differences of a few ticks are noise.
        scene.check(beside_many <= (beside_none + 5) * LEAVING_FACTOR, || {
            format!(
                "{LEAVING} clients that leave took {beside_many}0 ms of processor time beside {TABLE_KEYS} keys, \
                 {beside_none}0 ms beside none"
            )
        });
        Ok(())
    })
}

fn ticks_of_leaving(scene: &Scene) -> Result<u64> {
    let pid = scene.server.pid();
    let before = processor_ticks(pid).ok_or("the server has ended")?;
    for number in 0..LEAVING {
        let mut client = tracker(scene)?;
        client.ask(&[b"GET", format!("left:{number}").as_bytes()])?;
    }
    Ok(processor_ticks(pid).ok_or("the server has ended")?.saturating_sub(before))
}

/// Evictions from the table, whose names are looked up in each database.
fn in_many_databases(binary: &Path) -> Result<Measured> {
    let options = ["--databases", "10000", "--tracking-table-max-keys", "1000"];
    play(binary, &options, &nothing, &|scene| {
        let mut writer = scene.client()?;
        expect_ok(&mut writer, &[b"SELECT", b"9999"])?;
        for at in (0..50 * NAMES).step_by(NAMES) {
            let mut words = vec!["MSET".to_owned()];
            words.extend((at..at + NAMES).flat_map(|number| [format!("absent:{number}"), "1".to_owned()]));
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            expect_ok(&mut writer, &words)?;
        }
        let mut client = tracker(scene)?;
        expect_ok(&mut client, &[b"SELECT", b"9999"])?;
        let (began, mut most) = (shell::now(), 0);
        while began.elapsed() < GOES_ON_FOR {
            read(&mut client, 0, 50 * NAMES)?;
            most = most.max(info(&mut writer, "tracking_total_keys")?);
        }
        // Twice the names of one request are allowed, because a request may exceed the limit.
        check_keys(scene, most, 2 * NAMES as u64);
        Ok(())
    })
}

/// A client with thousands of prefixes, and another client that writes keys with these prefixes.
fn prefixes(binary: &Path) -> Result<Measured> {
    play(binary, &[], &nothing, &|scene| {
        let mut client = scene.client()?;
        client.speak(3)?;
        let mut words = ["CLIENT", "TRACKING", "ON", "BCAST"].map(str::to_owned).to_vec();
        words.extend((0..PREFIXES).flat_map(|number| ["PREFIX".to_owned(), format!("{number:06}:")]));
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        expect_ok(&mut client, &words)?;
        let mut writer = scene.client()?;
        let (began, mut number) = (shell::now(), 0);
        while began.elapsed() < GOES_ON_FOR {
            let mut request = Vec::new();
            for _ in 0..100 {
                number += 1;
                encode(
                    &["SET".to_owned(), format!("{:06}:{number}", number % PREFIXES), "1".to_owned()],
                    &mut request,
                );
            }
            writer.send(&request);
            if let Some(end) = writer.receive(100).end {
                return Err(format!("SET: {end:?}").into());
            }
            // Invalidations are read as they arrive, because this program is not about clients that read
            // nothing.
            client.ask(&[b"PING"])?;
        }
        Ok(())
    })
}

/// The limit is lowered while the table is full.
fn lowered(binary: &Path) -> Result<Measured> {
    play(binary, &[], &nothing, &|scene| {
        let mut client = tracker(scene)?;
        read(&mut client, 0, TABLE_KEYS)?;
        let mut other = scene.client()?;
        expect_ok(&mut other, &[b"CONFIG", b"SET", b"tracking-table-max-keys", b"1000"])?;
        let began = shell::now();
        let mut keys = u64::MAX;
        while keys > 1000 && began.elapsed() < GOES_ON_FOR {
            std::thread::sleep(Duration::from_millis(20));
            // Invalidations are read as they arrive.
            client.ask(&[b"PING"])?;
            keys = info(&mut other, "tracking_total_keys")?;
        }
        check_keys(scene, keys, 1000);
        Ok(())
    })
}
