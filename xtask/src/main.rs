//! Automation of this project: `cargo xtask <task>`; `cargo xtask help` lists the tasks.
//!
//! Invariants: (1) no task that `ci` or `deep` runs requires anything outside the repository: external
//! things (a reference server, a suite, a package registry) are named by an environment variable or
//! searched for, and a missing one is printed as a skip; (2) a task that draws random numbers prints its
//! seed and accepts it as an option; (3) every failure says what to do.

mod args;
mod bench;
mod binaries;
mod ci;
mod clients;
mod cluster;
mod conformance;
mod deep;
mod differential;
mod error;
mod failovers;
mod fuzz;
mod generate;
mod glob;
mod histories;
mod loops;
mod package;
mod probe;
mod release;
mod rolling;
mod server;
mod shell;
mod table;
mod test;
mod tidy;
mod wire;

use std::process::ExitCode;

use error::Result;

/// One task: name, description, and function.
struct Task {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

/// Every task, in the order in which `help` prints them.
const TASKS: &[Task] = &[
    Task {
        name: "ci",
        about: "run every check that a change must pass (--no-test leaves the tests out)",
        run: ci::ci,
    },
    Task {
        name: "test",
        about: "run the tests of the workspace, then the client programs: [--arm NAME] [word...]",
        run: test::test,
    },
    Task {
        name: "deep",
        about: "run the long tests and record when each last passed: [--seed N] [--commands N] [run...] (--help)",
        run: deep::deep,
    },
    Task {
        name: "tidy",
        about: "check layers, unsafe fence, clocks, lengths, headers, ids of requirements (--tighten)",
        run: tidy::tidy,
    },
    Task {
        name: "probe",
        about: "check that a new kind of value is a compile error wherever values are read",
        run: probe::probe,
    },
    Task { name: "loom", about: "run the model checks of the crates that have them", run: ci::loom },
    Task {
        name: "gen",
        about: "write sluice.conf and the tables in docs/compat-tables.md (--check only compares)",
        run: generate::generate,
    },
    Task { name: "fuzz", about: "run mutation fuzzing: [--seconds N] [--seed S] [target]", run: fuzz::fuzz },
    Task {
        name: "clients",
        about: "run small programs with real client libraries: [--server BIN] [name...]",
        run: clients::clients,
    },
    Task {
        name: "rolling",
        about: "upgrade a cluster node by node under real clients: --from SERVER --to SERVER (--help)",
        run: rolling::rolling,
    },
    Task {
        name: "histories",
        about: "damage clusters of real processes under load and check the histories: [--seed S] [--faults N] [--nodes ours|stock|mixed]",
        run: histories::histories,
    },
    Task {
        name: "differential",
        about: "compare random commands on ours and on the reference: --ours BIN --peer BIN",
        run: differential::differential,
    },
    Task {
        name: "conformance",
        about: "run the units of the upstream test suite against ours",
        run: conformance::conformance,
    },
    Task {
        name: "package",
        about: "build a deb and an rpm: [--binaries FOLDER] [--out FOLDER] [--version V]",
        run: package::package,
    },
    Task {
        name: "release",
        about: "build everything that is published, with checksums: [--out FOLDER] [--allow-changes]",
        run: release::release,
    },
    Task {
        name: "bench",
        about: "measure the table of docs/performance.md beside another server: --peer SERVER (--list, --only)",
        run: bench::bench,
    },
    Task { name: "help", about: "print this list", run: help },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("help", String::as_str);
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        eprintln!("xtask: no task is called {name:?}; `cargo xtask help` lists them");
        return ExitCode::from(2);
    };
    // `deep` has its own help.
    if task.name != "deep" && arguments.iter().skip(1).any(|word| word == "--help") {
        println!("cargo xtask {}: {}; docs/hacking.md has more", task.name, task.about);
        return ExitCode::SUCCESS;
    }
    match (task.run)(arguments.get(1..).unwrap_or_default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn help(_: &[String]) -> Result<()> {
    println!("cargo xtask <task>\n");
    for task in TASKS {
        println!("  {:14} {}", task.name, task.about);
    }
    Ok(())
}
