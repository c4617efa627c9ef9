//! CONFIG REWRITE: the config file with the current values, in as much of its old shape as can be kept.
//!
//! A line of a known parameter is replaced in its place, and so are `user` and `role` lines; lines that are
//! no longer needed become empty, and several empty lines become one. Comments, `include` and other
//! directives stay. A parameter that has no line yet and differs from its default is appended below a marker
//! line. A line with an unknown or a retired directive, or with wrong quotes, becomes a comment.
//!
//! The result loads to the same [`Config`], and a second rewrite changes nothing; with one exception:
//! `save` lines of included files add to the `save` line that was written here.

use std::collections::VecDeque;

use sluice_base::quote::{Dialect, push_quoted, push_words, split_args};

use crate::config::Config;
use crate::load::trimmed;
use crate::number;
use crate::row::{ParamId, ParamKind, UnitOfMeasure};
use crate::table::param;
use crate::value::{ClientClass, DEFAULT_LIMITS, ParamValue};

/// The parameters that get a line although the file has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Parameters with a value other than the default, and a few that are always written.
    Changed,
    /// All parameters that have a value: for DEBUG CONFIG-REWRITE-FORCE-ALL.
    All,
}

/// The new text of the config file whose text was `old` (`None`: there was no file). `users` are
/// canonical lines `role NAME …` and `user NAME …` from [`Config::lines_to_rewrite`]: they take the
/// places of the old `role` and `user` lines, in order.
///
/// Cost: parameters times lines of parameters, plus the lines of users.
pub fn rewrite(old: Option<&[u8]>, config: &Config, users: &[Vec<u8>], force: Force) -> Vec<u8> {
    let mut state = ConfigRewrite::read(old.unwrap_or_default());
    for id in ParamId::all() {
        state.param(id, config, force);
    }
    for line in users {
        state.user(line);
    }
    state.finish()
}

struct ConfigRewrite {
    lines: Vec<Vec<u8>>,
    /// The lines of parameters that are not yet replaced: position in `lines`, and the parameter.
    free: Vec<(usize, ParamId)>,
    /// The `user` and `role` lines that are not yet replaced.
    free_users: VecDeque<usize>,
    has_marker: bool,
}

impl ConfigRewrite {
    fn read(old: &[u8]) -> ConfigRewrite {
        let (lines, free, free_users) = Default::default();
        let mut state = ConfigRewrite { lines, free, free_users, has_marker: false };
        if old.is_empty() {
            return state;
        }
        // A line break at the end of the file ends the last line; the reference counts one more, empty line.
        let old = old.strip_suffix(b"\n").unwrap_or(old);
        for line in old.split(|byte| *byte == b'\n').map(trimmed) {
            state.has_marker |= line == MARKER;
            match meaning(line) {
                Meaning::Kept => state.lines.push(line.to_vec()),
                Meaning::Strange => state.lines.push([b"# ??? ", line].concat()),
                Meaning::Param(id) => {
                    state.free.push((state.lines.len(), id));
                    state.lines.push(line.to_vec());
                }
                Meaning::User => {
                    state.free_users.push_back(state.lines.len());
                    state.lines.push(line.to_vec());
                }
            }
        }
        state
    }

    fn param(&mut self, id: ParamId, config: &Config, force: Force) {
        for Line { text, needed } in lines_of(id, config) {
            let index = self.free.iter().position(|(_, owner)| *owner == id);
            match index.map(|index| self.free.remove(index)) {
                Some((line, _)) => self.lines[line] = text,
                None if needed || force == Force::All => self.append(text),
                None => {}
            }
        }
    }

    fn user(&mut self, line: &[u8]) {
        let text = written_user(line);
        match self.free_users.pop_front() {
            Some(line) => self.lines[line] = text,
            None => self.append(text),
        }
    }

    fn append(&mut self, text: Vec<u8>) {
        if !self.has_marker {
            self.lines.push(MARKER.to_vec());
            self.has_marker = true;
        }
        self.lines.push(text);
    }

    fn finish(mut self) -> Vec<u8> {
        for line in self.free.iter().map(|(line, _)| *line).chain(self.free_users) {
            self.lines[line].clear();
        }
        let mut text = Vec::new();
        let mut after_empty = false;
        for line in &self.lines {
            if line.is_empty() && after_empty {
                continue;
            }
            after_empty = line.is_empty();
            text.extend(line);
            text.push(b'\n');
        }
        text
    }
}

