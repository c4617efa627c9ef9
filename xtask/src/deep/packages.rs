//! Tests the packages as an operator uses them. They are checked by the tools of their systems, installed
//! into a fresh root, upgraded, removed and purged. The service runs under systemd and in containers, also
//! as nodes of a cluster; a machine runs several shards and makes backups; and the server's system calls
//! are compared with the filter of the systemd unit.
//!
//! A check that needs a missing tool or right is skipped, and its name is printed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Result;
use crate::shell::{self, Ran};
use crate::{binaries, package};

/// The exposure that systemd computes for the unit of Debian's valkey-server, on a scale from 0 to 10; ours
/// must not be higher.
const EXPOSURE_MAX: f64 = 1.2;

/// The environment variable with a folder of built programs; without it, the programs are built.
const PROGRAMS_VARIABLE: &str = "SLUICE_PROGRAMS";

/// The path of the systemd unit.
const UNIT: &str = "packaging/sluice-server.service";

pub(super) fn run() -> Result<Ran> {
    let binaries = match std::env::var_os(PROGRAMS_VARIABLE).filter(|value| !value.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => binaries::build_server()?.ok_or("there is no server to pack")?.with_file_name(""),
    };
    let folder = std::path::absolute(shell::target_dir().join("packages"))?;
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let (old, new) = (folder.join("old"), folder.join("new"));
    for (out, version) in [(&old, "0.0.9"), (&new, env!("CARGO_PKG_VERSION"))] {
        let words = ["--binaries", &text(&binaries), "--out", &text(out), "--version", version];
        package::package(&words.map(str::to_owned))?;
    }
    read_by_debian(&new)?;
    read_by_rpm(&new, &folder)?;
    unit(&new, &folder)?;
    let mut ran = Ran::Passed;
    let (programs, old, new) = (new.join("programs"), text(&old), text(&new));
    let (server, unit) = (programs.join("sluice-server"), shell::root().join(UNIT));
    let scripts: [(&str, &[&str]); 7] = [
        ("syscalls", &[&text(&server), &text(&unit)]),
        ("container", &[&text(&programs)]),
        ("pod", &[&text(&programs)]),
        ("lifecycle", &[&old, &new]),
        ("unit", &[&old, &new]),
        ("shards", &[&old, &new]),
        ("rpm", &[&old, &new]),
    ];
    for (name, words) in scripts {
        let mut script = Command::new(shell::root().join("packaging/test").join(name));
        script.args(words).arg(folder.join(format!("for-{name}")));
        if scripted(&mut script, name)? == Ran::Skipped {
            ran = Ran::Skipped;
        }
    }
    Ok(ran)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Runs a script that exits with 77, and prints a reason, if the machine lacks a tool or right.
fn scripted(command: &mut Command, name: &str) -> Result<Ran> {
    println!("packages: {name}");
    match command.status()?.code() {
        Some(0) => Ok(Ran::Passed),
        Some(77) => Ok(Ran::Skipped),
        _ => Err(format!("{name} failed; its last lines say at which step").into()),
    }
}

/// Whether a tool is installed; prints a note if it is not.
fn has(tool: &str, what: &str) -> bool {
    let found = shell::on_path(tool);
    if !found {
        println!("packages: {what}: skipped: needs {tool} on the path");
    }
    found
}

fn read_by_debian(folder: &Path) -> Result<()> {
    if !has("dpkg-deb", "reading debs") {
        return Ok(());
    }
    for deb in shell::files(folder, ".deb")? {
        let list = shell::output(Command::new("dpkg-deb").arg("--contents").arg(&deb))?;
        println!("packages: {}: {} entries", text(&deb), list.lines().count());
        if shell::on_path("lintian") {
            let errors = shell::output(Command::new("lintian").args(LINTIAN).arg(&deb))?;
            if !errors.is_empty() {
                return Err(format!("lintian finds errors in {}:\n{errors}", text(&deb)).into());
            }
        }
    }
    has("lintian", "Debian's own checks");
    Ok(())
}

/// Options of lintian: it reports only errors, each of which fails the run. Rules for Debian's archive, to
/// which these packages are not uploaded, are left out, namely those about a changelog and an address of the
/// packager.
const LINTIAN: [&str; 4] = [
    "--fail-on=none",
    "--display-level=error",
    "--allow-root",
    "--suppress-tags=bogus-mail-host,debian-changelog-file-missing-or-wrong-name,no-changelog",
];

fn read_by_rpm(folder: &Path, work: &Path) -> Result<()> {
    if !has("rpm", "reading rpms") {
        return Ok(());
    }
    for rpm in shell::files(folder, ".rpm")? {
        shell::run(Command::new("rpm").arg("-K").arg(&rpm))?;
        let list = shell::output(Command::new("rpm").arg("-qlp").arg(&rpm))?;
        println!("packages: {}: {} entries", text(&rpm), list.lines().count());
    }
    if has("rpm2cpio", "unpacking an rpm") && has("cpio", "unpacking an rpm") {
        let unpacked = work.join("unpacked-rpm");
        std::fs::create_dir_all(&unpacked)?;
        let server = shell::files(folder, &format!("{}.rpm", std::env::consts::ARCH))?.remove(0);
        let line = "rpm2cpio \"$0\" | cpio --extract --make-directories --quiet && ./usr/bin/sluice-server --version";
        shell::run(Command::new("sh").current_dir(&unpacked).args(["-c", line]).arg(server))?;
    }
    Ok(())
}

/// Checks that the systemd units are valid, and that the exposure of the server's unit is not higher than
/// that of Debian's valkey-server.
fn unit(folder: &Path, work: &Path) -> Result<()> {
    if !has("systemd-analyze", "the unit") || !has("dpkg-deb", "the unit") {
        return Ok(());
    }
    let root = work.join("unit-root");
    let deb = shell::files(folder, ".deb")?.into_iter().find(|path| text(path).contains("sluice-server_"));
    let deb = deb.ok_or("there is no deb of the server")?;
    shell::run(Command::new("dpkg-deb").arg("--extract").arg(deb).arg(&root))?;
    let unit = root.join("usr/lib/systemd/system/sluice-server.service");
    let mut analyze = Command::new("systemd-analyze");
    let report = shell::output(analyze.args(["security", "--offline=yes", "--no-pager"]).arg(&unit))?;
    let line =
        report.lines().rfind(|line| line.contains("Overall exposure level")).ok_or("no exposure level")?;
    println!("packages: {}", line.trim());
    let level = line.split_whitespace().find_map(|word| word.parse::<f64>().ok()).ok_or("no number")?;
    if level > EXPOSURE_MAX {
        return Err(format!("the unit's exposure is {level}, above {EXPOSURE_MAX}").into());
    }
    // systemd looks for programs at the unit's paths, which are below the unpacked root.
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]).arg(format!("--root={}", text(&root)));
    let units = ["sluice-server.service", "sluice-server@7001.service", "sluice-shards.target"];
    let output =
        verify.args(units).args(["sluice-backup@daily.service", "sluice-backup@daily.timer"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let about_ours: Vec<&str> = said.lines().filter(|line| line.contains("sluice")).collect();
    if !about_ours.is_empty() || !output.status.success() {
        return Err(format!("systemd finds fault with the unit:\n{}", said).into());
    }
    println!("packages: systemd-analyze verify has nothing to say");
    Ok(())
}
