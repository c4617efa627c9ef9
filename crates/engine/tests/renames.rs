//! Behaviour of `rename-command`.
#![allow(missing_docs)]

use sluice_testkit::Rig;

#[test]
fn a_renamed_command_answers_to_its_new_name_only() {
    let mut rig = Rig::with(&[
        ("rename-command", "FLUSHALL \"\""),
        ("rename-command", "get Fetch"),
        ("rename-command", "fetch take"),
        ("rename-command", "client c"),
        ("rename-command", "nosuch other"),
    ]);
    for (line, expected) in [
        ("SET k v", "+OK"),
        ("FLUSHALL", "-ERR unknown command 'FLUSHALL', with args beginning with: "),
        ("GET k", "-ERR unknown command 'GET', with args beginning with: 'k' "),
        ("fetch k", "-ERR unknown command 'fetch', with args beginning with: 'k' "),
        ("TAKE k", "\"v\""),
        ("take", "-ERR wrong number of arguments for 'get' command"),
        ("C ID", ":1"),
        ("other", "-ERR unknown command 'other', with args beginning with: "),
    ] {
        rig.check(line, expected);
    }
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let mut none = |_: &[u8]| Err(String::new());
    for (text, right) in [
        ("rename-command get set\n", false),
        ("rename-command get a\nrename-command set A\n", false),
        ("rename-command get x\nrename-command set get\n", true),
        ("rename-command get GET\n", true),
    ] {
        let config = sluice_config::parse_file(text.as_bytes(), "test", b"", &mut none).unwrap();
        assert_eq!(sluice_engine::check_renames(&config).is_ok(), right, "{text}");
    }
}
