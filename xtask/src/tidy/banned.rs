//! Forbidden uses in product code: clocks, unseeded randomness, hidden state, threads, sockets, files and
//! the environment, everywhere or outside of a few crates or files, and the execution of commands in most
//! of the engine.

use super::finding::Finding;
use super::source::{Source, words};

/// One forbidden word, the files where it is allowed, and what to do instead.
struct Ban {
    word: &'static str,
    allowed: &'static [&'static str],
    instead: &'static str,
}

/// Automation and test support, which are not part of the product.
const DEVELOPMENT: &[&str] =
    &["xtask/", "fuzz/", "e2e/", "bench/", "crates/testbase/", "crates/testkit/", "crates/sim/"];

/// Crates that may use sockets, files and threads; `docs/layers.toml` describes each.
const IMPURE: &[&str] = &[
    "crates/server/",
    "crates/sluice/",
    "crates/daemon/",
    "crates/evloop/",
    "crates/clock/",
    "crates/check/",
];

/// Crates that may use files and the environment.
const FILES: &[&str] = &[
    "crates/server/",
    "crates/sluice/",
    "crates/daemon/",
    "crates/evloop/",
    "crates/clock/",
    "crates/check/",
    "crates/storage/",
];

/// Files that may open and use connections. Elsewhere in the server, a connected socket is a `net::Stream`.
/// The sockets of signals and of the supervisor are no connections to a peer.
const STREAMS: &[&str] = &[
    "crates/server/src/net/",
    "crates/daemon/src/signals.rs",
    "crates/evloop/",
    "crates/clock/",
    "crates/check/",
];

/// Files that may start threads: the server's table of threads, and the pool of `evloop`, to which a
/// caller can give its own threads.
const THREADS: &[&str] = &["crates/server/src/threads.rs", "crates/evloop/src/pool.rs"];

/// Files that may install the signal stack of a thread: the table of threads does so for the threads that
/// it starts, and `crash.rs` for the main thread, before any other thread is started.
const SIGNAL_STACKS: &[&str] = &["crates/server/src/threads.rs", "crates/daemon/src/crash.rs"];

/// The advice for code that starts a thread.
const THREAD: &str = "a row of `Thread` in crates/server/src/threads.rs, and its `start`";

/// Files of the engine that execute commands, or are its public interface. All other files get a `Core`,
/// which cannot run a command, and leave further steps to the caller. Code that replays a log is in the list
/// because it creates an engine, and the driver of a link because it has one.
const EXECUTION: &[&str] = &[
    "crates/engine/src/engine",
    "crates/engine/src/exec/batch.rs",
    "crates/engine/src/exec/declared/",
    "crates/engine/src/exec/dispatch.rs",
    "crates/engine/src/exec/open_unit/",
    "crates/engine/src/exec/replay.rs",
    "crates/engine/src/exec/request.rs",
    "crates/engine/src/exec/transaction.rs",
    "crates/engine/src/persistence/loading/aof/replay.rs",
    "crates/engine/src/replication/transport.rs",
    "crates/engine/src/scripting/",
    "crates/engine/src/waiting/serve.rs",
];

/// Files that may have statics: the mistakes that only a build for tests can make, the allocator's
/// counters, and the state of signals and crashes.
const STATICS: &[&str] = &[
    "crates/sluice/src/allocator",
    "crates/daemon/src/signals",
    "crates/daemon/src/crash",
    // These statics exist only in builds with deliberate mistakes.
    "crates/base/src/mistake",
];

const BANS: &[Ban] = &[
    Ban { word: "Instant::now", allowed: &["crates/clock/"], instead: "take `Now` as an argument" },
    Ban { word: "SystemTime::now", allowed: &["crates/clock/"], instead: "take `Now` as an argument" },
    Ban { word: "thread_local!", allowed: &[], instead: "let an owner hold it" },
    Ban { word: "OnceLock", allowed: STATICS, instead: "build it in main and pass it down" },
    Ban { word: "LazyLock", allowed: STATICS, instead: "build it in main and pass it down" },
    Ban { word: "OnceCell", allowed: STATICS, instead: "build it in main and pass it down" },
    Ban { word: "static mut", allowed: &[], instead: "let an owner hold it" },
    Ban {
        word: "TcpStream",
        allowed: STREAMS,
        instead: "return bytes or an action; in the server take a `net::Stream`",
    },
    Ban {
        word: "TcpListener",
        allowed: IMPURE,
        instead: "return bytes or an action; the server does the rest",
    },
    Ban {
        word: "UdpSocket",
        allowed: IMPURE,
        instead: "return bytes or an action; the server does the rest",
    },
    Ban {
        word: "UnixStream",
        allowed: STREAMS,
        instead: "return bytes or an action; in the server take a `net::Stream`",
    },
    Ban {
        word: "UnixListener",
        allowed: IMPURE,
        instead: "return bytes or an action; the server does the rest",
    },
    Ban {
        word: "ToSocketAddrs",
        allowed: IMPURE,
        instead: "return bytes or an action; the server does the rest",
    },
    Ban { word: "std::fs", allowed: FILES, instead: "return bytes or an action; the server does the rest" },
    Ban { word: "thread::spawn", allowed: THREADS, instead: THREAD },
    Ban { word: "thread::scope", allowed: THREADS, instead: THREAD },
    Ban { word: "thread::Builder", allowed: THREADS, instead: THREAD },
    // The word finds `std::thread::Builder`, however it was imported, because no other builder has a
    // constructor with this path.
    Ban { word: "Builder::new", allowed: THREADS, instead: THREAD },
    Ban { word: "SignalStack::install", allowed: SIGNAL_STACKS, instead: THREAD },
    Ban { word: "sched_setaffinity", allowed: &["crates/server/src/threads/affinity.rs"], instead: THREAD },
    // These two words are banned instead of `std::thread`, because `std::thread::panicking`, which starts no
    // thread, may be called everywhere.
    Ban {
        word: "std::thread::sleep",
        allowed: IMPURE,
        instead: "return an action; the server owns the threads",
    },
    Ban {
        word: "use std::thread",
        allowed: IMPURE,
        instead: "return an action; the server owns the threads",
    },
    Ban { word: "std::env", allowed: FILES, instead: "take it as an argument" },
    Ban {
        word: "crate::engine",
        allowed: EXECUTION,
        instead: "take a `Core`, and return what has to be executed",
    },
    Ban { word: "rand::random", allowed: &[], instead: "take a seeded `Rng` as an argument" },
];

