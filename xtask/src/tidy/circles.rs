//! Circles of files, by ratchet: files of a crate that import each other, directly or through others. None of
//! them can be understood, tested or moved without the rest.
//!
//! An *arrow* leads from a file that names an item to the file that defines the item, whatever re-exports lie
//! between. A *circle* is a strongly connected component of these arrows with more than one file. `[circles]`
//! of the ratchet holds, for each crate, the files of its largest circle and the files of all its circles:
//! both may only fall.
//!
//! Only product code counts: what `#[cfg(test)]` marks, and the files of modules that it marks, are left out.
//! What is an arrow, and what the program cannot see, is said in `circles/names.rs`.

mod arrow;
mod names;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::finding::{Finding, RATCHET};
use super::source::Source;
use crate::error::Result;
use crate::table::read_table;

pub(super) use arrow::{Arrow, components};
use names::Crate;

/// What the ratchet says of one crate, in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    /// Of the largest circle; 0 without one.
    largest: usize,
    /// Of all circles together.
    files: usize,
}

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

    fn size(&self) -> Size {
        let sizes = || self.circles.iter().map(BTreeSet::len);
        Size { largest: sizes().max().unwrap_or(0), files: sizes().sum() }
    }
}

/// Checks every crate against the ratchet.
pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    Ok(compare(&read(root)?, &measure(sources)))
}

/// The section `[circles]` of the ratchet with the sizes of today: entries shrink or go, none is added and
/// none grows.
pub(super) fn tightened(root: &Path, sources: &[Source]) -> Result<String> {
    let now = measure(sources);
    let mut text = String::from(
        "\n# Files that import each other in a circle: of the largest one, of all.\n[circles]\n",
    );
    for (name, held) in read(root)? {
        let size = now.get(&name).copied().unwrap_or_default();
        let size = Size { largest: size.largest.min(held.largest), files: size.files.min(held.files) };
        if size.files > 0 {
            writeln!(text, "{name:?} = {{ largest = {}, files = {} }}", size.largest, size.files)?;
        }
    }
    Ok(text)
}

/// Prints the circles of one crate, or of all, and the arrows of which they consist.
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

/// The folder of a package of that name.
fn folder(name: &str) -> String {
    if name == "xtask" || name.contains('/') { name.to_owned() } else { format!("crates/{name}") }
}

/// The crates that have circles.
fn measure(sources: &[Source]) -> BTreeMap<String, Size> {
    let names = crate_names(sources).into_iter();
    let sizes = names.map(|name| (name.to_owned(), Graph::of(sources, name).size()));
    sizes.filter(|(_, size)| size.files > 0).collect()
}

/// Reads the ratchet.
fn read(root: &Path) -> Result<BTreeMap<String, Size>> {
    let table = read_table(&root.join(RATCHET))?;
    let Some(section) = table.get("circles").and_then(toml::Value::as_table) else {
        return Ok(BTreeMap::new());
    };
    let number = |entry: &toml::Value, key| -> usize {
        let number = entry.get(key).and_then(toml::Value::as_integer);
        number.and_then(|number| usize::try_from(number).ok()).unwrap_or(0)
    };
    let size = |entry| Size { largest: number(entry, "largest"), files: number(entry, "files") };
    Ok(section.iter().map(|(name, entry)| (name.clone(), size(entry))).collect())
}

/// What has more files in circles than recorded, and what the ratchet allows beyond need.
fn compare(held: &BTreeMap<String, Size>, now: &BTreeMap<String, Size>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let names: BTreeSet<&String> = held.keys().chain(now.keys()).collect();
    for name in names {
        let of = |sizes: &BTreeMap<String, Size>| sizes.get(name).copied().unwrap_or_default();
        let (held, now) = (of(held), of(now));
        if now.largest > held.largest || now.files > held.files {
            let what = format!(
                "its largest circle of files has {} files and all circles {}, {} and {} are allowed: \
                 `cargo xtask tidy --circles {name}` prints the arrows",
                now.largest, now.files, held.largest, held.files
            );
            findings.push(Finding::new(&folder(name), 0, what));
        } else if now != held {
            let what = format!(
                "{name} has fewer files in circles than recorded: run `cargo xtask tidy --tighten` and commit"
            );
            findings.push(Finding::new(RATCHET, 0, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Graph, Size, Source, compare};

    /// The circles of an invented crate, as names of files without `.rs`.
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
    fn the_ratchet_allows_what_it_records_and_no_more() {
        let sizes = |largest, files| BTreeMap::from([("a".to_owned(), Size { largest, files })]);
        assert_eq!(compare(&sizes(3, 5), &sizes(3, 5)).len(), 0);
        assert_eq!(compare(&BTreeMap::new(), &BTreeMap::new()).len(), 0);
        let grown = compare(&sizes(3, 5), &sizes(3, 6));
        assert_eq!((grown.len(), grown[0].path.as_str()), (1, "crates/a"));
        assert_eq!(compare(&sizes(3, 6), &sizes(4, 6)).len(), 1);
        assert_eq!(compare(&BTreeMap::new(), &sizes(2, 2)).len(), 1);
        assert_eq!(compare(&sizes(3, 5), &sizes(3, 3))[0].path, super::RATCHET);
        assert_eq!(compare(&sizes(2, 2), &BTreeMap::new()).len(), 1);
    }
}
