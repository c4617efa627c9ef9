//! The first line of a script, `#!lua flags=...`, and the flags of scripts and functions.

use sluice_base::quote::{Dialect, split_args};
use sluice_command::Spec;
use sluice_command::specs::scripting;

/// The flags that a script or function declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags(u8);

impl ScriptFlags {
    /// `no-writes`: the script calls no command that writes.
    pub const NO_WRITES: ScriptFlags = ScriptFlags(1);
    /// `allow-oom`: the script may run above `maxmemory`.
    pub const ALLOW_OOM: ScriptFlags = ScriptFlags(1 << 1);
    /// `allow-stale`: the script may run on a replica that has lost its primary.
    pub const ALLOW_STALE: ScriptFlags = ScriptFlags(1 << 2);
    /// `no-cluster`: the script refuses to run in cluster mode.
    pub const NO_CLUSTER: ScriptFlags = ScriptFlags(1 << 3);
    /// The flag of a script without a first line of this kind. For such a script the rules of versions that
    /// had no flags apply.
    pub const COMPATIBLE: ScriptFlags = ScriptFlags(1 << 4);
    /// `allow-cross-slot-keys`: the script may use keys of several slots.
    pub const ALLOW_CROSS_SLOT_KEYS: ScriptFlags = ScriptFlags(1 << 5);

    /// The flags that have a name, in the order in which FUNCTION LIST shows them.
    pub const NAMED: [(&'static str, ScriptFlags); 5] = [
        ("no-writes", ScriptFlags::NO_WRITES),
        ("allow-oom", ScriptFlags::ALLOW_OOM),
        ("allow-stale", ScriptFlags::ALLOW_STALE),
        ("no-cluster", ScriptFlags::NO_CLUSTER),
        ("allow-cross-slot-keys", ScriptFlags::ALLOW_CROSS_SLOT_KEYS),
    ];

    /// Whether all flags of `other` are set.
    #[inline]
    pub const fn has(self, other: ScriptFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags that are set in at least one of the two.
    pub(crate) const fn or(self, other: ScriptFlags) -> ScriptFlags {
        ScriptFlags(self.0 | other.0)
    }

    /// The flag of a name; `None` if no flag has that name.
    pub(crate) fn named(name: &[u8]) -> Option<ScriptFlags> {
        ScriptFlags::NAMED.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, flag)| *flag)
    }
}

/// The parsed first line of a script for EVAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptHead {
    /// The flags that the line declares.
    pub flags: ScriptFlags,
    /// Length in bytes of the first line, without its line end; the program follows.
    pub len: usize,
}

/// Reads the first line of a script for EVAL. A script that does not begin with `#!` has the flag
/// [`ScriptFlags::COMPATIBLE`] alone.
///
/// # Errors
/// The text of the error, without a code.
pub fn script_head(body: &[u8]) -> Result<ScriptHead, Vec<u8>> {
    if !body.starts_with(b"#!") {
        return Ok(ScriptHead { flags: ScriptFlags::COMPATIBLE, len: 0 });
    }
    let Some(len) = body.iter().position(|byte| *byte == b'\n' || *byte == 0).filter(|at| body[*at] == b'\n')
    else {
        return Err(b"Invalid script shebang".to_vec());
    };
    let words = split_args(&body[..len], Dialect::Config).unwrap_or_default();
    let Some((engine, options)) = words.split_first().filter(|(engine, _)| engine.len() >= 2) else {
        return Err(b"Invalid engine in script shebang".to_vec());
    };
    let mut flags = ScriptFlags::default();
    for option in options {
        let Some(names) = option.strip_prefix(b"flags=") else {
            return Err([b"Unknown lua shebang option: ", &option[..]].concat());
        };
        for name in names.split(|byte| *byte == b',').filter(|_| !names.is_empty()) {
            let flag = ScriptFlags::named(name)
                .ok_or_else(|| [b"Unexpected flag in script shebang: ", name].concat())?;
            flags = flags.or(flag);
        }
    }
    let engine = &engine[2..];
    match engine.eq_ignore_ascii_case(b"lua") {
        true => Ok(ScriptHead { flags, len }),
        false => Err([b"Could not find scripting engine '", engine, b"'"].concat()),
    }
}

/// Whether a command runs a script or function, so that the flags of the script count and not the flags of
/// the command.
pub fn runs_script(spec: &Spec) -> bool {
    SCRIPTS.iter().any(|script| script.id == spec.id)
}

const SCRIPTS: [&Spec; 6] = [
    &scripting::EVAL,
    &scripting::EVALSHA,
    &scripting::EVAL_RO,
    &scripting::EVALSHA_RO,
    &scripting::FCALL,
    &scripting::FCALL_RO,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_say_what_a_script_may() {
        let flags = |body: &str| script_head(body.as_bytes()).map(|head| head.flags);
        assert_eq!(flags("return 1"), Ok(ScriptFlags::COMPATIBLE));
        assert_eq!(flags("#!lua\nreturn 1"), Ok(ScriptFlags::default()));
        assert_eq!(flags("#!lua flags=\nreturn 1"), Ok(ScriptFlags::default()));
        let both = ScriptFlags::NO_WRITES.or(ScriptFlags::ALLOW_STALE);
        assert_eq!(flags("#!lua flags=no-writes,allow-stale\nreturn 1"), Ok(both));
        let errors = [
            ("#!lua", "Invalid script shebang"),
            ("#!\n", "Could not find scripting engine ''"),
            ("#!python\n", "Could not find scripting engine 'python'"),
            ("#!lua name=x\n", "Unknown lua shebang option: name=x"),
            ("#!lua flags=a\n", "Unexpected flag in script shebang: a"),
        ];
        for (body, wanted) in errors {
            assert_eq!(flags(body), Err(wanted.as_bytes().to_vec()), "{body}");
        }
    }
}
