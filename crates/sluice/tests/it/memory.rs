//! Memory, end to end: the figures of INFO, and returning memory to the system.

use crate::common::{self, Client, Dir, Server, until};

/// Writes an entry of each of 125 size classes, which are 8 bytes apart, up to about 1,024 bytes.
fn one_key_of_each_size(client: &mut Client) {
    for size in 0..125 {
        client.check(&format!("SET key:{size:03} {}", "v".repeat(3 + size * 8)), "+OK\r\n");
    }
}

#[test]
fn memory_that_no_entry_uses_is_fragmentation_and_not_used() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    client.check("SET key:000 v", "+OK\r\n");
    let before = client.info_number("used_memory");
    one_key_of_each_size(&mut client);
    let added = client.info_number("used_memory") - before;
    // The entries alone take some 62 KiB; other buffers of some 20 KiB are allocated and freed during the
    // writes.
    assert!((24 << 10..=256 << 10).contains(&added), "{added} bytes more");
    // Each size class has reserved a chunk of its own. Together the chunks have more than 100 MiB, but most
    // of these bytes are untouched, so they do not count as fragmentation either.
    let fragmented = client.info_number("allocator_frag_bytes");
    assert!((0..8 << 20).contains(&fragmented), "{fragmented} bytes");
    // Memory that entries have used before counts as fragmentation.
    for key in 0..20_000 {
        client.send(format!("SET many:{key:05} {}\r\n", "v".repeat(500)));
        client.expect("+OK\r\n");
    }
    client.check("DEBUG PAUSE-CRON 1", "+OK\r\n");
    let full = client.info_number("used_memory");
    for key in 1..20_000 {
        if key % 8 != 0 {
            client.check(&format!("DEL many:{key:05}"), ":1\r\n");
        }
    }
    let freed = full - client.info_number("used_memory");
    assert!((8 << 20..11 << 20).contains(&freed), "{freed} bytes less");
    let fragmented = client.info_number("allocator_frag_bytes");
    assert!(fragmented > 7 << 20, "{fragmented} bytes");
    // Compacting the entries ends the fragmentation.
    client.check("DEBUG PAUSE-CRON 0", "+OK\r\n");
    until("compaction", || (client.info_number("allocator_frag_bytes") < 3 << 20).then_some(()));
    assert!(client.info_number("active_defrag_hits") > 1000);
}

#[test]
fn reserved_memory_does_not_count_against_maxmemory() {
    let server = Server::start(&["--maxmemory", "32mb"]);
    let mut client = server.client();
    one_key_of_each_size(&mut client);
    client.check("SET another v", "+OK\r\n");
}

#[test]
fn eviction_keeps_memory_at_its_limit_and_takes_no_more_than_it_has_to() {
    const LIMIT: i64 = 40 << 20;
    let server = Server::start(&["--maxmemory", "40mb", "--maxmemory-policy", "allkeys-lru", "--save", ""]);
    let mut client = server.client();
    // Small values are in the entries, values of 2,000 bytes beside them, and large ones are
    // freed by another thread.
    for (size, count) in [(100, 450_000), (2_000, 30_000), (300_000, 400)] {
        let value = "v".repeat(size);
        for batch in 0..count / 100 {
            // The requests are not inline, because inline requests are limited to 64 KiB.
            let request = |n| {
                let key = format!("{size}:{}", batch * 100 + n);
                format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${size}\r\n{value}\r\n", key.len())
            };
            let requests: String = (0..100).map(request).collect();
            client.send(requests);
            client.expect("+OK\r\n".repeat(100));
        }
        // The test waits until the memory for receiving the requests is free again.
        until("memory at its limit", || {
            let used = client.info_number("used_memory");
            (LIMIT * 85 / 100..=LIMIT + (1 << 20)).contains(&used).then_some(())
        });
        assert!(client.info_number("evicted_keys") > 0);
        client.check(&format!("EXISTS {size}:{}", count - 1), ":1\r\n");
    }
    // About as many large values are left as the limit has room for; some are missing, because keys with
    // smaller values are equally recent.
    client.send("KEYS 300000:*\r\n");
    let left: i64 = client.line().strip_prefix('*').unwrap().parse().unwrap();
    assert!((90..140).contains(&left), "{left}");
}

