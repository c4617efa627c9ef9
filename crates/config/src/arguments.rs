//! The command line: a config file's path, and options that become lines after the lines of that file.

use sluice_base::quote::{Dialect, push_quoted, split_args};

/// The configuration in the arguments of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// Path of the config file.
    pub config_file: Option<Vec<u8>>,
    /// Whether more configuration is read from standard input, between the file and the options.
    pub stdin: bool,
    /// The options as config lines, for [`crate::parse_file`].
    pub options: Vec<u8>,
}

/// Reads the arguments that follow the program's name.
///
/// A first argument that does not begin with `-` is the config file. `-` as the first or last argument stands
/// for standard input. `--name` begins a line, and the arguments that follow are its words; an argument with
/// `--` in front is a word, too, if its line has no word yet. For example, `--port 6380 --save ""` is two
/// lines. `--save` without words is `--save ""`, and a `--name` that follows it, or follows `--sentinel`,
/// begins the next line.
pub fn command_line(arguments: &[&[u8]]) -> CommandLine {
    let mut result = CommandLine::default();
    let mut needs_word = false;
    for (index, argument) in arguments.iter().enumerate() {
        if index == 0 && argument.first() != Some(&b'-') {
            result.config_file = Some(argument.to_vec());
            continue;
        }
        let last = index + 1 == arguments.len();
        if *argument == b"-" && (index == 0 || last) {
            result.stdin = true;
            continue;
        }
        match argument.strip_prefix(b"--") {
            Some(name) if !needs_word => {
                let next = arguments.get(index + 1).copied();
                needs_word = begin_line(&mut result.options, name, next);
            }
            _ => {
                push_quoted(&mut result.options, argument);
                result.options.push(b' ');
                needs_word = false;
            }
        }
    }
    result
}

/// Begins a line with an option's name. Returns whether the next argument is a word of this line even if it
/// begins with `--`.
fn begin_line(options: &mut Vec<u8>, name: &[u8], next: Option<&[u8]>) -> bool {
    if !options.is_empty() {
        options.push(b'\n');
    }
    options.extend(name);
    options.push(b' ');
    // A single argument may contain the option and its words: `"--port 6380"`.
    let alone = split_args(name, Dialect::Config).is_ok_and(|words| words.len() == 1);
    if !alone {
        return false;
    }
    let followed_by_option = next.is_some_and(|next| next.starts_with(b"--"));
    if name.eq_ignore_ascii_case(b"save") && (followed_by_option || next.is_none()) {
        options.extend(b"\"\"");
        return false;
    }
    !(name.eq_ignore_ascii_case(b"sentinel") && followed_by_option)
}
