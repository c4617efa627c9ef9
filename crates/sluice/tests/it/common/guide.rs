//! The blocks ```` ```sh NAME ```` of documents with commands are extracted, and bash runs them.

use super::{BINARY, Dir, until};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The commands of all blocks with this name in a document, in order.
pub fn block(document: &str, name: &str) -> String {
    let mut commands = String::new();
    let mut is_in = false;
    for line in document.lines().map(str::trim_start) {
        match line.strip_prefix("```") {
            Some(head) => is_in = !is_in && head == format!("sh {name}"),
            None if is_in => commands.extend([line, "\n"]),
            None => {}
        }
    }
    assert!(!commands.is_empty(), "the document has no block {name}");
    commands
}

/// The path of the reference's server, if the environment names one.
pub fn reference() -> Option<PathBuf> {
    std::env::var_os("SLUICE_PEER_SERVER").map(PathBuf::from)
}

/// The path of a program of the reference that lies beside the server, if it exists.
pub fn reference_tool(name: &str) -> Option<PathBuf> {
    reference().map(|server| server.with_file_name(name)).filter(|path| path.exists())
}

/// A bash that runs commands, and the processes that these commands have started. All of them are killed on
/// drop. Programs are looked up in a folder for programs that the test writes, then among our programs, the
/// reference's and the system's.
pub struct Bash {
    pub dir: Dir,
    groups: Vec<u32>,
}

impl Bash {
    pub fn new() -> Bash {
        let bash = Bash { dir: Dir::new(), groups: Vec::new() };
        if reference_tool("valkey-cli").is_none() {
            bash.program("valkey-cli", CLIENT);
        }
        for name in ["sluice-check-rdb", "sluice-check-aof"] {
            if !Path::new(BINARY).with_file_name(name).exists() {
                println!("skipped: {name} is not built");
                bash.program(name, "#!/bin/sh\n");
            }
        }
        bash
    }

    /// Writes a program that the commands find before any other program of this name.
    pub fn program(&self, name: &str, text: &str) {
        let path = self.dir.file(name, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The `PATH` of the commands.
    pub fn path(&self) -> String {
        let folder = |path: &Path| path.parent().map(|folder| folder.display().to_string());
        let folders = [folder(Path::new(BINARY)), reference().as_deref().and_then(folder)];
        let own = [self.dir.path().display().to_string()];
        let others = [std::env::var("PATH").unwrap_or_default()];
        own.into_iter().chain(folders.into_iter().flatten()).chain(others).collect::<Vec<_>>().join(":")
    }

    /// Runs commands with these variables set. Fails if a command fails.
    pub fn run(&mut self, name: &str, commands: &str, names: &[(&str, &str)]) {
        self.says(name, commands, names);
    }

    /// Like [`Bash::run`]; returns the output of the commands.
    pub fn says(&mut self, name: &str, commands: &str, names: &[(&str, &str)]) -> String {
        let output = self.dir.join("output");
        let file = std::fs::File::create(&output).unwrap();
        // Pauses in the documents are meant for people; tests shorten them.
        let script = format!("set -euo pipefail\nsleep() {{ command sleep 0.05; }}\n{commands}");
        let mut child = Command::new("bash")
            .args(["-c", &script])
            .env("PATH", self.path())
            .envs(names.iter().copied())
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .process_group(0)
            .spawn()
            .unwrap();
        self.groups.push(child.id());
        let status = until(name, || child.try_wait().unwrap());
        let said = std::fs::read_to_string(output).unwrap();
        assert!(status.success(), "{name}: {said}");
        said
    }
}

impl Drop for Bash {
    fn drop(&mut self) {
        for group in &self.groups {
            let _ =
                Command::new("kill").args(["-9", "--", &format!("-{group}")]).stderr(Stdio::null()).status();
        }
    }
}

/// A client in bash: `valkey-cli -h HOST -p PORT WORD...`, which prints the reply.
const CLIENT: &str = r#"#!/usr/bin/env bash
set -eu
LC_ALL=C
exec 3<>"/dev/tcp/$2/$4"
shift 4
printf '*%d\r\n' $# >&3
for word in "$@"; do printf '$%d\r\n%s\r\n' ${#word} "$word" >&3; done
reply() {
  local line IFS=
  read -r line <&3 || exit 1
  line=${line%$'\r'}
  case $line in
    '$-1') echo ;;
    '$'*) read -r -N $((${line#?} + 2)) text <&3; printf '%s' "$text" ;;
    '*'*) for ((n = ${line#?}; n > 0; n--)); do reply; done ;;
    -*) echo "${line#?}"; exit 1 ;;
    *) echo "${line#?}" ;;
  esac
}
reply
"#;
