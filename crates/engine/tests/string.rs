//! Behaviour of the string commands.
#![allow(missing_docs)]

use sluice_testkit::{Rig, check};

#[test]
fn set_and_get() {
    check(&[
        ("GET k", "nil"),
        ("SET k v", "+OK"),
        ("GET k", "\"v\""),
        ("SET k 12", "+OK"),
        ("GET k", "\"12\""),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("SET k v NX", "nil"),
        ("SET k v XX GET", "\"12\""),
        ("SET k v EX 0", "-ERR invalid expire time in 'set' command"),
        ("SET k v EX 10 PX 10", "-ERR syntax error"),
        ("NOSUCH a b", "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' "),
    ]);
}

#[test]
fn a_value_expires_when_its_time_has_passed() {
    let mut rig = Rig::new();
    rig.check("SET k v PX 100", "+OK");
    rig.pass_ms(50);
    rig.check("GET k", "\"v\"");
    rig.pass_ms(60);
    rig.check("GET k", "nil");
}
