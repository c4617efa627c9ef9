//! Entry for fuzzers: any bytes may be a config file, a command line or arguments of CONFIG SET.

use crate::config::Config;
use crate::load::parse_file;
use crate::rewrite::{Force, rewrite};
use crate::set::{Origin, Phase};

/// Parses `data` in every way in which this crate parses input from outside; panics only if an invariant of
/// this crate is broken.
pub fn fuzz_parse(data: &[u8]) {
    let words: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let line = crate::command_line(&words);
    let mut includes = 0;
    let mut loader = |_: &[u8]| {
        includes += 1;
        Ok(vec![("included".to_string(), data.to_vec()); 2])
    };
    let loaded = parse_file(data, "fuzz", &line.options, &mut loader);
    if let (Ok(config), 0) = (&loaded, includes) {
        rewrite_is_faithful(data, config);
    }
    let pairs: Vec<(&[u8], &[u8])> =
        words.as_chunks::<2>().0.iter().map(|[name, value]| (*name, *value)).collect();
    let mut config = Config::default();
    let before = config.clone();
    if let Ok(change) = config.prepare(&pairs, Origin::Local, Phase::Serving) {
        let undo = config.apply(change);
        rewrite_is_faithful(b"", &config);
        config.rollback(undo);
    }
    assert!(config == before, "a rollback must restore everything");
    let _ = config.get(&words);
}

/// The output of CONFIG REWRITE must load to the running values, and a second rewrite must not change it.
pub(crate) fn rewrite_is_faithful(old: &[u8], config: &Config) {
    // The words are made like user rules: they may contain quotes, but no blanks and no zero bytes.
    let of_users = config.user_lines().iter().map(|line| line.words().concat());
    let plain = of_users.map(|mut rules| {
        rules.retain(|byte| !matches!(byte, 0 | b' ' | b'\t'..=b'\r'));
        [b"user a ", &rules[..]].concat()
    });
    let users: Vec<Vec<u8>> = plain.filter(|line| line.len() > "user a ".len()).collect();
    let text = rewrite(Some(old), config, &users, Force::Changed);
    let again = parse_file(&text, "rewritten", b"", &mut |_: &[u8]| Ok(Vec::new()));
    let again = again.expect("what a rewrite wrote must load");
    // Only the values are compared, because renames of the command line are not written into the file.
    assert_eq!(again.values, config.values, "what a rewrite wrote must mean the same");
    let read = again.user_lines().iter().map(|line| line.words().join(&b' '));
    assert!(read.eq(users.iter().cloned()), "users must be read as they were written");
    let second = rewrite(Some(&text), config, &users, Force::Changed);
    assert_eq!(
        String::from_utf8_lossy(&second),
        String::from_utf8_lossy(&text),
        "a second rewrite must change nothing"
    );
}
