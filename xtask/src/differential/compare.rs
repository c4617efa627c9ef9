//! Comparison of two raw replies by a rule.

use super::rules::Rule;
use crate::wire::{Reply, parse};

/// Whether the replies are equal by the rule. Replies with equal bytes are always equal; an error is only
/// equal to the same error.
pub(crate) fn equal(rule: Rule, ours: &[u8], peer: &[u8]) -> bool {
    if ours == peer {
        return true;
    }
    let (Some(ours), Some(peer)) = (parse(ours), parse(peer)) else { return false };
    equal_parsed(rule, &ours, &peer)
}

/// Like [`equal`], for parsed replies, such as the elements of a reply to EXEC.
pub(crate) fn equal_parsed(rule: Rule, ours: &Reply, peer: &Reply) -> bool {
    if ours == peer {
        return true;
    }
    if ours.kind != peer.kind || ours.null != peer.null || ours.is_error() {
        return false;
    }
    match rule {
        Rule::Exact | Rule::Skip => false,
        Rule::Shape => true,
        Rule::Unordered => sorted(&ours.items, 1) == sorted(&peer.items, 1) && ours.text == peer.text,
        Rule::Pairs => sorted(&ours.items, 2) == sorted(&peer.items, 2) && ours.text == peer.text,
        Rule::PairsWithout(names) => sorted(&masked(ours, names), 2) == sorted(&masked(peer, names), 2),
        Rule::Records(names) => {
            let records = |reply: &Reply| -> Vec<Vec<Reply>> {
                reply.items.iter().map(|record| masked(record, names)).collect()
            };
            ours.kind == b'*' && records(ours) == records(peer)
        }
        Rule::Near(distance) => near(ours, peer, distance),
        Rule::Scan => scan(ours, peer),
        Rule::FieldNames => field_names(ours) == field_names(peer),
        Rule::Sections => sections(ours) == sections(peer),
        Rule::LinesWithout(starts) => lines_without(ours, starts) == lines_without(peer, starts),
        Rule::Nodes => nodes(ours) == nodes(peer),
        Rule::DeepWithout(names) => {
            let [ours, peer] = [ours, peer].map(|reply| deep_masked(reply, names));
            ours.kind == peer.kind && sorted(&ours.items, 1) == sorted(&peer.items, 1)
        }
    }
}

/// The elements in groups of `size`, sorted; one group may be incomplete.
fn sorted(items: &[Reply], size: usize) -> Vec<&[Reply]> {
    let mut groups: Vec<&[Reply]> = items.chunks(size).collect();
    groups.sort();
    groups
}

/// The elements with the values of `names` emptied; the types of the values stay.
fn masked(reply: &Reply, names: &[&str]) -> Vec<Reply> {
    let mut items = reply.items.clone();
    for pair in items.chunks_exact_mut(2) {
        if names.iter().any(|name| pair[0].text == name.as_bytes()) {
            pair[1].text.clear();
            pair[1].items.clear();
        }
    }
    items
}

/// Whether two integers, or arrays of integers, are close; negative integers are no times and must be equal.
fn near(ours: &Reply, peer: &Reply, distance: i64) -> bool {
    if ours.kind == b'*' {
        let pairs = ours.items.iter().zip(&peer.items);
        return ours.items.len() == peer.items.len()
            && pairs.into_iter().all(|(a, b)| a == b || near(a, b, distance));
    }
    let numbers = (ours.string().parse::<i64>(), peer.string().parse::<i64>());
    let (Ok(a), Ok(b)) = numbers else { return false };
    (a < 0) == (b < 0) && (a >= 0 || a == b) && a.abs_diff(b) <= distance.unsigned_abs()
}

/// Whether two replies of a scan agree. If both scans are complete, they must have the same elements in any
/// order.
fn scan(ours: &Reply, peer: &Reply) -> bool {
    let ([cursor_a, items_a], [cursor_b, items_b]) = (ours.items.as_slice(), peer.items.as_slice()) else {
        return false;
    };
    let complete = cursor_a.text == b"0" && cursor_b.text == b"0";
    let same = |size| sorted(&items_a.items, size) == sorted(&items_b.items, size);
    !complete || same(1)
}

/// The names of the `name=value` words in the first line.
fn field_names(reply: &Reply) -> Vec<String> {
    let text = reply.string();
    let lines = text.lines().next().unwrap_or_default();
    lines.split(' ').filter_map(|word| word.split_once('=')).map(|(name, _)| name.to_string()).collect()
}

/// The `# Section` lines.
fn sections(reply: &Reply) -> Vec<String> {
    reply.string().lines().filter(|line| line.starts_with('#')).map(str::to_string).collect()
}

/// The text of a reply, without the format if the reply is a verbatim string.
fn text_of(reply: &Reply) -> String {
    let text = reply.string();
    if reply.kind == b'=' { text.strip_prefix("txt:").unwrap_or(&text).to_owned() } else { text }
}

/// The lines that do not begin with any of `starts`.
fn lines_without(reply: &Reply, starts: &[&str]) -> Vec<String> {
    let text = text_of(reply);
    let is_kept = |line: &&str| !starts.iter().any(|start| line.starts_with(start));
    text.lines().filter(is_kept).map(str::to_string).collect()
}

