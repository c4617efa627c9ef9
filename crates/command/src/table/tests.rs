use super::*;

#[test]
fn every_name_is_found_in_any_case() {
    for &spec in &TOP {
        assert!(std::ptr::eq(lookup(spec.name().as_bytes()).expect("declared"), spec));
        assert!(std::ptr::eq(lookup(spec.name().to_uppercase().as_bytes()).expect("declared"), spec));
    }
}

#[test]
fn near_misses_are_not_found() {
    for &spec in &TOP {
        let name = spec.name().as_bytes();
        for at in 0..name.len() {
            for flip in 1..=255u8 {
                let mut near = name.to_vec();
                near[at] ^= flip;
                let known = TOP.iter().any(|spec| spec.name().as_bytes().eq_ignore_ascii_case(&near));
                assert_eq!(lookup(&near).is_some(), known, "{near:?}");
            }
        }
        for near in [&name[1..], &name[..name.len() - 1], &[name, b"\0"].concat(), &[b"\0", name].concat()] {
            assert_eq!(
                lookup(near).is_some(),
                TOP.iter().any(|spec| spec.name().as_bytes() == near),
                "{near:?}"
            );
        }
    }
}

#[test]
fn names_of_no_command_are_not_found() {
    for name in [&b""[..], b"\0", b"config|get", b"no-such", &[b'a'; 24], &[b'a'; 25], &[b'g'; 5000]] {
        assert!(lookup(name).is_none());
    }
}

#[test]
fn probing_is_short() {
    for key in NAMES {
        let home = key.hash();
        let taken = (0..SLOT_COUNT).take_while(|step| SLOTS[(home + step) % SLOT_COUNT] != EMPTY).count();
        assert!(taken <= 8, "{taken} names in a row");
    }
}

#[test]
fn words_are_lowered_byte_by_byte() {
    for byte in 0..=255u8 {
        for at in 0..8 {
            let mut bytes = *b"aZ@[`{\x80\xff";
            bytes[at] = byte;
            assert_eq!(
                lower(u64::from_le_bytes(bytes)).to_le_bytes(),
                bytes.map(|byte| byte.to_ascii_lowercase())
            );
        }
    }
}

#[test]
fn names_are_sorted_within_a_container() {
    for spec in ALL {
        assert!(spec.subcommands.iter().is_sorted_by(|a, b| a.name() < b.name()), "{}", spec.name());
    }
}

#[test]
fn names_are_sorted_within_a_group() {
    for pair in TOP.windows(2) {
        assert!(pair[0].group != pair[1].group || pair[0].name() < pair[1].name(), "{}", pair[1].name());
    }
}

#[test]
fn subcommands_are_named_after_their_container_and_follow_it() {
    let mut subcommands = 0;
    for container in ALL {
        for sub in container.subcommands {
            assert_eq!(sub.full_name, format!("{}|{}", container.name(), sub.name()));
            assert_eq!(sub.container(), Some(container.name()));
            assert!(sub.id.0 > container.id.0);
            assert!(std::ptr::eq(
                lookup_full(sub.full_name.to_uppercase().as_bytes()).expect("declared"),
                *sub
            ));
            subcommands += 1;
        }
    }
    assert_eq!(TOP.len() + subcommands, ALL.len());
}

#[test]
fn unknown_subcommands_are_not_found() {
    for name in [&b"config|"[..], b"config|nosuch", b"config|get|", b"|get", b"get|get"] {
        assert!(lookup_full(name).is_none());
    }
}

#[test]
fn a_request_names_a_command_or_a_subcommand() {
    let name = |words: &[&[u8]]| match resolve(words) {
        Named::Command(spec) => spec.full_name.to_owned(),
        Named::UnknownSubcommand(container) => format!("{} ?", container.name()),
        Named::Unknown => "?".to_owned(),
    };
    assert_eq!(name(&[b"Get", b"config"]), "get");
    assert_eq!(name(&[b"CONFIG", b"Get"]), "config|get");
    assert_eq!(name(&[b"config"]), "config");
    assert_eq!(name(&[b"config", b""]), "config ?");
    assert_eq!(name(&[b"config|get"]), "?");
    assert_eq!(name(&[]), "?");
}

#[test]
fn commands_write_keys_if_and_only_if_they_are_flagged_so() {
    for spec in ALL.iter().filter(|spec| !spec.keys.specs().is_empty()) {
        // PFCOUNT stores its estimate in the value but is a reader by its flags. XREADGROUP changes
        // groups, but the reference declares its keys as read. Commands that run scripts are not writers by
        // their flags; the commands that a script calls may be.
        let is_script = spec.group == crate::Group::Scripting;
        if is_script || matches!(spec.full_name, "pfcount" | "xreadgroup") {
            continue;
        }
        let writes = spec.keys.specs().iter().any(|keys| keys.access() == crate::KeyAccess::Write);
        assert_eq!(writes, spec.flags.has(crate::Flags::WRITE), "{}", spec.full_name);
    }
}
