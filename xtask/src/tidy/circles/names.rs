//! Which file defines what a file names.
//!
//! An arrow is
//!
//! - an import, anywhere in the file, of an item that another file defines. Re-exports, globs and renames
//!   between are followed to the definition, through private imports of an outer module too. A glob counts
//!   for the names that the file mentions;
//! - a path in code or in a macro's arguments: `crate::a::B`, `super::B`, `child::B`, `imported_module::B`.
//!
//! No arrow is `mod child;`; nor an import of a module, but the paths that begin with the module are; nor a
//! re-export whose name the file does not mention otherwise, since the file does not depend on what it hands
//! on.
//!
//! What the program cannot see: methods and fields of a value whose type the file does not name; what a
//! macro's body names without `$crate`; which items a macro makes, so that they are taken for items of the
//! module's own file; `#[path]`. Imports inside of a function are taken for those of its module.

use std::collections::{BTreeMap, BTreeSet};

use super::arrow::Arrow;
use super::scan::{Body, Bound, Named};
use crate::tidy::source::Source;

/// One module of a crate.
struct Module {
    /// Index of the file.
    file: usize,
    parent: Option<usize>,
    /// The module that `crate` names here.
    root: usize,
    children: BTreeMap<String, usize>,
    body: Body,
}

/// The module trees of a crate: that of its library, and of each program.
pub(super) struct Crate {
    modules: Vec<Module>,
}

/// What a path leads to: a function and a module may have the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Module(usize),
    Item { file: usize, name: String },
}

/// Imports that are being followed: a module, and the index of its import.
type Followed = Vec<(usize, usize)>;

impl Crate {
    /// Reads the files under `folder`, which ends with a slash, that the crate's roots declare.
    pub(super) fn read(sources: &[Source], folder: &str) -> Crate {
        let mut found = Crate { modules: Vec::new() };
        let files: BTreeMap<&str, usize> =
            sources.iter().enumerate().map(|(i, s)| (s.path.as_str(), i)).collect();
        for (path, &file) in files.range(folder..).take_while(|(path, _)| path.starts_with(folder)) {
            let name = &path[folder.len()..];
            let is_program = name.strip_prefix("bin/").is_some_and(|program| !program.contains('/'));
            if name == "lib.rs" || name == "main.rs" || is_program {
                let children = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let tree = Tree { sources, files: &files };
                found.add(&tree, Body::read(&sources[file]), file, None, children);
            }
        }
        found
    }

    /// Adds a module and those below it, whose files are under `folder`; its index.
    fn add(
        &mut self,
        tree: &Tree<'_>,
        mut body: Body,
        file: usize,
        parent: Option<usize>,
        folder: &str,
    ) -> usize {
        let index = self.modules.len();
        let root = parent.map_or(index, |parent| self.modules[parent].root);
        let (declared, inner) = (std::mem::take(&mut body.declared), std::mem::take(&mut body.inner));
        self.modules.push(Module { file, parent, root, children: BTreeMap::new(), body });
        for (name, body) in inner {
            let child = self.add(tree, body, file, Some(index), &format!("{folder}/{name}"));
            self.modules[index].children.insert(name, child);
        }
        for name in declared {
            let paths = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
            // A file that is not there is made by the build, or is another system's.
            let Some(&file) = paths.iter().find_map(|path| tree.files.get(path.as_str())) else { continue };
            let body = Body::read(&tree.sources[file]);
            let child = self.add(tree, body, file, Some(index), &format!("{folder}/{name}"));
            self.modules[index].children.insert(name, child);
        }
        index
    }

    /// Every arrow between two files, once for each item, ordered by files.
    pub(super) fn arrows(&self) -> Vec<Arrow> {
        let mut found: BTreeMap<(usize, usize, String), usize> = BTreeMap::new();
        for (index, module) in self.modules.iter().enumerate() {
            let mut add = |targets: Vec<Found>, line: usize| {
                for target in targets {
                    let Found::Item { file, name } = target else { continue };
                    if file != module.file {
                        let first = found.entry((module.file, file, name)).or_insert(line);
                        *first = line.min(*first);
                    }
                }
            };
            for Named { path, line } in &module.body.paths {
                add(self.resolve(index, path, &mut Vec::new()), *line);
            }
            let words: BTreeSet<&str> = module.body.words.iter().map(|(word, _)| word.as_str()).collect();
            for import in &module.body.imports {
                let is_mentioned =
                    matches!(&import.bound, Bound::Name(name) if words.contains(name.as_str()));
                if !import.exported || is_mentioned {
                    add(self.resolve(index, &import.named.path, &mut Vec::new()), import.named.line);
                }
            }
            for (word, line) in &module.body.words {
                if self.own(index, word, &mut Vec::new()).is_none() {
                    add(self.lookup(index, word, &mut Vec::new()).unwrap_or_default(), *line);
                }
            }
        }
        found.into_iter().map(|((from, to, item), line)| Arrow { from, to, item, line }).collect()
    }

