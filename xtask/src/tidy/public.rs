//! Finds public items that are not used outside of their crate, because readers must understand each
//! interface.
//!
//! The program reads words, not meaning: an item is used when its name occurs as a word in the code of a
//! crate that imports the item's crate, or in the code of its own crate's programs. A type is also used when
//! a public signature of its own crate names it, because then it must be public. So another use of the same
//! word can hide an unused item, but an item that is reported has no user. Items that only tests use are
//! listed in `[tested]` of `docs/layers.toml`, with what they show to the tests; items that only examples and
//! benchmarks use in `[shown]`, with the file; `[public]` lists items that are public without any user, with
//! the reason. A crate that `docs/layers.toml` marks `waits` has no user yet, and a crate marked `rebuilt` is
//! left out until it has been rebuilt; a mark that hides nothing must be removed. A crate marked `closed` has
//! no public module: there the compiler finds unused items.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::source::{Source, is_word};

/// The file of the marks.
const TABLE: &str = "docs/layers.toml";

/// The mark of a crate in `docs/layers.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Every public item must have a user.
    Product,
    /// The crate serves development and is not checked.
    Free,
    /// The crate may have no public module.
    Closed,
    /// Public items without a user are expected for now; the mark's name.
    Pending(&'static str),
}

/// A public item that neither another crate nor a program of its own crate uses.
struct Unused {
    path: String,
    line: usize,
    name: String,
    /// The examples and benchmarks that use the item.
    shown_by: BTreeSet<String>,
    /// Whether tests use the item.
    is_tested: bool,
}

/// Checks every library by the mark of its crate.
pub(super) fn check(layers: &toml::Table, sources: &[Source]) -> Vec<Finding> {
    // Only libraries are checked: items of a crate that is only a program are not public, whatever their
    // keywords.
    let crates: BTreeSet<&str> = sources.iter().filter_map(|source| library_of(&source.path)).collect();
    // The entries that were used are collected, because an entry may apply to items of the same name in
    // several modules.
    let mut met = BTreeSet::new();
    let [kept, shown, tested] = ["public", "shown", "tested"].map(|table| entries(layers, table));
    let mut findings = Vec::new();
    for name in crates {
        let mark = mark_of(layers, name);
        if mark == Mark::Free {
            continue;
        }
        if mark == Mark::Closed {
            findings.extend(public_modules(name, sources));
            continue;
        }
        let unused = unused_in(name, sources);
        if let Mark::Pending(word) = mark {
            if unused.is_empty() {
                let what = format!("every public item of {name} has a user: remove its mark `{word}`");
                findings.push(Finding::new(TABLE, 0, what));
            }
            continue;
        }
        for item in unused {
            let entry = format!("{name}::{}", item.name);
            let (table, is_named) = if kept.contains_key(&entry) {
                ("public", true)
            } else if !item.shown_by.is_empty() {
                ("shown", shown.get(&entry).is_some_and(|by| item.shown_by.contains(by)))
            } else if item.is_tested {
                ("tested", tested.contains_key(&entry))
            } else {
                ("none", false)
            };
            met.insert((table, entry));
            let (name, by) = (&item.name, item.shown_by.first().map_or("", String::as_str));
            let what = match (is_named, table) {
                (true, _) => continue,
                (_, "shown") => {
                    format!("only {by} uses {name}: remove it, or name that file in [shown] of {TABLE}")
                }
                (_, "tested") => {
                    format!("tests alone use {name}: remove it, or say in [tested] of {TABLE} what it shows")
                }
                _ => format!("no other crate uses {name}: remove it, or make it pub(crate)"),
            };
            findings.push(Finding::new(&item.path, item.line, what));
        }
    }
    for (table, left) in [("public", kept), ("shown", shown), ("tested", tested)] {
        let is_stale = |entry: &String| !met.contains(&(table, entry.clone()));
        findings.extend(left.into_keys().filter(is_stale).map(|entry| {
            let what = format!("{entry} is gone, or has another user: remove it from [{table}]");
            Finding::new(TABLE, 0, what)
        }));
    }
    findings
}

