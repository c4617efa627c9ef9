//! `cargo xtask histories`: clusters of real processes are damaged while clients use them, and a checker
//! of linearizability judges what the clients observed. The program is `e2e/histories`, in Go, because
//! Porcupine is in Go.
//!
//! Invariants: (1) the seed determines the plan of faults; (2) a missing requirement is printed: without Go,
//! its packages or Linux, nothing runs; faults with further requirements are skipped, and the program counts
//! them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Arguments;
use crate::binaries::{self, PEER_VARIABLE};
use crate::error::Result;
use crate::shell::{self, Ran};

/// Default number of faults for a run by hand.
const FAULTS: u64 = 20;
/// Number of histories that run in parallel, with up to nine processes each.
const SIDE: u64 = 3;

/// Number of histories of moves that run in parallel; more would slow each other down beyond their timeouts.
const MOVES_SIDE: u64 = 2;

/// The parameters of a run.
pub(crate) struct Histories {
    /// The seed of the first history; later ones have the following seeds.
    pub(crate) seed: u64,
    /// Number of faults in all histories together.
    pub(crate) faults: u64,
    /// `ours`, `stock`, or `mixed`: every other node is the reference's.
    pub(crate) nodes: String,
    /// Number of histories that run in parallel.
    pub(crate) side: u64,
    /// Whether and how slots move.
    pub(crate) moves: Moves,
}

/// Moves of slots in a history.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Moves {
    /// Slots do not move.
    No,
    /// The slots of all keys move continuously, besides the faults.
    Beside,
    /// One fault for each move. `nodes` may then also be `both`: `ours` and `mixed` alternately.
    Judged,
}

impl Histories {
    /// Histories with nodes of our server.
    pub(crate) fn of_ours(seed: u64, faults: u64) -> Histories {
        Histories { seed, faults, nodes: "ours".to_owned(), side: SIDE, moves: Moves::No }
    }

    /// Histories with nodes of our server whose slots move continuously.
    pub(crate) fn moving(seed: u64, faults: u64) -> Histories {
        Histories { moves: Moves::Beside, ..Histories::of_ours(seed, faults) }
    }

    /// Moves of slots, between nodes of ours and, if there is a reference server, to and from
    /// nodes of the reference.
    pub(crate) fn of_moves(seed: u64, faults: u64) -> Histories {
        let nodes = if binaries::peer_server().is_some() { "both" } else { "ours" };
        Histories {
            nodes: nodes.to_owned(),
            side: MOVES_SIDE,
            moves: Moves::Judged,
            ..Histories::of_ours(seed, faults)
        }
    }
}

/// The task: `[--seed S] [--faults N] [--nodes ours|stock|mixed] [--side N] [--moves|--moving]
/// [--server BIN]`.
pub(crate) fn histories(arguments: &[String]) -> Result<()> {
    let mut arguments = Arguments::new(arguments);
    let chosen = Histories {
        seed: arguments.number("--seed", shell::unix_seconds())?,
        faults: arguments.number("--faults", FAULTS)?,
        nodes: arguments.option("--nodes")?.unwrap_or_else(|| "ours".to_owned()),
        side: arguments.number("--side", SIDE)?,
        moves: match (arguments.flag("--moves"), arguments.flag("--moving")) {
            (false, false) => Moves::No,
            (false, true) => Moves::Beside,
            (true, false) => Moves::Judged,
            (true, true) => return Err("--moves and --moving are two kinds of histories".into()),
        },
    };
    let server = arguments.option("--server")?.map(PathBuf::from);
    arguments.words()?;
    let server = match server {
        Some(server) => Some(server),
        None => binaries::build_server()?,
    };
    run(server.as_deref(), &chosen).map(drop)
}

/// Runs histories; skipped if a requirement is missing.
pub(crate) fn run(server: Option<&Path>, chosen: &Histories) -> Result<Ran> {
    match command(server, chosen)? {
        Some(mut command) => shell::pass(&mut command),
        None => Ok(Ran::Skipped),
    }
}

