//! The files of `examples/`, checked by the tools of their users: promtool, docker compose, a
//! validator of Kubernetes' schemas (`pip install kubernetes-validate`), shellcheck. Tests of
//! the server run the configurations.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::metrics::found;
use crate::error::Result;
use crate::shell::{self, Ran};

/// Scripts that containers and timers run.
const SCRIPTS: [&str; 3] =
    ["examples/compose/start", "examples/compose/make-cluster", "packaging/sluice-backup"];

/// Runs the tools that this machine has. `SLUICE_PROMTOOL`, `SLUICE_KUBERNETES_VALIDATE` and
/// `SLUICE_SHELLCHECK` name three of them.
pub(super) fn run() -> Result<Ran> {
    let mut ran = Ran::Passed;
    let compose = shell::files(&shell::root().join("examples/compose"), ".yaml")?;
    let manifests = shell::files(&shell::root().join("examples/kubernetes"), ".yaml")?;
    let scripts: Vec<PathBuf> = SCRIPTS.iter().map(|path| shell::root().join(path)).collect();
    let prometheus = [shell::root().join("examples/compose/prometheus.yml")];
    let has_compose =
        shell::on_path("docker") && is_content(Command::new("docker").args(["compose", "version"]));
    let readers: [(&str, Option<String>, &[&str], &[PathBuf]); 4] = [
        (
            "promtool",
            found("SLUICE_PROMTOOL", &["promtool"]),
            &["check", "config", "--syntax-only"],
            &prometheus,
        ),
        ("docker compose", has_compose.then(|| "docker".to_owned()), &["compose", "--file"], &compose),
        (
            "kubernetes-validate",
            found("SLUICE_KUBERNETES_VALIDATE", &["kubernetes-validate"]),
            &["--strict"],
            &manifests,
        ),
        ("shellcheck", found("SLUICE_SHELLCHECK", &["shellcheck"]), &[], &scripts),
    ];
    for (name, program, words, files) in readers {
        let Some(program) = program else {
            println!("examples: skipped: {name} is not there");
            ran = Ran::Skipped;
            continue;
        };
        for file in files {
            let mut command = Command::new(&program);
            command.args(words).arg(file);
            if name == "docker compose" {
                command.args(["config", "--quiet"]);
            }
            shell::run(&mut command)?;
        }
        println!("examples: {name} has read {} files", files.len());
    }
    Ok(ran)
}

fn is_content(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
