//! Public items that nobody outside their crate uses: each is an interface that somebody has to understand.
//!
//! A program that reads words, not meaning: an item is used when its name stands as a word in the code of another crate
//! (tests there included), of the crate's own tests and benchmarks beside `src`, or of its `main.rs`, and a type also when a public signature of its own crate names
//! it, since it could not be less visible then. So a name that others use for something else hides an item; what is found
//! is right. `[public]` of `docs/layers.toml` names items that are public without a user, and why. Crates that `docs/layers.toml` marks `library` have users besides us and are left out; those that it marks
//! `rebuilt` are left out until they are, and the mark must go when it hides nothing.

use std::collections::BTreeSet;

use super::Finding;
use super::source::{Source, is_word};

/// Where the marks are.
const TABLE: &str = "docs/layers.toml";

/// What `docs/layers.toml` says of a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Every public item must have a user.
    Product,
    /// Has users besides us, or serves development.
    Free,
    /// Public items without a user are expected for now.
    Rebuilt,
}

/// A public item without a user.
struct Unused {
    path: String,
    line: usize,
    name: String,
}

/// Checks every crate that has the mark of a product.
pub(super) fn check(layers: &toml::Table, sources: &[Source]) -> Vec<Finding> {
    // A crate that is only a program has no public items, whatever it calls them.
    let crates: BTreeSet<&str> = sources.iter().filter_map(|source| library_of(&source.path)).collect();
    let kept = layers.get("public").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let mut kept: BTreeSet<&str> = kept.keys().map(String::as_str).collect();
    let mut findings = Vec::new();
    for name in crates {
        let mark = mark_of(layers, name);
        if mark == Mark::Free {
            continue;
        }
        let unused = unused_in(name, sources);
        if mark == Mark::Product {
            for item in unused {
                if !kept.remove(format!("{name}::{}", item.name).as_str()) {
                    let what = format!("no other crate uses {}: remove it, or make it pub(crate)", item.name);
                    findings.push(Finding::new(&item.path, item.line, what));
                }
            }
        } else if unused.is_empty() {
            let what = format!("every public item of {name} has a user: remove its mark `rebuilt`");
            findings.push(Finding::new(TABLE, 0, what));
        }
    }
    findings.extend(kept.into_iter().map(|entry| {
        let what = format!("{entry} is gone, or has a user: remove it from [public]");
        Finding::new(TABLE, 0, what)
    }));
    findings
}

fn mark_of(layers: &toml::Table, name: &str) -> Mark {
    let entry = layers.get("crate").and_then(|crates| crates.get(name));
    let Some(entry) = entry.and_then(toml::Value::as_table) else { return Mark::Free };
    match () {
        () if entry.contains_key("library") || !entry.contains_key("stratum") => Mark::Free,
        () if entry.contains_key("rebuilt") => Mark::Rebuilt,
        () => Mark::Product,
    }
}

/// The folder under `crates/` whose library begins with this file.
fn library_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.strip_suffix("/src/lib.rs")
}

/// The public items of a crate without a user.
fn unused_in(name: &str, sources: &[Source]) -> Vec<Unused> {
    let own = format!("crates/{name}/src/");
    let of_crate = format!("crates/{name}/");
    let (mut used, mut signatures) = (BTreeSet::new(), BTreeSet::new());
    for source in sources {
        let is_program = source.path == format!("{own}main.rs");
        let is_beside = source.path.starts_with(&of_crate) && !source.path.starts_with(&own);
        if is_program || is_beside || !source.path.starts_with(&of_crate) {
            source.code.iter().for_each(|line| used.extend(words_of(line)));
        } else if source.path.starts_with(&own) {
            collect_signatures(source, &mut signatures);
        }
    }
    let mut unused = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with(&own)) {
        for (index, code) in source.code.iter().enumerate().filter(|(index, _)| !source.test[*index]) {
            let Some((kind, item)) = public_item(code) else { continue };
            let is_named = used.contains(item) || (kind != Kind::Function && signatures.contains(item));
            if !is_named {
                unused.push(Unused { path: source.path.clone(), line: index + 1, name: item.to_owned() });
            }
        }
    }
    unused
}

/// What a public item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Function,
    /// A type, a constant, a static: a signature may need it.
    Named,
}

/// The public item that a line declares. Modules and re-exports are none: what is in them counts.
fn public_item(code: &str) -> Option<(Kind, &str)> {
    let mut words = code.trim_start().strip_prefix("pub ")?.split_ascii_whitespace().peekable();
    loop {
        let kind = match words.next()? {
            // `const fn`, against a constant.
            "const" if words.peek().is_some_and(|next| ["fn", "unsafe"].contains(next)) => continue,
            "unsafe" | "async" | "extern" => continue,
            "fn" => Kind::Function,
            "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" => Kind::Named,
            _ => return None,
        };
        let name = words.next()?;
        let end = name.find(|letter| !is_word(letter)).unwrap_or(name.len());
        return Some((kind, &name[..end])).filter(|(_, name)| !name.is_empty());
    }
}

/// Adds the words of what a file's public items show: signatures of functions up to their bodies, and types whole. The
/// name that an item declares is none of them.
fn collect_signatures<'a>(source: &'a Source, into: &mut BTreeSet<&'a str>) {
    let mut within: Option<Within> = None;
    for (code, _) in source.code.iter().zip(&source.test).filter(|(_, test)| !**test) {
        let trimmed = code.trim_start();
        let mut own = None;
        let state = match within.take() {
            Some(state) => state,
            None if trimmed.starts_with("impl") => Within { is_type: false, depth: 0 },
            // A field of a structure, or a variant's, is met within its type.
            None => match public_item(code) {
                Some((kind, name)) => {
                    own = Some(name);
                    let is_type = ["struct ", "enum ", "trait "].iter().any(|word| trimmed.contains(word));
                    Within { is_type: kind == Kind::Named && is_type, depth: 0 }
                }
                None => continue,
            },
        };
        let (shown, next) = state.read(code);
        into.extend(words_of(shown).filter(|word| Some(*word) != own));
        within = next;
    }
}

