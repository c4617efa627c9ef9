//! A deb: an `ar` archive of two compressed tar archives, one for dpkg and one for the file system.

use std::collections::BTreeSet;

use super::archive::{self, Data, Member};
use super::build::Build;
use super::contents::{COMPAT, Entry, Kind, Package, SERVER, packaging};
use super::elf::Needs;
use crate::error::Result;

/// Debian's name of the package's architecture; `all` for a package without programs.
pub(super) fn architecture(package: &Package) -> &'static str {
    match std::env::consts::ARCH {
        _ if !package.is_native => "all",
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The bytes of the deb file.
pub(super) fn archive(package: &Package, build: &Build, needs: &Needs) -> Result<Vec<u8>> {
    let control = control_archive(package, build, needs)?;
    let data = archive::tar_gz(&members(&package.entries), build.date)?;
    archive::ar(
        &[("debian-binary", b"2.0\n"), ("control.tar.gz", &control), ("data.tar.gz", &data)],
        build.date,
    )
}

/// The files with their parent folders, each folder before its contents.
fn members(entries: &[Entry]) -> Vec<Member<'_>> {
    let folder = |path: &str, mode| Member { path: format!(".{path}/"), mode, data: Data::Folder };
    let listed: BTreeSet<&str> =
        entries.iter().filter(|e| matches!(e.kind, Kind::Folder)).map(|e| e.path.as_str()).collect();
    let mut above = BTreeSet::new();
    for entry in entries {
        let slashes = entry.path.match_indices('/').map(|(at, _)| &entry.path[..at]);
        above.extend(slashes.filter(|path| !listed.contains(path)));
    }
    let mut members: Vec<Member<'_>> = above.into_iter().map(|path| folder(path, 0o755)).collect();
    members.extend(entries.iter().map(|entry| match &entry.kind {
        Kind::Folder => folder(&entry.path, entry.mode),
        Kind::File(bytes) | Kind::Config(bytes) => {
            Member { path: format!(".{}", entry.path), mode: entry.mode, data: Data::File(bytes) }
        }
        Kind::Link(target) => {
            Member { path: format!(".{}", entry.path), mode: entry.mode, data: Data::Link(target) }
        }
    }));
    members.sort_by(|a, b| a.path.cmp(&b.path));
    members
}

/// The part for dpkg: fields, configuration files, scripts.
fn control_archive(package: &Package, build: &Build, needs: &Needs) -> Result<Vec<u8>> {
    let configs: Vec<&str> = package
        .entries
        .iter()
        .filter(|entry| matches!(entry.kind, Kind::Config(_)))
        .map(|entry| entry.path.as_str())
        .collect();
    let mut files = vec![("control", 0o644, fields(package, build, needs)?.into_bytes())];
    if !configs.is_empty() {
        files.push(("conffiles", 0o644, (configs.join("\n") + "\n").into_bytes()));
    }
    let scripts: &[(&str, &str)] = match package.name {
        SERVER => &[("postinst", "deb/postinst"), ("postrm", "deb/postrm"), ("prerm", "deb/prerm")],
        COMPAT => &[("postrm", "deb-compat/postrm"), ("preinst", "deb-compat/preinst")],
        other => return Err(format!("{other}: no scripts are known for this package").into()),
    };
    for (name, path) in scripts {
        files.push((name, 0o755, packaging(path)?));
    }
    let mut members = vec![Member { path: "./".to_owned(), mode: 0o755, data: Data::Folder }];
    members.extend(files.iter().map(|(name, mode, bytes)| Member {
        path: format!("./{name}"),
        mode: *mode,
        data: Data::File(bytes),
    }));
    archive::tar_gz(&members, build.date)
}

/// The content of the file `control`.
fn fields(package: &Package, build: &Build, needs: &Needs) -> Result<String> {
    let version = format!("{}-1", build.version);
    let bytes: usize = package
        .entries
        .iter()
        .map(|entry| match &entry.kind {
            Kind::File(bytes) | Kind::Config(bytes) => bytes.len().next_multiple_of(1024),
            Kind::Folder | Kind::Link(_) => 1024,
        })
        .sum();
    let relations = match package.name {
        SERVER => {
            format!(
                "Depends: libc6 (>= {}), libgcc-s1, passwd\nSuggests: logrotate, valkey-tools | redis-tools, {COMPAT}\n",
                needs.glibc
            )
        }
        COMPAT => format!(
            "Depends: {SERVER} (= {version})\n\
             Conflicts: valkey-server, redis-server\n\
             Replaces: valkey-server, redis-server\n\
             Provides: valkey-server (= {VALKEY}), redis-server (= {REDIS})\n"
        ),
        other => return Err(format!("{other}: no relations are known for this package").into()),
    };
    let description = package.description.lines().map(|line| format!(" {line}\n")).collect::<String>();
    Ok(format!(
        "Package: {}\nVersion: {version}\nArchitecture: {}\nMaintainer: The Sluice authors <sluice@localhost>\n\
         Installed-Size: {}\n{relations}Section: database\nPriority: optional\nDescription: {}\n{description}",
        package.name,
        architecture(package),
        bytes / 1024,
        package.summary,
    ))
}

/// The version of Valkey that the package provides, for packages that depend on it.
const VALKEY: &str = "9.1.2";

/// The version of Redis with which Valkey is compatible by its own statement; Debian's versions
/// have an epoch.
const REDIS: &str = "5:7.2.4";
