//! Judges the server's version: which server it is, and whether a move from the version was tested.

use crate::facts::InfoFacts;
use crate::finding::{FindingWeight, Findings};
use crate::shown::shown;

/// Name and version of the server.
pub(super) fn name(info: &InfoFacts) -> String {
    let (name, version) = parts(info);
    format!("{name} {}", shown(version))
}

fn parts(info: &InfoFacts) -> (&'static str, &[u8]) {
    match info.text("valkey_version") {
        b"" => ("Redis", info.text("redis_version")),
        version => ("Valkey", version),
    }
}

/// Compares the server's version with the versions that moves were tested from.
pub(super) fn judge(verdict: &mut Findings, info: &InfoFacts) {
    let (server, version) = parts(info);
    let what = name(info);
    let newer = |verdict: &mut Findings, advice: &str| {
        verdict.add(
            FindingWeight::Look,
            "server",
            format!("{what} is newer than the tested versions"),
            &format!("{advice}; try the move with a copy: docs/moving-in.md"),
        );
    };
    let [major, minor] = numbers(version);
    match (server, major, minor) {
        (_, 0, _) => verdict.add(
            FindingWeight::Look,
            "server",
            "INFO names no version",
            "is this a service that only speaks the protocol? Then replication is rarely available: \
             move by a tool that reads and writes",
        ),
        ("Redis", ..=5, _) => verdict.add(
            FindingWeight::Look,
            "server",
            format!("{what} is older than the tested versions"),
            "try the move with a copy: docs/moving-in.md",
        ),
        ("Redis", 8, 1..) => newer(
            verdict,
            "its RDB version 13 is read, its arrays, vector sets and hash templates are not; INCREX, MSETEX, DELEX and HOTKEYS \
             are those of Valkey here",
        ),
        ("Redis", 9.., _) => newer(verdict, "nothing is known of this version"),
        ("Valkey", 9, 2) => newer(
            verdict,
            "its RDB version 81 is read but for the type path hash, and docs/compat.md lists which of its commands are here",
        ),
        ("Valkey", 9, 3..) | ("Valkey", 10.., _) => newer(verdict, "nothing is known of this version"),
        _ => verdict.works("server", format!("{what}: live by REPLICAOF, or by its files")),
    }
}

/// Major and minor number of a version; 0 for a part that is missing.
fn numbers(version: &[u8]) -> [u64; 2] {
    let mut parts = version.split(|byte| *byte == b'.');
    [(); 2].map(|()| parts.next().and_then(sluice_base::num::parse_u64).unwrap_or(0))
}