#[test]
fn the_log_warns_of_a_maxmemory_that_is_exceeded_already() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-random"]);
    let mut client = server.client();
    client.check("SET a 1", "+OK\r\n").check("CONFIG SET maxmemory 1", "+OK\r\n");
    assert!(
        server.log.wait("WARNING: the new maxmemory value set via CONFIG SET (1) is smaller than").is_some()
    );
    client.check("SET a 1", "-OOM command not allowed when used memory > 'maxmemory'.\r\n");
    client.check("DBSIZE", ":0\r\n");
}

#[test]
fn the_log_says_how_much_memory_was_refused() {
    for crash_log in ["yes", "no"] {
        let shell = format!("ulimit -c 0 && ulimit -v 3000000 && exec {} \"$@\"", common::BINARY);
        let mut server = Server::start_in(Dir::new(), |command| {
            let arguments: Vec<_> = command.get_args().map(std::ffi::OsStr::to_owned).collect();
            *command = std::process::Command::new("sh");
            command.args(["-c", &shell, "sh"]).args(arguments);
            command.args(["--crash-log-enabled", crash_log, "--proto-max-bulk-len", "4gb"]);
            command.args(["--enable-debug-command", "yes"]);
        });
        let mut client = server.client();
        client.send("DEBUG POPULATE 1 k 3500000000\r\n");
        let status = server.wait();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(6));
        let said = server.log.all();
        let line = said.lines().find_map(|line| line.strip_prefix("Out Of Memory allocating "));
        let bytes = line.and_then(|line| line.strip_suffix(" bytes!")?.parse::<u64>().ok());
        assert!(bytes.is_some_and(|bytes| bytes >= 3_500_000_000), "{said}");
        assert_eq!(said.contains("crashed by signal: 6"), crash_log == "yes", "{said}");
    }
}

/// Number of the allocator's own threads.
fn allocator_threads(server: &Server) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    tasks
        .flatten()
        .filter(|task| {
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            name.starts_with("jemalloc")
        })
        .count()
}

#[test]
fn the_allocators_background_thread_runs_when_it_is_wanted() {
    let server = Server::start(&[]);
    let mut client = server.client();
    assert_eq!(client.config("jemalloc-bg-thread"), "yes");
    until("the thread", || (allocator_threads(&server) > 0).then_some(()));
    client.check("CONFIG SET jemalloc-bg-thread no", "+OK\r\n");
    until("the thread's end", || (allocator_threads(&server) == 0).then_some(()));
    client.check("CONFIG SET jemalloc-bg-thread yes", "+OK\r\n");
    until("the thread again", || (allocator_threads(&server) > 0).then_some(()));
    let without = Server::start(&["--jemalloc-bg-thread", "no"]);
    without.client().check("PING", "+PONG\r\n");
    assert_eq!(allocator_threads(&without), 0);
}

/// Starts a server that adds up the memory of its parts at the end of each iteration.
fn summing_server(arguments: &[&str]) -> Server {
    Server::start_in(Dir::new(), |command| {
        command.args(arguments).env("SLUICE_TEST_PARTS", "1");
    })
}

/// Waits until the memory of the parts adds up to the used memory, within 2 %. A wait is needed because
/// threads may still be freeing deleted values.
fn check_parts(client: &mut Client, when: &str) {
    until(&format!("explained memory: {when}"), || {
        let info = String::from_utf8(client.bulk("INFO debug")).unwrap();
        let field = |name: &str| -> Option<i64> {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.parse().ok()
        };
        let used = field("memory_parts_used")?;
        (field("memory_unexplained_bytes")?.abs() * 50 <= used).then_some(())
    });
}