    /// What `path` leads to from `module`; nothing where it leads out of the crate.
    fn resolve(&self, module: usize, path: &[String], followed: &mut Followed) -> Vec<Found> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        let mut found = match first.as_str() {
            "crate" => vec![Found::Module(self.modules[module].root)],
            "self" => vec![Found::Module(module)],
            "super" => self.parent(module),
            name => self.lookup(module, name, followed).unwrap_or_default(),
        };
        for name in rest {
            let Some(inside) = found.iter().find_map(Found::module) else { return found };
            found = match name.as_str() {
                "super" => self.parent(inside),
                name => self.lookup(inside, name, followed).unwrap_or_else(|| {
                    vec![Found::Item { file: self.modules[inside].file, name: format!("{name}?") }]
                }),
            };
        }
        found
    }

    fn parent(&self, module: usize) -> Vec<Found> {
        self.modules[module].parent.map(Found::Module).into_iter().collect()
    }

    /// What `name` means in `module`: `None` when nothing of that name is there, nothing when it is not of
    /// this crate.
    fn lookup(&self, module: usize, name: &str, followed: &mut Followed) -> Option<Vec<Found>> {
        if let Some(own) = self.own(module, name, followed) {
            return Some(own);
        }
        for (at, import) in self.modules[module].body.imports.iter().enumerate() {
            if import.bound != Bound::All || followed.contains(&(module, at)) {
                continue;
            }
            followed.push((module, at));
            let inside = self.resolve(module, &import.named.path, followed).iter().find_map(Found::module);
            let found = inside.and_then(|inside| self.lookup(inside, name, followed));
            followed.pop();
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// As `lookup`, globs left out: items, modules and imports by name.
    fn own(&self, module: usize, name: &str, followed: &mut Followed) -> Option<Vec<Found>> {
        let Module { file, children, body, .. } = &self.modules[module];
        let item = body.items.iter().any(|item| item == name);
        let item = item.then(|| Found::Item { file: *file, name: name.to_owned() });
        let child = children.get(name).copied().map(Found::Module);
        let mut found: Vec<Found> = item.into_iter().chain(child).collect();
        let mut is_bound = !found.is_empty();
        for (at, import) in body.imports.iter().enumerate() {
            let binds = matches!(&import.bound, Bound::Name(bound) if bound == name);
            if !binds || followed.contains(&(module, at)) {
                continue;
            }
            is_bound = true;
            followed.push((module, at));
            found.extend(self.resolve(module, &import.named.path, followed));
            followed.pop();
        }
        is_bound.then_some(found)
    }
}

impl Found {
    fn module(&self) -> Option<usize> {
        match self {
            Found::Module(module) => Some(*module),
            Found::Item { .. } => None,
        }
    }
}

/// Where `Crate::add` finds the files of declared modules.
struct Tree<'a> {
    sources: &'a [Source],
    /// Indexes by path.
    files: &'a BTreeMap<&'a str, usize>,
}

#[cfg(test)]
mod tests {
    use super::{Crate, Source};

