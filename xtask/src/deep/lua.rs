//! The long runs of the crate `lua`.

use std::path::PathBuf;
use std::process::Command;

use crate::binaries;
use crate::error::Result;
use crate::shell::{self, Ran};

/// Number of random programs that are compared with the reference's EVAL.
const PROGRAMS: u64 = 1_000_000;
/// Number of random programs that are compared with PUC's interpreter, if it is installed.
const STOCK_PROGRAMS: u64 = 200_000;
/// Number of programs of random library calls for each family of functions.
const CALLS: u64 = 200;

/// The URL of Debian's sources of Lua 5.1, which have a folder of small programs.
const SOURCES: &str = "https://deb.debian.org/debian/pool/main/l/lua5.1/lua5.1_5.1.5.orig.tar.gz";

/// Runs random programs and library calls, from this seed on, and compares the results with the reference
/// server and, if it is installed, with PUC's interpreter.
pub(super) fn random(seed: u64) -> Result<Ran> {
    let Some(peer) = binaries::peer_server() else {
        println!("lua: skipped: {} names no reference server", binaries::PEER_VARIABLE);
        return Ok(Ran::Skipped);
    };
    let mut test = shell::cargo();
    test.env(binaries::PEER_VARIABLE, peer)
        .env("SLUICE_ORACLE_PROGRAMS", PROGRAMS.to_string())
        .env("SLUICE_ORACLE_CALLS", CALLS.to_string())
        .env("SLUICE_ORACLE_SEED", seed.to_string());
    match stock_interpreter() {
        Some(stock) => {
            test.env("SLUICE_LUA_STOCK", stock).env("SLUICE_ORACLE_STOCK", STOCK_PROGRAMS.to_string());
        }
        None => println!("lua: without PUC's interpreter (Debian's package lua5.1)"),
    }
    let words =
        ["test", "--release", "--quiet", "--package", "sluice-lua", "--test", "oracle", "--test", "libs"];
    shell::pass(test.args(words))
}

/// Number of rounds with random operands for each row of the table of charges.
const ROUNDS: u64 = 12;

/// For each instruction and function of a table, compares the time that it takes per unit of the script
/// budget with the time of a plain loop per unit.
pub(super) fn charges(seed: u64) -> Result<Ran> {
    let (seed, rounds) = (seed.to_string(), ROUNDS.to_string());
    let words =
        ["run", "--release", "--quiet", "--package", "sluice-lua", "--example", "charges", &seed, &rounds];
    shell::pass(shell::cargo().args(words))
}

/// PUC's interpreter, if it is on the path.
fn stock_interpreter() -> Option<&'static str> {
    let runs =
        |name: &&str| Command::new(name).arg("-v").output().is_ok_and(|output| output.status.success());
    ["lua5.1", "lua-5.1"].into_iter().find(runs)
}

/// Runs PUC's own small programs, and compares their results with those in PUC's interpreter.
pub(super) fn programs() -> Result<Ran> {
    let Some(stock) = stock_interpreter() else {
        println!("lua-programs: skipped: no lua5.1 on the path, PUC's interpreter (Debian's package lua5.1)");
        return Ok(Ran::Skipped);
    };
    let Some(folder) = fetched()? else {
        println!("lua-programs: skipped: {SOURCES} was not to be had by curl");
        return Ok(Ran::Skipped);
    };
    let mut test = shell::cargo();
    test.env("SLUICE_LUA_PROGRAMS", folder).env("SLUICE_LUA_STOCK", stock);
    shell::pass(test.args(["test", "--quiet", "--package", "sluice-lua", "--test", "it", "--", "puc::"]))
}

/// The folder of programs, which is downloaded if it is missing; `None` if the download fails.
fn fetched() -> Result<Option<PathBuf>> {
    let folder = shell::target_dir().join("lua-programs");
    let found = || Some(folder.join("lua-5.1.5/test")).filter(|programs| programs.is_dir());
    if found().is_none() {
        std::fs::create_dir_all(&folder)?;
        let archive = folder.join("sources.tar.gz");
        let curl = Command::new("curl").args(["-fsSL", "-o"]).arg(&archive).arg(SOURCES).status();
        if !curl.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        shell::pass(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&folder))?;
    }
    Ok(found())
}
