//! Tests that the table has the names and defaults of the reference.

use std::collections::BTreeMap;

use super::shown;
use crate::table::RETIRED;
use crate::{Config, Honoured, ParamId, ParamKind, Section, Traits, example_conf, param};

/// Names and values in the reference's reply to `CONFIG GET *`, on alternate lines.
const REFERENCE: &str = include_str!("reference_defaults.txt");

/// Values of the recorded server that depend on how and where it was started.
const NOT_DEFAULTS: [(&str, &str); 3] = [
    ("port", "it was started with another port"),
    ("dir", "it is the path of that run"),
    ("save", "it was started without save points"),
];

fn reference() -> BTreeMap<&'static str, &'static str> {
    let lines: Vec<&str> = REFERENCE.lines().collect();
    lines.as_chunks::<2>().0.iter().map(|[name, value]| (*name, *value)).collect()
}

#[test]
fn every_name_of_the_reference_has_its_default() {
    let reference = reference();
    assert!(reference.len() > 200, "the record is whole");
    let config = Config::default();
    for (name, value) in reference {
        if NOT_DEFAULTS.iter().any(|(exempt, _)| *exempt == name) {
            assert!(ParamId::find(name.as_bytes()).is_some(), "{name}");
            continue;
        }
        assert_eq!(shown(&config, name), value, "{name}");
    }
}

#[test]
fn get_star_lists_the_names_of_the_reference_alone() {
    let listed: Vec<String> = Config::default()
        .get(&[b"*"])
        .into_iter()
        .map(|(name, _)| String::from_utf8(name).expect("names are ASCII"))
        .collect();
    let mut expected: Vec<&str> = reference().into_keys().collect();
    expected.sort_unstable();
    assert_eq!(listed, expected);
}

/// The directive is no part of `CONFIG GET *`, because upstream's tests set every name of that list and
/// know which names are immutable.
#[test]
fn the_event_loop_is_found_by_name_and_pattern_but_not_by_the_star_alone() {
    let finds =
        |pattern: &[u8]| Config::default().get(&[pattern]).iter().any(|(name, _)| name == b"event-loop");
    for pattern in [&b"event-loop"[..], b"event-*", b"*loop", b"e*"] {
        assert!(finds(pattern), "{pattern:?}");
    }
    assert!(!finds(b"*"));
    assert!(example_conf().contains("\nevent-loop auto\n"));
}

#[test]
fn names_are_unique_and_lower_case() {
    let mut seen = Vec::new();
    for id in ParamId::all() {
        for name in [Some(id.param().name), id.param().alias].into_iter().flatten() {
            assert!(!seen.contains(&name), "{name} is there twice");
            assert!(!RETIRED.contains(&name), "{name} is retired");
            assert_eq!(name, name.to_ascii_lowercase());
            assert_eq!(ParamId::find(name.to_ascii_uppercase().as_bytes()), Some(id));
            seen.push(name);
        }
    }
}

#[test]
fn prose_is_a_sentence_and_reasons_are_given() {
    for id in ParamId::all() {
        let param = id.param();
        assert!(param.doc.len() > 15 && param.doc.ends_with('.'), "{}", param.name);
        match param.honoured {
            Honoured::Yes => {}
            Honoured::NotYet(why) | Honoured::Ignored(why) => {
                assert!(!why.is_empty(), "{}", param.name)
            }
        }
        assert!(Section::ALL.contains(&param.section), "{}", param.name);
    }
}

#[test]
fn defaults_are_within_bounds() {
    for id in ParamId::all() {
        if let ParamKind::Int { default, min, max, clamp, .. } = id.param().kind {
            assert!((min..=max).contains(&default), "{}", id.param().name);
            let (low, high) = clamp.unwrap_or((min, max));
            assert!((low..=high).contains(&default), "{}", id.param().name);
        }
    }
}

#[test]
fn only_kinds_that_count_words_take_several() {
    for id in ParamId::all() {
        let takes_one = matches!(
            id.param().kind,
            ParamKind::Bool { .. }
                | ParamKind::Int { .. }
                | ParamKind::Text { .. }
                | ParamKind::Choice { .. }
                | ParamKind::NotifyEvents
        );
        assert_eq!(takes_one, !id.param().traits.has(Traits::MULTI_ARG), "{}", id.param().name);
    }
}

#[test]
fn typed_names_read_their_parameters() {
    let config = Config::default();
    assert_eq!(config.int(param::MAXCLIENTS), 10_000);
    assert!(config.bool(param::ACTIVEREHASHING));
    assert_eq!(config.bytes(param::DBFILENAME), b"dump.rdb");
    assert_eq!(config.text(param::UNIXSOCKET), None);
    assert_eq!(config.choice(param::LOGLEVEL), crate::choice::LogLevel::Notice);
    assert_eq!(config.list(param::BIND).len(), 2);
    assert_eq!(config.save_points()[0].seconds, 3600);
    assert_eq!(config.buffer_limit(crate::ClientClass::Pubsub).hard_bytes, 32 << 20);
    assert_eq!(config.changed().count(), 0);
}

#[test]
fn the_example_file_names_every_visible_parameter_and_changes_nothing() {
    let text = example_conf();
    assert_eq!(super::loaded(&text), Config::default());
    for id in ParamId::all().filter(|id| !id.param().traits.has(Traits::HIDDEN)) {
        let name = id.param().name;
        let has = |start: String| text.lines().any(|line| line.starts_with(&start));
        assert!(has(format!("{name} ")) || has(format!("# {name} \"\"")), "{name} has no line");
    }
    assert!(text.lines().all(|line| line.len() <= 120), "lines are short");
}
