//! The sections of INFO, in order.

use super::cluster;
use super::exporter;
use super::sections;
use super::view::View;
use sluice_numbers::info::lines::Lines;
use sluice_numbers::info::sample::{MetricsSample, Sampler};
use sluice_numbers::info::sink::Sink;

/// A section of INFO.
struct InfoSection {
    /// The name with which clients request the section, in lower case.
    name: &'static str,
    /// The heading line of the section.
    title: &'static str,
    shown: ShownBy,
    write: fn(&View<'_>, &mut dyn Sink),
}

const fn section(
    name: &'static str,
    title: &'static str,
    shown: ShownBy,
    write: fn(&View<'_>, &mut dyn Sink),
) -> InfoSection {
    InfoSection { name, title, shown, write }
}

/// All sections, in the order of the reply.
const SECTIONS: &[InfoSection] = &[
    section("server", "Server", ShownBy::ByDefault, sections::server),
    section("tls", "TLS", ShownBy::InAll, sections::tls),
    section("clients", "Clients", ShownBy::ByDefault, sections::clients),
    section("memory", "Memory", ShownBy::ByDefault, sections::memory),
    section("persistence", "Persistence", ShownBy::ByDefault, sections::persistence),
    section("stats", "Stats", ShownBy::ByDefault, sections::stats),
    section("replication", "Replication", ShownBy::ByDefault, sections::replication),
    section("cpu", "CPU", ShownBy::ByDefault, sections::cpu),
    section("modules", "Modules", ShownBy::ByDefault, sections::modules),
    section("commandstats", "Commandstats", ShownBy::InAll, sections::commandstats),
    section("errorstats", "Errorstats", ShownBy::ByDefault, sections::errorstats),
    section("latencystats", "Latencystats", ShownBy::InAll, sections::latencystats),
    section("cluster", "Cluster", ShownBy::ByDefault, sections::cluster),
    section("cluster_info", "Cluster Info", ShownBy::InAll, cluster::section),
    section("slot_migration", "Slot Migration", ShownBy::InAll, cluster::slot_migration),
    section("scriptingengines", "Scripting Engines", ShownBy::InAll, sections::scripting_engines),
    section("hotkeys", "Hotkeys", ShownBy::InAll, sections::hot_keys),
    section("keyspace", "Keyspace", ShownBy::ByDefault, sections::keyspace),
    section("progress", "Progress", ShownBy::InAll, sections::progress),
    section("debug", "Debug", ShownBy::ByName, sections::debug),
];

impl InfoSection {
    /// Whether the client's arguments request the section.
    fn is_shown_for<'w>(&self, mut words: impl ExactSizeIterator<Item = &'w [u8]>) -> bool {
        let is_bare = words.len() == 0;
        is_bare && self.shown == ShownBy::ByDefault || words.any(|word| self.is_asked_for_by(word))
    }

    fn is_asked_for_by(&self, word: &[u8]) -> bool {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match self.shown {
            ShownBy::ByDefault if is("default") => true,
            ShownBy::ByDefault | ShownBy::InAll if is("all") || is("everything") => true,
            _ => is(self.name),
        }
    }
}

/// Whether the text for these arguments contains numbers about memory.
pub(crate) fn shows_memory<'w>(words: impl ExactSizeIterator<Item = &'w [u8]> + Clone) -> bool {
    let is_memory = |section: &&InfoSection| section.name == "memory";
    SECTIONS.iter().find(is_memory).is_some_and(|section| section.is_shown_for(words))
}

/// The text for a client's arguments; without arguments, the sections of `default`. Unknown arguments add
/// nothing.
pub fn text<'w>(view: &View<'_>, words: impl ExactSizeIterator<Item = &'w [u8]> + Clone) -> Vec<u8> {
    let mut lines = Lines::new();
    for section in SECTIONS {
        if section.is_shown_for(words.clone()) {
            lines.heading(section.title);
            (section.write)(view, &mut lines);
        }
    }
    lines.into_bytes()
}

/// All numbers, for the metrics endpoint.
pub fn sample(view: &View<'_>) -> MetricsSample {
    let mut sampler = Sampler::new();
    // The section of percentiles is left out, because it is the most expensive one; `exporter` writes the
    // percentiles of some commands.
    for section in SECTIONS.iter().filter(|section| section.name != "latencystats") {
        (section.write)(view, &mut sampler);
    }
    exporter::numbers(view, &mut sampler);
    sampler.sample
}

/// The arguments that request a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShownBy {
    /// No argument at all, `default`, `all`, `everything`, and the section's name.
    ByDefault,
    /// `all`, `everything`, and the section's name.
    InAll,
    /// Only the section's name.
    ByName,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sections_come_in_this_order() {
        let names: Vec<&str> = SECTIONS.iter().map(|s| s.name).collect();
        let wanted = "server tls clients memory persistence stats replication cpu modules commandstats errorstats \
                      latencystats cluster cluster_info slot_migration scriptingengines hotkeys keyspace progress debug";
        assert_eq!(names.join(" "), wanted);
    }

    #[test]
    fn default_is_less_than_all_and_debug_wants_its_name() {
        let count = |word: &[u8]| SECTIONS.iter().filter(|s| s.is_asked_for_by(word)).count();
        assert_eq!(count(b"default"), 11);
        assert_eq!(count(b"ALL"), 19);
        assert_eq!(count(b"everything"), 19);
        assert_eq!(count(b"Debug"), 1);
        assert_eq!(count(b"nosuch"), 0);
    }
}
