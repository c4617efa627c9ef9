//! Archives whose bytes depend only on their contents: tar, gzip, and the `ar` around a deb.

use std::io::Write;

use crate::error::Result;

/// A member of a tar archive.
pub(crate) struct Member<'a> {
    /// The path within the archive, at most 99 bytes; the path of a folder ends with a slash.
    pub(crate) path: String,
    /// The permission bits, such as 0o644.
    pub(crate) mode: u32,
    /// The type of the member, with its content.
    pub(crate) data: Data<'a>,
}

/// The content of a member of a tar archive.
pub(crate) enum Data<'a> {
    /// A folder, which has no content.
    Folder,
    /// A regular file with these bytes.
    File(&'a [u8]),
    /// A symbolic link with this target.
    Link(&'a str),
}

/// A compressed tar archive; all members belong to root and have the same date.
pub(crate) fn tar_gz(members: &[Member<'_>], date: u64) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for member in members {
        let mut header = tar::Header::new_gnu();
        let name = member.path.as_bytes();
        let field = &mut header.as_gnu_mut().ok_or("a header of GNU's form is one")?.name;
        if name.len() >= field.len() {
            return Err(format!("{}: the path is too long for a tar header", member.path).into());
        }
        // The name is copied into the header here, because the library would remove the leading `./`, which
        // the tools of Debian expect.
        field[..name.len()].copy_from_slice(name);
        let (kind, bytes) = match member.data {
            Data::Folder => (tar::EntryType::Directory, &[][..]),
            Data::File(bytes) => (tar::EntryType::Regular, bytes),
            Data::Link(target) => {
                header.set_link_name(target)?;
                (tar::EntryType::Symlink, &[][..])
            }
        };
        header.set_entry_type(kind);
        header.set_mode(member.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_username("root")?;
        header.set_groupname("root")?;
        header.set_mtime(date);
        header.set_size(u64::try_from(bytes.len())?);
        header.set_cksum();
        tar.append(&header, bytes)?;
    }
    gzip(&tar.into_inner()?)
}

/// Compresses bytes with gzip; the header has neither a name nor a date.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let writer = flate2::GzBuilder::new().mtime(0);
    let mut writer = writer.write(Vec::new(), flate2::Compression::best());
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

/// An `ar` archive of files with short names; the format of a deb.
pub(crate) fn ar(members: &[(&str, &[u8])], date: u64) -> Result<Vec<u8>> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        if name.len() > 16 {
            return Err(format!("{name}: the name is too long for an ar archive").into());
        }
        // The fields are name, date, owner, group, permissions and size, as text of fixed width.
        writeln!(archive, "{name:<16}{date:<12}{:<6}{:<6}{:<8}{:<10}`", 0, 0, "100644", bytes.len())?;
        archive.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    Ok(archive)
}
