//! Behaviour of the connection commands except CLIENT, and of the gate before AUTH.

use sluice_testkit::{Rig, check};

const WRONG_PASSWORD: &str = "-WRONGPASS invalid username-password pair or user is disabled.";
const NO_AUTH: &str = "-NOAUTH Authentication required.";
const NO_LABEL: &str = "-ERR Client names cannot contain spaces, newlines or special characters.";

#[test]
fn ping_and_echo() {
    check(&[
        ("PING", "+PONG"),
        ("PING x", "\"x\""),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
        ("ECHO \"a\\r\\nb\"", "\"a\\r\\nb\""),
        ("ECHO", "-ERR wrong number of arguments for 'echo' command"),
        ("ECHO a b", "-ERR wrong number of arguments for 'echo' command"),
    ]);
}

#[test]
fn select_takes_a_database_that_exists() {
    let range = "-ERR value is out of range, value must between -2147483648 and 2147483647";
    check(&[
        ("SET k v", "+OK"),
        ("SELECT 15", "+OK"),
        ("GET k", "nil"),
        ("SELECT 16", "-ERR DB index is out of range"),
        ("SELECT -1", "-ERR DB index is out of range"),
        ("SELECT a", "-ERR value is not an integer or out of range"),
        ("SELECT 01", "-ERR value is not an integer or out of range"),
        ("SELECT 99999999999999999999", "-ERR value is not an integer or out of range"),
        ("SELECT 2147483648", range),
        ("SELECT -2147483649", range),
        ("GET k", "nil"),
        ("SELECT 0", "+OK"),
        ("GET k", "\"v\""),
    ]);
}

#[test]
fn auth_without_a_password_takes_any_for_the_default_user() {
    let none = "-ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                configuration is correct?";
    check(&[
        ("AUTH", "-ERR wrong number of arguments for 'auth' command"),
        ("AUTH x", none),
        ("AUTH default", none),
        ("AUTH default x", "+OK"),
        ("AUTH Default x", WRONG_PASSWORD),
        ("AUTH bob x", WRONG_PASSWORD),
        ("AUTH a b c", "-ERR syntax error"),
    ]);
}

#[test]
fn auth_with_a_password_takes_that_one() {
    let mut rig = Rig::with(&[("requirepass", "pw")]);
    for (line, expected) in [
        ("AUTH p", WRONG_PASSWORD),
        ("AUTH pww", WRONG_PASSWORD),
        ("AUTH pwpw", WRONG_PASSWORD),
        ("AUTH \"\"", WRONG_PASSWORD),
        ("AUTH default pv", WRONG_PASSWORD),
        ("AUTH bob pw", WRONG_PASSWORD),
        ("GET k", NO_AUTH),
        ("AUTH default pw", "+OK"),
        ("GET k", "nil"),
        ("AUTH x", WRONG_PASSWORD),
        ("GET k", "nil"),
        ("AUTH pw", "+OK"),
    ] {
        rig.check(line, expected);
    }
    assert!(rig.run("INFO stats").contains("acl_access_denied_auth:7"));
}

#[test]
fn strangers_learn_nothing_of_what_there_is() {
    let mut rig = Rig::with(&[("requirepass", "pw")]);
    for line in ["GET", "GET k", "NOSUCH", "SET a", "CLIENT", "CLIENT NOSUCH", "CLIENT ID", "COMMAND", "PING"]
    {
        rig.check(line, NO_AUTH);
    }
    for (line, expected) in [
        ("AUTH", "-ERR wrong number of arguments for 'auth' command"),
        ("RESET x", "-ERR wrong number of arguments for 'reset' command"),
        ("RESET", "+RESET"),
        ("QUIT x", "+OK"),
    ] {
        rig.check(line, expected);
    }
}

