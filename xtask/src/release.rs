//! `cargo xtask release`: the published files, in one folder.
//!
//! Invariants: (1) two releases of one commit by one toolchain have the same bytes, whatever
//! their build folders; (2) every date is the commit's, or that of `SOURCE_DATE_EPOCH`; (3)
//! `SHA256SUMS` names every other file.

mod sbom;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::args::Arguments;
use crate::error::Result;
use crate::package::archive::{Data, Member, tar_gz};
use crate::package::build::{Build, PROGRAMS, build_programs, git, source_date, strip_programs};
use crate::package::{configuration, dependencies, licences, write};
use crate::shell;

/// Maximum bytes of the stripped server.
const SERVER_BYTES_MAX: u64 = 15_000_000;

/// The task: `[--out FOLDER] [--allow-changes]`.
pub(crate) fn release(arguments: &[String]) -> Result<()> {
    let mut arguments = Arguments::new(arguments);
    let out =
        arguments.option("--out")?.map_or_else(|| shell::target_dir().join("release-files"), PathBuf::from);
    let with_changes = arguments.flag("--allow-changes");
    if !arguments.words()?.is_empty() {
        return Err("release takes no words, only --out and --allow-changes".into());
    }
    let changes = git(&["status", "--porcelain"])?;
    if !changes.is_empty() && !with_changes {
        return Err(format!(
            "a release is that of a commit, and these files have changed (--allow-changes goes on):\n{changes}"
        )
        .into());
    }
    let built = build_programs()?;
    if out.exists() {
        std::fs::remove_dir_all(&out)?;
    }
    std::fs::create_dir_all(&out)?;
    let work = shell::target_dir().join("release-work");
    strip_programs(&built, &work)?;
    let product = dependencies::of_product()?;
    let build = Build {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        date: source_date()?,
        programs: work,
        licences: licences::text(&product)?,
    };
    write(&build, &out)?;
    write_archives(&build, &built, &out)?;
    std::fs::write(out.join("THIRD-PARTY-LICENSES"), &build.licences)?;
    std::fs::write(out.join(format!("{}.cdx.json", stem(&build))), sbom::text(&product, &build)?)?;
    let sums = checksums(&out)?;
    std::fs::write(out.join("SHA256SUMS"), &sums)?;
    print!("{sums}");
    let bytes = std::fs::metadata(build.programs.join("sluice-server"))?.len();
    println!("release: {}; sluice-server has {bytes} bytes, of {SERVER_BYTES_MAX} at most", out.display());
    if bytes > SERVER_BYTES_MAX {
        return Err("the server is larger than a release may be".into());
    }
    Ok(())
}

/// The beginning of the archives' names, such as `sluice-0.1.0-x86_64-linux`.
fn stem(build: &Build) -> String {
    format!("sluice-{}-{}-{}", build.version, std::env::consts::ARCH, std::env::consts::OS)
}

/// Writes the archive for systems without a package manager, and the archive of the debug information.
fn write_archives(build: &Build, built: &Path, out: &Path) -> Result<()> {
    let root = shell::root();
    let stem = stem(build);
    let mut files: Vec<(String, u32, Vec<u8>)> = Vec::new();
    for name in PROGRAMS {
        files.push((format!("bin/{name}"), 0o755, std::fs::read(build.programs.join(name))?));
    }
    let docs = ["LICENSE", "README.md", "CHANGELOG.md", "docs/operating.md", "docs/fields.md", "sluice.conf"];
    for name in docs {
        files.push((name.to_owned(), 0o644, std::fs::read(root.join(name))?));
    }
    files.push(("THIRD-PARTY-LICENSES".to_owned(), 0o644, build.licences.clone().into_bytes()));
    files.push(("etc/sluice.conf".to_owned(), 0o644, configuration()?.into_bytes()));
    for name in CONTAINER {
        let mode = if name == "Containerfile" { 0o644 } else { 0o755 };
        let path = format!("packaging/container/{name}");
        files.push((path.clone(), mode, std::fs::read(root.join(path))?));
    }
    for folder in FOLDERS {
        for path in below(folder)? {
            let bytes = std::fs::read(root.join(&path))?;
            files.push((path, 0o644, bytes));
        }
    }
    let archive = archive_of(&stem, &files, build.date)?;
    std::fs::write(out.join(format!("{stem}.tar.gz")), archive)?;
    let mut debug: Vec<(String, u32, Vec<u8>)> = Vec::new();
    for name in PROGRAMS {
        let path = build.programs.join(format!("{name}.debug"));
        let mut objcopy = Command::new("objcopy");
        shell::run(objcopy.arg("--only-keep-debug").arg(built.join(name)).arg(&path))?;
        debug.push((format!("{name}.debug"), 0o644, std::fs::read(path)?));
    }
    let stem = format!("{stem}-debug");
    std::fs::write(out.join(format!("{stem}.tar.gz")), archive_of(&stem, &debug, build.date)?)?;
    Ok(())
}

/// The files of a container, besides the programs.
const CONTAINER: [&str; 3] = ["Containerfile", "entrypoint", "healthcheck"];

/// Folders of the sources that are part of the archive.
const FOLDERS: [&str; 2] = ["examples", "packaging/prometheus"];

/// The files below a folder of the sources, sorted by path.
fn below(folder: &str) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(shell::root().join(folder))? {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => files.extend(below(&path)?),
            false => files.push(path),
        }
    }
    files.sort();
    Ok(files)
}

/// A compressed tar archive with one folder at its top.
fn archive_of(top: &str, files: &[(String, u32, Vec<u8>)], date: u64) -> Result<Vec<u8>> {
    let members: Vec<Member<'_>> = files
        .iter()
        .map(|(path, mode, bytes)| Member {
            path: format!("{top}/{path}"),
            mode: *mode,
            data: Data::File(bytes),
        })
        .collect();
    tar_gz(&members, date)
}

/// A line for each file of a folder, in the form of `sha256sum`.
fn checksums(folder: &Path) -> Result<String> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    paths.sort();
    let mut lines = String::new();
    for path in paths {
        let digest = Sha256::digest(std::fs::read(&path)?);
        for byte in digest {
            write!(lines, "{byte:02x}")?;
        }
        writeln!(lines, "  {}", path.file_name().unwrap_or_default().to_string_lossy())?;
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::checksums;

    #[test]
    fn checksums_have_the_form_of_sha256sum() {
        let folder = std::env::temp_dir().join(format!("sluice-checksums-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("b"), "").expect("written");
        std::fs::write(folder.join("a"), "abc").expect("written");
        let lines = checksums(&folder).expect("lines");
        assert_eq!(
            lines,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n\
             e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
        );
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
