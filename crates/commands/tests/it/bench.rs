//! Tests of the bench itself: the steps that an engine takes before and after a handler.

use crate::common::{Bench, Counts, check, check_resp3};
use sluice_commands::WaitFor;
use sluice_keyspace::ExpiryMode;

#[test]
fn a_number_of_arguments_that_a_command_does_not_accept_is_refused() {
    check(&[
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command"),
    ]);
}

#[test]
#[should_panic(expected = "publish is not about data")]
fn a_command_that_is_not_about_data_ends_the_test() {
    check(&[("PUBLISH a b", ":0")]);
}

#[test]
#[should_panic(expected = "no command: nosuch")]
fn a_word_that_is_no_command_ends_the_test() {
    check(&[("nosuch", "")]);
}

#[test]
#[should_panic(expected = "reply of: GET k")]
fn a_reply_that_differs_ends_the_test() {
    check(&[("SET k v", "+OK"), ("GET k", "\"w\"")]);
}

#[test]
fn the_protocol_is_what_was_asked_for() {
    check(&[("GET k", "nil"), ("HELLO 3", "+OK"), ("GET k", "null")]);
    check_resp3(&[("GET k", "null")]);
}

#[test]
fn an_expired_key_goes_when_it_is_read_unless_expiry_is_turned_off() {
    let mut bench = Bench::new();
    bench.run("SET k v PX 10");
    bench.pass_ms(11);
    for (expiry, reply, keys) in
        [(ExpiryMode::Ignore, "\"v\"", 1), (ExpiryMode::Hide, "nil", 1), (ExpiryMode::Delete, "nil", 0)]
    {
        bench.expiry = expiry;
        bench.check("GET k", reply);
        assert_eq!(bench.keyspace.db(0).len(), keys, "{expiry:?}");
    }
    let counts = Counts { hits: 1, misses: 2, changes: 1, expired_keys: 1, slow_reads: 0 };
    assert_eq!(bench.counts, counts);
}

#[test]
fn a_slow_read_is_produced_to_its_end() {
    let mut bench = Bench::with(&[("slow-read-elements", "2")]);
    bench.check("RPUSH l a b c", ":3");
    bench.check("LRANGE l 0 1", r#"["a", "b"]"#);
    assert_eq!((bench.counts.slow_reads, bench.pieces.len()), (0, 0));
    bench.check("LRANGE l 0 -1", r#"["a", "b", "c"]"#);
    assert_eq!((bench.counts.slow_reads, bench.pieces.len()), (1, 1));
}

#[test]
fn a_command_that_waits_answers_nothing_and_leaves_what_it_waits_for() {
    let mut bench = Bench::new();
    bench.check("BLPOP l 0", "");
    assert!(matches!(&bench.wait, Some(WaitFor::Keys(on)) if on.count == 1));
    bench.may_wait = false;
    bench.check("BLPOP l 0", "nil-array");
    assert_eq!(bench.wait, None);
}

#[test]
fn benches_iterate_over_equal_data_in_one_order() {
    let members: String = (0..1000).map(|member| format!(" {member}x")).collect();
    let [one, other] = [&[][..], &[("slow-read-elements", "0")]].map(|directives| {
        let mut bench = Bench::with(directives);
        bench.run(&format!("SADD s{members}"));
        bench.run("SMEMBERS s")
    });
    assert_eq!(one, other);
}
