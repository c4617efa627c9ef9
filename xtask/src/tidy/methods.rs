//! Methods: the number of methods of one type, and the files of one type that call each other
//! in a circle.
//!
//! A type with methods in many files leaves no trace in the imports, because each file calls `self.name()`.
//! So the methods of a type are counted over all files of its crate (`[methods]` of the ratchet). The calls
//! `self.name()` and `Self::name()` from one file's methods to another file's are arrows, and the files of
//! their largest circle are counted (`[calls]`). Only inherent methods of the product's code count. The
//! methods of traits are left out, because the trait determines their number, and so are tests.

use std::collections::{BTreeMap, BTreeSet};

use super::circles::{Arrow, components};
use super::names::is_product;
use super::ratchet::{Counts, Section};
use super::source::{Source, Token};
use crate::error::Result;

/// Maximum number of methods of a type.
pub(super) const METHODS: Section = Section {
    name: "methods",
    about: "Types with more methods than the limit: crate::Type = methods.",
    limit: 60,
    unit: "methods",
    advice: "give what has state of its own a type of its own",
};

/// Maximum number of files of one type that call each other in a circle.
pub(super) const CALLS: Section = Section {
    name: "calls",
    about: "Files of one type whose methods call each other in a circle through `self`: crate::Type = files of the largest.",
    limit: 4,
    unit: "files in the largest circle of calls through `self`",
    advice: "let calls lead one way; `cargo xtask tidy --calls TYPE` prints them",
};

/// The methods of one type of one crate.
#[derive(Default)]
struct Methods {
    /// Names of methods, each with the files that define a method of that name.
    defined: BTreeMap<String, BTreeSet<usize>>,
    /// Number of inherent methods of the type.
    count: usize,
    /// Names called through `self`, with the file and line of the call.
    called: Vec<(String, usize, usize)>,
}

/// Methods of every type, by `crates/NAME::Type`.
type Types = BTreeMap<String, Methods>;

/// Counts of methods of all types, and sizes of the largest circle of each.
pub(super) fn measure(sources: &[Source]) -> (Counts, Counts) {
    let types = read(sources);
    let methods = types.iter().map(|(name, methods)| (name.clone(), (methods.count, 0))).collect();
    let calls = types.iter().map(|(name, methods)| {
        let largest = components(&methods.arrows()).first().map_or(0, BTreeSet::len);
        (name.clone(), (largest, 0))
    });
    (methods, calls.collect())
}

/// Prints the circles of calls of the types with this name, or of all, with every arrow inside of them.
pub(super) fn print(sources: &[Source], only: Option<&str>) -> Result<()> {
    for (name, methods) in read(sources) {
        if only.is_some_and(|only| name.rsplit("::").next() != Some(only)) {
            continue;
        }
        let arrows = methods.arrows();
        for circle in components(&arrows) {
            println!("\n{name}, {} methods: circle of {} files", methods.count, circle.len());
            for arrow in arrows.iter().filter(|a| circle.contains(&a.from) && circle.contains(&a.to)) {
                let (from, to) = (&sources[arrow.from].path, &sources[arrow.to].path);
                println!("  {from}:{} -> {} -> {to}", arrow.line, arrow.item);
            }
        }
    }
    Ok(())
}

impl Methods {
    /// The calls that lead from one file to another, once for each name.
    fn arrows(&self) -> Vec<Arrow> {
        let mut arrows = BTreeMap::new();
        for (item, from, line) in &self.called {
            let Some(files) = self.defined.get(item) else { continue };
            for &to in files.iter().filter(|_| !files.contains(from)) {
                arrows.entry((*from, to, item.clone())).or_insert(*line);
            }
        }
        arrows.into_iter().map(|((from, to, item), line)| Arrow { from, to, item, line }).collect()
    }
}

fn read(sources: &[Source]) -> Types {
    let mut types = Types::new();
    for (file, source) in sources.iter().enumerate().filter(|(_, source)| is_product(&source.path)) {
        let Some(folder) = source.path.split("/src/").next() else { continue };
        let tokens = source.tokens();
        let mut at = 0;
        while at < tokens.len() {
            let Some((name, opens)) = inherent_impl(&tokens, at) else {
                at += 1;
                continue;
            };
            let methods = types.entry(format!("{folder}::{name}")).or_default();
            at = methods.take(&tokens, opens + 1, file);
        }
    }
    types
}

