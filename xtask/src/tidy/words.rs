//! Sentences of comments, by ratchet: the number of sentences that break a rule of style.md may only fall.
//!
//! The rules: (1) the first sentence of a doc comment begins with a noun, so not with one of `OPENINGS`;
//! (2) fewer than three in ten words of a sentence are pronouns or question words (`PRONOUNS`); (3)
//! *behind* is used only of a place in a buffer, so a sentence with this word has one of `LOCATIONS`; (4) a
//! doc comment of three words or fewer says more than the name of its item. Rules 1 and 2 do not apply to
//! sentences of fewer than six words. All Rust files count, tests included: `cargo xtask tidy --words`
//! prints the sentences.

use super::ratchet::{Counts, Section};
use super::source::{Source, is_word};
use crate::error::Result;

/// The section of the ratchet.
pub(super) const WORDS: Section = Section {
    name: "words",
    about: "Sentences of comments that break a rule: `xtask/src/tidy/words.rs` has the rules.",
    limit: 0,
    unit: "sentences of comments",
    advice: "`cargo xtask tidy --words` prints them; write the new ones anew",
};

/// Words with which the first sentence of a doc comment must not begin.
const OPENINGS: [&str; 10] =
    ["It", "Its", "That", "Those", "Who", "Whom", "Whoever", "What else", "Of", "Such"];

/// Pronouns and question words.
const PRONOUNS: [&str; 27] = [
    "it", "its", "itself", "they", "them", "their", "theirs", "that", "those", "he", "him", "his", "she",
    "her", "what", "whatever", "which", "who", "whom", "whose", "whoever", "where", "wherever", "when",
    "whenever", "why", "how",
];

/// Locations. A sentence to which the rule about places applies must have one of these words.
const LOCATIONS: [&str; 13] = [
    "byte", "bytes", "buffer", "buffers", "entry", "entries", "offset", "offsets", "end", "ends", "port",
    "ports", "position",
];

/// Minimum words of a sentence to which rules 1 and 2 apply.
const WORDS_MIN: usize = 6;

/// Maximum words of a doc comment that is compared with the name of its item.
const REPEATS_WORDS_MAX: usize = 3;

/// Words that add nothing to a name.
const EMPTY_WORDS: [&str; 11] = ["the", "a", "an", "of", "its", "one", "is", "are", "all", "to", "in"];

/// One comment: its first line, from 1; whether it is a doc comment; its text; and the name of the item
/// that it documents, if it is a doc comment of one line.
struct Comment {
    line: usize,
    is_doc: bool,
    text: String,
    item: Option<String>,
}

/// The number of sentences that break each rule.
pub(super) fn measure(sources: &[Source]) -> Counts {
    let mut counts = Counts::new();
    for (rule, _, _, _) in broken(sources) {
        counts.entry(rule.to_owned()).or_insert((0, 0)).0 += 1;
    }
    counts
}

/// Prints every sentence that breaks a rule, of all files or of those whose path contains a word.
pub(super) fn print(sources: &[Source], only: Option<&str>) -> Result<()> {
    let chosen = |path: &str| only.is_none_or(|only| path.contains(only));
    for (rule, path, line, sentence) in broken(sources).filter(|(_, path, _, _)| chosen(path)) {
        println!("{path}:{line}: {rule}: {sentence}");
    }
    Ok(())
}

/// Each violation of a rule: the rule, the file, the first line of the comment, and the sentence.
fn broken(sources: &[Source]) -> impl Iterator<Item = (&'static str, &str, usize, String)> {
    sources.iter().flat_map(|source| {
        comments(source).into_iter().flat_map(move |comment| {
            let sentences = sentences(&comment.text).into_iter().enumerate();
            let broken = sentences.flat_map(move |(index, sentence)| {
                let rules = rules_broken(&sentence, comment.is_doc && index == 0);
                rules.into_iter().map(move |rule| (rule, sentence.clone()))
            });
            let mut found: Vec<_> = broken.collect();
            if comment.item.as_deref().is_some_and(|name| repeats(&comment.text, name)) {
                found.push(("repeats a name", comment.text.clone()));
            }
            found
                .into_iter()
                .map(move |(rule, sentence)| (rule, source.path.as_str(), comment.line, sentence))
        })
    })
}

