//! Names the build: `SLUICE_VERSION` is the package's version and, if the commit is known, a plus sign and
//! the commit.
//!
//! A release build asks git. A development build names no commit, so that a new commit does not cause a
//! rebuild. `SLUICE_COMMIT` in the environment names the commit of any build, such as a build from an
//! archive. Without git, and outside of a repository, the build names no commit.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SLUICE_COMMIT");
    let of_cargo = |name: &str| std::env::var(name).unwrap_or_default();
    let commit = match of_cargo("SLUICE_COMMIT") {
        given if is_name(&given) => Some(given),
        given if !given.is_empty() => {
            println!("cargo::warning=SLUICE_COMMIT is no name of a commit, and is left out: {given:?}");
            None
        }
        _ if of_cargo("PROFILE") == "release" => {
            let checked_out = commit_at(&Path::new(&of_cargo("CARGO_MANIFEST_DIR")).join("../.."));
            checked_out.map(|(commit, watched)| {
                for file in watched {
                    println!("cargo::rerun-if-changed={}", file.display());
                }
                commit
            })
        }
        _ => None,
    };
    println!(
        "cargo::rustc-env=SLUICE_VERSION={}",
        version(&of_cargo("CARGO_PKG_VERSION"), commit.as_deref())
    );
}

/// The version as shown to users: one word.
pub fn version(package: &str, commit: Option<&str>) -> String {
    commit.map_or_else(|| package.to_owned(), |commit| format!("{package}+{commit}"))
}

/// Whether a text is allowed after the plus sign of a version: 1 to 64 letters, digits, dots and hyphens.
pub fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    (1..=64).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// The abbreviated id, of twelve digits or more, of the commit checked out in a folder, and the files
/// that change when another commit is checked out. `None` where git is missing, or where the folder is
/// not the top of a repository, because an archive may be unpacked inside a foreign repository.
pub fn commit_at(folder: &Path) -> Option<(String, Vec<PathBuf>)> {
    let top = git(folder, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != folder.canonicalize().ok()? {
        return None;
    }
    let commit = git(folder, &["rev-parse", "--short=12", "HEAD"]).filter(|text| is_name(text))?;
    let paths = ["HEAD", "logs/HEAD"].map(|name| git(folder, &["rev-parse", "--git-path", name]));
    // Cargo treats a missing file as changed, which would rebuild every time.
    let watched = paths.into_iter().flatten().map(|path| folder.join(path)).filter(|path| path.exists());
    Some((commit, watched.collect()))
}

/// The trimmed standard output of a git command; `None` if the command fails or prints nothing.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // Git sets these variables for its hooks; they would name another repository.
    command.args(words).current_dir(folder).env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
