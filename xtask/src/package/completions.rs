//! Completions for shells: options of the programs, directives and their values, all from the tables.

use super::usage::{self, CHECK_AOF, CHECK_RDB};
use sluice_config::{PARAMS, Param, ParamKind, Traits};

/// The completions, each with the path at which its shell searches for it.
pub(super) fn files() -> Vec<(&'static str, String)> {
    let mut files = vec![("/usr/share/bash-completion/completions/sluice-server", bash())];
    files.push(("/usr/share/zsh/vendor-completions/_sluice-server", zsh()));
    files.push(("/usr/share/fish/vendor_completions.d/sluice-server.fish", fish()));
    for (program, usage, paths) in CHECKERS {
        let [bash, zsh, fish] = paths;
        files.push((bash, bash_checker(program, usage)));
        files.push((zsh, zsh_checker(program, usage)));
        files.push((fish, fish_checker(program, usage)));
    }
    files
}

/// A program with the options of a usage line, and the paths at which bash, zsh and fish search
/// for its completion.
type Checker = (&'static str, &'static str, [&'static str; 3]);

const CHECKERS: [Checker; 2] = [
    (
        "sluice-check-rdb",
        CHECK_RDB,
        [
            "/usr/share/bash-completion/completions/sluice-check-rdb",
            "/usr/share/zsh/vendor-completions/_sluice-check-rdb",
            "/usr/share/fish/vendor_completions.d/sluice-check-rdb.fish",
        ],
    ),
    (
        "sluice-check-aof",
        CHECK_AOF,
        [
            "/usr/share/bash-completion/completions/sluice-check-aof",
            "/usr/share/zsh/vendor-completions/_sluice-check-aof",
            "/usr/share/fish/vendor_completions.d/sluice-check-aof.fish",
        ],
    ),
];

/// The first line of each completion; in that of zsh it follows the line with `#compdef`.
const HEAD: &str = "# Written by `cargo xtask package` from the directive table and the programs' usage.\n";

/// The directives that are completed.
fn directives() -> impl Iterator<Item = &'static Param> {
    PARAMS.iter().filter(|param| !param.traits.has(Traits::HIDDEN))
}

/// The values that a directive accepts, if they can be listed; otherwise none.
fn words(param: &Param) -> Vec<&'static str> {
    match param.kind {
        ParamKind::Bool { .. } => vec!["yes", "no"],
        ParamKind::Choice { names, .. } => names.iter().map(|(name, _)| *name).collect(),
        ParamKind::Flags { names } => names.iter().map(|(name, _)| *name).collect(),
        _ => Vec::new(),
    }
}

/// The first sentence of a directive's prose, without its full stop.
fn sentence(param: &Param) -> &'static str {
    param.doc.split(". ").next().unwrap_or_default().trim_end_matches('.')
}

fn bash() -> String {
    // Directives with the same words share an arm.
    let mut arms: Vec<(String, Vec<String>)> = Vec::new();
    for param in directives() {
        let words = words(param).join(" ");
        if words.is_empty() {
            continue;
        }
        let option = format!("--{}", param.name);
        match arms.iter_mut().find(|(known, _)| *known == words) {
            Some((_, options)) => options.push(option),
            None => arms.push((words, vec![option])),
        }
    }
    let arms: String = arms
        .iter()
        .map(|(words, options)| format!("\t{})\n\t\tcandidates='{words}'\n\t\t;;\n", options.join(" | ")))
        .collect();
    let own = usage::server_options().into_iter().map(|option| option.name.to_owned());
    let options: Vec<String> = own.chain(directives().map(|param| format!("--{}", param.name))).collect();
    format!(
        "{HEAD}_sluice_server() {{\n\
         \tlocal word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} candidates=''\n\
         \tcase $before in\n{arms}\tesac\n\
         \tif [[ -z $candidates && $word == -* ]]; then\n\t\tcandidates='{}'\n\tfi\n\
         \tif [[ -n $candidates ]]; then\n\t\tCOMPREPLY=($(compgen -W \"$candidates\" -- \"$word\"))\n\
         \telse\n\t\tCOMPREPLY=($(compgen -f -- \"$word\"))\n\tfi\n}}\n\
         complete -o filenames -F _sluice_server sluice-server\n",
        options.join(" "),
    )
}

