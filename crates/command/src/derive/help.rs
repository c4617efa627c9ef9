//! The text of the HELP subcommand of a container, and the syntax of a command.

use crate::spec::{Arg, ArgKind, Spec};

/// The lines of a container's HELP, each to be written as a simple string; HELP itself is last.
pub fn lines(container: &Spec) -> Vec<String> {
    let mut entries = Vec::with_capacity(container.subcommands.len() + 1);
    if container.arity.accepts(1) {
        entries.push(("(no subcommand)".to_owned(), container.summary));
    }
    let (help, others): (Vec<&Spec>, Vec<&Spec>) =
        container.subcommands.iter().partition(|sub| sub.name() == "help");
    entries.extend(others.into_iter().chain(help).map(|sub| (syntax(sub), sub.summary)));
    let entries: Vec<(&str, &str)> = entries.iter().map(|(syntax, text)| (syntax.as_str(), *text)).collect();
    frame(container.name(), &entries)
}

/// The lines of a HELP with these pairs of syntax and explanation, for commands whose subcommands are
/// not declared (DEBUG). Long lines are wrapped.
pub fn frame(name: &str, entries: &[(&str, &str)]) -> Vec<String> {
    let name = name.to_ascii_uppercase();
    let mut lines = vec![format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")];
    for (syntax, text) in entries {
        wrap(syntax, "", "        ", &mut lines);
        wrap(text, "    ", "    ", &mut lines);
    }
    lines
}

/// The syntax of a command without the name of its container: `GET <parameter> [<parameter> ...]`.
pub fn syntax(spec: &Spec) -> String {
    let mut text = spec.name().to_ascii_uppercase();
    for arg in spec.args {
        text.push(' ');
        text.push_str(&argument(arg));
    }
    text
}

fn argument(arg: &Arg) -> String {
    let value = value(arg);
    let with_token = |value: &str| match (arg.kind, arg.token) {
        (ArgKind::PureToken, _) | (_, "") => value.to_owned(),
        (_, token) => format!("{token} {value}"),
    };
    let mut text = with_token(&value);
    let again = if arg.multiple_token { &text } else { &value };
    if arg.multiple {
        // A repeated choice is followed by dots, because the choice is too long to be shown twice.
        let again = if matches!(arg.kind, ArgKind::OneOf(_)) { "..." } else { &format!("[{again} ...]") };
        text = format!("{text} {again}");
    }
    if arg.optional { format!("[{text}]") } else { text }
}

fn value(arg: &Arg) -> String {
    match arg.kind {
        ArgKind::PureToken if arg.token.is_empty() => "\"\"".to_owned(),
        ArgKind::PureToken => arg.token.to_owned(),
        ArgKind::OneOf(parts) => {
            let choices = parts.iter().map(argument).collect::<Vec<_>>().join("|");
            // The brackets of an optional choice suffice, unless it has a token or is repeated.
            let bare = arg.optional && arg.token.is_empty() && !arg.multiple;
            if bare { choices } else { format!("({choices})") }
        }
        ArgKind::Block(parts) => parts.iter().map(argument).collect::<Vec<_>>().join(" "),
        ArgKind::String
        | ArgKind::Integer
        | ArgKind::Double
        | ArgKind::Key
        | ArgKind::Pattern
        | ArgKind::UnixTime => format!("<{}>", arg.display),
    }
}

/// Breaks a text at spaces into lines of at most [`LINE_LEN_MAX`] bytes; a line is longer only if a single
/// word is too long.
fn wrap(text: &str, indent: &str, indent_next: &str, lines: &mut Vec<String>) {
    let mut line = String::from(indent);
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.len() + 1 + word.len() > LINE_LEN_MAX {
            lines.push(std::mem::replace(&mut line, indent_next.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
}

const LINE_LEN_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::{connection, generic, server, string};

    #[test]
    fn syntax_shows_what_may_be_left_out_repeated_or_chosen() {
        assert_eq!(syntax(&server::CONFIG_SET), "SET <parameter> <value> [<parameter> <value> ...]");
        assert_eq!(syntax(&generic::COPY), "COPY <source> <destination> [DB <destination-db>] [REPLACE]");
        assert_eq!(syntax(&connection::CLIENT_REPLY), "REPLY (ON|OFF|SKIP)");
        assert!(syntax(&connection::CLIENT_TRACKING).contains("[PREFIX <prefix> [PREFIX <prefix> ...]]"));
        assert!(syntax(&connection::CLIENT_KILL).ends_with("[NOT-IP <not-ip>]) ...)"));
        assert_eq!(
            syntax(&string::GETEX),
            "GETEX <key> [EX <seconds>|PX <milliseconds>|EXAT <unix-time-seconds>|PXAT <unix-time-milliseconds>|PERSIST]"
        );
    }

    #[test]
    fn help_lists_every_subcommand_and_itself_last() {
        for container in crate::table::TOP.into_iter().filter(|spec| !spec.subcommands.is_empty()) {
            let lines = lines(container);
            for sub in container.subcommands {
                let name = sub.name().to_ascii_uppercase();
                let starts = |line: &&String| **line == name || line.starts_with(&format!("{name} "));
                assert_eq!(lines.iter().filter(starts).count(), 1, "{}", sub.full_name);
            }
            assert_eq!(lines[lines.len() - 2], "HELP");
        }
    }

    #[test]
    fn help_says_what_a_container_does_alone() {
        assert!(lines(&server::COMMAND).contains(&"(no subcommand)".to_owned()));
        assert!(!lines(&server::CONFIG).contains(&"(no subcommand)".to_owned()));
    }

    #[test]
    fn help_wraps_long_lines_without_losing_words() {
        let long = syntax(&connection::CLIENT_KILL);
        let lines = frame("client", &[(&long, "Text.")]);
        assert_eq!(lines[0], "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
        let (text, syntax) = lines[1..].split_last().expect("more than one line");
        assert_eq!(text, "    Text.");
        assert!(syntax.iter().all(|line| line.len() <= LINE_LEN_MAX));
        assert_eq!(syntax.iter().map(|line| line.trim_start()).collect::<Vec<_>>().join(" "), long);
    }
}
