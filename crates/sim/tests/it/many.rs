//! The traffic on the bus of a cluster with many nodes, and the time until news has reached all nodes.

use sluice_sim::run_many;

#[test]
fn news_reaches_all_and_the_bus_costs_no_more_than_its_rules_say() {
    let figures = run_many(40, 7, |_| ()).unwrap();
    // Gossip reports pongs that other nodes have received, each of which saves a ping, so the traffic is
    // less than the formula gives.
    let of_formula = figures.bytes_a_second / figures.bytes_by_formula;
    assert!((0.2..=1.05).contains(&of_formula), "{figures:?}");
    assert!(figures.messages_a_second > 2.0, "a random ping a second, and its answers: {figures:?}");
    assert!(figures.known_after_ms < 30_000, "two timeouts: {figures:?}");
    assert!((15_000..20_000).contains(&figures.failed_after_ms), "a timeout, and gossip: {figures:?}");
    assert_eq!(figures.halved, 12, "of 27 primaries: {figures:?}");
    // The time consists of the node timeout and half a second for each shard whose election comes
    // earlier; no replica waits for a second election.
    assert!((15_000..30_000).contains(&figures.served_after_ms), "{figures:?}");
    assert_eq!(run_many(40, 7, |_| ()).unwrap(), figures, "a function of the seed");
}