/// Types that make a static mutable.
const INTERIOR: &[&str] = &["Atomic", "Mutex", "RwLock", "Cell<", "UnsafeCell"];

/// Checks product code. Lines that only tests compile are not checked.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| !starts(&source.path, DEVELOPMENT)) {
        for (index, code) in source.code.iter().enumerate().filter(|(index, _)| !source.test[*index]) {
            for ban in BANS.iter().filter(|ban| !starts(&source.path, ban.allowed)) {
                if words(code, ban.word).next().is_some() {
                    let what = format!("`{}` is not for this crate: {}", ban.word, ban.instead);
                    findings.push(Finding::new(&source.path, index + 1, what));
                }
            }
            if changeable_static(code) && !starts(&source.path, STATICS) {
                let what = "a changeable static: let an owner hold it and pass it down";
                findings.push(Finding::new(&source.path, index + 1, what));
            }
        }
    }
    findings
}

/// Whether `path` begins with one of `folders`.
fn starts(path: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

/// Whether the line declares a static with interior mutability.
fn changeable_static(code: &str) -> bool {
    let declares = words(code, "static").any(|at| !code[..at].ends_with('\'') && code[at..].contains(':'));
    declares && INTERIOR.iter().any(|word| code.contains(word))
}

#[cfg(test)]
mod tests {
    use super::{changeable_static, check};
    use crate::tidy::source::Source;

    fn findings(path: &str, text: &str) -> usize {
        check(&[Source::scan(path, text)]).len()
    }

    #[test]
    fn a_clock_is_found_outside_its_crate_only() {
        let text = "fn f() { let _ = std::time::Instant::now(); }\n";
        assert_eq!(findings("crates/engine/src/a.rs", text), 1);
        assert_eq!(findings("crates/clock/src/a.rs", text), 0);
        assert_eq!(findings("xtask/src/a.rs", text), 0);
    }

    #[test]
    fn a_thread_is_started_in_its_table_only() {
        for start in [
            "std::thread::spawn(f)",
            "thread::Builder::new().spawn(f)",
            "Builder::new().name(n)",
            "thread::scope(f)",
        ] {
            let text = format!("fn f() {{ let _ = {start}; }}\n");
            assert!(findings("crates/server/src/aof.rs", &text) > 0, "{start}");
            assert!(findings("crates/evloop/src/process.rs", &text) > 0, "{start}");
            assert_eq!(findings("crates/server/src/threads.rs", &text), 0, "{start}");
            assert_eq!(findings("xtask/src/fuzz.rs", &text), 0, "{start}");
        }
        let stack = "fn f() { let _stack = crate::crash::SignalStack::install(); }\n";
        assert_eq!(findings("crates/server/src/bio.rs", stack), 1);
    }

    #[test]
    fn a_room_of_the_engine_is_given_a_core_alone() {
        for import in ["use crate::engine::Engine;\n", "use crate::engine::{Engine, Seeds};\n"] {
            assert_eq!(findings("crates/engine/src/persistence/saving.rs", import), 1);
            assert_eq!(findings("crates/engine/src/exec/commit.rs", import), 1);
            assert_eq!(findings("crates/engine/src/exec/request.rs", import), 0);
            assert_eq!(findings("crates/engine/src/engine/persistence.rs", import), 0);
        }
        assert_eq!(
            findings("crates/engine/src/users.rs", "/// [`f`](crate::engine::Engine::f)\nfn f() {}\n"),
            0
        );
    }

    #[test]
    fn tests_may_open_files() {
        let text = "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert_eq!(findings("crates/engine/src/a.rs", text), 0);
        assert_eq!(findings("crates/engine/src/a.rs", "use std::fs;\n"), 1);
    }

    #[test]
    fn a_static_is_found_by_its_type() {
        assert!(changeable_static("pub static A: AtomicU64 = AtomicU64::new(0);"));
        assert!(!changeable_static("static TABLE: [u8; 2] = [0; 2];"));
        assert!(!changeable_static("fn f(x: &'static Mutex<u8>) {"));
    }
}
