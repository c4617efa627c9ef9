//! The declarations and names in a file: modules, items, imports, paths.
//!
//! The scan works on tokens, not on a syntax tree: words, `::` and single characters, without lifetimes. This
//! is enough, because the relevant declarations begin with a keyword at the nesting level of their module.

use crate::tidy::source::{Source, Token};

/// A path as written, and the line of its first segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The segments of the path, including `crate`, `self` and `super`.
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// The names that an import brings into scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// One name, possibly renamed by `as`.
    Name(String),
    /// No name: `as _`.
    Nothing,
    /// `*`: every name of the module.
    All,
}

/// One leaf of a `use` declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) named: Named,
    pub(super) bound: Bound,
    /// Whether the declaration is a re-export: `pub`, or `pub(..)`.
    pub(super) exported: bool,
}

/// The declarations and names of one module, without those of inner modules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Body {
    /// Structs, enums, unions, traits, aliases, functions, constants, statics, macros.
    pub(super) items: Vec<String>,
    /// Names of modules in other files: `mod name;`.
    pub(super) declared: Vec<String>,
    /// Modules with a body: `mod name { .. }`.
    pub(super) inner: Vec<(String, Body)>,
    pub(super) imports: Vec<Import>,
    /// Paths of two segments or more outside of imports.
    pub(super) paths: Vec<Named>,
    /// First words of paths, and words that are no path, outside of imports, each occurrence with its line. A
    /// word after a dot is a field or a method, and is left out.
    pub(super) words: Vec<(String, usize)>,
}

impl Body {
    /// Reads a file's product code.
    pub(super) fn read(source: &Source) -> Body {
        let mut body = Body::default();
        let tokens = source.tokens();
        Scan { tokens: &tokens, at: 0 }.fill(&mut body);
        body
    }
}