enum Meaning {
    Kept,
    Strange,
    Param(ParamId),
    User,
}

/// How a rewrite treats a trimmed line.
fn meaning(line: &[u8]) -> Meaning {
    if matches!(line, [] | [b'#', ..]) {
        return Meaning::Kept;
    }
    let words = split_args(line, Dialect::Config).unwrap_or_default();
    let Some(name) = words.first() else { return Meaning::Strange };
    let is_directive = DIRECTIVES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    match ParamId::find(name) {
        Some(id) => Meaning::Param(id),
        None if name.eq_ignore_ascii_case(b"user") || name.eq_ignore_ascii_case(b"role") => Meaning::User,
        None if is_directive => Meaning::Kept,
        None => Meaning::Strange,
    }
}

struct Line {
    text: Vec<u8>,
    /// Whether the line is added if the file had no line of the parameter.
    needed: bool,
}

/// The lines that give a parameter its value; none for a value that the reference does not write.
fn lines_of(id: ParamId, config: &Config) -> Vec<Line> {
    let name = id.param().name;
    let line = |rest: &[u8], needed: bool| Line { text: [name.as_bytes(), b" ", rest].concat(), needed };
    let changed = config.is_changed(id);
    let value = config.value(id);
    if let ParamValue::BufferLimits(limits) = value {
        let classes = ClientClass::ALL.iter().zip(limits).zip(&DEFAULT_LIMITS);
        return classes
            .map(|((class, limit), default)| {
                let hard = number::memory_text(limit.hard_bytes);
                let soft = number::memory_text(limit.soft_bytes);
                let rest = format!("{} {hard} {soft} {}", class.name_in_files(), limit.soft_seconds);
                line(rest.as_bytes(), limit != default)
            })
            .collect();
    }
    // An unset text, an unset primary, and an unchanged list that is empty or `bind` are left out, as in the
    // reference, although a line would do no harm.
    let absent = match value {
        ParamValue::Text(None) | ParamValue::ReplicaOf(None) => true,
        ParamValue::List(items) => !changed && (id == param::BIND.any() || items.is_empty()),
        _ => false,
    };
    if absent {
        return Vec::new();
    }
    // These are always written: the defaults of another version may differ.
    let always = matches!(value, ParamValue::Save(_) | ParamValue::Percentiles(_)) || id == param::DIR.any();
    vec![line(&written(&id.param().kind, value), changed || always)]
}

/// A value as words of a line.
fn written(kind: &ParamKind, value: &ParamValue) -> Vec<u8> {
    let shown = kind.text(value);
    let is_memory = matches!(
        kind,
        ParamKind::Int {
            unit: UnitOfMeasure::Memory | UnitOfMeasure::MemoryOrPercent | UnitOfMeasure::SignedMemory,
            ..
        }
    );
    match value {
        ParamValue::Int(number) if is_memory => {
            u64::try_from(*number).map_or(shown, |bytes| number::memory_text(bytes).into_bytes())
        }
        ParamValue::Text(_) | ParamValue::NotifyEvents(_) => quoted(&shown),
        // A single word is split once more when it is loaded, so it is quoted twice.
        ParamValue::List(items) if items.len() == 1 && !is_plain(&items[0]) => quoted(&quoted(&items[0])),
        ParamValue::List(items) if !items.is_empty() => {
            items.iter().map(|item| word(item)).collect::<Vec<_>>().join(&b' ')
        }
        ParamValue::ReplicaOf(Some((host, port))) => {
            [&word(host)[..], format!(" {port}").as_bytes()].concat()
        }
        _ if shown.is_empty() => b"\"\"".to_vec(),
        _ => shown,
    }
}

/// A user's line as a line of the file. Words that contain quotes are put in quotes; the reference leaves
/// them as they are, and therefore reads other words from the file.
fn written_user(line: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(line.len());
    push_words(&mut text, line, |_| false);
    text
}

fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len() + 2);
    push_quoted(&mut text, bytes);
    text
}

/// The bytes unquoted where they are one word, else in quotes.
fn word(bytes: &[u8]) -> Vec<u8> {
    if is_plain(bytes) { bytes.to_vec() } else { quoted(bytes) }
}

fn is_plain(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\'))
}

const MARKER: &[u8] = b"# Generated by CONFIG REWRITE";

/// Directives that are no parameters and that a rewrite leaves alone.
const DIRECTIVES: [&str; 4] = ["include", "rename-command", "loadmodule", "sentinel"];
