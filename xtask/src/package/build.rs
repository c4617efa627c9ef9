//! The programs that are published: how they are built, stripped and dated.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;
use crate::shell;

/// The programs, which lie in `/usr/bin`.
pub(crate) const PROGRAMS: [&str; 3] = ["sluice-server", "sluice-check-rdb", "sluice-check-aof"];

/// What a package is made of, beside its list of files.
pub(crate) struct Build {
    /// The version without a packager's revision: `0.1.0`.
    pub(crate) version: String,
    /// Seconds since 1970 that every file and header carries.
    pub(crate) date: u64,
    /// The folder of the stripped programs.
    pub(crate) programs: PathBuf,
    /// The text of `THIRD-PARTY-LICENSES`.
    pub(crate) licences: String,
}

/// Where the sources lie, as far as the programs say.
const SOURCES: &str = "/sluice";

/// Where the sources of dependencies lie, as far as the programs say.
const CARGO_HOME: &str = "/cargo";

/// Builds the programs as they are published, with symbols; the folder in which they are.
///
/// No path of this machine gets into them: those of sources, of crates and of what build scripts make are
/// replaced, for the Rust compiler and for that of C.
pub(crate) fn build_programs() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")),
        |home| Some(PathBuf::from(home)),
    );
    let home = home.ok_or("neither CARGO_HOME nor HOME says where crates lie")?;
    // The later prefix counts, where two match: build outputs may lie below the sources.
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

/// Copies the programs without symbols and debug information.
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

/// The date of everything that is made, in seconds since 1970: that of the commit, unless the environment
/// says another.
pub(crate) fn source_date() -> Result<u64> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text.parse().map_err(|_| format!("SOURCE_DATE_EPOCH is no number: {text:?}").into()),
        Err(_) => Ok(git(&["log", "-1", "--format=%ct"])?.parse()?),
    }
}

/// What git prints about our repository.
pub(crate) fn git(words: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    Ok(shell::output(git.current_dir(shell::root()).args(words))?.trim().to_owned())
}