fn rules_broken(sentence: &str, opens_doc: bool) -> Vec<&'static str> {
    let strip = |word: &str| word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_owned();
    let words: Vec<String> = sentence.split_whitespace().map(strip).filter(|word| !word.is_empty()).collect();
    let has = |list: &[&str], word: &str| list.contains(&word.to_lowercase().as_str());
    let mut broken = Vec::new();
    if words.len() >= WORDS_MIN {
        let begins = |opening: &&str| opening.split(' ').eq(words.iter().take(opening.split(' ').count()));
        if opens_doc && OPENINGS.iter().any(begins) {
            broken.push("begins without a noun");
        }
        if 10 * words.iter().filter(|word| has(&PRONOUNS, word)).count() >= 3 * words.len() {
            broken.push("three words in ten are pronouns");
        }
    }
    if words.iter().any(|word| has(&["behind"], word)) && !words.iter().any(|word| has(&LOCATIONS, word)) {
        broken.push("behind is a place");
    }
    broken
}

/// Whether a comment of a few words only repeats the name of its item, that is, has no word that the name
/// lacks.
fn repeats(text: &str, name: &str) -> bool {
    let words: Vec<&str> = text
        .split(|letter: char| !letter.is_alphanumeric() && letter != '\'')
        .filter(|word| !word.is_empty())
        .collect();
    let parts = parts_of_name(name);
    let is_in_name = |word: &&str| parts.iter().any(|part| stem(part) == stem(&word.to_lowercase()));
    let mut content = words.iter().filter(|word| !EMPTY_WORDS.contains(&word.to_lowercase().as_str()));
    words.len() <= REPEATS_WORDS_MAX && content.all(is_in_name)
}

/// The words of a name in snake or camel case, in small letters.
fn parts_of_name(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars() {
        let is_border = letter == '_' || (letter.is_uppercase() && was_small);
        if is_border {
            parts.push(String::new());
        }
        if letter != '_' {
            parts.last_mut().expect("one part").extend(letter.to_lowercase());
        }
        was_small = letter.is_lowercase();
    }
    parts
}

/// A word without its ending, so that *bytes* equals *byte*, and *received* equals *receive*.
fn stem(word: &str) -> &str {
    ["ing", "ed", "es", "s", "e"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word)
}

/// The name of the item, field or variant that the code from line `from` (an index) on declares.
fn item_name(source: &Source, from: usize) -> Option<String> {
    let is_attribute = |line: &&String| line.trim().is_empty() || line.trim().starts_with("#[");
    let line = source.code[from..].iter().find(|line| !is_attribute(line))?;
    // The lifetime in `&'static str` is removed, because it is no keyword.
    let line = line.replace("'static", "");
    let words: Vec<&str> =
        line.split(|letter: char| !is_word(letter)).filter(|word| !word.is_empty()).collect();
    let is_keyword = |word: &&str| {
        ["fn", "struct", "enum", "const", "static", "type", "trait", "mod", "macro_rules"].contains(word)
    };
    let is_visibility = |word: &&&str| ["pub", "crate", "super", "in", "self"].contains(*word);
    // The name follows the last of several keywords in a row, as in `const fn name`.
    match words.windows(2).position(|pair| is_keyword(&pair[0]) && !is_keyword(&pair[1])) {
        Some(at) => words.get(at + 1).map(|word| (*word).to_owned()),
        None => words.iter().find(|word| !is_visibility(word)).map(|word| (*word).to_owned()),
    }
}