fn bash_checker(program: &str, usage: &'static str) -> String {
    let function = format!("_{}", program.replace('-', "_"));
    let options = usage::options_of(usage);
    let arms: String = options
        .iter()
        .filter(|(_, words)| !words.is_empty())
        .map(|(option, words)| format!("\t{option})\n\t\tcandidates='{}'\n\t\t;;\n", words.join(" ")))
        .collect();
    let case = if arms.is_empty() {
        String::new()
    } else {
        format!("\tcase ${{COMP_WORDS[COMP_CWORD - 1]}} in\n{arms}\tesac\n")
    };
    let names: Vec<&str> = options.iter().map(|(option, _)| *option).chain(["--version", "--help"]).collect();
    format!(
        "{HEAD}{function}() {{\n\
         \tlocal word=${{COMP_WORDS[COMP_CWORD]}} candidates=''\n{case}\
         \tif [[ -z $candidates && $word == -* ]]; then\n\t\tcandidates='{}'\n\tfi\n\
         \tif [[ -n $candidates ]]; then\n\t\tCOMPREPLY=($(compgen -W \"$candidates\" -- \"$word\"))\n\
         \telse\n\t\tCOMPREPLY=($(compgen -f -- \"$word\"))\n\tfi\n}}\n\
         complete -o filenames -F {function} {program}\n",
        names.join(" "),
    )
}

/// Escapes a text for a description of zsh's `_arguments` between single quotes.
fn zsh_text(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('[', "\\[")
        .replace(']', "\\]")
        .replace(':', "\\:")
        .replace('\'', "'\\''")
}

fn zsh() -> String {
    let mut text = format!("#compdef sluice-server\n{HEAD}_arguments \\\n");
    for option in usage::server_options() {
        text += &format!("  '{}[{}]' \\\n", option.name, zsh_text(option.about));
    }
    for param in directives() {
        let words = words(param);
        let action = if words.is_empty() { "_files".to_owned() } else { format!("({})", words.join(" ")) };
        text += &format!("  '*--{}[{}]:value:{action}' \\\n", param.name, zsh_text(sentence(param)));
    }
    text + "  '*:configuration file:_files'\n"
}

fn zsh_checker(program: &str, usage: &'static str) -> String {
    let mut text = format!("#compdef {program}\n{HEAD}_arguments \\\n");
    for (option, words) in usage::options_of(usage) {
        let action = if words.is_empty() { String::new() } else { format!(":value:({})", words.join(" ")) };
        text += &format!("  '{option}{action}' \\\n");
    }
    text + "  '--version' '--help' \\\n  '*:file:_files'\n"
}

/// Escapes a text for single quotes in fish.
fn fish_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

fn fish() -> String {
    let mut text = HEAD.to_owned();
    for option in usage::server_options() {
        let name = option.name.trim_start_matches("--");
        text += &format!("complete -c sluice-server -l {name} -d '{}'\n", fish_text(option.about));
    }
    for param in directives() {
        let words = words(param);
        let values = if words.is_empty() { "-r".to_owned() } else { format!("-x -a '{}'", words.join(" ")) };
        let about = fish_text(sentence(param));
        text += &format!("complete -c sluice-server -l {} {values} -d '{about}'\n", param.name);
    }
    text
}

fn fish_checker(program: &str, usage: &'static str) -> String {
    let mut text = HEAD.to_owned();
    for (option, words) in
        usage::options_of(usage).into_iter().chain([("--version", vec![]), ("--help", vec![])])
    {
        let values = if words.is_empty() { String::new() } else { format!(" -x -a '{}'", words.join(" ")) };
        text += &format!("complete -c {program} -l {}{values}\n", option.trim_start_matches("--"));
    }
    text
}

#[cfg(test)]
mod tests;