/// The entries of a table of `docs/layers.toml`.
fn entries(layers: &toml::Table, table: &str) -> BTreeMap<String, String> {
    let table = layers.get(table).and_then(toml::Value::as_table).into_iter().flatten();
    table.map(|(name, why)| (name.clone(), why.as_str().unwrap_or_default().to_owned())).collect()
}

fn mark_of(layers: &toml::Table, name: &str) -> Mark {
    let entry = layers.get("crate").and_then(|crates| crates.get(name));
    let Some(entry) = entry.and_then(toml::Value::as_table) else { return Mark::Free };
    match ["waits", "rebuilt"].into_iter().find(|mark| entry.contains_key(*mark)) {
        _ if !entry.contains_key("stratum") => Mark::Free,
        Some(mark) => Mark::Pending(mark),
        None if entry.contains_key("closed") => Mark::Closed,
        None => Mark::Product,
    }
}

/// The public modules of a crate that must have none.
fn public_modules(name: &str, sources: &[Source]) -> Vec<Finding> {
    let of_library = sources.iter().filter(|source| library_of(&source.path) == Some(name));
    let lines =
        of_library.flat_map(|source| source.code.iter().zip(1..).map(|(line, at)| (&source.path, line, at)));
    lines
        .filter(|(_, line, _)| line.trim_start().starts_with("pub mod "))
        .map(|(path, _, at)| {
            Finding::new(path, at, format!("{name} is marked `closed` in {TABLE}: no module is public"))
        })
        .collect()
}

/// The folder under `crates/` whose library has this file as its root.
fn library_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.strip_suffix("/src/lib.rs")
}

/// The folder of the crate that a file belongs to.
fn crate_of(path: &str) -> &str {
    let deep = path.starts_with("crates/") || path.starts_with("bench/");
    let mut parts = path.match_indices('/').map(|(at, _)| at);
    path.get(..parts.nth(usize::from(deep)).unwrap_or(0)).unwrap_or_default()
}

/// Whether a file is an example or a benchmark.
fn is_shown(path: &str) -> bool {
    path.contains("/examples/") || path.contains("/benches/")
}

/// The public items of a crate that neither other crates nor its own programs use, and that no public
/// signature names.
fn unused_in(name: &str, sources: &[Source]) -> Vec<Unused> {
    let (own, library) = (format!("crates/{name}"), format!("sluice_{name}"));
    let names_it =
        |source: &&Source| source.code.iter().any(|line| words_of(line).any(|word| word == library));
    let importers: BTreeSet<&str> =
        sources.iter().filter(names_it).map(|source| crate_of(&source.path)).collect();
    let (mut used, mut tested, mut signatures) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut shown: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        let folder = crate_of(&source.path);
        let is_program = source.path == format!("{own}/src/main.rs")
            || source.path.starts_with(&format!("{own}/src/bin/"));
        if is_shown(&source.path) && (importers.contains(folder) || folder == own) {
            for word in source.code.iter().flat_map(|line| words_of(line)) {
                shown.entry(word).or_default().insert(&source.path);
            }
        } else if is_program || folder != own && importers.contains(folder) {
            for (line, is_test) in source.code.iter().zip(&source.test) {
                let users = if *is_test { &mut tested } else { &mut used };
                users.extend(words_of(line));
            }
        } else if folder == own && !source.path.starts_with(&format!("{own}/src/")) {
            tested.extend(source.code.iter().flat_map(|line| words_of(line)));
        } else if folder == own {
            collect_signatures(source, &mut signatures);
        }
    }
    let mut unused = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with(&format!("{own}/src/"))) {
        for (index, code) in source.code.iter().enumerate().filter(|(index, _)| !source.test[*index]) {
            let Some((kind, item)) = public_item(code) else { continue };
            let is_named = used.contains(item) || (kind == Kind::Named && signatures.contains(item));
            if !is_named {
                let shown_by = shown.get(item).into_iter().flatten().map(|path| (*path).to_owned()).collect();
                let (path, name, is_tested) = (source.path.clone(), item.to_owned(), tested.contains(item));
                unused.push(Unused { path, line: index + 1, name, shown_by, is_tested });
            }
        }
    }
    unused
}

