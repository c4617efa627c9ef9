//! The published programs: building, stripping and dating.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;
use crate::shell;

/// The programs, which lie in `/usr/bin`.
pub(crate) const PROGRAMS: [&str; 3] = ["sluice-server", "sluice-check-rdb", "sluice-check-aof"];

/// The contents of a package, besides its list of files.
pub(crate) struct Build {
    /// The version without a packager's revision: `0.1.0`.
    pub(crate) version: String,
    /// The date of every file and header, in seconds since 1970.
    pub(crate) date: u64,
    /// The folder of the stripped programs.
    pub(crate) programs: PathBuf,
    /// The text of `THIRD-PARTY-LICENSES`.
    pub(crate) licences: String,
}

/// The path that replaces the source folder in the programs.
const SOURCES: &str = "/sluice";

/// The path that replaces the folder of dependencies in the programs.
const CARGO_HOME: &str = "/cargo";

/// Builds the programs for publication, with symbols; returns their folder.
///
/// The programs contain no path of this machine, because the paths of sources, crates and outputs of build
/// scripts are replaced, for the Rust compiler and the C compiler.
pub(crate) fn build_programs() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")),
        |home| Some(PathBuf::from(home)),
    );
    let home = home.ok_or("neither CARGO_HOME nor HOME says where crates lie")?;
    // The folder of build outputs comes last, because it may lie below the sources, and of two matching
    // prefixes the later one applies.
    let target = std::path::absolute(shell::target_dir())?;
    let mapped = [(shell::root(), SOURCES), (home, CARGO_HOME), (target, "/target")]
        .map(|(from, to)| (text(&from), to));
    let rust: Vec<String> =
        mapped.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    let c: Vec<String> = mapped.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
    let mut build = shell::cargo();
    build.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}")).env("CFLAGS", c.join(" "));
    build.env("SOURCE_DATE_EPOCH", source_date()?.to_string());
    build.env("SLUICE_COMMIT", git(&["rev-parse", "--short=12", "HEAD"])?);
    build.args(["build", "--profile", "dist", "--locked"]);
    shell::run(build.args(["--package", "sluice", "--package", "sluice-check"]))?;
    Ok(shell::target_dir().join("dist"))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Copies the programs, without symbols and debug information.
pub(crate) fn strip_programs(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for name in PROGRAMS {
        let source = from.join(name);
        if !source.is_file() {
            return Err(
                format!("{} is missing: build it, or name another --binaries", source.display()).into()
            );
        }
        let mut strip = Command::new("strip");
        strip.arg("--strip-all").arg("-o").arg(to.join(name)).arg(source);
        shell::run(&mut strip)?;
    }
    Ok(())
}

/// The date of all outputs, in seconds since 1970: that of the commit, unless `SOURCE_DATE_EPOCH` is set.
pub(crate) fn source_date() -> Result<u64> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text.parse().map_err(|_| format!("SOURCE_DATE_EPOCH is no number: {text:?}").into()),
        Err(_) => Ok(git(&["log", "-1", "--format=%ct"])?.parse()?),
    }
}

/// The output of a git command in our repository.
pub(crate) fn git(words: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    Ok(shell::output(git.current_dir(shell::root()).args(words))?.trim().to_owned())
}
