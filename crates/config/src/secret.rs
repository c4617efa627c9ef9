//! Secrets of a configuration: recognised by the table of parameters or, if the table does not have a name,
//! by the name itself.
//!
//! Invariants: (1) a shown line does not contain the value of a directive whose name is the name of a known
//! secret, resembles it, or begins with it; (2) in doubt more is hidden: the text after the first such name
//! in a line is not shown.

use crate::row::{ParamId, Traits};
use crate::table::RETIRED;

/// The text that replaces a secret.
pub(crate) const HIDDEN: &str = "(redacted)";

/// Whether a directive or parameter of this name has a secret as its value. A name that is not known
/// counts if it sounds like a secret, or if it may be a misspelt name of a known secret.
pub fn names_secret(name: &[u8]) -> bool {
    if let Some(id) = ParamId::find(name) {
        return id.param().traits.has(Traits::SENSITIVE);
    }
    let name = name.to_ascii_lowercase();
    let has = |word: &str| name.windows(word.len()).any(|part| part == word.as_bytes());
    WORDS.iter().any(|word| has(word))
        || secrets().any(|known| is_close(&name, known.as_bytes(), MISSPELT_MAX))
}

/// The kind of directive that the first word of a line names.
pub(crate) enum DirectiveName {
    /// A parameter of the table.
    Param,
    /// A `user` or `role` line.
    Users,
    /// Another directive without a secret.
    Plain,
    /// No directive of this server.
    Unknown,
}

/// The kind of the directive with this name.
pub(crate) fn directive(name: &[u8]) -> DirectiveName {
    let is = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
    match ParamId::find(name) {
        Some(_) => DirectiveName::Param,
        None if ["user", "role"].iter().any(is) => DirectiveName::Users,
        None if ["include", "rename-command"].iter().chain(RETIRED).any(is) => DirectiveName::Plain,
        None => DirectiveName::Unknown,
    }
}

/// The part of a line that may be shown; `None` if the whole line may be. `is_known`: whether the line's
/// first word is a directive without a secret.
pub(crate) fn shown_part(text: &str, is_known: bool) -> Option<String> {
    let mut at = 0;
    // Here every character that cannot be part of a name ends a name, not only a blank: a blank may be part
    // of a quoted word, and any other character may join a name to its value.
    for (number, run) in text.split(|char: char| !is_of_name(char)).enumerate() {
        let end = if is_known && number == 0 { None } else { name_end(run, is_known) };
        if let Some(end) = end
            && text.len() > at + end
            && text[at + end..].contains(|char: char| !matches!(char, ' ' | '\t' | '\'' | '"'))
        {
            return Some(format!("{} {HIDDEN}", &text[..at + end]));
        }
        let behind = at + run.len();
        let separator = text[behind..].chars().next();
        if !is_known && is_secret_next(text, behind, separator) {
            return Some(format!("{}{HIDDEN}", &text[..behind + separator.map_or(0, char::len_utf8)]));
        }
        at = behind + separator.map_or(0, char::len_utf8);
    }
    None
}

/// The position in `run` at which the name of a secret ends; `None` if there is no such name.
fn name_end(run: &str, is_known: bool) -> Option<usize> {
    let is_whole = secrets().any(|secret| secret.eq_ignore_ascii_case(run));
    if is_whole || is_known {
        return is_whole.then_some(run.len());
    }
    let begins =
        |secret: &&str| run.get(..secret.len()).is_some_and(|head| head.eq_ignore_ascii_case(secret));
    let joined = secrets().filter(begins).map(str::len).max();
    joined.or_else(|| names_secret(run.as_bytes()).then_some(run.len()))
}

/// Whether the character at `at`, which is `separator`, begins a secret: a password or digest as in user
/// rules, or the user and password of a URL.
fn is_secret_next(text: &str, at: usize, separator: Option<char>) -> bool {
    let behind = &text[at..];
    match separator {
        Some('>' | '<' | '#' | '!') => {
            text[..at].ends_with([' ', '\t', '"', '\'', '('])
                && behind.len() > 1
                && !behind[1..].starts_with(' ')
        }
        Some(':') => behind.starts_with("://") && behind.contains('@'),
        _ => false,
    }
}

fn is_of_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.')
}

/// The names of directives with secrets, including aliases and those of Sentinel.
fn secrets() -> impl Iterator<Item = &'static str> {
    let known = ParamId::all().map(ParamId::param).filter(|param| param.traits.has(Traits::SENSITIVE));
    known.flat_map(|param| std::iter::once(param.name).chain(param.alias)).chain(OF_SENTINEL)
}

/// Whether the edit distance between two names is at most `most` letters: replaced, missing or added ones.
fn is_close(one: &[u8], other: &[u8], most: usize) -> bool {
    if one.len().abs_diff(other.len()) > most {
        return false;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, byte) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, wanted) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(byte != wanted);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()] <= most
}

/// An unknown name that contains one of these counts as the name of a secret.
const WORDS: [&str; 8] = ["pass", "pwd", "auth", "secret", "token", "key", "cred", "salt"];
const OF_SENTINEL: [&str; 3] = ["auth-pass", "sentinel-pass", "auth-user"];
/// Letters by which a misspelt name may differ from a known one.
const MISSPELT_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the name of every sensitive parameter: unchanged, and with each letter left out, doubled,
    /// replaced, or exchanged with the next letter.
    #[test]
    fn a_misspelt_name_of_a_secret_is_one() {
        for name in secrets() {
            let bytes = name.as_bytes();
            for at in 0..bytes.len() {
                let (head, tail) = bytes.split_at(at);
                let mut exchanged = bytes.to_vec();
                exchanged.swap(at, (at + 1) % bytes.len());
                let misspelt = [
                    [head, &tail[1..]].concat(),
                    [head, &tail[..1], tail].concat(),
                    [head, b"x", &tail[1..]].concat(),
                    exchanged,
                    [head, &tail.to_ascii_uppercase()].concat(),
                ];
                for name in misspelt {
                    // The misspelt name may happen to be another directive's.
                    let is_other =
                        ParamId::find(&name).is_some_and(|id| !id.param().traits.has(Traits::SENSITIVE));
                    assert!(is_other || names_secret(&name), "{}", name.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn names_of_ordinary_directives_are_none() {
        for name in ["maxmemry", "foo", "prot", "appendonli", "slave-of", "io-thread", "sentinel", "monitor"]
        {
            assert!(!names_secret(name.as_bytes()), "{name}");
        }
        for id in ParamId::all().filter(|id| !id.param().traits.has(Traits::SENSITIVE)) {
            assert!(!names_secret(id.param().name.as_bytes()));
        }
    }
}