/// The kind of a public item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Function,
    /// A type, a constant or a static, which a signature may need.
    Named,
    /// A module, whose items are used by their paths, or count again where they are re-exported.
    Module,
}

/// The public item that a line declares. Re-exports do not count; the re-exported item does.
fn public_item(code: &str) -> Option<(Kind, &str)> {
    let mut words = code.trim_start().strip_prefix("pub ")?.split_ascii_whitespace().peekable();
    loop {
        let kind = match words.next()? {
            // This `const` belongs to a `const fn`, not to a constant.
            "const" if words.peek().is_some_and(|next| ["fn", "unsafe"].contains(next)) => continue,
            "unsafe" | "async" | "extern" => continue,
            "fn" => Kind::Function,
            "mod" => Kind::Module,
            "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" => Kind::Named,
            _ => return None,
        };
        let name = words.next()?;
        let end = name.find(|letter| !is_word(letter)).unwrap_or(name.len());
        return Some((kind, &name[..end])).filter(|(_, name)| !name.is_empty());
    }
}

/// Adds the words in the public interface of a file: signatures of functions up to their bodies, and
/// whole types, without the names that the items declare.
fn collect_signatures<'a>(source: &'a Source, into: &mut BTreeSet<&'a str>) {
    let mut within: Option<Within> = None;
    for (code, _) in source.code.iter().zip(&source.test).filter(|(_, test)| !**test) {
        let trimmed = code.trim_start();
        let mut own = None;
        let state = match within.take() {
            Some(state) => state,
            None if trimmed.starts_with("impl") => Within { is_type: false, depth: 0 },
            // Fields of a structure or variant are read with their type.
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
    /// Whether the braces of the item belong to its interface.
    is_type: bool,
    /// Number of open braces.
    depth: usize,
}

impl Within {
    /// The part of a line that belongs to the item's interface, and the state after it; `None` at the end
    /// of the item.
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

    /// Another crate that imports `a` and contains these words.
    fn user(words: &str) -> String {
        format!("use sluice_a::x;\n{words}")
    }

    #[test]
    fn a_public_function_without_a_user_is_found() {
        let b = user("x::f()");
        assert_eq!(found("pub fn f() {}\n", &[], ""), [FN_USED]);
        assert_eq!(found("pub fn f() {}\n", &[("crates/a/src/tests.rs", "a::f()")], ""), [FN_USED]);
        assert_eq!(found("pub fn f() {}\n#[cfg(test)]\nmod tests { fn t() { f() } }\n", &[], ""), [FN_USED]);
        assert!(found("pub fn f() {}\n", &[("crates/b/src/lib.rs", &b)], "").is_empty());
        assert_eq!(found("pub fn f() {}\n", &[("crates/b/src/lib.rs", "x::f()")], ""), [FN_USED]);
        assert!(found("pub fn f() {}\n", &[("crates/a/src/main.rs", "a::f()")], "").is_empty());
        assert!(found("pub fn f() {}\n", &[("crates/a/src/bin/p.rs", "a::f()")], "").is_empty());
        assert!(found("pub(crate) fn f() {}\n", &[], "").is_empty());
        assert_eq!(found("pub mod f;\n", &[], ""), [FN_USED]);
    }

    #[test]
    fn a_closed_crate_has_no_public_module() {
        assert!(found("mod f;\npub fn g() {}\n", &[], "closed = 'x'").is_empty());
        let module = ["2: a is marked `closed` in docs/layers.toml: no module is public"];
        assert_eq!(found("mod f;\npub mod g;\n", &[], "closed = 'x'"), module);
    }

    #[test]
    fn what_tests_examples_and_benchmarks_alone_use_is_named() {
        let f = "pub fn f() {}\n";
        let tested =
            ["1: tests alone use f: remove it, or say in [tested] of docs/layers.toml what it shows"];
        let in_b = user("#[cfg(test)]\nmod tests { fn t() { f() } }\n");
        for test in [("crates/a/tests/t.rs", "a::f()"), ("crates/b/src/lib.rs", &*in_b)] {
            assert_eq!(found(f, &[test], ""), tested);
            assert!(found(f, &[test], "[tested]\n'a::f' = 'how it is'\n[crate.c]").is_empty());
        }
        let b = user("f()");
        let bench = [("crates/b/benches/f.rs", &*b), ("crates/a/tests/t.rs", "a::f()")];
        let named = |file: &str| format!("[shown]\n'a::f' = '{file}'\n[crate.c]");
        let only = [
            "1: only crates/b/benches/f.rs uses f: remove it, or name that file in [shown] of docs/layers.toml",
        ];
        assert_eq!(found(f, &bench, ""), only);
        assert_eq!(found(f, &bench, &named("crates/b/benches/g.rs")), only);
        assert!(found(f, &bench, &named("crates/b/benches/f.rs")).is_empty());
        let example = [("crates/a/examples/e.rs", "f()")];
        assert!(found(f, &example, &named("crates/a/examples/e.rs")).is_empty());
        let stale = ["0: a::f is gone, or has another user: remove it from [shown]"];
        assert_eq!(found(f, &[("crates/b/src/lib.rs", &*b)], &named("crates/b/benches/f.rs")), stale);
    }

    #[test]
    fn a_type_is_used_where_a_public_signature_names_it() {
        let unused = ["1: no other crate uses T: remove it, or make it pub(crate)"];
        let b = user("x::g()");
        let user = [("crates/b/src/lib.rs", &*b)];
        assert_eq!(found("pub struct T { x: u8 }\n", &[], ""), unused);
        assert_eq!(found("pub struct T;\nfn g(t: T) {}\n", &[], ""), unused);
        assert!(found("pub struct T;\npub fn g(\n    t: T,\n) {\n}\n", &user, "").is_empty());
        assert_eq!(found("pub struct T;\npub fn g() {\n    let t: T;\n}\n", &user, ""), unused);
        assert!(found("pub struct T;\npub struct g {\n    pub t: T,\n}\n", &user, "").is_empty());
    }

    #[test]
    fn a_mark_of_a_whole_crate_must_hide_something() {
        for mark in ["waits", "rebuilt"] {
            assert!(found("pub fn f() {}\n", &[], &format!("{mark} = 'soon'")).is_empty());
            let stale = format!("0: every public item of a has a user: remove its mark `{mark}`");
            assert_eq!(found("fn f() {}\n", &[], &format!("{mark} = 'soon'")), [stale]);
        }
        // The mark `library`, which existed before, has no effect.
        assert_eq!(found("pub fn f() {}\n", &[], "library = 'it has users'"), [FN_USED]);
    }

    #[test]
    fn an_item_may_be_public_with_a_reason_until_it_has_a_user() {
        let kept = "[public]\n'a::f' = 'a feature'\n[crate.c]";
        assert!(found("pub fn f() {}\n", &[], kept).is_empty());
        let stale = ["0: a::f is gone, or has another user: remove it from [public]"];
        assert_eq!(found("", &[], kept), stale);
        assert_eq!(found("pub fn f() {}\n", &[("crates/b/src/lib.rs", &user("x::f()"))], kept), stale);
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
        assert_eq!(public_item("pub mod a;"), Some((Kind::Module, "a")));
        for none in ["pub use a::b;", "pub name: u8,", "pub(crate) fn f() {", "fn f() {"] {
            assert_eq!(public_item(none), None, "{none}");
        }
    }
}
