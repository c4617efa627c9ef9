//! Tests of users, rules and refusals without a reference server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use sluice_acl::{Reason, Users};
use sluice_base::Rng;
use sluice_command::{Named, resolve};

fn set(users: &mut Users, rules: &[&str]) -> Result<(), String> {
    let rules = rules.iter().map(|rule| rule.as_bytes());
    users.set_user(b"u", rules).map(drop).map_err(|error| String::from_utf8(error.text()).unwrap())
}

fn text(users: &Users) -> String {
    String::from_utf8(users.get(b"u").unwrap().describe()).unwrap()
}

fn check(users: &Users, call: &[&str]) -> Option<(Reason, usize)> {
    let args: Vec<_> = call.iter().map(|arg| arg.as_bytes()).collect();
    let Named::Command(spec) = resolve(&args) else { panic!("{call:?}") };
    let denial = users.get(b"u").unwrap().check_args(spec, &args, 0, 16).err()?;
    Some((denial.reason, denial.position))
}

#[test]
fn texts_are_canonical() {
    let cases: [(&[&str], &str); 9] = [
        (&[], "off resetchannels -@all"),
        (&["on", "nopass", "allkeys", "allchannels", "allcommands"], "on nopass ~* &* +@all"),
        (&["+@all", "-debug", "+CONFIG|GET", "-config"], "off resetchannels +@all -debug -config"),
        (&["+get", "-@string", "+get"], "off resetchannels -@all -@string +get"),
        (&["%R~a", "%W~a", "%W~b"], "off ~a %W~b resetchannels -@all"),
        (&["db=3,1,3"], "off resetchannels db=1,3 -@all"),
        (&["resetdbs", "&x"], "off resetchannels &x resetdbs -@all"),
        (
            &["(+get", "~a)", "(~*)"],
            "off resetchannels -@all (~a resetchannels -@all +get) (~* resetchannels -@all)",
        ),
        (&["+select|A", "+select|a"], "off resetchannels -@all +select|a"),
    ];
    for (rules, canonical) in cases {
        let mut users = Users::new(false);
        set(&mut users, rules).unwrap();
        assert_eq!(text(&users), canonical, "{rules:?}");
    }
}

#[test]
fn a_faulty_rule_changes_nothing() {
    let mut users = Users::new(false);
    set(&mut users, &["on", "+get", "~a*"]).unwrap();
    let before = text(&users);
    let syntax = "Syntax error";
    let cases = [
        ("nonsense", syntax),
        ("%X~a", syntax),
        ("~a b", syntax),
        ("db=1,", syntax),
        ("db=-1", "The provided database ID is out of range"),
        ("+nosuch", "Unknown command or category name in ACL"),
        ("-@nosuch", "Unknown command or category name in ACL"),
        ("+config|get|x", "Allowing first-arg of a subcommand is not supported"),
        ("<none", "The password you are trying to remove from the user does not exist"),
        (
            "#00",
            "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
        ),
        ("+select|a b", syntax),
        ("+select|a\"b", syntax),
    ];
    for (rule, error) in cases {
        let told = set(&mut users, &["off", "+@all", rule]).unwrap_err();
        assert_eq!(told, format!("Error in ACL SETUSER modifier '{rule}': {error}"));
        assert_eq!(text(&users), before);
    }
    let told = set(&mut users, &["off", "(+get", "~x"]).unwrap_err();
    assert_eq!(told, "Unmatched parenthesis in acl selector starting at '(+get'.");
    let error = users.set_user(b"a b", std::iter::empty()).unwrap_err();
    assert_eq!(error.text(), b"Usernames can't contain spaces or null characters");
    assert_eq!(text(&users), before);
}

