//! Checks that each parameter with an effect is read by the product.

use super::finding::Finding;
use super::source::{Source, words};
use sluice_config::{Honoured, PARAMS};

/// The crate that stores the values, but does not use them.
const KEEPER: &str = "crates/config/";
/// The file of the parameter table.
const TABLE: &str = "crates/config/src/table.rs";

/// Parameters that are read outside of their crate by another word than `param::NAME`, with that word.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("announce-endpoint-for", "endpoint_rules"),
    ("client-output-buffer-limit", "buffer_limit"),
    ("notify-keyspace-events", "notify_keyspace_events"),
    ("io-threads", "param::IO_THREADS_NUM"),
    ("latency-tracking-info-percentiles", "latency_percentiles"),
    ("oom-score-adj-values", "oom_score_adj_values"),
];
/// Parameters that the crate itself uses; `enable-protected-configs` guards CONFIG SET.
const OWN: &[&str] = &["enable-protected-configs"];

/// Every parameter without a mark (`later`, `ignored`) must be named in product code.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let claims = PARAMS.iter().filter(|param| param.honoured == Honoured::Yes);
    let names = claims.map(|param| param.name).filter(|name| !OWN.contains(name));
    let unread = names.filter(|name| !is_read(sources, &word_for(name)));
    let what =
        |name| format!("`{name}` claims an effect, but nothing reads it: mark it `later` or `ignored`");
    unread.map(|name| Finding::new(TABLE, 0, what(name))).collect()
}

fn word_for(name: &str) -> String {
    let other = OTHER_WORDS.iter().find(|(param, _)| *param == name).map(|(_, word)| (*word).to_string());
    other.unwrap_or_else(|| format!("param::{}", name.to_ascii_uppercase().replace('-', "_")))
}

fn is_read(sources: &[Source], word: &str) -> bool {
    let product = |source: &&Source| source.path.starts_with("crates/") && !source.path.starts_with(KEEPER);
    sources.iter().filter(product).any(|source| {
        let mut lines = source.code.iter().zip(&source.test).filter(|(_, test)| !**test);
        lines.any(|(code, _)| words(code, word).next().is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_counts_as_read_by_its_whole_name_in_product_code_alone() {
        let read = |path: &str, text: &str| is_read(&[Source::scan(path, text)], "param::PORT");
        assert!(read("crates/server/src/a.rs", "fn f(c: &C) { c.int(param::PORT); }"));
        assert!(!read("crates/server/src/a.rs", "fn f(c: &C) { c.int(param::PORT_RANGE); } // param::PORT"));
        assert!(!read("crates/sluice/tests/a.rs", "fn f(c: &C) { c.int(param::PORT); }"));
        assert!(!read("crates/config/src/a.rs", "fn f(c: &C) { c.int(param::PORT); }"));
        assert_eq!(word_for("proto-max-bulk-len"), "param::PROTO_MAX_BULK_LEN");
    }
}