#[test]
fn unauthenticated_clients_are_owed_little() {
    let mut rig = Rig::with(&[("requirepass", "pw")]);
    // The errors are slightly more than fit into the reference's first output buffer (defect A3).
    let errors = rig.bytes(rig.client, &b"GET k\r\n".repeat(480));
    assert_eq!(errors.len(), 480 * (NO_AUTH.len() + 2));
    assert!(!rig.is_closing(rig.client));
    rig.bytes(rig.client, &b"GET k\r\n".repeat(600));
    assert!(rig.is_closing(rig.client));
    let friend = rig.connect();
    rig.run_as(friend, "AUTH pw");
    rig.run_as(friend, "RESET");
    rig.bytes(friend, &b"GET k\r\n".repeat(100));
    assert!(!rig.is_closing(friend));
}

const GREETING_2: &str = "[\"server\", \"valkey\", \"version\", \"9.1.2\", \"proto\", :2, \"id\", :1, \"mode\", \
                          \"standalone\", \"role\", \"master\", \"modules\", []]";
const GREETING_3: &str = "{\"server\": \"valkey\", \"version\": \"9.1.2\", \"proto\": :3, \"id\": :1, \"mode\": \
                          \"standalone\", \"role\": \"master\", \"modules\": []}";

#[test]
fn hello_chooses_the_protocol() {
    check(&[
        ("HELLO", GREETING_2),
        ("HELLO 3", GREETING_3),
        ("HELLO", GREETING_3),
        ("GET k", "null"),
        ("HELLO 1", "-NOPROTO unsupported protocol version"),
        ("HELLO 4 NOSUCH", "-NOPROTO unsupported protocol version"),
        ("HELLO 03", "-ERR Protocol version is not an integer or out of range"),
        ("HELLO x NOSUCH", "-ERR Protocol version is not an integer or out of range"),
        ("GET k", "null"),
        ("HELLO 2", GREETING_2),
        ("GET k", "nil"),
    ]);
}

#[test]
fn regress_hello_says_that_a_replica_is_one() {
    let mut rig = Rig::new();
    rig.check("HELLO 3", GREETING_3);
    rig.check("REPLICAOF 127.0.0.1 1", "+OK");
    rig.check("HELLO 3", &GREETING_3.replace("master", "replica"));
    rig.check("REPLICAOF NO ONE", "+OK");
    rig.check("HELLO 3", GREETING_3);
}

#[test]
fn hello_names_and_authenticates() {
    check(&[
        ("HELLO 2 SETNAME a SETNAME b", GREETING_2),
        ("CLIENT GETNAME", "\"b\""),
        ("HELLO 2 setname c auth default x", GREETING_2),
        ("CLIENT GETNAME", "\"c\""),
        ("HELLO 3 SETNAME d AUTH bob x", WRONG_PASSWORD),
        ("CLIENT GETNAME", "\"c\""),
        ("HELLO 3 AUTH bob x SETNAME \"d e\"", NO_LABEL),
        ("HELLO 3 AUTH", "-ERR Syntax error in HELLO option 'AUTH'"),
        ("HELLO 3 auth default", "-ERR Syntax error in HELLO option 'auth'"),
        ("HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'"),
        ("HELLO 3 SETNAME x NOSUCH", "-ERR Syntax error in HELLO option 'NOSUCH'"),
        ("HELLO 2 SETNAME \"\"", GREETING_2),
        ("CLIENT GETNAME", "nil"),
    ]);
}

#[test]
fn hello_needs_or_gives_authentication() {
    let refusal = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
                   <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
                   the same time";
    let mut rig = Rig::with(&[("requirepass", "pw")]);
    for (line, expected) in [
        ("HELLO", refusal),
        ("HELLO 3 SETNAME x", refusal),
        ("HELLO 3 AUTH default pv SETNAME x", WRONG_PASSWORD),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("HELLO 3 AUTH default pw SETNAME x", GREETING_3),
        ("CLIENT GETNAME", "\"x\""),
    ] {
        rig.check(line, expected);
    }
}

