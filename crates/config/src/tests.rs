//! Tests of the whole crate, by subject.

mod differential;
mod files;
mod lines;
mod rewriting;
mod setting;
mod table;

use crate::{Config, LoadError, Origin, Phase, Traits, Undo, parse_file};

/// The configuration of a text; `include` finds no files.
fn load(text: &str) -> Result<Config, LoadError> {
    parse_file(text.as_bytes(), "test.conf", b"", &mut |_: &[u8]| Ok(Vec::new()))
}

/// The configuration of a text, which must load.
fn loaded(text: &str) -> Config {
    load(text).unwrap_or_else(|error| panic!("{text:?} must load: {}", error.report("0")))
}

/// The reason for which a text is refused.
fn refusal(text: &str) -> String {
    match load(text) {
        Err(LoadError::Line(bad)) => bad.reason,
        Err(LoadError::Include { reason, .. }) => reason,
        Ok(_) => panic!("{text:?} must not load"),
    }
}

/// CONFIG SET of `pairs` (name, value, name, ...) on `config`; the error is the client's error reply.
fn set(config: &mut Config, pairs: &[&str]) -> Result<Undo, String> {
    let pairs: Vec<(&[u8], &[u8])> =
        pairs.as_chunks::<2>().0.iter().map(|[name, value]| (name.as_bytes(), value.as_bytes())).collect();
    let change = config.prepare(&pairs, Origin::Local, Phase::Serving).map_err(|error| error.to_string())?;
    Ok(config.apply(change))
}

/// The value that CONFIG GET shows for one name.
fn shown(config: &Config, name: &str) -> String {
    let found = config.get(&[name.as_bytes()]);
    assert_eq!(found.len(), 1, "{name} is one parameter");
    String::from_utf8_lossy(&found[0].1).into_owned()
}

fn is_mutable(traits: Traits) -> bool {
    !traits.has(Traits::IMMUTABLE)
}
