//! The files of each package: paths, owners and contents.

use super::build::{Build, PROGRAMS};
use super::{archive, completions, man};
use crate::error::Result;
use crate::shell;

/// The package of the server.
pub(super) const SERVER: &str = "sluice-server";

/// The package that links other servers' names to our programs.
pub(super) const COMPAT: &str = "sluice-compat";

/// One package, for both formats.
pub(super) struct Package {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    pub(super) entries: Vec<Entry>,
    /// Whether the files are for one processor architecture.
    pub(super) is_native: bool,
}

/// One file, folder or link.
pub(super) struct Entry {
    /// The absolute path after installation.
    pub(super) path: String,
    /// The permission bits, such as 0o644.
    pub(super) mode: u32,
    /// The owner after installation.
    pub(super) owner: Owner,
    /// The type of the entry, with its content.
    pub(super) kind: Kind,
}

/// The type of an entry.
pub(super) enum Kind {
    /// A folder, without content.
    Folder,
    /// A file that upgrades replace.
    File(Vec<u8>),
    /// A file that administrators change and upgrades keep.
    Config(Vec<u8>),
    /// A symbolic link, with its target.
    Link(String),
}

/// The owner of an entry. In a deb everything belongs to root, and its script changes the owner
/// of the server's files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// root, and the group root.
    Root,
    /// The server's user and group.
    Server,
}

impl Entry {
    fn file(path: &str, mode: u32, bytes: impl Into<Vec<u8>>) -> Entry {
        Entry { path: path.to_owned(), mode, owner: Owner::Root, kind: Kind::File(bytes.into()) }
    }

    fn folder(path: &str) -> Entry {
        Entry { path: path.to_owned(), mode: 0o750, owner: Owner::Server, kind: Kind::Folder }
    }

    fn config(path: &str, mode: u32, owner: Owner, bytes: impl Into<Vec<u8>>) -> Entry {
        Entry { path: path.to_owned(), mode, owner, kind: Kind::Config(bytes.into()) }
    }

    fn link(path: String, target: &str) -> Entry {
        Entry { path, mode: 0o777, owner: Owner::Root, kind: Kind::Link(target.to_owned()) }
    }
}

/// The entries of the server's package, sorted by path.
pub(super) fn server(build: &Build) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for name in PROGRAMS {
        let bytes = std::fs::read(build.programs.join(name))?;
        entries.push(Entry::file(&format!("/usr/bin/{name}"), 0o755, bytes));
    }
    for page in man::pages(build) {
        let path = format!("/usr/share/man/man{}/{}.gz", page.section, page.file_name());
        entries.push(Entry::file(&path, 0o644, archive::gzip(page.text.as_bytes())?));
    }
    for (path, text) in completions::files() {
        entries.push(Entry::file(path, 0o644, text));
    }
    entries.extend(of_the_system()?);
    entries.extend(documents(build)?);
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// The systemd units, with the same names in the folder `packaging`.
pub(super) const UNITS: [&str; 5] = [
    "sluice-backup@.service",
    "sluice-backup@.timer",
    "sluice-server.service",
    "sluice-server@.service",
    "sluice-shards.target",
];

/// The units, their helper programs, the user, configuration and folders.
fn of_the_system() -> Result<Vec<Entry>> {
    let mut entries = vec![
        Entry::file("/usr/bin/sluice-backup", 0o755, packaging("sluice-backup")?),
        Entry::file("/usr/lib/sysusers.d/sluice-server.conf", 0o644, packaging("sluice.sysusers")?),
        Entry::file("/usr/lib/tmpfiles.d/sluice-server.conf", 0o644, packaging("sluice.tmpfiles")?),
        Entry::config("/etc/logrotate.d/sluice-server", 0o644, Owner::Root, packaging("sluice.logrotate")?),
        Entry::config("/etc/sluice/sluice.conf", 0o640, Owner::Server, configuration()?),
        Entry::folder("/etc/sluice"),
        Entry::folder("/var/lib/sluice"),
        Entry::folder("/var/log/sluice"),
    ];
    for name in UNITS {
        entries.push(Entry::file(&format!("/usr/lib/systemd/system/{name}"), 0o644, packaging(name)?));
    }
    Ok(entries)
}

fn documents(build: &Build) -> Result<Vec<Entry>> {
    let root = shell::root();
    let folder = format!("/usr/share/doc/{SERVER}");
    let read = |name: &str| std::fs::read(root.join(name));
    Ok(vec![
        Entry::file(&format!("{folder}/copyright"), 0o644, read("LICENSE")?),
        Entry::file(&format!("{folder}/CHANGELOG.md.gz"), 0o644, archive::gzip(&read("CHANGELOG.md")?)?),
        Entry::file(&format!("{folder}/operating.md.gz"), 0o644, archive::gzip(&read("docs/operating.md")?)?),
        Entry::file(&format!("{folder}/fields.md.gz"), 0o644, archive::gzip(&read("docs/fields.md")?)?),
        Entry::file(&format!("{folder}/prometheus/board.json"), 0o644, packaging("prometheus/board.json")?),
        Entry::file(&format!("{folder}/prometheus/rules.yml"), 0o644, packaging("prometheus/rules.yml")?),
        Entry::file(
            &format!("{folder}/prometheus/rules_test.yml"),
            0o644,
            packaging("prometheus/rules_test.yml")?,
        ),
        Entry::file(
            &format!("{folder}/THIRD-PARTY-LICENSES.gz"),
            0o644,
            archive::gzip(build.licences.as_bytes())?,
        ),
    ])
}

/// The entries of the package that links other servers' names to our programs.
pub(super) fn compat() -> Vec<Entry> {
    let mut entries = Vec::new();
    for other in ["redis", "valkey"] {
        for program in PROGRAMS {
            let word = program.trim_start_matches("sluice-");
            entries.push(Entry::link(format!("/usr/bin/{other}-{word}"), program));
        }
    }
    let note = format!("See /usr/share/doc/{SERVER}/copyright.\n");
    entries.push(Entry::file(&format!("/usr/share/doc/{COMPAT}/copyright"), 0o644, note));
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    entries
}

/// A file of the folder `packaging`.
pub(super) fn packaging(name: &str) -> Result<Vec<u8>> {
    let path = shell::root().join("packaging").join(name);
    std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Directives that a package sets, each with its line in the example file and the replacement. An
/// installed server serves only this machine, until its administrator changes that.
const SET: [(&str, &str); 3] = [
    ("bind * -::*", "bind 127.0.0.1 -::1"),
    ("logfile \"\"", "logfile /var/log/sluice/sluice-server.log"),
    ("# dir \"\"", "dir /var/lib/sluice"),
];

/// `/etc/sluice/sluice.conf`: the example file with the directives of [`SET`].
pub(crate) fn configuration() -> Result<String> {
    let mut text = sluice_config::example_conf();
    for (line, instead) in SET {
        let line = format!("\n{line}\n");
        if !text.contains(&line) {
            return Err(format!("the example configuration has no line {line:?} any more").into());
        }
        text = text.replacen(&line, &format!("\n{instead}\n"), 1);
    }
    let first = "Every line here is the default, so this file changes nothing as it stands.";
    let instead = "Every line is the default, but bind, dir and logfile, which are the package's.";
    if !text.contains(first) {
        return Err("the example configuration begins with another sentence: see contents.rs".into());
    }
    Ok(text.replacen(first, instead, 1))
}