/// The lines of CLUSTER NODES, sorted, without the port of the bus and the times of ping and pong.
fn nodes(reply: &Reply) -> Vec<String> {
    let line = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        let bus_port = words.get(1).and_then(|address| address.split_once('@'));
        let tail = bus_port.and_then(|(_, rest)| rest.split_once(',')).map_or("", |(_, names)| names);
        let address = bus_port.map_or("", |(address, _)| address);
        words.iter_mut().skip(4).take(2).for_each(|time| *time = "");
        words.drain(..words.len().min(2));
        format!("{} {address} {tail} {}", line.split(' ').next().unwrap_or_default(), words.join(" "))
    };
    let mut lines: Vec<String> = text_of(reply).lines().map(line).collect();
    lines.sort();
    lines
}

/// The reply with the values of `names` emptied at any depth.
fn deep_masked(reply: &Reply, names: &[&str]) -> Reply {
    let mut all = reply.clone();
    all.items = masked(reply, names).iter().map(|item| deep_masked(item, names)).collect();
    all
}

#[cfg(test)]
mod tests {
    use super::{Rule, equal};

    #[test]
    fn an_error_is_only_equal_to_itself() {
        for rule in [Rule::Shape, Rule::Unordered, Rule::Near(5), Rule::Scan] {
            assert!(!equal(rule, b"-ERR a\r\n", b"-ERR b\r\n"), "{rule:?}");
            assert!(!equal(rule, b"-ERR a\r\n", b":1\r\n"), "{rule:?}");
        }
    }

    #[test]
    fn order_is_free_only_where_the_rule_says_so() {
        let (a, b) = (b"*2\r\n:1\r\n:2\r\n", b"*2\r\n:2\r\n:1\r\n");
        assert!(equal(Rule::Unordered, a, b));
        assert!(!equal(Rule::Exact, a, b));
        assert!(!equal(Rule::Pairs, a, b));
        assert!(!equal(Rule::Unordered, a, b"*2\r\n:1\r\n:1\r\n"));
    }

    #[test]
    fn near_integers_are_near_and_signs_differ() {
        assert!(equal(Rule::Near(2), b":100\r\n", b":98\r\n"));
        assert!(!equal(Rule::Near(2), b":100\r\n", b":97\r\n"));
        assert!(!equal(Rule::Near(2), b":-1\r\n", b":-2\r\n"));
        assert!(!equal(Rule::Near(2), b":0\r\n", b":-1\r\n"));
    }

    #[test]
    fn pages_are_compared_when_both_are_complete() {
        let page = |cursor: &str, items: &str| {
            format!("*2\r\n${}\r\n{cursor}\r\n{items}", cursor.len()).into_bytes()
        };
        assert!(equal(Rule::Scan, &page("0", "*2\r\n+a\r\n+b\r\n"), &page("0", "*2\r\n+b\r\n+a\r\n")));
        assert!(!equal(Rule::Scan, &page("0", "*1\r\n+a\r\n"), &page("0", "*1\r\n+b\r\n")));
        assert!(equal(Rule::Scan, &page("7", "*1\r\n+a\r\n"), &page("0", "*1\r\n+b\r\n")));
    }

    #[test]
    fn nodes_are_compared_without_times_and_ports_of_the_bus() {
        let list = |bus: u16, flags: &str, time: u64, slots: &str| {
            let lines = [
                format!("aa 127.0.0.1:7001@{bus},name {flags} - 0 {time} 1 connected {slots}"),
                format!("bb 127.0.0.1:7002@{} master - {time} 0 2 connected 6-9", bus + 1),
            ];
            let text = format!("{}\n{}\n", lines[usize::from(bus % 2)], lines[usize::from(1 - bus % 2)]);
            format!("${}\r\n{text}\r\n", text.len()).into_bytes()
        };
        let wanted = list(12, "myself,master", 1, "0-5");
        assert!(equal(Rule::Nodes, &wanted, &list(25, "myself,master", 2, "0-5")));
        assert!(!equal(Rule::Nodes, &wanted, &list(12, "myself,slave", 1, "0-5")));
        assert!(!equal(Rule::Nodes, &wanted, &list(12, "myself,master", 1, "0-4")));
    }

    #[test]
    fn names_are_left_out_at_any_depth() {
        let shard = |offset: u8, role: &str| {
            format!("*1\r\n*2\r\n+nodes\r\n*1\r\n*4\r\n+offset\r\n:{offset}\r\n+role\r\n+{role}\r\n")
        };
        let rule = Rule::DeepWithout(&["offset"]);
        assert!(equal(rule, shard(1, "master").as_bytes(), shard(2, "master").as_bytes()));
        assert!(!equal(rule, shard(1, "master").as_bytes(), shard(1, "slave").as_bytes()));
        let lines = Rule::LinesWithout(&["sent"]);
        assert!(equal(lines, b"$13\r\nstate:ok\nsent\r\n", b"$15\r\nsent:7\nstate:ok\r\n"));
        assert!(!equal(lines, b"$8\r\nstate:ok\r\n", b"$10\r\nstate:fail\r\n"));
    }

    #[test]
    fn a_type_is_part_of_the_shape() {
        assert!(equal(Rule::Shape, b":1\r\n", b":2\r\n"));
        assert!(!equal(Rule::Shape, b":1\r\n", b"+2\r\n"));
        assert!(!equal(Rule::Shape, b"$-1\r\n", b"$1\r\na\r\n"));
    }
}
