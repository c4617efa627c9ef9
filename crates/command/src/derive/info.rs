//! The replies of COMMAND, COMMAND INFO and COMMAND LIST.

use super::doc::Doc;
use super::{acl, keys};
use crate::spec::{Begin, Cat, Find, KeySpec, Spec};

/// The entry of a command in COMMAND INFO: ten parts, the last of which contains the entries of the
/// subcommands. For an unknown command the caller uses [`Doc::Null`].
pub fn info(spec: &Spec) -> Doc {
    let range = keys::legacy_range(spec);
    let categories = acl::categories(spec).names().map(|name| Doc::StatusText(format!("@{name}")));
    Doc::Array(vec![
        Doc::Str(spec.full_name),
        Doc::Int(spec.arity.wire()),
        Doc::Set(spec.flags.names().map(Doc::Status).collect()),
        Doc::Int(range.first),
        Doc::Int(range.last),
        Doc::Int(range.step),
        Doc::Set(categories.collect()),
        Doc::Set(spec.tips.iter().copied().map(Doc::Str).collect()),
        Doc::Set(spec.keys.specs().iter().map(key_spec).collect()),
        Doc::Array(spec.subcommands.iter().map(|sub| info(sub)).collect()),
    ])
}

/// The filter of COMMAND LIST.
#[derive(Clone, Copy, Debug)]
pub enum Filter<'a> {
    /// All commands and their subcommands.
    All,
    /// The commands and subcommands of a module. The list is empty, because commands of modules are not in
    /// this table.
    Module(&'a [u8]),
    /// The commands and subcommands in a category, written without `@`; none for an unknown category.
    Category(&'a [u8]),
    /// The commands and subcommands whose full name matches a glob pattern in any case.
    Pattern(&'a [u8]),
}

/// The full names that pass a filter, in the order of the table. `matches(pattern, name)` is the
/// server's glob match, which must ignore case.
pub fn list(filter: Filter<'_>, matches: impl Fn(&[u8], &[u8]) -> bool) -> Vec<&'static str> {
    let category = match filter {
        Filter::Category(name) => Cat::named(name),
        Filter::All | Filter::Module(_) | Filter::Pattern(_) => None,
    };
    let passes = |spec: &&&'static Spec| match filter {
        Filter::All => true,
        Filter::Module(_) => false,
        Filter::Category(_) => category.is_some_and(|cat| acl::categories(spec).has(cat)),
        Filter::Pattern(pattern) => matches(pattern, spec.full_name.as_bytes()),
    };
    crate::table::ALL.iter().filter(passes).map(|spec| spec.full_name).collect()
}

/// The names of key flags, as in the reply of COMMAND GETKEYSANDFLAGS.
pub fn key_flags(flags: crate::KeyFlags) -> Doc {
    Doc::Set(flags.names().map(Doc::Status).collect())
}

fn key_spec(spec: &KeySpec) -> Doc {
    let mut parts = Vec::with_capacity(4);
    if !spec.notes.is_empty() {
        parts.push(("notes", Doc::Str(spec.notes)));
    }
    parts.push(("flags", key_flags(spec.flags)));
    parts.push(("begin_search", begin(spec.begin)));
    parts.push(("find_keys", find(spec.find)));
    Doc::Map(parts)
}

fn begin(begin: Begin) -> Doc {
    match begin {
        Begin::Index(at) => typed("index", vec![("index", Doc::Int(at.into()))]),
        Begin::Keyword { word, from } => {
            typed("keyword", vec![("keyword", Doc::Str(word)), ("startfrom", Doc::Int(from.into()))])
        }
        Begin::Unknown => typed("unknown", Vec::new()),
    }
}

fn find(find: Find) -> Doc {
    match find {
        Find::Range { last, step, limit } => typed(
            "range",
            vec![
                ("lastkey", Doc::Int(last.into())),
                ("keystep", Doc::Int(step.into())),
                ("limit", Doc::Int(limit.into())),
            ],
        ),
        Find::KeyNum { num_index, first, step } => typed(
            "keynum",
            vec![
                ("keynumidx", Doc::Int(num_index.into())),
                ("firstkey", Doc::Int(first.into())),
                ("keystep", Doc::Int(step.into())),
            ],
        ),
        Find::Unknown => typed("unknown", Vec::new()),
    }
}

fn typed(kind: &'static str, spec: Vec<(&'static str, Doc)>) -> Doc {
    Doc::Map(vec![("type", Doc::Str(kind)), ("spec", Doc::Map(spec))])
}

#[cfg(test)]
mod tests {
    use super::super::doc::shown;
    use super::*;
    use crate::specs::{connection, server, string};

    #[test]
    fn an_entry_has_the_shape_of_the_reference() {
        assert_eq!(
            shown(&info(&string::MSETEX)),
            "*10 $msetex :-4 ~3 +write +denyoom +movablekeys :0 :0 :0 ~3 +@write +@string +@slow \
             ~2 $request_policy:multi_shard $response_policy:all_succeeded \
             ~1 %3 $flags ~2 +OW +update $begin_search %2 $type $index $spec %1 $index :1 \
             $find_keys %2 $type $keynum $spec %3 $keynumidx :0 $firstkey :1 $keystep :2 *0"
        );
        assert_eq!(
            shown(&info(&string::LCS)),
            "*10 $lcs :-3 ~1 +readonly :1 :2 :1 ~3 +@read +@string +@slow ~0 \
             ~1 %3 $flags ~2 +RO +access $begin_search %2 $type $index $spec %1 $index :1 \
             $find_keys %2 $type $range $spec %3 $lastkey :1 $keystep :1 $limit :0 *0"
        );
        assert_eq!(
            shown(&info(&connection::PING)),
            "*10 $ping :-1 ~1 +fast :0 :0 :0 ~2 +@fast +@connection \
             ~2 $request_policy:all_shards $response_policy:all_succeeded ~0 *0"
        );
    }

    #[test]
    fn a_remark_on_keys_comes_first() {
        let Doc::Map(parts) = key_spec(&string::SET.keys.specs()[0]) else { panic!("a map") };
        assert_eq!(
            parts.iter().map(|part| part.0).collect::<Vec<_>>(),
            ["notes", "flags", "begin_search", "find_keys"]
        );
    }

    #[test]
    fn an_entry_holds_those_of_the_subcommands() {
        let Doc::Array(parts) = info(&server::CONFIG) else { panic!("an array") };
        let Some(Doc::Array(subs)) = parts.last() else { panic!("an array") };
        assert_eq!(subs.len(), 6);
        assert_eq!(subs[0], info(&server::CONFIG_GET));
    }

    fn prefix(pattern: &[u8], name: &[u8]) -> bool {
        name.starts_with(&pattern.to_ascii_lowercase())
    }

    #[test]
    fn list_names_subcommands_too() {
        assert_eq!(list(Filter::All, prefix).len(), crate::table::COUNT);
        assert_eq!(
            list(Filter::Pattern(b"CONFIG"), prefix),
            [
                "config",
                "config|get",
                "config|help",
                "config|info",
                "config|resetstat",
                "config|rewrite",
                "config|set"
            ]
        );
        assert!(list(Filter::Module(b"lua"), prefix).is_empty());
    }

    #[test]
    fn list_takes_categories_without_their_sign() {
        assert_eq!(list(Filter::Category(b"String"), prefix).len(), 26);
        assert!(list(Filter::Category(b"@string"), prefix).is_empty());
        assert!(list(Filter::Category(b"nosuch"), prefix).is_empty());
    }
}