#[test]
fn hello_tells_the_zone_and_may_call_itself_redis() {
    let mut rig = Rig::with(&[("availability-zone", "az1"), ("extended-redis-compatibility", "yes")]);
    let greeting = rig.run("HELLO 3");
    assert!(greeting.starts_with("{\"server\": \"redis\", \"version\": \"7.2.4\", "), "{greeting}");
    assert!(greeting.ends_with("\"modules\": [], \"availability_zone\": \"az1\"}"), "{greeting}");
}

#[test]
fn quit_answers_and_ends() {
    for line in ["QUIT", "quit a b"] {
        let mut rig = Rig::new();
        rig.check(line, "+OK");
        assert!(rig.is_closing(rig.client));
        rig.check("SET k v", "");
        let other = rig.connect();
        assert_eq!(rig.run_as(other, "GET k"), "nil");
    }
}

#[test]
fn what_follows_quit_is_not_executed() {
    let mut rig = Rig::new();
    let replies = rig.bytes(rig.client, b"QUIT\r\nSET k v\r\n");
    assert_eq!(replies, b"+OK\r\n");
    let other = rig.connect();
    assert_eq!(rig.run_as(other, "GET k"), "nil");
}

#[test]
fn reset_forgets_the_state_and_keeps_what_the_client_is() {
    let mut rig = Rig::new();
    for line in [
        "HELLO 3 SETNAME me",
        "SELECT 3",
        "CLIENT SETINFO LIB-NAME lib",
        "CLIENT CAPA redirect",
        "CLIENT NO-EVICT ON",
        "CLIENT NO-TOUCH ON",
    ] {
        rig.run(line);
    }
    let before = rig.run("CLIENT INFO");
    assert!(before.contains(" name=me ") && before.contains(" flags=eT capa=r db=3 "), "{before}");
    rig.check("RESET", "+RESET");
    let after = rig.run("CLIENT INFO");
    assert!(after.starts_with('"'), "RESP2 again: {after}");
    assert!(after.contains(" name= ") && after.contains(" flags=N capa=r db=0 "), "{after}");
    assert!(after.contains(" lib-name=lib "), "{after}");
}

#[test]
fn reset_ends_authentication_monitoring_and_silence() {
    let mut rig = Rig::with(&[("requirepass", "pw")]);
    rig.check("AUTH pw", "+OK");
    rig.check("MONITOR", "+OK");
    rig.check("CLIENT REPLY OFF", "");
    rig.check("RESET", "+RESET");
    rig.check("GET k", NO_AUTH);
    rig.check("AUTH pw", "+OK");
    rig.check("GET k", "nil");
}

#[test]
fn hello_shows_its_options_up_to_a_zero_byte() {
    let mut rig = Rig::new();
    rig.check(r#"HELLO 2 "x\x00y""#, "-ERR Syntax error in HELLO option 'x'");
    assert!(rig.run(r#"HELLO 2 SETNAME "a\x00 b""#).starts_with('['));
    rig.check("CLIENT GETNAME", r#""a\x00 b""#);
}

#[test]
fn http_ends_the_connection_without_a_word() {
    for line in ["POST / HTTP/1.1\r\n", "host: x\r\n", "*1\r\n$4\r\npost\r\n", "PING\r\nPost\r\nPING\r\n"] {
        let mut rig = Rig::new();
        assert_eq!(rig.bytes(rig.client, line.as_bytes()), b"", "{line:?}");
        assert!(rig.is_closing(rig.client), "{line:?}");
        let said = rig.process.log.iter().filter(|(_, line)| line.contains("SECURITY ATTACK")).count();
        assert_eq!(said, 1, "{line:?}");
    }
    Rig::new().check("posts", "-ERR unknown command 'posts', with args beginning with: ");
}

#[test]
fn http_is_said_in_the_log_once_a_minute() {
    let mut rig = Rig::new();
    for (pass_ms, said) in [(0, 1), (59_000, 1), (1_000, 2)] {
        rig.pass_ms(pass_ms);
        let client = rig.connect();
        rig.bytes(client, b"POST\r\n");
        assert_eq!(rig.process.log.iter().filter(|(_, line)| line.contains("ATTACK")).count(), said);
    }
}
