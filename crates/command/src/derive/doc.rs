//! A reply as a tree, for the replies that describe commands. The protocol version is the writer's business.

/// A part of a reply. RESP2 writes a map as an array of keys and values in turn, and a set as an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doc {
    /// Keys with values, in order.
    Map(Vec<(&'static str, Doc)>),
    /// In order.
    Array(Vec<Doc>),
    /// Without duplicates.
    Set(Vec<Doc>),
    /// A bulk string.
    Str(&'static str),
    /// A simple string.
    Status(&'static str),
    /// A simple string put together when it was asked for.
    StatusText(String),
    /// A number.
    Int(i64),
    /// Nothing: a null bulk string in RESP2.
    Null,
}

/// The tree as the reference writes it in RESP3, lengths of strings left out: `%1 $flags ~1 +fast`.
#[cfg(test)]
pub(crate) fn shown(doc: &Doc) -> String {
    let all = |sign: char, parts: &[Doc]| {
        let head = format!("{sign}{}", parts.len());
        std::iter::once(head).chain(parts.iter().map(shown)).collect::<Vec<_>>().join(" ")
    };
    match doc {
        Doc::Map(parts) => {
            let pairs = parts.iter().map(|(key, value)| format!(" ${key} {}", shown(value)));
            format!("%{}{}", parts.len(), pairs.collect::<String>())
        }
        Doc::Array(parts) => all('*', parts),
        Doc::Set(parts) => all('~', parts),
        Doc::Str(text) => format!("${text}"),
        Doc::Status(text) => format!("+{text}"),
        Doc::StatusText(text) => format!("+{text}"),
        Doc::Int(number) => format!(":{number}"),
        Doc::Null => "_".to_owned(),
    }
}
