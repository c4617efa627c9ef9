//! Checks that every thread of a running server has a name of its own, and a signal stack for a crash report.

use crate::common::{Server, until};
use std::collections::BTreeMap;

/// The names of the server's threads, by their kernel ids.
pub fn threads(server: &Server) -> BTreeMap<i32, String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap();
    let name_of = |task: std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        Some((task.file_name().to_str()?.parse().ok()?, name.trim_end().to_owned()))
    };
    tasks.filter_map(|task| name_of(task.ok()?)).collect()
}

/// Whether a thread runs no code of the server: a thread of the allocator, or of the kernel for io_uring.
fn is_foreign(name: &str) -> bool {
    name.starts_with("jemalloc_bg_thd") || name.starts_with("iou-")
}

/// Sends SIGALRM to one thread of a process; returns whether there is such a thread.
#[allow(unsafe_code)]
fn alarm(process: i32, thread: i32) -> bool {
    // SAFETY: the call takes three numbers and touches no memory.
    // JUSTIFICATION: no crate that is used here has a safe form of the call.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGALRM) == 0 }
}

#[cfg(target_os = "linux")]
#[test]
fn every_thread_has_a_name_and_a_signal_stack() {
    let options = ["--io-threads", "3", "--io-threads-always-active", "yes", "--appendonly", "yes"];
    let server = Server::start(&[&options[..], &["--slow-read-threads", "2"]].concat());
    let mut client = server.client();
    client.check("PING", "+PONG\r\n");
    let wanted = ["aof", "aof-sync", "bio_lazy_free", "io_thd_1", "io_thd_2", "slow_read_1", "slow_read_2"];
    until("the threads", || {
        let names: Vec<String> = threads(&server).into_values().collect();
        wanted.iter().all(|name| names.iter().any(|own| own == name)).then_some(())
    });
    let main = server.child.id() as i32;
    let all = threads(&server);
    let mut seen = Vec::new();
    for (id, name) in all.iter().filter(|(_, name)| !is_foreign(name)) {
        let before = server.log.so_far().matches("STACK TRACE DONE").count();
        // The signal goes to this thread, and not to the process.
        assert!(alarm(main, *id), "{name} is gone");
        let report = until("the thread's answer", || {
            let text = server.log.so_far();
            (text.matches("STACK TRACE DONE").count() > before).then_some(text)
        });
        let report = report.rsplit("Received SIGALRM: ").next().unwrap().to_owned();
        assert!(report.contains(&format!("Thread: {name}\n")), "{name}: {report}");
        assert!(report.contains("Signal stack: 2097152 bytes\n"), "{name}: {report}");
        // Only the main thread may have the name of the program, because another thread with this name would
        // be one that was given no name.
        assert_eq!(*id == main, name == "sluice-server", "{name}");
        seen.push(name.as_str());
    }
    let others: Vec<_> =
        seen.iter().filter(|name| **name != "sluice-server" && !wanted.contains(name)).collect();
    assert!(others.is_empty(), "threads that this test does not know: {others:?}");
    client.check("PING", "+PONG\r\n");
}

/// Niceness of a thread of a process.
#[cfg(target_os = "linux")]
fn niceness(process: u32, thread: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).ok()?;
    // The name is in parentheses, and may contain spaces; the name is the second field, and the niceness the
    // 19th.
    stat.rsplit_once(") ")?.1.split(' ').nth(16)?.parse().ok()
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_yields_has_a_third_of_the_servers_own_share() {
    let server = Server::start(&["--rdb-key-save-delay", "1000000"]);
    let process = server.child.id();
    let reniced =
        std::process::Command::new("renice").args(["-n", "11", "-p", &process.to_string()]).output();
    assert!(reniced.unwrap().status.success());
    let mut client = server.client();
    for key in 0..60 {
        client.check(&format!("SET {key} v"), "+OK\r\n");
    }
    client.check("BGSAVE", "+Background saving started\r\n");
    let own = until("the thread's niceness", || {
        let (thread, _) = threads(&server).into_iter().find(|(_, name)| name == "snapshot")?;
        // A thread has the niceness of the thread that starts it, until it sets its own niceness.
        niceness(process, thread).filter(|niceness| *niceness != 11)
    });
    assert_eq!(own, 16);
}
