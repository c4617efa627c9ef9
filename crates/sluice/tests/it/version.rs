//! The version that the server reports, and the use of git by the build script.

#[allow(dead_code, reason = "cargo calls its main")]
#[path = "../../../server/build.rs"]
mod build;

use crate::common::{Dir, Server, run};
use std::path::Path;
use std::process::Command;

#[test]
fn every_place_names_the_same_version() {
    let version = sluice_server::VERSION;
    let package = version.split('+').next().unwrap();
    assert_eq!(package, env!("CARGO_PKG_VERSION"));
    assert_ne!(package, "0.0.0");
    let (line, _, _) = run(&["--version"], "");
    assert_eq!(line.split(' ').nth(2).unwrap(), format!("v={version}"), "{line}");
    let server = Server::start(&["--always-show-logo", "yes"]);
    assert!(server.log.wait(&format!("Sluice version={version}, bits=")).is_some());
    assert!(server.log.wait(&format!("Sluice {version}, ")).is_some());
    let mut client = server.client();
    let fields = ["sluice_version", "valkey_version", "redis_version"].map(|name| client.info(name));
    assert_eq!(fields, [version, "9.1.2", "7.2.4"]);
}

#[test]
fn a_version_is_one_word() {
    assert_eq!(build::version("0.1.0", None), "0.1.0");
    assert_eq!(build::version("0.1.0", Some("1a2b3c4d5e6f")), "0.1.0+1a2b3c4d5e6f");
    for text in ["1a2b3c", "v1.2-rc1"] {
        assert!(build::is_name(text), "{text}");
    }
    for text in ["", "a b", "a\nb", "a+b", &"a".repeat(65)] {
        assert!(!build::is_name(text), "{text}");
    }
}

/// Runs git in a folder; returns `None` if git is missing.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let identity =
        ["-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "core.logAllRefUpdates=true"];
    let mut command = Command::new("git");
    command.args(identity).args(words).current_dir(folder).env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
    let output = command.output().ok()?;
    assert!(output.status.success(), "{words:?}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn the_commit_is_that_of_the_folder_s_own_repository() {
    let dir = Dir::new();
    assert_eq!(build::commit_at(dir.path()), None, "no repository");
    if git(dir.path(), &["init", "--quiet"]).is_none() {
        println!("skipped: this machine has no git");
        return;
    }
    assert_eq!(build::commit_at(dir.path()), None, "no commit");
    let mut seen = Vec::new();
    for message in ["one", "two"] {
        git(dir.path(), &["commit", "--quiet", "--allow-empty", "-m", message]);
        let whole = git(dir.path(), &["rev-parse", "HEAD"]).unwrap();
        let (commit, watched) = build::commit_at(dir.path()).unwrap();
        assert!(commit.len() >= 12 && whole.starts_with(&commit), "{commit} of {whole}");
        // The files that cargo watches change with each commit.
        seen.push(watched.iter().map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>());
        assert_eq!(watched.len(), 2, "{watched:?}");
    }
    assert_ne!(seen[0], seen[1]);
    let inside = dir.path().join("unpacked");
    std::fs::create_dir(&inside).unwrap();
    assert_eq!(build::commit_at(&inside), None, "an archive inside of another's repository");
    let (tree, path) = (dir.path().join("tree"), dir.join("tree"));
    git(dir.path(), &["worktree", "add", "--quiet", "--detach", &path]);
    let (commit, watched) = build::commit_at(&tree).unwrap();
    assert_eq!(build::commit_at(dir.path()).unwrap().0, commit);
    assert!(watched.iter().all(|file| file.exists()) && !watched.is_empty(), "{watched:?}");
}
