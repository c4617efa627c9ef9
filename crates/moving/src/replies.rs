//! Parses parts of replies, and finds the reason where a reply is no answer.

use crate::facts::{Asked, UnknownFact, WhyUnknown};
use sluice_resp::Value;

/// The code of an error reply: the capital letters at its beginning, at most 20; `an error` if there are
/// none. The rest is dropped, because it may hold secrets.
pub(crate) fn code_of(error: &[u8]) -> String {
    let word: Vec<u8> = error.iter().copied().take_while(u8::is_ascii_uppercase).take(20).collect();
    if word.is_empty() { "an error".to_owned() } else { String::from_utf8_lossy(&word).into_owned() }
}

/// The reason that `reply` is no answer to `command`.
pub(crate) fn unknown(command: &'static str, reply: &Value) -> UnknownFact {
    let why = match reply {
        Value::Error(text) | Value::BulkError(text) => match code_of(text).as_str() {
            "NOPERM" => WhyUnknown::Rights,
            // `ERR unknown command`, `ERR Unknown subcommand`, and similar texts of older versions.
            _ if text.to_ascii_lowercase().windows(7).any(|word| word == b"unknown") => WhyUnknown::NoCommand,
            code => WhyUnknown::Error(code.to_owned()),
        },
        _ => WhyUnknown::Strange,
    };
    UnknownFact { command, why }
}

/// The text in a reply, of any string type.
pub(crate) fn text_of(command: &'static str, reply: Value) -> Asked<Vec<u8>> {
    match reply {
        Value::Bulk(text) | Value::Verbatim(_, text) | Value::Simple(text) => Ok(text),
        other => Err(unknown(command, &other)),
    }
}

/// The values in a reply that is an array.
pub(crate) fn list_of(command: &'static str, reply: Value) -> Asked<Vec<Value>> {
    match reply {
        Value::Array(values) => Ok(values),
        other => Err(unknown(command, &other)),
    }
}

/// The bytes of a bulk string or a simple string, `None` for other types.
pub(crate) fn text(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Bulk(text) | Value::Simple(text) => Some(text),
        _ => None,
    }
}

/// The values of an array, none for other types.
pub(crate) fn array(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        _ => &[],
    }
}

/// The value after a name in a flat list of names and values.
pub(crate) fn named<'a>(list: &'a [Value], name: &str) -> Option<&'a Value> {
    list.chunks_exact(2).find_map(|pair| (text(&pair[0])? == name.as_bytes()).then_some(&pair[1]))
}

/// Names and versions from the reply of MODULE LIST; a module without a version gets 0.
pub(crate) fn modules(list: Vec<Value>) -> Vec<(Vec<u8>, i64)> {
    let one = |module: &Value| {
        let version = match named(array(module), "ver") {
            Some(Value::Int(version)) => *version,
            _ => 0,
        };
        Some((named(array(module), "name").and_then(text)?.to_vec(), version))
    };
    list.iter().filter_map(one).collect()
}

/// Whether a module was added to the server. The module `lua` is part of Valkey 9.1, and `vectorset`
/// of Redis 8.
pub(crate) fn is_added(name: &[u8]) -> bool {
    !matches!(name, b"lua" | b"vectorset")
}
