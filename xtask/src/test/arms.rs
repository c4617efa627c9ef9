//! Arms: configurations of the server that no client may notice, and the tests that run in each.
//!
//! An arm is an environment of the test program: `SLUICE_TEST_ARGS` gives every server additional
//! arguments, and the other variables are switches of a build with debug assertions
//! (`crates/server/src/test_switches.rs`). `cargo xtask test` runs [`of_every_change`], `cargo xtask deep
//! arms` all of [`ARMS`].

use crate::error::Result;

/// One configuration of the server.
pub(crate) struct Arm {
    pub(crate) name: &'static str,
    /// Environment variables of the test program, which its servers inherit.
    pub(crate) environment: &'static [(&'static str, &'static str)],
    /// Lists of modules of the server's integration tests that run in the arm.
    modules: &'static [&'static [&'static str]],
}

const ARGUMENTS: &str = "SLUICE_TEST_ARGS";
const RING: (&str, &str) = ("SLUICE_TEST_RING", "2");

/// Tests that pass with every configuration.
const ANY_WAY: &[&str] = &[
    "cluster",
    "config",
    "limits",
    "metrics",
    "operation",
    "protocol",
    "pubsub",
    "replica",
    "slow_reads",
    "tls",
];
/// Further tests that pass with I/O threads. They do not depend on the event loop's driver, so the arms of
/// single drivers leave them out.
const WITH_IO_THREADS: &[&str] = &[
    "aof_loading",
    "dual_channel",
    "failover",
    "loading",
    "migrate",
    "open_units",
    "saving",
    "tools",
    "users",
];
/// Tests of I/O threads, which set the number of threads.
const OF_IO_THREADS: &[&str] = &[IO_THREADS];
/// The module of the tests of I/O threads.
pub(crate) const IO_THREADS: &str = "iothreads";

/// Every arm but the default configuration, which a plain `cargo test` runs.
pub(crate) const ARMS: [Arm; 8] = [
    // This arm combines the least related switches: threads, rings between them that are full after two
    // messages, and io_uring.
    Arm {
        name: "together",
        environment: &[
            (ARGUMENTS, "--io-threads 4 --io-threads-always-active yes --event-loop io_uring"),
            RING,
        ],
        modules: &[ANY_WAY, WITH_IO_THREADS, OF_IO_THREADS],
    },
    Arm {
        name: "io-threads",
        environment: &[(ARGUMENTS, "--io-threads 4 --io-threads-always-active yes")],
        modules: &[ANY_WAY, WITH_IO_THREADS],
    },
    Arm {
        name: "io-threads-io-uring",
        environment: &[(ARGUMENTS, "--io-threads 4 --io-threads-always-active yes --event-loop io_uring")],
        modules: &[ANY_WAY],
    },
    Arm {
        name: "rings-of-two",
        environment: &[(ARGUMENTS, "--io-threads 4 --io-threads-always-active yes"), RING],
        modules: &[ANY_WAY, OF_IO_THREADS],
    },
    Arm {
        name: "io-uring",
        environment: &[(ARGUMENTS, "--event-loop io_uring")],
        modules: &[ANY_WAY, OF_IO_THREADS],
    },
    // In this arm, the main thread keeps a varying number of connections.
    Arm {
        name: "kept",
        environment: &[
            (ARGUMENTS, "--io-threads 4 --io-threads-always-active yes"),
            ("SLUICE_TEST_KEPT", "3"),
        ],
        modules: &[ANY_WAY, OF_IO_THREADS],
    },
    Arm { name: "poll", environment: &[(ARGUMENTS, "--event-loop poll")], modules: &[ANY_WAY] },
    // In this arm, replies wait for an intentionally slow log.
    Arm {
        name: "slow-log",
        environment: &[(ARGUMENTS, "--appendonly yes --appendfsync always"), ("SLUICE_TEST_FSYNC_US", "500")],
        modules: &[OF_IO_THREADS],
    },
];

/// The arm of `cargo xtask test`.
pub(super) fn of_every_change() -> &'static Arm {
    &ARMS[0]
}

/// The arm with this name.
pub(super) fn by_name(name: &str) -> Result<&'static Arm> {
    let names = ARMS.each_ref().map(|arm| arm.name).join(", ");
    let found = ARMS.iter().find(|arm| arm.name == name);
    found.ok_or_else(|| format!("no arm is called {name:?}; there are {names}").into())
}

impl Arm {
    /// Filters of the harness for the arm's tests; each filter is a module, with which the tests' names
    /// begin.
    pub(super) fn filters(&self) -> Vec<String> {
        self.modules.iter().flat_map(|modules| modules.iter()).map(|module| format!("{module}::")).collect()
    }

    /// Whether the tests of a module run in this arm.
    pub(crate) fn has(&self, module: &str) -> bool {
        self.modules.iter().any(|modules| modules.contains(&module))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_module_of_an_arm_is_one_of_the_servers_tests() {
        let folder = crate::shell::root().join("crates/sluice/tests/it");
        for arm in &ARMS {
            assert!(!arm.filters().is_empty());
            for module in arm.modules.iter().flat_map(|modules| modules.iter()) {
                assert!(folder.join(format!("{module}.rs")).is_file(), "{}: {module}", arm.name);
            }
        }
    }

    #[test]
    fn an_arm_that_is_misspelt_is_an_error() {
        assert_eq!(by_name("poll").map(|arm| arm.name).ok(), Some("poll"));
        assert!(by_name("pol").is_err());
    }
}