impl Methods {
    /// Reads the methods from `at` to the brace that closes the implementation; returns the brace's index.
    fn take(&mut self, tokens: &[Token], mut at: usize, file: usize) -> usize {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
        let mut depth = 0_usize;
        while at < tokens.len() {
            match text(at) {
                "{" => depth += 1,
                "}" if depth == 0 => return at,
                "}" => depth -= 1,
                "fn" if depth == 0 => {
                    self.count += 1;
                    self.defined.entry(text(at + 1).to_owned()).or_default().insert(file);
                }
                "self" if text(at + 1) == "." && text(at + 3) == "(" => {
                    self.called.push((text(at + 2).to_owned(), file, tokens[at].line));
                }
                "Self" if text(at + 1) == "::" && text(at + 3) == "(" => {
                    self.called.push((text(at + 2).to_owned(), file, tokens[at].line));
                }
                _ => {}
            }
            at += 1;
        }
        at
    }
}

/// The type of the inherent implementation that begins at `at`, and the index of its opening brace.
fn inherent_impl(tokens: &[Token], at: usize) -> Option<(String, usize)> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let begins_item = at == 0 || ["}", ";", "{", "]", "unsafe"].contains(&text(at - 1));
    if text(at) != "impl" || !begins_item {
        return None;
    }
    let (mut angles, mut name) = (0_usize, None);
    for at in at + 1..tokens.len() {
        match text(at) {
            "<" => angles += 1,
            // The `>` of an arrow `->`, in a bound on a function, closes no bracket.
            ">" if text(at - 1) != "-" => angles = angles.saturating_sub(1),
            "{" if angles == 0 => return name.map(|name| (name, at)),
            "for" | ";" if angles == 0 => return None,
            "where" if angles == 0 => {
                let opens = (at..tokens.len()).find(|&at| text(at) == "{")?;
                return name.map(|name| (name, opens));
            }
            word if angles == 0 && word.starts_with(char::is_alphabetic) => name = Some(word.to_owned()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{measure, read};
    use crate::tidy::source::Source;

    fn sources(files: &[(&str, &str)]) -> Vec<Source> {
        files.iter().map(|(name, text)| Source::scan(&format!("crates/a/src/{name}.rs"), text)).collect()
    }

    #[test]
    fn methods_of_a_type_are_counted_over_its_files() {
        let x = "impl<'a, F: Fn(u8) -> u8> Big<'a, F> { fn a(&self) { fn inner() {} } pub fn b() {} }\n\
                 impl Drop for Big { fn drop(&mut self) {} }\n#[cfg(test)]\nmod tests { impl Big { fn t() {} } }\n";
        let y = "fn f() -> impl Iterator { 1 }\nimpl crate::x::Big where u8: Copy { const fn c() {} }\nimpl Small { fn d() {} }";
        let counts = measure(&sources(&[("x", x), ("y", y)])).0;
        assert_eq!(
            counts.into_iter().map(|(name, (count, _))| (name, count)).collect::<Vec<_>>(),
            [("crates/a::Big".to_owned(), 3), ("crates/a::Small".to_owned(), 1)]
        );
    }

    #[test]
    fn calls_through_self_close_a_circle_and_a_chain_closes_none() {
        let chain = [
            ("x", "impl Big { fn a(&self) { self.b(); self.a2(); self.other.c(); } fn a2(&self) {} }"),
            ("y", "impl Big { fn b(&self) { self.field.a(); Self::c(); } }"),
            ("z", "impl Big { fn c() {} }"),
        ];
        let largest = |files: &[(&str, &str)]| measure(&sources(files)).1["crates/a::Big"].0;
        assert_eq!(largest(&chain), 0);
        assert_eq!(read(&sources(&chain))["crates/a::Big"].arrows().len(), 2);
        let mut closed = chain;
        closed[2].1 = "impl Big { fn c() { let this = 1; self\n.a(); } }";
        assert_eq!(largest(&closed), 3);
    }
}
