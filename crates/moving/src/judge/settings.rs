//! Judges directives of the other server: those that are refused here, have no effect here, or
//! are unknown here.

use crate::facts::{SettingFact, SettingValue};
use crate::finding::{FindingWeight, Findings};
use crate::shown::shown;
use sluice_config::{Config, ParamId, param};
use std::collections::BTreeSet;

/// Judges all directives; unknown ones share one finding.
pub(super) fn judge(verdict: &mut Findings, settings: &[SettingFact]) {
    let mut config = Config::default();
    let (mut known, mut unknown, mut seen) = (0, Vec::new(), BTreeSet::new());
    for SettingFact { name, value } in settings {
        let Some(id) = ParamId::find(name) else {
            if !is_default_of_others(name, value) {
                unknown.push(shown(name));
            }
            continue;
        };
        // A directive is judged once, although CONFIG GET lists its old name beside the new one.
        // `replicaof` is left out, because replication is judged by INFO.
        if !seen.insert(id) || id == param::REPLICAOF.into() {
            continue;
        }
        known += 1;
        match value {
            SettingValue::Plain(text) => plain(verdict, &mut config, id, text),
            SettingValue::Secret => verdict.add(
                FindingWeight::Works,
                "directives",
                format!("{} is set (not shown)", id.param().name),
                "set it here too, from the other server's configuration",
            ),
            SettingValue::NoSecret => {}
        }
    }
    verdict.works("directives", format!("{known} directives of the other server are known here"));
    if !unknown.is_empty() {
        let more = unknown.len().saturating_sub(UNKNOWN_SHOWN);
        unknown.truncate(UNKNOWN_SHOWN);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        verdict.add(
            FindingWeight::Look,
            "directives",
            format!("not known here: {}{more}", unknown.join(", ")),
            "leave them out of the configuration file: they prevent the start",
        );
    }
}

/// Judges a directive that is known here and whose value is no secret.
fn plain(verdict: &mut Findings, config: &mut Config, id: ParamId, text: &[u8]) {
    let param = id.param();
    if let Err(reason) = config.assign_shown(id, text) {
        verdict.add(
            FindingWeight::Missing,
            "directives",
            format!("{} {} is refused here: {}", param.name, shown(text), shown(reason.as_bytes())),
            "choose another value, or do without what it turns on",
        );
        return;
    }
    let name = param.name;
    let is_their_default = THEIR_DEFAULTS.iter().any(|(of, value)| *of == name && value.as_bytes() == text);
    if is_their_default {
        return;
    }
    if let Some(sentence) = config.no_effect_of(id) {
        let advice = "nothing to do, if you can do without: it is accepted without effect, and the log warns";
        verdict.add(FindingWeight::Look, "directives", shown_whole(&sentence), advice);
    }
    if name == "notify-keyspace-events" && !text.is_empty() {
        verdict.works(
            "directives",
            format!("notify-keyspace-events {}: the same classes are here", shown(text)),
        );
    }
}

/// Whether a directive that is unknown here needs no finding: it has its default value, is a secret without a
/// value, or belongs to a module of Redis.
fn is_default_of_others(name: &[u8], value: &SettingValue) -> bool {
    let SettingValue::Plain(value) = value else { return *value == SettingValue::NoSecret };
    let is = |(of, default): &(&str, &str)| of.as_bytes() == name && default.as_bytes() == value;
    THEIR_DEFAULTS.iter().any(is) || MODULES.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
}

/// A sentence of this server on one line of ASCII.
fn shown_whole(sentence: &str) -> String {
    sentence.replace(|c: char| !(' '..='~').contains(&c), " ")
}

/// Default values in Redis 7 and 8 and in earlier Valkeys, of directives that are unknown here, or that
/// have no effect and another default here.
const THEIR_DEFAULTS: [(&str, &str); 9] = [
    ("aof-disable-auto-gc", "no"),
    ("cluster-compatibility-sample-ratio", "0"),
    ("dynamic-hz", "yes"),
    ("events-per-io-thread", "2"),
    ("io-threads-do-reads", "no"),
    ("lazyfree-lazy-user-del", "no"),
    ("replica-full-sync-buffer-limit", "0"),
    ("replica-lazy-flush", "no"),
    ("sanitize-dump-payload", "no"),
];

/// Prefixes of the directives of Redis 8's own modules; the modules have findings of their own.
const MODULES: [&str; 6] = ["bf-", "cf-", "search-", "ts-", "vset-", "json-"];

/// The finding lists at most this many unknown directives by name.
const UNKNOWN_SHOWN: usize = 20;
