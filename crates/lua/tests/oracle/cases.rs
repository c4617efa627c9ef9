//! Fixed programs: one file has a program on each line, the other has longer programs that lines of four
//! dashes separate.

/// The programs of both files.
pub(crate) fn all() -> Vec<&'static str> {
    let (lines, blocks) = (include_str!("lines.txt"), include_str!("blocks.txt"));
    lines.lines().filter(|line| !line.is_empty()).chain(blocks.split("\n----\n")).collect()
}
