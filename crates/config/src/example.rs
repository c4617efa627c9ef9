//! The example file: every parameter that is not hidden, with its prose and its default. Loading it changes
//! nothing.

use crate::config::Config;
use crate::rewrite::{Force, rewrite};
use crate::row::{Honoured, Param, ParamId, ParamKind, Section, Traits, UnitOfMeasure};

/// The text of `sluice.conf`: chapters, each of which lists parameters of the table with their defaults.
pub fn example_conf() -> String {
    let mut text = String::from(PREFACE);
    for section in Section::ALL {
        let title = section.title();
        text += &format!("\n{0}\n# {title}\n{0}\n", "#".repeat(WIDTH));
        let listed = |id: &ParamId| id.param().section == section && !id.param().traits.has(Traits::HIDDEN);
        for id in ParamId::all().filter(listed) {
            text.push('\n');
            for line in wrapped(&prose(id.param())) {
                text += &format!("# {line}\n");
            }
            text += &setting(id);
        }
    }
    text
}

/// What an operator should know about a parameter.
fn prose(param: &Param) -> String {
    let mut text = String::from(param.doc);
    if let ParamKind::Int { min, max, unit, .. } = param.kind {
        text += &match unit {
            UnitOfMeasure::Plain if max < i128::from(i32::MAX) => format!(" From {min} to {max}."),
            UnitOfMeasure::Plain if min > 0 => format!(" At least {min}."),
            UnitOfMeasure::Octal => format!(" From {min:o} to {max:o}."),
            UnitOfMeasure::Memory if min > 1 => format!(" At least {min} bytes."),
            UnitOfMeasure::Plain
            | UnitOfMeasure::Memory
            | UnitOfMeasure::MemoryOrPercent
            | UnitOfMeasure::SignedMemory => String::new(),
        };
    }
    if let Some(alias) = param.alias {
        text += &format!(" Also called {alias}.");
    }
    if param.traits.has(Traits::IMMUTABLE) {
        text += " Cannot change while the server runs.";
    }
    if param.traits.has(Traits::PROTECTED) {
        text += " CONFIG SET needs enable-protected-configs.";
    }
    match param.honoured {
        Honoured::Yes => {}
        Honoured::NotYet(feature) => text += &format!(" (Without effect yet; waits for {feature}.)"),
        Honoured::Ignored(why) => text += &format!(" (Without effect: {why}.)"),
    }
    text
}

/// The default as lines; a comment for a parameter without a default.
fn setting(id: ParamId) -> String {
    let all = rewrite(None, &Config::default(), &[], Force::All);
    let all = String::from_utf8_lossy(&all);
    let name = id.param().name;
    let own: String = all
        .lines()
        .filter(|line| line.split(' ').next() == Some(name))
        .map(|line| format!("{line}\n"))
        .collect();
    match (own.is_empty(), &id.param().kind) {
        (false, _) => own,
        (true, ParamKind::List { default }) if !default.is_empty() => {
            format!("{name} {}\n", default.join(" "))
        }
        (true, _) => format!("# {name} \"\"\n"),
    }
}

/// The words of `text`, wrapped for lines that begin with `# `.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.len() + 1 + word.len() > WIDTH - 2 {
            lines.push(word.into());
        } else {
            line.extend((!line.is_empty()).then_some(' '));
            line.push_str(word);
        }
    }
    lines
}

const WIDTH: usize = 100;

const PREFACE: &str = "\
# Configuration of Sluice. Every line here is the default, so this file changes nothing as it stands.
#
# A line is a name and its value. Words with blanks are put in quotes: within double quotes \\n, \\r, \\t, \\\", \\\\ and
# \\xHH have their usual meaning. Lines that begin with # are comments. If a name occurs twice, the later line counts,
# but save and client-output-buffer-limit add up. Options of the command line (--name value) come after the file.
#
# Sizes are in bytes, or with a suffix: 1k is 1000 bytes, 1kb is 1024; so are m and mb, g and gb. Case does not matter.
#
# include /path/to/other.conf reads another file at this place; the path may be a pattern.
# rename-command CONFIG \"\" removes a command; another word renames it.
# user NAME RULE... defines a user; each may be defined once. An aclfile has users instead of such lines.
";
