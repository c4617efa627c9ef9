//! Requests that Kubernetes operators, charts and exporters send: traces in `conformance/operators`, whose
//! README describes the format. Each is played at the same time against nodes of the reference, against nodes
//! of ours, and against the mixed groups that the trace names; the parts of replies that a trace reads must
//! be the same everywhere. Without the reference there is no comparison, and the tests print a note.

mod fleet;
mod reads;
mod trace;

use fleet::Fleet;
use std::path::{Path, PathBuf};
use trace::Trace;

/// The folder of the traces.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/operators")
}

/// Plays a trace against every group of nodes, and compares the results.
fn play(name: &str) {
    let Some(peer) = std::env::var_os("SLUICE_PEER_SERVER").map(PathBuf::from) else {
        println!("skipped: SLUICE_PEER_SERVER names no reference");
        return;
    };
    if ["valkey-cli", "valkey-sentinel"].iter().any(|tool| !peer.with_file_name(tool).exists()) {
        println!("skipped: no valkey-cli and valkey-sentinel beside the reference");
        return;
    }
    let text = std::fs::read_to_string(folder().join(format!("{name}.trace"))).unwrap();
    let trace = Trace::parse(&text);
    let count = trace.nodes;
    let mut groups = vec!["s".repeat(count), "o".repeat(count)];
    groups.extend(trace.mixed.clone());
    let read: Vec<Vec<String>> = std::thread::scope(|scope| {
        let played: Vec<_> =
            groups.iter().map(|kinds| scope.spawn(|| Fleet::start(&trace, kinds).play(&trace))).collect();
        played.into_iter().map(|group| group.join().unwrap()).collect()
    });
    for (kinds, values) in groups.iter().zip(&read).skip(1) {
        assert_eq!(values.len(), read[0].len());
        for (theirs, ours) in read[0].iter().zip(values) {
            assert_eq!(ours, theirs, "{name}, nodes {kinds} (s: stock, o: ours)");
        }
    }
    assert!(!read[0].is_empty(), "the trace reads nothing");
}

macro_rules! traces {
    ($($name:ident: $file:literal,)*) => {
        $(#[test]
        fn $name() {
            play($file);
        })*

        #[test]
        fn every_trace_is_played() {
            let mut played = vec![$($file.to_owned()),*];
            played.sort();
            let mut found: Vec<String> = std::fs::read_dir(folder()).unwrap()
                .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".trace")?.to_owned()))
                .collect();
            found.sort();
            assert_eq!(played, found);
        }
    };
}

traces! {
    charts: "charts",
    exporter: "exporter",
    hyperspike: "hyperspike",
    ot_container_kit: "ot-container-kit",
    ot_container_kit_replication: "ot-container-kit-replication",
    spotahome: "spotahome",
    valkey_operator: "valkey-operator",
}