/// The reference does not quote words of a selector that have quotes or parentheses, and then reads a
/// different selector from its own text.
#[test]
fn odd_words_of_selectors_are_read_as_they_were_written() {
    let mut users = Users::new(false);
    set(&mut users, &[r#"(~'a"b' &c) +get +select|1) -set)"#, "~d\"e"]).unwrap();
    let expected =
        r#"off ~d"e resetchannels -@all ("~a\"b" resetchannels "&c)" -@all +get "+select|1)" -set)"#;
    assert_eq!(text(&users), expected);
    let mut copy = Users::new(false);
    set(&mut copy, &expected.split(' ').collect::<Vec<_>>()).unwrap();
    assert_eq!(text(&copy), expected);
    assert!(users.get(b"u").unwrap().is_same_definition(copy.get(b"u").unwrap()));
    let loaded = Users::parse_file(&users.to_file(), b"f", false).unwrap();
    assert!(users.get(b"u").unwrap().is_same_definition(loaded.get(b"u").unwrap()));
    assert_eq!(check(&copy, &["GET", "a\"b"]), None);
}

/// For `%RW~*` the reference writes `~*`, and then refuses its own text if another pattern follows.
#[test]
fn a_pattern_of_all_keys_may_stand_beside_others() {
    let mut users = Users::new(false);
    set(&mut users, &["%RW~*", "%R~b*", "+get"]).unwrap();
    assert_eq!(text(&users), "off %RW~* %R~b* resetchannels -@all +get");
    let loaded = Users::parse_file(&users.to_file(), b"f", false).unwrap();
    assert!(users.get(b"u").unwrap().is_same_definition(loaded.get(b"u").unwrap()));
}

#[test]
fn one_selector_has_to_allow_all_of_it() {
    let mut users = Users::new(false);
    set(&mut users, &["+get", "~a*", "(+set ~b* db=0)", "(+publish &news)"]).unwrap();
    assert_eq!(check(&users, &["get", "a1"]), None);
    assert_eq!(check(&users, &["set", "b1", "v"]), None);
    assert_eq!(check(&users, &["set", "a1", "v"]), Some((Reason::Key, 1)));
    assert_eq!(check(&users, &["del", "a1"]), Some((Reason::Command, 0)));
    assert_eq!(check(&users, &["publish", "news", "x"]), None);
    assert_eq!(check(&users, &["publish", "new", "x"]), Some((Reason::Channel, 1)));
    set(&mut users, &["clearselectors", "db=1", "+copy", "~*"]).unwrap();
    assert_eq!(check(&users, &["get", "a1"]), Some((Reason::Database, 0)));
    assert_eq!(check(&users, &["copy", "a", "b", "db", "2"]), Some((Reason::Database, 4)));
    assert_eq!(check(&users, &["copy", "a", "b", "db", "1"]), Some((Reason::Database, 0)));
}

#[test]
fn what_stands_behind_a_zero_byte_counts() {
    let mut users = Users::new(false);
    set(&mut users, &["+psubscribe", "+get|a", "~*", "&news"]).unwrap();
    let command = Some((Reason::Command, 0));
    for (call, refused) in [
        (["PSUBSCRIBE", "news"], None),
        (["PSUBSCRIBE", "news\0*"], Some((Reason::Channel, 1))),
        (["PSUBSCRIBE", "\0news"], Some((Reason::Channel, 1))),
        (["GET", "a"], None),
        (["GET", "A"], None),
        (["GET", "a\0secret"], command),
        (["GET", "a\0"], command),
        (["GET", ""], command),
    ] {
        assert_eq!(check(&users, &call), refused, "{call:?}");
    }
    // If a user has lost some channels, the remaining channels are checked in the same way.
    set(&mut users, &["&more*"]).unwrap();
    let left = users.set_user(b"u", [&b"resetchannels"[..], b"&news"].into_iter()).unwrap().unwrap();
    assert!(left.allows(b"news", true) && !left.allows(b"news\0*", true));
}

#[test]
fn calls_that_lack_arguments_are_judged_by_what_is_there() {
    let mut users = Users::new(false);
    set(&mut users, &["+@all", "-del", "%R~*", "~p*", "&p*", "db=0,1"]).unwrap();
    for spec in sluice_command::table::ALL {
        for args in
            [&[&b"x"[..]][..], &[b"x", b"p"], &[b"x", b"1", b"p"], &[b"x", b"p", b"99999999999999999999"]]
        {
            let judged = users.get(b"u").unwrap().check_args(spec, args, 0, 16);
            let position = judged.map_or_else(|denial| denial.position, |()| 0);
            assert!(position < args.len(), "{}", spec.full_name);
        }
    }
    assert_eq!(check(&users, &["DEL"]), Some((Reason::Command, 0)));
    assert_eq!(check(&users, &["GET"]), None);
    assert_eq!(check(&users, &["SET", "k"]), Some((Reason::Key, 1)));
}

#[test]
fn the_text_of_random_users_gives_the_same_users() {
    const RULES: &[&str] = &[
        "on",
        "nopass",
        "~*",
        "~a*",
        "%R~b",
        "%W~b",
        "%W~c?",
        "resetkeys",
        "&*",
        "&x*",
        "&y",
        "resetchannels",
        "+@all",
        "-@all",
        "+@read",
        "-@write",
        "-@dangerous",
        "+@slow",
        "+get",
        "-get",
        "+config",
        "-config|set",
        "+config|get",
        "-config",
        "+select|1",
        "+select|2",
        "+select",
        "-select",
        "db=3,1",
        "db=0",
        "resetdbs",
        "alldbs",
        ">one",
        ">two",
        "<one",
        "(~x +get)",
        "(+@all -debug &q db=2)",
        "clearselectors",
        "+client|id",
        "-@connection",
    ];
    let mut rng = Rng::new(7);
    for _ in 0..3000 {
        let (mut users, mut again) = (Users::new(false), Users::new(false));
        for _ in 0..rng.below(12) {
            // A refused rule changes nothing.
            let _ = set(&mut users, &[RULES[rng.below(RULES.len() as u64) as usize]]);
        }
        set(&mut users, &[]).unwrap();
        let canonical = text(&users);
        set(&mut again, &canonical.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!(text(&again), canonical);
        let (one, other) = (users.get(b"u").unwrap(), again.get(b"u").unwrap());
        assert!(one.is_same_definition(other), "{canonical}");
        let loaded = Users::parse_file(&users.to_file(), b"f", false).unwrap();
        assert!(loaded.get(b"u").unwrap().is_same_definition(one), "{canonical}");
    }
}

#[test]
fn sessions_learn_what_becomes_of_their_user() {
    let mut users = Users::new(false);
    set(&mut users, &["on", ">pw"]).unwrap();
    let held = users.authenticate(b"u", b"pw").unwrap();
    assert!(users.authenticate(b"u", b"no").is_err() && users.authenticate(b"nobody", b"pw").is_err());
    assert!(!held.is_stale());
    set(&mut users, &["+get"]).unwrap();
    assert!(held.is_stale());
    let held = std::sync::Arc::clone(users.renew(&held).unwrap());
    users.delete(b"u").unwrap();
    set(&mut users, &["on"]).unwrap();
    assert!(held.is_stale() && users.renew(&held).is_none(), "another user of the same name");
    assert!(users.delete(b"default").is_none());
    set(&mut users, &["off"]).unwrap();
    assert!(users.authenticate(b"u", b"").is_err(), "disabled");
}

#[test]
fn a_loaded_file_tells_who_is_gone_and_who_lost_channels() {
    let mut users = Users::new(false);
    set(&mut users, &["on", "&a", "&b"]).unwrap();
    users.set_user(b"v", std::iter::empty()).unwrap();
    let held = users.get(b"u").cloned().unwrap();
    let change = users.replace(Users::parse_file(b"user u on &a\n", b"f", false).unwrap());
    assert_eq!(change.gone.iter().map(|user| user.name()).collect::<Vec<_>>(), [b"v"]);
    let replaced: Vec<&[u8]> = change.replaced.iter().map(|user| user.name()).collect();
    assert_eq!(replaced, [&b"default"[..], b"u"]);
    let (user, left) = &change.revoked[0];
    assert!(user.name() == b"u" && left.allows(b"a", false) && !left.allows(b"b", false));
    assert!(held.is_stale() && users.renew(&held).is_some());
    let change = users.replace(Users::parse_file(b"user u on &a &c\n", b"f", false).unwrap());
    assert!(change.revoked.is_empty() && change.gone.is_empty());
}

#[test]
fn passwords_are_hidden_and_counted_once() {
    let mut users = Users::new(false);
    set(&mut users, &[">secret", ">secret", ">other"]).unwrap();
    let user = users.get(b"u").unwrap();
    assert_eq!(user.passwords().len(), 2);
    assert!(!format!("{user:?}").contains(&user.passwords()[0].hex()));
    let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    assert_eq!(user.passwords()[0].hex(), hash);
    users.set_default_password(Some(b"secret"));
    assert_eq!(users.default_user().line(), format!("user default on #{hash} ~* &* +@all").as_bytes());
    users.set_default_password(None);
    assert!(users.default_user().allows_all() && users.default_user().is_nopass());
}

#[test]
fn lines_of_the_configuration_define_users() {
    let mut lines = sluice_acl::ConfigUsers::default();
    lines.add(&[b"user", b"u", b"on", b"(+get", b"~a)"], false).unwrap();
    lines.add(&[b"user", b"v", b"+nosuch"], false).unwrap();
    let fault = lines.add(&[b"user", b"u"], false).unwrap_err();
    assert_eq!(fault.error.text(), "Duplicate user found. A user can only be defined once in config files");
    assert_eq!(lines.add(&[b"user", b"w", b"on", b"bad"], false).unwrap_err().shown, 1);
    let told = lines.define(&mut Users::new(false)).unwrap_err();
    let expected =
        "Error loading ACL rule '+nosuch' for the user named 'v': Unknown command or category name in ACL";
    assert_eq!(String::from_utf8(told).unwrap(), expected);
    let mut lines = sluice_acl::ConfigUsers::default();
    lines.add(&[b"user", b"default", b"+get"], false).unwrap();
    let mut users = Users::new(false);
    assert_eq!(lines.define(&mut users).unwrap(), [b"default"]);
    assert_eq!(users.default_user().describe(), b"off resetchannels -@all +get");
}

#[test]
fn the_digest_is_the_published_one() {
    let mut users = Users::new(false);
    let alone = "24ece0a4daea0bcb936b438ae6c9f36db76f57dfc70e00def7b2c26041c49822";
    assert_eq!(users.digest(), alone, "the example of valkey-io/valkey#4446");
    set(&mut users, &["+get"]).unwrap();
    assert_ne!(users.digest(), alone);
    users.delete(b"u").unwrap();
    assert_eq!(users.digest(), alone);
}

#[test]
fn ten_thousand_users_are_loaded() {
    let file: String =
        (0..10_000).map(|at| format!("user u{at} on >p{at} ~k{at}:* +@read -keys\n")).collect();
    let users = Users::parse_file(file.as_bytes(), b"f", false).unwrap();
    assert_eq!(users.count(), 10_001);
    assert!(users.authenticate(b"u9999", b"p9999").is_ok());
    assert_eq!(Users::parse_file(&users.to_file(), b"f", false).unwrap().to_file(), users.to_file());
}

fn set_role(users: &mut Users, name: &str, rules: &[&str]) -> Result<Vec<String>, String> {
    let rules = rules.iter().map(|rule| rule.as_bytes());
    let lost = users.set_role(name.as_bytes(), rules);
    let lost = lost.map_err(|error| String::from_utf8(error.text()).unwrap())?;
    Ok(lost.iter().map(|(user, _)| String::from_utf8(user.name().to_vec()).unwrap()).collect())
}

#[test]
fn roles_add_to_what_a_user_may() {
    let mut users = Users::new(false);
    set_role(&mut users, "reader", &["+get", "~r:*", "(+set", "~w:*)", "db=0"]).unwrap();
    set_role(&mut users, "Reader", &["+del", "~d:*"]).unwrap();
    set(&mut users, &["on", "+ping", "role=reader,Reader,reader"]).unwrap();
    assert_eq!(text(&users), "on role=reader,Reader resetchannels -@all +ping");
    for allowed in [&["PING"][..], &["GET", "r:1"], &["SET", "w:1", "v"], &["DEL", "d:1"]] {
        assert_eq!(check(&users, allowed), None, "{allowed:?}");
    }
    assert_eq!(check(&users, &["GET", "w:1"]), Some((Reason::Key, 1)));
    assert_eq!(check(&users, &["DEL", "r:1"]), Some((Reason::Key, 1)));
    // A change to a role changes the users that hold it, so older versions of these users are stale.
    let held = users.get(b"u").unwrap().clone();
    set_role(&mut users, "reader", &["resetkeys", "~x:*", "clearselectors"]).unwrap();
    assert!(held.is_stale());
    assert_eq!(check(&users, &["GET", "x:1"]), None);
    assert_eq!(check(&users, &["GET", "r:1"]), Some((Reason::Key, 1)));
    assert_eq!(check(&users, &["SET", "w:1", "v"]), Some((Reason::Command, 0)));
    // All of a user's rights may come from a role.
    set_role(&mut users, "all", &[]).unwrap_err();
    set_role(&mut users, "everything", &["+@all", "~*", "&*"]).unwrap();
    set(&mut users, &["reset", "role=everything"]).unwrap();
    assert!(users.get(b"u").unwrap().allows_all());
    set(&mut users, &["resetroles"]).unwrap();
    assert_eq!(text(&users), "off resetchannels -@all");
    set(&mut users, &["role=reader", "reset"]).unwrap();
    assert_eq!(text(&users), "off resetchannels -@all");
}

#[test]
fn roles_that_cannot_be_are_refused_and_change_nothing() {
    let mut users = Users::new(false);
    set_role(&mut users, "r", &["+get"]).unwrap();
    let line = |users: &Users| String::from_utf8(users.roles().get(b"r").unwrap().line()).unwrap();
    let modifier = |rule: &str| format!("Error in ACL SETROLE modifier '{rule}': Syntax error");
    for rule in
        ["on", "off", "reset", ">p", "<p", "#aa", "!aa", "nopass", "resetpass", "role=r", "resetroles"]
    {
        assert_eq!(set_role(&mut users, "r", &["+set", rule]), Err(modifier(rule)));
        assert_eq!(line(&users), "role r resetchannels -@all +get");
    }
    let unmatched = "Unmatched parenthesis in acl selector starting at '(+get'.";
    assert_eq!(set_role(&mut users, "r", &["(+get", "~a"]), Err(unmatched.to_owned()));
    for (name, expected) in [
        ("", "Role names can't be empty"),
        ("a b", "Role names can't contain spaces or null characters"),
        ("a\0b", "Role names can't contain spaces or null characters"),
        ("a\"b", "Role names can't contain quotes or backslashes"),
        ("a\\b", "Role names can't contain quotes or backslashes"),
        ("a,b", "Role names can't contain commas"),
        ("GET", "Role name conflicts with a command or category name"),
        ("read", "Role name conflicts with a command or category name"),
        ("config|get", "Role name conflicts with a command or category name"),
        ("debug|sleep", "Role name conflicts with a command or category name"),
        ("@read", "Role name conflicts with a command or category name"),
        ("@mine", "Role name conflicts with a command or category name"),
    ] {
        assert_eq!(set_role(&mut users, name, &[]), Err(expected.to_owned()), "{name:?}");
    }
    let missing = "Error in ACL SETUSER modifier 'role=r,s': The specified role does not exist";
    assert_eq!(set(&mut users, &["role=r,s"]), Err(missing.to_owned()));
    for rule in ["role=", "role=r,", "role=,r"] {
        let expected = format!("Error in ACL SETUSER modifier '{rule}': Syntax error");
        assert_eq!(set(&mut users, &[rule]), Err(expected));
    }
    assert!(users.get(b"u").is_none());
}

#[test]
fn roles_are_deleted_when_nobody_holds_them() {
    let mut users = Users::new(false);
    for name in ["a1", "a2", "a3"] {
        set_role(&mut users, name, &[]).unwrap();
    }
    set(&mut users, &["role=a2"]).unwrap();
    let names = |names: &'static [&'static str]| names.iter().map(|name| name.as_bytes());
    assert_eq!(users.delete_roles(names(&["a1", "a2"])), Err(&b"a2"[..]));
    assert_eq!(users.roles().count(), 3);
    assert_eq!(users.delete_roles(names(&["a1", "none", "a3", "a1"])), Ok(2));
    users.delete(b"u");
    assert_eq!(users.delete_roles(names(&["a2"])), Ok(1));
}

#[test]
fn users_that_lose_channels_with_a_role_are_named() {
    let mut users = Users::new(false);
    set_role(&mut users, "news", &["&news:*", "&more"]).unwrap();
    for (name, rule) in [(&b"v"[..], &b"&*"[..]), (b"w", b"&news:*"), (b"u", b"+get")] {
        users.set_user(name, [&b"role=news"[..], rule].into_iter()).unwrap();
    }
    assert_eq!(set_role(&mut users, "news", &["+get"]).unwrap(), Vec::<String>::new());
    assert_eq!(set_role(&mut users, "news", &["resetchannels", "&more"]).unwrap(), ["u"]);
    assert_eq!(set_role(&mut users, "news", &["resetchannels"]).unwrap(), ["u", "w"]);
    set_role(&mut users, "news", &["&more"]).unwrap();
    let lost = users.set_user(b"u", [&b"resetroles"[..]].into_iter()).unwrap().unwrap();
    assert!(!lost.allows(b"more", false));
}

#[test]
fn files_have_roles_ahead_of_users() {
    let text = "user u on role=b\nrole b ~k +get (+set ~a)\nrole a\nuser default role=b on nopass\n";
    let users = Users::parse_file(text.as_bytes(), b"f", false).unwrap();
    let expected = "role a resetchannels -@all\n\
        role b ~k resetchannels -@all +get (~a resetchannels -@all +set)\n\
        user default on nopass role=b resetchannels -@all\nuser u on role=b resetchannels -@all\n";
    assert_eq!(String::from_utf8(users.to_file()).unwrap(), expected);
    assert_eq!(Users::parse_file(expected.as_bytes(), b"f", false).unwrap().to_file(), users.to_file());
    let mut present = Users::new(false);
    set_role(&mut present, "old", &["&gone"]).unwrap();
    set(&mut present, &["role=old"]).unwrap();
    let changes = present.replace(users);
    assert_eq!(changes.revoked.len(), 2, "the default user has lost channels too");
    assert_eq!(String::from_utf8(present.to_file()).unwrap(), expected);
    let faults = "role\nrole get\nrole b >p\nrole b\nrole c +nosuch\nuser u role=d\nrole e (+get\n";
    let told = Users::parse_file(faults.as_bytes(), b"f", false).unwrap_err();
    let expected = "f:1: role keyword requires a role name. \
        f:2: Role name conflicts with a command or category name. f:3: Syntax error. \
        WARNING: Duplicate role 'b' found on line 4. \
        f:5: Error in applying operation '+nosuch': Unknown command or category name in ACL. \
        f:7: Unmatched parenthesis in selector definition.f:6: The specified role does not exist. \
        WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
    assert_eq!(String::from_utf8(told).unwrap(), expected);
}

#[test]
fn lines_of_the_configuration_define_roles() {
    let mut lines = sluice_acl::ConfigUsers::default();
    lines.add(&[b"user", b"u", b"on", b"role=r"], false).unwrap();
    lines.add(&[b"ROLE", b"r", b"(+get", b"~a)"], false).unwrap();
    let fault = lines.add(&[b"role", b"r"], false).unwrap_err();
    assert_eq!(fault.error.text(), "Duplicate role found. A role can only be defined once in config files");
    for rules in [&[&b"on"[..]][..], &[b"+get", b"~a", b"on"], &[b"(+get"]] {
        let fault = lines.add(&[&[&b"role"[..], b"s"], rules].concat(), false).unwrap_err();
        assert_eq!(fault.shown, 1, "the name: {}", fault.error.text());
    }
    assert_eq!(lines.add(&[b"role", b"s", b"on"], false).unwrap_err().error.text(), "Syntax error");
    let mut users = Users::new(false);
    lines.define(&mut users).unwrap();
    let expected = "role r resetchannels -@all (~a resetchannels -@all +get)\n\
        user default on nopass ~* &* +@all\nuser u on role=r resetchannels -@all\n";
    assert_eq!(String::from_utf8(users.to_file()).unwrap(), expected);
    let told = |words: &[&[u8]]| {
        let mut lines = sluice_acl::ConfigUsers::default();
        lines.add(words, false).unwrap();
        String::from_utf8(lines.define(&mut Users::new(false)).unwrap_err()).unwrap()
    };
    let missing = "Error loading ACL rule 'role=r' for the user named 'u': The specified role does not exist";
    assert_eq!(told(&[b"user", b"u", b"role=r"]), missing);
    let taken = "Error loading the ACL role named 'get': Role name conflicts with a command or category name";
    assert_eq!(told(&[b"role", b"get"]), taken);
}

#[test]
fn a_changed_role_changes_the_digest() {
    let mut users = Users::new(false);
    let alone = users.digest();
    set_role(&mut users, "r", &["+get"]).unwrap();
    let with_role = users.digest();
    assert_ne!(with_role, alone);
    set_role(&mut users, "r", &["+set"]).unwrap();
    assert_ne!(users.digest(), with_role);
    users.delete_roles([&b"r"[..]].into_iter()).unwrap();
    assert_eq!(users.digest(), alone);
}
