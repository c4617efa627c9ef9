//! cargo-deny over all dependencies: licences, duplicate crates, sources, and advisories if a database of
//! them is stored.

use std::path::Path;

use crate::error::Result;
use crate::shell::{self, Ran};

/// The environment variable with the folder of the advisories: a checkout of RustSec's `advisory-db`, in
/// a folder as cargo-deny keeps it.
const DATABASE_VARIABLE: &str = "SLUICE_ADVISORY_DB";

/// Runs each check that this machine supports.
pub(super) fn run() -> Result<Ran> {
    if !shell::on_path("cargo-deny") {
        println!("deny: skipped: needs cargo-deny on the path (cargo install cargo-deny)");
        return Ok(Ran::Skipped);
    }
    let mut deny = shell::cargo();
    shell::run(deny.args(["deny", "--offline", "check", "licenses", "bans", "sources"]))?;
    let database = std::env::var_os(DATABASE_VARIABLE).filter(|value| !value.is_empty());
    let Some(database) = database else {
        println!("deny: advisories: skipped: {DATABASE_VARIABLE} names no stored database");
        return Ok(Ran::Passed);
    };
    let with = shell::target_dir().join("deny-advisories.toml");
    std::fs::write(&with, configuration(Path::new(&database))?)?;
    let mut deny = shell::cargo();
    deny.args(["deny", "--offline", "check", "--config"]).arg(with);
    shell::pass(deny.args(["--disable-fetch", "advisories"]))
}

/// `deny.toml` with the folder of the database.
fn configuration(database: &Path) -> Result<String> {
    let text = std::fs::read_to_string(shell::root().join("deny.toml"))?;
    Ok(format!("{text}\n[advisories]\ndb-path = {:?}\n", std::path::absolute(database)?.to_string_lossy()))
}