struct Scan<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Scan<'_> {
    /// The text of the token that is `ahead` tokens after the current one; empty at the end.
    fn text(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text.as_str())
    }

    /// The text of the token that is `back` tokens before the current one.
    fn before(&self, back: usize) -> &str {
        self.at.checked_sub(back).map_or("", |at| self.tokens[at].text.as_str())
    }

    /// Reads the tokens of one module, including its closing brace.
    fn fill(&mut self, body: &mut Body) {
        let (mut braces, mut others) = (0_usize, 0_usize);
        while self.at < self.tokens.len() {
            match self.text(0) {
                "{" => braces += 1,
                "}" if braces == 0 => break,
                "}" => braces -= 1,
                "(" | "[" => others += 1,
                ")" | "]" => others = others.saturating_sub(1),
                "pub" if self.text(1) == "(" && ["crate", "self", "super", "in"].contains(&self.text(2)) => {
                    while self.text(0) != ")" && self.at < self.tokens.len() {
                        self.at += 1;
                    }
                }
                "use" if is_name(self.text(1)) || ["{", "::"].contains(&self.text(1)) => self.import(body),
                word if is_name(word) => {
                    if braces == 0 && others == 0 && self.item(body) {
                        continue;
                    }
                    self.name(body);
                }
                _ => {}
            }
            self.at += 1;
        }
        self.at += 1;
    }

    /// Reads the keyword and the name of an item that begins here; for a module with a body, also the body.
    /// Returns whether an item begins here.
    fn item(&mut self, body: &mut Body) -> bool {
        let skipped = match (self.text(0), self.text(1)) {
            ("mod", name) if is_name(name) => {
                let name = name.to_owned();
                let has_body = self.text(2) == "{";
                self.at += 3;
                if has_body {
                    let mut inner = Body::default();
                    self.fill(&mut inner);
                    body.inner.push((name, inner));
                } else {
                    body.declared.push(name);
                }
                return true;
            }
            ("static", "mut") | ("macro_rules", "!") => 2,
            ("const", "fn" | "unsafe" | "extern" | "async" | "_") => return false,
            ("union", _) if !["{", "<"].contains(&self.text(2)) => return false,
            ("struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static", _) => 1,
            _ => return false,
        };
        if !is_name(self.text(skipped)) {
            return false;
        }
        body.items.push(self.text(skipped).to_owned());
        self.at += skipped + 1;
        true
    }

    /// Records the path or word that begins here, and stops at its last token.
    fn name(&mut self, body: &mut Body) {
        let continues = self.before(1) == "::";
        let is_variable = self.before(1) == "$" && self.text(0) != "crate";
        let is_member = self.before(1) == "." && self.before(2) != ".";
        let line = self.tokens[self.at].line;
        let mut path = vec![self.text(0).to_owned()];
        while self.text(1) == "::" && is_name(self.text(2)) {
            path.push(self.text(2).to_owned());
            self.at += 2;
        }
        if continues || is_variable || is_member {
            return;
        }
        body.words.push((path[0].clone(), line));
        if path.len() > 1 {
            body.paths.push(Named { path, line });
        }
    }

    /// Reads a `use` declaration up to its semicolon.
    fn import(&mut self, body: &mut Body) {
        // Of the tokens before a declaration, only `pub(crate)` and the like end with a parenthesis.
        let exported = ["pub", ")"].contains(&self.before(1));
        self.at += 1;
        self.tree(&[], exported, body);
        while !["", ";"].contains(&self.text(0)) {
            self.at += 1;
        }
    }

    /// Reads one tree of a `use` declaration, whose path begins with `prefix`.
    fn tree(&mut self, prefix: &[String], exported: bool, body: &mut Body) {
        let mut path = prefix.to_vec();
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        let mut add = |path: Vec<String>, bound| {
            body.imports.push(Import { named: Named { path, line }, bound, exported });
        };
        loop {
            match self.text(0) {
                "{" => {
                    self.at += 1;
                    while !["", "}"].contains(&self.text(0)) {
                        self.tree(&path, exported, body);
                        if self.text(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    return add(path, Bound::All);
                }
                "::" => self.at += 1,
                word if is_name(word) => {
                    // `self` in braces adds no segment, because it names the module before the braces.
                    if word != "self" || path.is_empty() {
                        path.push(word.to_owned());
                    }
                    self.at += 1;
                    if self.text(0) == "::" {
                        continue;
                    }
                    let bound = match (self.text(0), self.text(1)) {
                        ("as", "_") => Bound::Nothing,
                        ("as", name) => Bound::Name(name.to_owned()),
                        _ => Bound::Name(path.last().cloned().unwrap_or_default()),
                    };
                    self.at += if self.text(0) == "as" { 2 } else { 0 };
                    return add(path, bound);
                }
                // This is no tree of imports, but for example `use $name` in a macro's body.
                _ => {
                    self.at += 1;
                    return;
                }
            }
        }
    }
}

/// Whether a token is a word that is no number.
fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_alphabetic() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::{Body, Bound, Source};

    fn body(text: &str) -> Body {
        Body::read(&Source::scan("crates/a/src/a.rs", text))
    }

    /// The imports as `path`, `path as name`, with a plus where they are exported.
    fn imports(text: &str) -> Vec<String> {
        let imports = body(text).imports;
        let shown = imports.iter().map(|import| {
            let path = import.named.path.join("::");
            let bound = match &import.bound {
                Bound::Name(name) if import.named.path.last() == Some(name) => String::new(),
                Bound::Name(name) => format!(" as {name}"),
                Bound::Nothing => " as _".to_owned(),
                Bound::All => "::*".to_owned(),
            };
            format!("{}{path}{bound}", if import.exported { "+" } else { "" })
        });
        shown.collect()
    }

    #[test]
    fn a_use_declaration_is_taken_apart_into_its_leaves() {
        assert_eq!(
            imports("use a::{self, b::{C, D as E, f::*}, G as _};"),
            ["a", "a::b::C", "a::b::D as E", "a::b::f::*", "a::G as _"]
        );
        assert_eq!(
            imports("pub use a::B;\npub(in crate::x) use c::D;\nuse {e, ::f};"),
            ["+a::B", "+c::D", "e", "f"]
        );
        assert_eq!(imports("fn f() { use self::A; } fn g() -> impl Iterator + use<'_, T> {}"), ["self::A"]);
    }

    #[test]
    fn items_are_those_of_the_module_itself() {
        let text = "pub struct A<'a>(pub(crate) &'a u8); const fn b() { fn inner() {} } const C: fn(u8) = d;
            unsafe impl X for A { type T = u8; const D: u8 = 0; } static mut E: u8 = 0; macro_rules! f { () => {} }
            mod g; pub(crate) mod h { pub enum I { J } } type K = u8; pub trait L { fn m(); }";
        let body = body(text);
        assert_eq!(body.items, ["A", "b", "C", "E", "f", "K", "L"]);
        assert_eq!(body.declared, ["g"]);
        assert_eq!((body.inner[0].0.as_str(), &body.inner[0].1.items), ("h", &vec!["I".to_owned()]));
    }

    #[test]
    fn paths_are_found_in_types_expressions_and_macros_arguments() {
        let text = "pub(in crate::no) fn f(a: &mut crate::b::C<super::D>) -> x::Y {\n let s = self.a.b;\n
            print!(\"crate::no\", $crate::e!(), E::F); Vec::<self::G>::new() }";
        let paths: Vec<String> = body(text).paths.iter().map(|named| named.path.join("::")).collect();
        assert_eq!(paths, ["crate::b::C", "super::D", "x::Y", "crate::e", "E::F", "self::G"]);
    }
}
