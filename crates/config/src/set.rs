//! CONFIG SET: all pairs or none, in three steps.
//!
//! [`Config::prepare`] checks the pairs and changes nothing. [`Config::apply`] puts the new values in
//! place, so that the server can act on them. If the server cannot (a port is taken),
//! [`Config::rollback`] restores the old values.

use std::fmt;

use crate::choice::Guard;
use crate::config::Config;
use crate::row::{ParamId, Traits};
use crate::table::param;
use crate::value::{Onto, ParamValue};

/// The origin of the connection that asks for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This machine: the loopback address or a Unix socket.
    Local,
    /// Another machine, connected over the network.
    Remote,
}

/// The state of the server, on which some refusals depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Normal operation: no dataset is loading.
    Serving,
    /// A dataset is loading: parameters with `DENY_LOADING` are refused.
    Loading,
}

/// Why CONFIG SET failed; [`fmt::Display`] is the error reply without its leading `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// There is no such parameter; holds the name as given.
    Unknown(String),
    /// The parameter may not change while a dataset is loading.
    Loading,
    /// The parameter may not be set, or its value was refused or could not be applied.
    Failed {
        /// The parameter that is probably the cause.
        name: String,
        /// The reason that the client is sent.
        reason: String,
    },
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Unknown(name) => {
                write!(f, "ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
            }
            SetError::Loading => write!(f, "LOADING Valkey is loading the dataset in memory"),
            SetError::Failed { name, reason } => {
                write!(f, "ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
            }
        }
    }
}

/// Values that passed every check and are not in place yet.
#[derive(Debug)]
pub struct Change {
    items: Vec<Item>,
}

/// The values that a change replaced.
#[derive(Debug)]
pub struct Undo {
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    id: ParamId,
    /// The name or the alias, whichever the client used.
    name: &'static str,
    value: ParamValue,
    effect: Effect,
}

/// Whether the server must act on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Act,
    SameAsBefore,
}

impl Change {
    /// The parameters that get another value, or that must be applied again with the same one;
    /// in the order given.
    pub fn changed(&self) -> impl Iterator<Item = ParamId> + '_ {
        acting(&self.items)
    }
}

impl Undo {
    /// The parameters that had to be applied, as in [`Change::changed`].
    pub fn changed(&self) -> impl Iterator<Item = ParamId> + '_ {
        acting(&self.items)
    }

    /// The parameters of the command, changed or not, in the order given.
    pub fn named(&self) -> impl Iterator<Item = ParamId> + '_ {
        self.items.iter().map(|item| item.id)
    }

    /// The error that the server could not apply `id`, under the name that the client used.
    pub fn failed(&self, id: impl Into<ParamId>, reason: &str) -> SetError {
        let id = id.into();
        let name = self.items.iter().find(|item| item.id == id).map_or(id.param().name, |item| item.name);
        SetError::Failed { name: name.into(), reason: reason.into() }
    }
}

fn acting(items: &[Item]) -> impl Iterator<Item = ParamId> + '_ {
    items.iter().filter(|item| item.effect == Effect::Act).map(|item| item.id)
}

impl Config {
    /// Checks all names, then all values, in order; the first fault is the error.
    pub fn prepare(
        &self,
        pairs: &[(&[u8], &[u8])],
        origin: Origin,
        phase: Phase,
    ) -> Result<Change, SetError> {
        let mut found: Vec<(ParamId, &'static str)> = Vec::with_capacity(pairs.len());
        for (given, _) in pairs {
            let (id, name) =
                ParamId::find_spelled(given).ok_or_else(|| SetError::Unknown(printable(given)))?;
            let failed = |reason: &str| SetError::Failed { name: printable(given), reason: reason.into() };
            self.may_set(id, origin).map_err(failed)?;
            if phase == Phase::Loading && id.param().traits.has(Traits::DENY_LOADING) {
                return Err(SetError::Loading);
            }
            if found.contains(&(id, name)) {
                return Err(failed("duplicate parameter"));
            }
            found.push((id, name));
        }
        let mut items: Vec<Item> = Vec::with_capacity(pairs.len());
        for ((id, name), (_, text)) in found.into_iter().zip(pairs) {
            // A parameter may occur twice, as name and as alias: the second value builds on the first.
            let old = items.iter().rfind(|item| item.id == id).map_or(self.value(id), |item| &item.value);
            let param = id.param();
            let words = words_of(text, param.traits);
            let value = param
                .parse(&words, old, Onto::Replace)
                .map_err(|reason| SetError::Failed { name: name.into(), reason: reason.into() })?;
            let same = value == *old && !param.traits.has(Traits::VOLATILE);
            let effect = if same { Effect::SameAsBefore } else { Effect::Act };
            items.push(Item { id, name, value, effect });
        }
        Ok(Change { items })
    }

    /// Sets a parameter to the text that CONFIG GET of some server shows for it, whatever its
    /// [`Traits`] allow to clients. The error is the reason.
    pub fn assign_shown(&mut self, id: ParamId, text: &[u8]) -> Result<(), String> {
        self.assign(id, &words_of(text, id.param().traits))
    }

    /// Puts the values of a change in place. Cost: linear in the number of values.
    pub fn apply(&mut self, change: Change) -> Undo {
        let mut items = change.items;
        for item in &mut items {
            std::mem::swap(&mut self.values[usize::from(item.id.0)], &mut item.value);
        }
        Undo { items }
    }

    /// Restores the values that `undo` replaced.
    pub fn rollback(&mut self, undo: Undo) {
        for item in undo.items.into_iter().rev() {
            self.values[usize::from(item.id.0)] = item.value;
        }
    }

    fn may_set(&self, id: ParamId, origin: Origin) -> Result<(), &'static str> {
        let traits = id.param().traits;
        if traits.has(Traits::IMMUTABLE) {
            return Err("can't set immutable config");
        }
        let open = match self.choice(param::ENABLE_PROTECTED_CONFIGS) {
            Guard::Yes => true,
            Guard::No => false,
            Guard::Local => origin == Origin::Local,
        };
        if traits.has(Traits::PROTECTED) && !open {
            return Err("can't set protected config");
        }
        Ok(())
    }
}

/// The words of a value. With `MULTI_ARG`, each blank separates, even where this leaves empty words, and
/// empty text has no words. Otherwise the text is one word.
fn words_of(text: &[u8], traits: Traits) -> Vec<&[u8]> {
    match (traits.has(Traits::MULTI_ARG), text) {
        (true, b"") => Vec::new(),
        (true, _) => text.split(|byte| *byte == b' ').collect(),
        (false, _) => vec![text],
    }
}

/// A name for an error line: up to the first zero byte, without line breaks.
fn printable(given: &[u8]) -> String {
    let end = given.iter().position(|byte| *byte == 0).unwrap_or(given.len());
    String::from_utf8_lossy(&given[..end]).replace(['\r', '\n'], " ")
}
