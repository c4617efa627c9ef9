//! Deliberate mistakes: the simulation of replication, of clusters or of moves of slots must find each
//! mistake of `sluice_base::mistake` within its first seeds. Each process makes one mistake, so several
//! processes run at once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use crate::error::Result;
use crate::shell::{self, Ran};

/// The simulation of replication must find a mistake within this many seeds.
const OF_REPLICATION: u64 = 1_000;
/// The simulation of clusters must find a mistake within this many seeds.
const OF_CLUSTERS: u64 = 200;
/// The simulation of moves of slots must find a mistake within this many seeds.
const OF_MOVES: u64 = 1_000;

/// A mistake, and the simulation that must find it.
struct Mistake {
    name: String,
    simulation: Simulation,
}

/// One of the simulations.
#[derive(Clone, Copy)]
enum Simulation {
    Replication,
    Clusters,
    Moves,
}

impl Simulation {
    /// The simulation with this name; each name other than `clusters` and `moves` means replication.
    fn of(name: &str) -> Simulation {
        match name {
            "clusters" => Simulation::Clusters,
            "moves" => Simulation::Moves,
            _ => Simulation::Replication,
        }
    }

    /// The program's option for this simulation.
    fn flag(self) -> Option<&'static str> {
        match self {
            Simulation::Replication => None,
            Simulation::Clusters => Some("--cluster"),
            Simulation::Moves => Some("--moves"),
        }
    }

    fn seeds(self) -> u64 {
        match self {
            Simulation::Replication => OF_REPLICATION,
            Simulation::Clusters => OF_CLUSTERS,
            Simulation::Moves => OF_MOVES,
        }
    }
}

/// Runs all mistakes, or those whose names begin with `only`. Prints one line for each: the time, and the
/// seed that found the mistake with the violated condition, or that no seed found it.
pub(super) fn run(only: Option<&str>) -> Result<Ran> {
    let simulation = build()?;
    let is_chosen = |name: &str| only.is_none_or(|only| name.starts_with(only));
    let names = shell::output(Command::new(&simulation).arg("--mistakes"))?;
    let all = names.lines().filter_map(|line| line.split_once(' ')).filter(|(_, name)| is_chosen(name));
    let all: Vec<Mistake> =
        all.map(|(of, name)| Mistake { name: name.to_owned(), simulation: Simulation::of(of) }).collect();
    if all.is_empty() {
        return Err("no mistake has such a name".into());
    }
    let (count, next, not_found) = (all.len(), Mutex::new(all.into_iter()), Mutex::new(Vec::new()));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let taken = next.lock().expect("no thread panics with the lock").next();
                    let Some(mistake) = taken else { return };
                    if !is_found(&simulation, &mistake) {
                        not_found.lock().expect("no thread panics with the lock").push(mistake.name);
                    }
                }
            });
        }
    });
    let not_found = not_found.into_inner().expect("no thread panics with the lock");
    if not_found.is_empty() {
        println!("sim-mistakes: all {count} are found");
        return Ok(Ran::Passed);
    }
    Err(format!("sim-mistakes: not found of {count}: {}", not_found.join(", ")).into())
}

/// Builds the simulation that can make mistakes.
fn build() -> Result<PathBuf> {
    let folder = shell::target_dir().join("mistakes");
    let mut build = shell::cargo();
    build.env("RUSTFLAGS", "--cfg sluice_mistakes");
    build
        .args(["build", "--quiet", "--profile", "checked", "--package", "sluice-sim", "--target-dir"])
        .arg(&folder);
    shell::run(&mut build)?;
    Ok(folder.join("checked/sluice-sim"))
}

/// Whether a seed finds the mistake; prints the line about it.
fn is_found(simulation: &Path, mistake: &Mistake) -> bool {
    let began = shell::now();
    let mut run = Command::new(simulation);
    run.args([
        "--until-failure",
        "--mistake",
        &mistake.name,
        "--seeds",
        &mistake.simulation.seeds().to_string(),
    ]);
    run.args(mistake.simulation.flag());
    let output = run.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let took_s = began.elapsed().as_secs_f64();
    let said = output.unwrap_or_else(|error| error.to_string());
    let found = said.lines().find(|line| line.starts_with("seed "));
    let result = match found {
        Some(line) => line.to_owned(),
        None => {
            format!(
                "NOT FOUND by {} seeds: {}",
                mistake.simulation.seeds(),
                said.lines().last().unwrap_or("no output")
            )
        }
    };
    println!("sim-mistakes: {} ({took_s:.1} s): {result}", mistake.name);
    found.is_some()
}