/// The comments of a file. Successive lines are one comment, up to an empty line or the next item of a
/// list. Blocks of code, tables and headings are no prose.
fn comments(source: &Source) -> Vec<Comment> {
    let mut found: Vec<Comment> = Vec::new();
    let (mut open, mut in_code) = (None, false);
    for (index, (code, comment)) in source.code.iter().zip(&source.comments).enumerate() {
        let marker = ["///", "//!", "//"].into_iter().find(|marker| comment.starts_with(marker));
        let Some(marker) = marker.filter(|_| code.trim().is_empty()) else {
            (open, in_code) = (None, false);
            if let Some(text) = comment.strip_prefix("//") {
                found.push(Comment { line: index + 1, is_doc: false, text: text.to_owned(), item: None });
            }
            continue;
        };
        let text = comment[marker.len()..].trim();
        if text.starts_with("```") {
            in_code = !in_code;
        }
        if in_code || text.is_empty() || ["```", "|", "#"].iter().any(|begin| text.starts_with(begin)) {
            open = None;
            continue;
        }
        let begins_item = text.starts_with("- ") || text.starts_with("* ");
        match found.last_mut() {
            Some(last) if open == Some(marker) && !begins_item => {
                last.text.push(' ');
                last.text.push_str(text);
            }
            _ => {
                // A later paragraph belongs to the same comment, so its first sentence is not the first
                // sentence of a doc comment.
                let is_first = index == 0 || !source.comments[index - 1].starts_with(marker);
                let is_doc = marker == "///" && is_first;
                let is_alone = source.comments.get(index + 1).is_none_or(|next| !next.starts_with(marker));
                let item = (is_doc && is_alone).then(|| item_name(source, index + 1)).flatten();
                found.push(Comment { line: index + 1, is_doc, text: text.to_owned(), item });
            }
        }
        open = Some(marker);
    }
    found
}

/// The sentences of a text. Each ends with a full stop, a question mark or an exclamation mark, followed by
/// white space.
fn sentences(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for word in text.split_whitespace() {
        let last = found.last_mut().expect("one sentence");
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
        if word.ends_with(['.', '!', '?']) && !["e.g.", "i.e."].contains(&word) {
            found.push(String::new());
        }
    }
    found.retain(|sentence| !sentence.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::measure;
    use crate::tidy::source::Source;

    fn count(text: &str) -> Vec<(String, usize)> {
        let counts = measure(&[Source::scan("a.rs", text)]);
        counts.into_iter().map(|(rule, (count, _))| (rule, count)).collect()
    }

    #[test]
    fn the_first_sentence_of_a_doc_comment_begins_with_a_noun() {
        let rule = "begins without a noun".to_owned();
        assert_eq!(
            count(
                "/// Its queue of what the server sends to\n/// the client first. Those bytes of the server count.\n"
            ),
            [(rule, 1)]
        );
        assert!(
            count(
                "/// A list of keys in the order of names.\n///\n/// Those keys of the server count here.\n"
            )
            .is_empty()
        );
        assert!(count("/// Its length.\n// What the server sends to the client first.\n").is_empty());
    }

    #[test]
    fn pronouns_are_counted_in_every_sentence() {
        let rule = "three words in ten are pronouns".to_owned();
        assert_eq!(count("// A list of keys. What it has is what those keep.\n"), [(rule, 1)]);
        assert!(
            count("let a = 1; // It is it.\n/// ```\n/// it that what which who whom\n/// ```\n").is_empty()
        );
    }

    #[test]
    fn a_doc_comment_says_more_than_a_name() {
        let found = |comment: &str, code: &str| count(&format!("/// {comment}\n{code}\n")).len();
        for (comment, code) in [
            ("The bytes.", "    bytes: u64,"),
            ("Received bytes.", "    #[serde]\n    pub(crate) bytes_received: u64,"),
            ("A connection.", "pub struct Connection {"),
            ("The event loop.", "    EventLoop,"),
            ("The name.", "    pub name: &'static str,"),
            ("The size.", "    fn size(of: fn(u8) -> u8) {"),
            ("Puts it.", "    pub const fn put(&mut self) {"),
        ] {
            let expected = usize::from(comment != "Puts it.");
            assert_eq!(found(comment, code), expected, "{comment} {code}");
        }
        assert_eq!(found("The bytes that came.", "    bytes: u64,"), 0, "four words");
        assert_eq!(found("The empty set.", "    pub const NONE: Set = Set(0);"), 0);
        assert_eq!(found("The bytes.\n/// Without the head of the message.", "    bytes: u64,"), 0);
    }

    #[test]
    fn behind_is_a_place() {
        let rule = "behind is a place".to_owned();
        assert_eq!(count("// Runs behind the command.\n"), [(rule, 1)]);
        assert!(count("// The offset behind the last one.\n").is_empty());
    }
}
