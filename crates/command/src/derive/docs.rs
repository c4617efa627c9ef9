//! The reply of COMMAND DOCS.

use super::doc::Doc;
use crate::spec::{Arg, Flags, Spec};

/// The documentation of a command, which COMMAND DOCS shows under the full name. COMMAND DOCS
/// omits unknown commands.
pub fn docs(spec: &Spec) -> Doc {
    let mut parts = Vec::with_capacity(10);
    parts.push(("summary", Doc::Str(spec.summary)));
    parts.push(("since", Doc::Str(spec.since)));
    parts.push(("group", Doc::Str(spec.group.name())));
    push_text(&mut parts, "complexity", spec.complexity);
    let marks = marks(spec);
    if !marks.is_empty() {
        parts.push(("doc_flags", Doc::Set(marks)));
    }
    if let Some((since, replaced_by)) = spec.deprecated {
        parts.push(("deprecated_since", Doc::Str(since)));
        parts.push(("replaced_by", Doc::Str(replaced_by)));
    }
    if !spec.history.is_empty() {
        let change = |(version, text): &(&'static str, &'static str)| {
            Doc::Array(vec![Doc::Str(version), Doc::Str(text)])
        };
        parts.push(("history", Doc::Set(spec.history.iter().map(change).collect())));
    }
    if !spec.args.is_empty() {
        parts.push(("arguments", arguments(spec.args)));
    }
    if !spec.subcommands.is_empty() {
        let subcommands = spec.subcommands.iter().map(|sub| (sub.full_name, docs(sub)));
        parts.push(("subcommands", Doc::Map(subcommands.collect())));
    }
    Doc::Map(parts)
}

/// The documentation flags of a command.
fn marks(spec: &Spec) -> Vec<Doc> {
    let mut marks = Vec::new();
    if spec.deprecated.is_some() {
        marks.push(Doc::Status("deprecated"));
    }
    if spec.flags.has(Flags::SYSCMD) {
        marks.push(Doc::Status("syscmd"));
    }
    marks
}

fn arguments(args: &'static [Arg]) -> Doc {
    Doc::Array(args.iter().map(argument).collect())
}

fn argument(arg: &Arg) -> Doc {
    let mut parts = vec![("name", Doc::Str(arg.name)), ("type", Doc::Str(arg.kind.name()))];
    push_text(&mut parts, "display_text", arg.display);
    if let Some(key_spec) = arg.key_spec {
        parts.push(("key_spec_index", Doc::Int(key_spec.into())));
    }
    if !arg.token.is_empty() {
        // The token of MIGRATE is the empty string, which the syntax shows as a pair of quotes.
        let token = if arg.token == "\"\"" { "" } else { arg.token };
        parts.push(("token", Doc::Str(token)));
    }
    push_text(&mut parts, "summary", arg.summary);
    push_text(&mut parts, "since", arg.since);
    push_text(&mut parts, "deprecated_since", arg.deprecated_since);
    let flags: Vec<Doc> = arg.flag_names().map(Doc::Status).collect();
    if !flags.is_empty() {
        parts.push(("flags", Doc::Set(flags)));
    }
    if !arg.kind.parts().is_empty() {
        parts.push(("arguments", arguments(arg.kind.parts())));
    }
    Doc::Map(parts)
}

fn push_text(parts: &mut Vec<(&'static str, Doc)>, name: &'static str, text: &'static str) {
    if !text.is_empty() {
        parts.push((name, Doc::Str(text)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::doc::shown;
    use super::*;
    use crate::specs::{connection, generic, server, string};

    fn check(spec: &Spec, start: &str, end: &str) {
        let text = shown(&docs(spec));
        assert!(text.starts_with(start), "{text}");
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn docs_have_the_shape_of_the_reference() {
        check(
            &server::DEBUG,
            "%5 $summary $Tools",
            "$group $server $complexity $As the subcommand $doc_flags ~1 +syscmd",
        );
        check(&server::MONITOR, "%3 $summary $Streams", "$since $1.0.0 $group $server");
        check(
            &generic::EXISTS,
            "%6 $summary $Counts",
            "$history ~1 *2 $3.0.3 $More than one key. $arguments *1 \
             %5 $name $key $type $key $display_text $key $key_spec_index :0 $flags ~1 +multiple",
        );
        check(
            &string::GETEX,
            "%5 $summary $Reads",
            "%4 $name $persist $type $pure-token $display_text $persist $token $PERSIST",
        );
    }

    #[test]
    fn an_argument_shows_its_facts_in_order() {
        let comparison = shown(&docs(&string::SET));
        let expected = "%6 $name $comparison-value $type $string $display_text $comparison-value $token $IFEQ $summary $";
        assert!(comparison.contains(expected));
        let filter = shown(&docs(&connection::CLIENT_KILL));
        assert!(
            filter.contains(
                "%4 $name $old-format $type $string $display_text $ip:port $deprecated_since $2.8.12"
            )
        );
        assert!(filter.contains("$token $TYPE $since $2.8.12 $flags ~1 +optional $arguments *6"));
    }

    #[test]
    fn docs_of_a_container_hold_those_of_its_subcommands_by_full_name() {
        let text = shown(&docs(&server::CONFIG));
        assert!(text.contains("$subcommands %6 $config|get %6 $summary"), "{text}");
    }
}
