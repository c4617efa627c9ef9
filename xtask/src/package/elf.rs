//! The programs' requirements on the system: versions of the C library's symbols.

use std::path::Path;

use super::build::PROGRAMS;
use crate::error::Result;

/// Requirements of the programs of a package.
#[derive(Default)]
pub(super) struct Needs {
    /// The least version of glibc, such as `2.34`; empty without a requirement.
    pub(super) glibc: String,
}

/// The requirements of the programs in a folder.
pub(super) fn needs(programs: &Path) -> Result<Needs> {
    let mut newest = (0, 0);
    for name in PROGRAMS {
        newest = newest.max(newest_glibc(&std::fs::read(programs.join(name))?));
    }
    if newest == (0, 0) {
        return Err("the programs name no version of glibc: are they built for another C library?".into());
    }
    Ok(Needs { glibc: format!("{}.{}", newest.0, newest.1) })
}

/// The newest version of glibc that a file names. Versions of symbols are in the file as text,
/// `GLIBC_2.34`; no other text looks like that, and such text in a program's data could only
/// raise the requirement.
fn newest_glibc(bytes: &[u8]) -> (u32, u32) {
    const PREFIX: &[u8] = b"GLIBC_";
    let mut newest = (0, 0);
    for at in positions(bytes, PREFIX) {
        let rest = &bytes[at + PREFIX.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(rest.len());
        let text = String::from_utf8_lossy(&rest[..end]);
        let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
        if let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next()) {
            newest = newest.max((major, minor));
        }
    }
    newest
}

/// The positions at which `wanted` begins in `bytes`.
fn positions<'a>(bytes: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let first = wanted[0];
    let starts = bytes.iter().enumerate().filter(move |(_, byte)| **byte == first).map(|(at, _)| at);
    starts.filter(move |at| bytes[*at..].starts_with(wanted))
}

#[cfg(test)]
mod tests {
    use super::newest_glibc;

    #[test]
    fn the_newest_version_counts_as_numbers_do() {
        assert_eq!(newest_glibc(b"..GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.2.5\0GLIBC_PRIVATE\0"), (2, 34));
        assert_eq!(newest_glibc(b"nothing"), (0, 0));
    }
}