    /// The arrows of an invented crate: `from:line item to`, files without `.rs`.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let scan = |(name, text): &(&str, &str)| Source::scan(&format!("crates/a/src/{name}.rs"), text);
        let sources: Vec<Source> = files.iter().map(scan).collect();
        let arrows = Crate::read(&sources, "crates/a/src/").arrows();
        let shown = arrows.iter().map(|arrow| {
            format!("{}:{} {} {}", files[arrow.from].0, arrow.line, arrow.item, files[arrow.to].0)
        });
        shown.collect()
    }

    #[test]
    fn a_re_export_is_followed_to_the_file_that_defines() {
        let lib = "mod x; pub use x::Deep; pub(crate) use x::y::f as g;";
        let files = [
            ("lib", lib),
            ("x", "mod y; pub use self::y::Deep; mod z;"),
            ("x/y", "pub struct Deep; pub fn f() {}"),
            ("x/z", "use crate::{Deep,\n g};"),
        ];
        assert_eq!(arrows(&files), ["x/z:1 Deep x/y", "x/z:2 f x/y"]);
    }

    #[test]
    fn a_re_export_is_an_arrow_of_its_file_where_the_file_mentions_the_name() {
        let y = ("y", "pub struct A; pub struct B; pub struct C;");
        let files = [("lib", "mod y;\npub use y::{A, B};\nuse y::C;\nfn f(b: B) {}"), y];
        assert_eq!(arrows(&files), ["lib:2 B y", "lib:3 C y"]);
    }

    #[test]
    fn parent_and_child_that_name_each_others_items_are_two_arrows() {
        let files = [
            ("lib", "mod x;"),
            ("x", "mod y; pub struct Outer(y::Inner);"),
            ("x/y", "use super::Outer;\npub struct Inner;"),
        ];
        assert_eq!(arrows(&files), ["x:1 Inner x/y", "x/y:1 Outer x"]);
        assert!(arrows(&[("lib", "mod x;"), ("x", "pub struct A;")]).is_empty());
    }

    #[test]
    fn an_import_of_the_outer_module_is_visible_and_followed() {
        let files = [
            ("lib", "mod x; mod z;"),
            ("x", "mod y; use crate::z::Z as Zed;"),
            ("x/y", "fn f(z: super::Zed) {}"),
            ("z", "pub struct Z;"),
        ];
        assert_eq!(arrows(&files), ["x:1 Z z", "x/y:1 Z z"]);
    }

    #[test]
    fn a_glob_counts_for_the_names_that_are_mentioned() {
        let files = [
            ("lib", "mod x; mod y; mod z;"),
            ("x", "use super::y::*;\nuse std::fmt::*;\nstruct Own;\nfn f(a: Far, o: Own) {}\n"),
            ("y", "pub use crate::z::*; pub struct Near; pub struct Own;"),
            ("z", "pub struct Far;"),
        ];
        assert_eq!(arrows(&files), ["x:4 Far z"]);
    }

    #[test]
    fn a_module_is_no_arrow_but_what_is_named_through_it_is() {
        let files = [
            ("lib", "mod x; mod y; mod z;"),
            (
                "x",
                "use crate::y;\nuse crate::{z as zed};\nfn f() {\n y::Kind::A;\n zed::g(y::made_by_a_macro()); }",
            ),
            ("y", "pub enum Kind { A } shape! { fn made_by_a_macro() {} }"),
            ("z", "pub fn g() {}"),
        ];
        assert_eq!(arrows(&files), ["x:4 Kind y", "x:5 made_by_a_macro? y", "x:5 g z"]);
    }

    #[test]
    fn a_function_and_a_module_may_have_one_name() {
        let files = [
            ("lib", "mod x; mod y;"),
            ("x", "use crate::y::set;\nfn f() { set(1); set::more(); }"),
            ("y", "mod set; pub(crate) use set::set;"),
            ("y/set", "pub fn set(n: u8) {} pub fn more() {}"),
        ];
        assert_eq!(arrows(&files), ["x:2 more y/set", "x:1 set y/set"]);
    }

    #[test]
    fn what_is_not_of_the_crate_is_no_arrow() {
        let files = [
            ("lib", "mod io; mod x;"),
            (
                "x",
                "use std::io; use sluice_base::io::Z; fn f<T: Default>() { io::A; T::default(); Self::B; Vec::<u8>::new() }",
            ),
            ("io", "pub struct A;"),
        ];
        assert!(arrows(&files).is_empty());
    }

    #[test]
    fn inner_modules_belong_to_their_file() {
        let files = [
            ("lib", "mod x; mod y;"),
            ("x", "pub struct X; mod inner { use super::X;\nuse crate::y::Y;\npub struct I; }"),
            ("y", "pub struct Y; fn f(i: crate::x::inner::I) {}"),
        ];
        assert_eq!(arrows(&files), ["x:2 Y y", "y:1 I x"]);
    }

    #[test]
    fn programs_beside_the_library_have_roots_of_their_own() {
        let files = [
            ("lib", "pub struct A;"),
            ("bin/p", "mod q; use crate::q::B; fn main() {}"),
            ("bin/q", "pub struct B;"),
            ("main", "fn f() { crate::A; }"),
        ];
        assert_eq!(arrows(&files), ["bin/p:1 B bin/q"]);
    }
}
