//! Programs of one line each, and programs of several lines, which lines of dashes separate.

/// The programs of both files.
pub(crate) fn all() -> Vec<&'static str> {
    let (lines, blocks) = (include_str!("lines.txt"), include_str!("blocks.txt"));
    lines.lines().filter(|line| !line.is_empty()).chain(blocks.split("\n----\n")).collect()
}