/// A public item that is being read.
#[derive(Clone, Copy)]
struct Within {
    /// Its braces are part of what it shows.
    is_type: bool,
    /// Braces that are open.
    depth: usize,
}

impl Within {
    /// What of a line belongs to what the item shows, and the state behind it; none when the item is over.
    fn read(mut self, code: &str) -> (&str, Option<Within>) {
        for (at, letter) in code.char_indices() {
            match letter {
                '{' if !self.is_type => return (&code[..at], None),
                '{' => self.depth += 1,
                '}' if self.depth <= 1 => return (&code[..at], None),
                '}' => self.depth -= 1,
                ';' if self.depth == 0 && !code[at..].contains(']') => return (&code[..at], None),
                _ => {}
            }
        }
        (code, Some(self))
    }
}

fn words_of(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter| !is_word(letter)).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Kind, Source, check, public_item};

    fn found(crate_a: &str, others: &[(&str, &str)], mark: &str) -> Vec<String> {
        let layers = format!("[crate.a]\nstratum = 0\n{mark}\n[crate.b]\nstratum = 1\n");
        let mut sources = vec![Source::scan("crates/a/src/lib.rs", crate_a)];
        sources.extend(others.iter().map(|(path, text)| Source::scan(path, text)));
        let findings = check(&layers.parse().expect("a table"), &sources);
        findings.iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    const FN_USED: &str = "1: no other crate uses f: remove it, or make it pub(crate)";

    #[test]
    fn a_public_function_without_a_user_is_found() {
        assert_eq!(found("pub fn f() {}\n", &[], ""), [FN_USED]);
        assert!(found("pub fn f() {}\n", &[("crates/a/tests/t.rs", "a::f()")], "").is_empty());
        assert_eq!(found("pub fn f() {}\n", &[("crates/a/src/tests.rs", "a::f()")], ""), [FN_USED]);
        assert_eq!(found("pub fn f() {}\n#[cfg(test)]\nmod tests { fn t() { f() } }\n", &[], ""), [FN_USED]);
        assert!(found("pub fn f() {}\n", &[("crates/b/src/lib.rs", "a::f()")], "").is_empty());
        assert!(found("pub fn f() {}\n", &[("crates/a/src/main.rs", "a::f()")], "").is_empty());
        assert!(found("pub(crate) fn f() {}\n", &[], "").is_empty());
    }

    #[test]
    fn a_type_is_used_where_a_public_signature_names_it() {
        let unused = ["1: no other crate uses T: remove it, or make it pub(crate)"];
        let user = [("crates/b/src/lib.rs", "a::g()")];
        assert_eq!(found("pub struct T { x: u8 }\n", &[], ""), unused);
        assert_eq!(found("pub struct T;\nfn g(t: T) {}\n", &[], ""), unused);
        assert!(found("pub struct T;\npub fn g(\n    t: T,\n) {\n}\n", &user, "").is_empty());
        assert_eq!(found("pub struct T;\npub fn g() {\n    let t: T;\n}\n", &user, ""), unused);
        assert!(found("pub struct T;\npub struct g {\n    pub t: T,\n}\n", &user, "").is_empty());
    }

    #[test]
    fn libraries_are_left_out_and_a_mark_of_rebuilding_must_hide_something() {
        assert!(found("pub fn f() {}\n", &[], "library = 'it has users'").is_empty());
        assert!(found("pub fn f() {}\n", &[], "rebuilt = 'soon'").is_empty());
        let stale = "0: every public item of a has a user: remove its mark `rebuilt`";
        assert_eq!(found("fn f() {}\n", &[], "rebuilt = 'soon'"), [stale]);
    }

    #[test]
    fn an_item_may_be_public_with_a_reason_until_it_has_a_user() {
        let kept = "[public]\n'a::f' = 'a feature'\n[crate.c]";
        assert!(found("pub fn f() {}\n", &[], kept).is_empty());
        let stale = ["0: a::f is gone, or has a user: remove it from [public]"];
        assert_eq!(found("", &[], kept), stale);
        assert_eq!(found("pub fn f() {}\n", &[("crates/b/src/lib.rs", "a::f()")], kept), stale);
    }

    #[test]
    fn a_program_has_no_public_items() {
        let program = [("crates/b/src/main.rs", "mod m;"), ("crates/b/src/m.rs", "pub fn g() {}")];
        assert!(found("", &program, "").is_empty());
    }

    #[test]
    fn items_are_told_apart() {
        assert_eq!(public_item("    pub const fn of(x: u8) -> T {"), Some((Kind::Function, "of")));
        assert_eq!(public_item("pub unsafe fn of<T>("), Some((Kind::Function, "of")));
        assert_eq!(public_item("pub const MAX: usize = 1;"), Some((Kind::Named, "MAX")));
        assert_eq!(public_item("pub trait Look<T> {"), Some((Kind::Named, "Look")));
        for none in ["pub mod a;", "pub use a::b;", "pub name: u8,", "pub(crate) fn f() {", "fn f() {"] {
            assert_eq!(public_item(none), None, "{none}");
        }
    }
}
