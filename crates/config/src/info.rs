//! CONFIG INFO: type, flags and accepted values of the parameters that match names and patterns.

use crate::get::found_by;
use crate::row::{Param, ParamId, ParamKind, Traits};

/// The reply of CONFIG INFO for one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamFacts {
    /// The parameter's name, or its alias where the alias matched.
    pub name: &'static str,
    /// `bool`, `numeric`, `string`, `enum` or `special`.
    pub kind: &'static str,
    /// Properties of the parameter, each as one word.
    pub flags: Vec<&'static str>,
    /// The alias of a name, or the name of an alias; `None` for a parameter without an alias.
    pub other_name: Option<&'static str>,
    /// The values that the parameter accepts.
    pub accepted: ValidValues,
}

/// The values that a parameter accepts, as far as its type determines them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValidValues {
    /// One of these names.
    Names(Vec<&'static str>),
    /// A number from the first to the second.
    Range(i128, i128),
    /// The type of the directive sets no limits that could be listed in a reply.
    Unlimited,
}

impl ParamFacts {
    /// Facts about the parameters that [`crate::Config::get`] finds, sorted by name. Cost: that of
    /// [`crate::Config::get`].
    pub fn found_by(patterns: &[&[u8]]) -> Vec<ParamFacts> {
        let found = found_by(patterns).into_iter();
        let mut facts: Vec<ParamFacts> = found.filter_map(|(name, id)| ParamFacts::of(&name, id)).collect();
        facts.sort_by_key(|facts| facts.name);
        facts
    }

    fn of(name: &[u8], id: ParamId) -> Option<ParamFacts> {
        let param = id.param();
        let (_, name) = ParamId::find_spelled(name)?;
        let is_alias = name != param.name;
        let other_name = if is_alias { Some(param.name) } else { param.alias };
        let kind = kind_name(&param.kind);
        Some(ParamFacts {
            name,
            kind,
            flags: flags(param, is_alias),
            other_name,
            accepted: accepted(&param.kind),
        })
    }
}

/// One word for each property that the reply of CONFIG INFO names.
fn flags(param: &Param, is_alias: bool) -> Vec<&'static str> {
    let traits = [
        (Traits::IMMUTABLE, "immutable"),
        (Traits::SENSITIVE, "sensitive"),
        (Traits::DEBUG, "debug"),
        (Traits::MULTI_ARG, "multi-arg"),
        (Traits::PROTECTED, "protected"),
        (Traits::DENY_LOADING, "deny-loading"),
    ];
    let held = traits.into_iter().filter(|(of, _)| param.traits.has(*of)).map(|(_, word)| word);
    held.chain(is_alias.then_some("alias")).collect()
}

fn kind_name(kind: &ParamKind) -> &'static str {
    match kind {
        ParamKind::Bool { .. } => "bool",
        ParamKind::Int { .. } => "numeric",
        ParamKind::Text { .. } => "string",
        ParamKind::Choice { .. } | ParamKind::Flags { .. } => "enum",
        ParamKind::Save
        | ParamKind::BufferLimits
        | ParamKind::OomValues
        | ParamKind::List { .. }
        | ParamKind::NotifyEvents
        | ParamKind::ReplicaOf
        | ParamKind::Percentiles
        | ParamKind::EndpointRules => "special",
    }
}

fn accepted(kind: &ParamKind) -> ValidValues {
    match kind {
        ParamKind::Choice { names, .. } => ValidValues::Names(names.iter().map(|(name, _)| *name).collect()),
        ParamKind::Flags { names } => ValidValues::Names(names.iter().map(|(name, _)| *name).collect()),
        ParamKind::Int { min, max, .. } => ValidValues::Range(*min, *max),
        _ => ValidValues::Unlimited,
    }
}