/// Checks that the judge notices (1) lost writes, when clients take each write for confirmed and a primary is
/// cut off; (2) nodes that serve although they cannot know whether they still may, namely nodes of the
/// reference that were cut off and stopped meanwhile (S-24); (3) in moves, a removed value, and a key that is
/// left at a node that does not own it.
pub(crate) fn canary(server: Option<&Path>, seed: u64) -> Result<Ran> {
    let of_ours = Histories::of_ours(seed, 3);
    let of_stock = Histories { nodes: "stock".to_owned(), ..Histories::of_ours(seed, 3) };
    let of_moves = || Histories { moves: Moves::Judged, side: 1, ..Histories::of_ours(seed, 1) };
    let believing = ["-believe", "-only", "primary cut off"];
    let standing = ["-only", "primary stands still for 5 T, cut off"];
    let [lossy, dirty] = ["loss", "stray"].map(|plant| ["-only", "none", "-plant", plant]);
    let mut ran = Ran::Skipped;
    for (chosen, words, found) in [
        (of_ours, &believing[..], "BROKEN: (a)"),
        (of_stock, &standing[..], "BROKEN: (c)"),
        (of_moves(), &lossy[..], "BROKEN: (d) lost"),
        (of_moves(), &dirty[..], "BROKEN: (f)"),
    ] {
        let Some(mut command) = command(server, &chosen)? else { continue };
        let output = command.args(words).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        if output.status.success() || !text.contains(found) {
            return Err(format!("nothing begins with {found} in\n{text}").into());
        }
        println!("histories: {} {}: {found} was found", chosen.nodes, words.join(" "));
        ran = Ran::Passed;
    }
    Ok(ran)
}

/// Builds and tests the program, and returns the command that runs it; `None`, after printing the reason,
/// if a requirement is missing.
fn command(server: Option<&Path>, chosen: &Histories) -> Result<Option<Command>> {
    let skip = |why: &str| {
        println!("histories: skipped: {why}");
        Ok(None)
    };
    if !cfg!(target_os = "linux") {
        return skip("addresses of one machine, signals and mounts are as on Linux");
    }
    if !shell::on_path("go") {
        return skip("no go on the path");
    }
    let peer = binaries::peer_server();
    if chosen.nodes != "ours" && peer.is_none() {
        return skip(&format!("{PEER_VARIABLE} names no reference server"));
    }
    if chosen.nodes != "stock" && server.is_none() {
        return skip("the workspace has no server yet");
    }
    let source = shell::root().join("e2e/histories");
    let fetched = Command::new("go").args(["mod", "download"]).current_dir(&source).output()?;
    if !fetched.status.success() {
        return skip(&format!("no packages of Go: {}", String::from_utf8_lossy(&fetched.stderr).trim()));
    }
    let folder = std::path::absolute(shell::target_dir().join("histories"))?;
    std::fs::create_dir_all(&folder)?;
    let program = folder.join("histories");
    shell::run(Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(&source))?;
    // The checker is first tested on histories that were written by hand.
    shell::run(Command::new("go").args(["test", "."]).current_dir(&source))?;
    let mut command = Command::new(program);
    for (name, binary) in [("-server", server), ("-peer", peer.as_deref())] {
        if let Some(binary) = binary {
            command.arg(name).arg(std::path::absolute(binary)?);
        }
    }
    command.args(["-nodes", &chosen.nodes, "-seed", &chosen.seed.to_string()]);
    command.args(["-faults", &chosen.faults.to_string(), "-side", &chosen.side.to_string()]);
    match chosen.moves {
        Moves::No => {}
        Moves::Beside => drop(command.arg("-moving")),
        Moves::Judged => drop(command.arg("-moves")),
    }
    command.arg("-out").arg(folder);
    Ok(Some(command))
}
