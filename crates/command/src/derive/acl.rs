//! The ACL categories of a command: those declared, and those implied by its flags.

use crate::spec::{Cat, Flags, Spec};

/// All ACL categories of a command.
pub const fn categories(spec: &Spec) -> Cat {
    let mut all = spec.acl;
    let mut rule = 0;
    while rule < IMPLIED.len() {
        let (flag, cat) = IMPLIED[rule];
        if spec.flags.has(flag) {
            all = all.or(cat);
        }
        rule += 1;
    }
    // A read-only script command is not in the category `@read`, because it only calls other commands,
    // which are in it themselves.
    if spec.flags.has(Flags::READONLY) && !spec.acl.has(Cat::SCRIPTING) {
        all = all.or(Cat::READ);
    }
    if !spec.flags.has(Flags::FAST) { all.or(Cat::SLOW) } else { all }
}

const IMPLIED: [(Flags, Cat); 5] = [
    (Flags::WRITE, Cat::WRITE),
    (Flags::ADMIN, Cat::ADMIN.or(Cat::DANGEROUS)),
    (Flags::PUBSUB, Cat::PUBSUB),
    (Flags::FAST, Cat::FAST),
    (Flags::BLOCKING, Cat::BLOCKING),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::{server, string};

    fn names(spec: &Spec) -> Vec<&'static str> {
        categories(spec).names().collect()
    }

    #[test]
    fn flags_imply_categories() {
        assert_eq!(names(&string::GET), ["read", "string", "fast"]);
        assert_eq!(names(&string::SET), ["write", "string", "slow"]);
        assert_eq!(names(&server::CONFIG_GET), ["admin", "slow", "dangerous"]);
    }

    #[test]
    fn read_only_scripts_are_not_in_read() {
        let script = Spec { acl: Cat::SCRIPTING, ..string::GET };
        assert_eq!(names(&script), ["fast", "scripting"]);
    }

    #[test]
    fn publishing_and_blocking_are_implied() {
        let made_up = Spec { flags: Flags::PUBSUB.or(Flags::BLOCKING), acl: Cat::LIST, ..string::GET };
        assert_eq!(names(&made_up), ["list", "pubsub", "slow", "blocking"]);
    }
}
