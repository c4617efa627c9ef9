//! The usage texts of the programs, from the files in their sources.

/// The output of `sluice-server --help`.
pub(super) const SERVER_HELP: &str = include_str!("../../../crates/server/src/help.txt");

/// The arguments that follow `sluice-check-rdb` in its usage.
pub(super) const CHECK_RDB: &str = include_str!("../../../crates/check/src/usage_rdb.txt");

/// The arguments that follow `sluice-check-aof` in its usage.
pub(super) const CHECK_AOF: &str = include_str!("../../../crates/check/src/usage_aof.txt");

/// An option of the server with its description.
pub(super) struct ServerOption {
    /// The option, including its dashes.
    pub(super) name: &'static str,
    /// The description, one sentence.
    pub(super) about: &'static str,
}

/// The options of the server that are no directives: lines of its help that begin with two dashes.
pub(super) fn server_options() -> Vec<ServerOption> {
    let lines = SERVER_HELP.lines().filter_map(|line| {
        let (name, about) = line.strip_prefix("  ")?.split_once(' ')?;
        name.starts_with("--").then_some(ServerOption { name, about: about.trim() })
    });
    lines.collect()
}

/// Lines of the server's help, from the first line that begins with `from` up to the line before one that
/// begins with `to`, or up to the end.
pub(super) fn server_part(from: &str, to: Option<&str>) -> Vec<&'static str> {
    let lines = SERVER_HELP.lines().skip_while(|line| !line.starts_with(from));
    lines.take_while(|line| to.is_none_or(|to| !line.starts_with(to))).collect()
}

/// The options in a usage, each with its values if they are listed: `--format` with `table`,
/// `info`, `csv`.
pub(super) fn options_of(usage: &'static str) -> Vec<(&'static str, Vec<&'static str>)> {
    let is_separator = |c: char| matches!(c, '[' | ']' | ' ' | '\n');
    let mut options: Vec<(&str, Vec<&str>)> = Vec::new();
    for word in usage.split(is_separator).filter(|word| !word.is_empty()) {
        if word.starts_with("--") {
            options.extend(word.split('|').map(|name| (name, Vec::new())));
        } else if let Some((_, values)) = options.last_mut()
            && word.contains('|')
            && !word.starts_with('<')
        {
            *values = word.split('|').collect();
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::{CHECK_AOF, CHECK_RDB, options_of, server_options, server_part};

    #[test]
    fn options_are_found_in_the_texts() {
        let names: Vec<_> = server_options().iter().map(|option| option.name).collect();
        assert_eq!(names, ["--check-config", "--check-move", "--example-conf", "--version", "--help"]);
        let rdb = options_of(CHECK_RDB);
        assert_eq!(rdb[0], ("--format", vec!["table", "info", "csv"]));
        assert_eq!(rdb[1..], [("--stats", vec![]), ("--output", vec![])]);
        let aof: Vec<_> = options_of(CHECK_AOF).into_iter().map(|(name, _)| name).collect();
        assert_eq!(aof, ["--fix", "--truncate-to-timestamp"]);
    }

    #[test]
    fn the_parts_of_the_help_are_there() {
        assert_eq!(server_part("Usage:", Some("CONFIG-FILE")).len(), 6);
        assert!(server_part("Examples:", None).len() > 2);
    }
}
