//! Counts circles of files, by ratchet. The files of a circle belong to one crate and import each other,
//! directly or through others. None of them can be understood, tested or moved without the others.
//!
//! An *arrow* leads from a file that names an item to the file that defines the item, whatever re-exports lie
//! between. A *circle* is a strongly connected component of these arrows with more than one file. `[circles]`
//! of the ratchet holds, for each crate, the number of files of its largest circle (`crates/NAME::largest`)
//! and of all its circles (`crates/NAME::all`); both numbers may only fall.
//!
//! Only product code counts: code and modules with `#[cfg(test)]` are left out. `circles/names.rs`
//! defines arrows, and lists what the program cannot see.

mod arrow;
mod names;
mod scan;

use std::collections::BTreeSet;

use super::ratchet::{Counts, Section};
use super::source::Source;
use crate::error::Result;

pub(super) use arrow::{Arrow, components};
use names::Crate;

/// Maximum number of files in circles.
pub(super) const CIRCLES: Section = Section {
    name: "circles",
    about: "Files that import each other in a circle: of the largest one, of all.",
    limit: 0,
    unit: "files in circles",
    advice: "`cargo xtask tidy --circles CRATE` prints the arrows",
};

/// One crate's circles, the largest first, and its arrows.
struct Graph {
    circles: Vec<BTreeSet<usize>>,
    arrows: Vec<Arrow>,
}

impl Graph {
    fn of(sources: &[Source], name: &str) -> Graph {
        let arrows = Crate::read(sources, &format!("{}/src/", folder(name))).arrows();
        let circles = components(&arrows);
        Graph { circles, arrows }
    }

    /// The number of files of the largest circle, and of all circles.
    fn sizes(&self) -> [usize; 2] {
        let sizes = || self.circles.iter().map(BTreeSet::len);
        [sizes().max().unwrap_or(0), sizes().sum()]
    }
}

/// Prints the circles of one crate, or of all, and their arrows.
pub(super) fn print(sources: &[Source], only: Option<&str>) -> Result<()> {
    let names = crate_names(sources);
    if let Some(unknown) = only.filter(|only| !names.contains(*only)) {
        return Err(format!("no package {unknown} with Rust files in src").into());
    }
    for name in names.iter().filter(|name| only.is_none_or(|only| only == **name)) {
        let graph = Graph::of(sources, name);
        println!(
            "{name}: circles of {:?} files",
            graph.circles.iter().map(BTreeSet::len).collect::<Vec<_>>()
        );
        for circle in &graph.circles {
            println!("\ncircle of {} files in {name}", circle.len());
            for &file in circle {
                println!("  {}", sources[file].path);
            }
            println!("its arrows");
            let inside = |arrow: &&Arrow| circle.contains(&arrow.from) && circle.contains(&arrow.to);
            for arrow in graph.arrows.iter().filter(inside) {
                let (from, to) = (&sources[arrow.from].path, &sources[arrow.to].path);
                println!("  {from}:{} -> {} -> {to}", arrow.line, arrow.item);
            }
            println!();
        }
    }
    println!("An item with a question mark was not found in its module: a macro must have made the item.");
    Ok(())
}

/// The packages that have Rust files in `src`: those under `crates/` by their folder there, the others by
/// their path.
fn crate_names(sources: &[Source]) -> BTreeSet<&str> {
    let folders = sources.iter().filter_map(|source| source.path.split_once("/src/"));
    folders.map(|(folder, _)| folder.strip_prefix("crates/").unwrap_or(folder)).collect()
}

/// The folder of the package with that name.
fn folder(name: &str) -> String {
    if name == "xtask" || name.contains('/') { name.to_owned() } else { format!("crates/{name}") }
}

/// The sizes of all crates' circles.
pub(super) fn measure(sources: &[Source]) -> Counts {
    let mut counts = Counts::new();
    for name in crate_names(sources) {
        let [largest, all] = Graph::of(sources, name).sizes();
        counts.insert(format!("{}::largest", folder(name)), (largest, 0));
        counts.insert(format!("{}::all", folder(name)), (all, 0));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::{Graph, Source, measure};

    /// The circles of a fictitious crate, as names of files without `.rs`.
    fn circles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let scan = |(name, text): &(&str, &str)| Source::scan(&format!("crates/a/src/{name}.rs"), text);
        let sources: Vec<Source> = files.iter().map(scan).collect();
        let name = |file: &usize| files[*file].0.to_owned();
        Graph::of(&sources, "a").circles.iter().map(|circle| circle.iter().map(name).collect()).collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle_and_a_chain_is_none() {
        let lib = ("lib", "mod a; mod b; mod c; mod d; mod e;");
        let (a, b) = (("a", "use crate::b::B; pub struct A;"), ("b", "use crate::c::C; pub struct B;"));
        let (d, e) = (("d", "use crate::e::E; pub struct D;"), ("e", "fn e(d: crate::d::D) {} struct E;"));
        let open = [lib, a, b, ("c", "pub struct C;"), d, e];
        assert_eq!(circles_of(&open), [["d", "e"]]);
        let closed = [lib, a, b, ("c", "use super::a::A; pub struct C;"), d, e];
        assert_eq!(circles_of(&closed), [vec!["a", "b", "c"], vec!["d", "e"]]);
    }

    #[test]
    fn test_code_closes_no_circle() {
        let b = "pub struct B;\n#[cfg(test)]\nmod tests { use crate::a::A; }\n#[cfg(test)]\nmod more;\n";
        let files = [
            ("lib", "mod a; mod b;"),
            ("a", "use crate::b::B; pub struct A;"),
            ("b", b),
            ("b/more", "use crate::a::A; use super::B;"),
        ];
        assert!(circles_of(&files).is_empty());
    }

    #[test]
    fn the_largest_circle_is_counted_and_all_together() {
        let scan = |(name, text): &(&str, &str)| Source::scan(&format!("crates/a/src/{name}.rs"), text);
        let files = [
            ("lib", "mod a; mod b; mod c; mod d; mod e;"),
            ("a", "use crate::b::B; pub struct A;"),
            ("b", "use crate::c::C; pub struct B;"),
            ("c", "use crate::a::A; pub struct C;"),
            ("d", "use crate::e::E; pub struct D;"),
            ("e", "use crate::d::D; pub struct E;"),
        ];
        let counts = measure(&files.iter().map(scan).collect::<Vec<_>>());
        assert_eq!(counts.get("crates/a::largest"), Some(&(3, 0)));
        assert_eq!(counts.get("crates/a::all"), Some(&(5, 0)));
    }
}
