//! Arrows between files, and the circles that they close.

use std::collections::{BTreeMap, BTreeSet};

/// A use of an item in a file other than the item's own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tidy) struct Arrow {
    /// Index of the file that names the item.
    pub(in crate::tidy) from: usize,
    /// Index of the file that defines the item.
    pub(in crate::tidy) to: usize,
    /// The item's name, with a question mark if no definition was found in the module, so that a macro must
    /// define it.
    pub(in crate::tidy) item: String,
    /// Line of the first mention in `from`, from 1.
    pub(in crate::tidy) line: usize,
}

/// The strongly connected components with more than one file, the largest first.
pub(in crate::tidy) fn components(arrows: &[Arrow]) -> Vec<BTreeSet<usize>> {
    let mut after: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for arrow in arrows {
        after.entry(arrow.from).or_default().insert(arrow.to);
    }
    let reached: BTreeMap<usize, BTreeSet<usize>> =
        after.keys().map(|&file| (file, reachable(&after, file))).collect();
    let meets = |a: usize, b: usize| reached.get(&a).is_some_and(|files| files.contains(&b));
    let mut left: BTreeSet<usize> = after.keys().copied().filter(|&file| meets(file, file)).collect();
    let mut circles = Vec::new();
    while let Some(&first) = left.first() {
        let circle: BTreeSet<usize> =
            left.iter().copied().filter(|&file| meets(first, file) && meets(file, first)).collect();
        left.retain(|file| !circle.contains(file));
        circles.push(circle);
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// The files that can be reached from `first` by one or more arrows.
fn reachable(after: &BTreeMap<usize, BTreeSet<usize>>, first: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open = vec![first];
    while let Some(file) = open.pop() {
        let next = after.get(&file).into_iter().flatten();
        open.extend(next.copied().filter(|&file| found.insert(file)));
    }
    found
}
