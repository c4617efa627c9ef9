use super::{directives, files};
use crate::package::usage::{CHECK_AOF, CHECK_RDB, options_of, server_options};
use crate::shell;
use std::process::Command;

fn text(path: &str) -> String {
    files().into_iter().find(|(name, _)| name.ends_with(path)).expect("a file").1
}

#[test]
fn every_directive_and_option_is_offered_in_every_shell() {
    let (bash, zsh, fish) =
        (text("completions/sluice-server"), text("_sluice-server"), text("sluice-server.fish"));
    for name in directives().map(|param| param.name).chain(server_options().iter().map(|o| &o.name[2..])) {
        assert!(bash.contains(&format!("--{name} ")) || bash.contains(&format!("--{name}'")), "{name}");
        assert!(zsh.contains(&format!("--{name}[")), "{name}");
        assert!(fish.contains(&format!(" -l {name} ")), "{name}");
    }
    assert!(directives().count() > 200, "the table is shorter than it ever was");
}

#[test]
fn every_option_of_the_checkers_is_offered() {
    for (program, usage) in [("sluice-check-rdb", CHECK_RDB), ("sluice-check-aof", CHECK_AOF)] {
        for (option, words) in options_of(usage) {
            let bash = text(&format!("completions/{program}"));
            assert!(bash.contains(option) && words.iter().all(|word| bash.contains(word)), "{option}");
            assert!(text(&format!("_{program}")).contains(option), "{option}");
            assert!(text(&format!("{program}.fish")).contains(&format!(" -l {}", &option[2..])), "{option}");
        }
    }
}

/// Each installed shell must read its files without an error.
#[test]
fn shells_read_their_files() {
    let folder = std::env::temp_dir().join(format!("sluice-completions-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (path, text) in files() {
        let shell = ["bash", "zsh", "fish"].into_iter().find(|shell| path.contains(shell)).expect("a shell");
        if !shell::on_path(shell) {
            continue;
        }
        let file = folder.join(path.rsplit('/').next().expect("a name"));
        std::fs::write(&file, text).expect("written");
        let output = Command::new(shell).arg("-n").arg(&file).output().expect("it starts");
        assert!(output.status.success() && output.stderr.is_empty(), "{path}: {output:?}");
    }
    std::fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn bash_completes_names_and_values() {
    if !shell::on_path("bash") {
        return;
    }
    let complete = |before: &str, word: &str| {
        let script = format!(
            "{}\nCOMP_WORDS=(sluice-server {before} '{word}'); COMP_CWORD=2; _sluice_server; echo \"${{COMPREPLY[@]}}\"",
            text("completions/sluice-server")
        );
        let output = Command::new("bash").args(["-c", &script]).output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(complete("--appendonly", "y"), "yes");
    assert_eq!(complete("a.conf", "--appendf"), "--appendfilename --appendfsync");
    assert_eq!(complete("--appendfsync", "a"), "always");
}