#[test]
fn the_parts_of_memory_add_up_to_what_is_used() {
    if !common::has_switches() {
        return;
    }
    for arguments in [
        &["--event-loop", "auto"][..],
        &["--event-loop", "poll"],
        &["--event-loop", "epoll"],
        &["--io-threads", "4", "--io-threads-always-active", "yes"],
    ] {
        parts_add_up(arguments);
    }
}

fn parts_add_up(arguments: &[&str]) {
    let server = summing_server(arguments);
    let mut client = server.client();
    check_parts(&mut client, "at the start");
    for key in 0..50 {
        client.check(&format!("SET large:{key} {}", "v".repeat(20_000)), "+OK\r\n");
        client.check(&format!("SET small:{key} {key}"), "+OK\r\n");
        client.check(&format!("RPUSH list {}", "e".repeat(3000)), format!(":{}\r\n", key + 1));
    }
    check_parts(&mut client, "values");
    client.check("SETRANGE pages 900000 x", ":900001\r\n");
    check_parts(&mut client, "a string in pages");
    // More scripts are executed than the server keeps, each with another text. The scripts that the server
    // drops must be freed.
    for number in 0..800 {
        let text = format!("{number}:{}", "t".repeat(2000));
        client.check(&format!("EVAL \"return #'{text}'\" 0"), format!(":{}\r\n", text.len()));
    }
    check_parts(&mut client, "scripts");
    let patterns = "for i = 1, 64 do string.find('x', string.rep('a', i) .. '%d+[abc]*') end return 1";
    client.check(&format!("EVAL \"{patterns}\" 0"), ":1\r\n");
    check_parts(&mut client, "patterns");
    let function = "function(keys) local text = 'of a function' return #keys > 1 and text or keys[1] end";
    for library in 0..10 {
        let functions: String = (0..20)
            .map(|number| format!("server.register_function('f{library}_{number}', {function}) "))
            .collect();
        let table = "1, ".repeat(3000);
        let code = format!("#!lua name=l{library}\\nlocal t = {{{table}}} {functions}");
        client.check(&format!("FUNCTION LOAD \"{code}\""), format!("$2\r\nl{library}\r\n"));
    }
    check_parts(&mut client, "libraries");
    client.check("FUNCTION FLUSH SYNC", "+OK\r\n");
    client.check("SCRIPT FLUSH SYNC", "+OK\r\n");
    check_parts(&mut client, "no scripts");
    let mut transaction = server.client();
    transaction.check("MULTI", "+OK\r\n");
    for key in 0..200 {
        transaction.check(&format!("SET queued:{key} {}", "v".repeat(1000)), "+QUEUED\r\n");
    }
    check_parts(&mut client, "a transaction");
    let mut subscriber = server.client();
    for channel in 0..2000 {
        let name = format!("channel:{channel}:{}", "c".repeat(100));
        subscriber.check(
            &format!("SUBSCRIBE {name}"),
            format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{name}\r\n:{}\r\n", name.len(), channel + 1),
        );
    }
    check_parts(&mut client, "subscriptions");
    let mut waiting: Vec<Client> = (0..100).map(|_| server.client()).collect();
    for (number, other) in waiting.iter_mut().enumerate() {
        other.send(format!("BLPOP {}:{number} 0\r\n", "k".repeat(1000)));
    }
    until("clients wait", || (client.info_number("blocked_clients") == 100).then_some(()));
    check_parts(&mut client, "blocked clients");
    // Requests of blocked clients stay in their query buffers.
    waiting.iter_mut().for_each(|other| {
        other.send(format!("*2\r\n$3\r\nGET\r\n$3000\r\n{}", "x".repeat(2000)));
    });
    check_parts(&mut client, "query buffers");
    drop((waiting, subscriber, transaction));
    until("clients end", || (client.info_number("connected_clients") == 1).then_some(()));
    check_parts(&mut client, "clients that ended");
    client.check("FLUSHALL", "+OK\r\n");
    check_parts(&mut client, "an empty server");
}
