//! A reply as a tree, for replies that describe commands. The writer chooses the protocol version.

/// A node of a reply. RESP2 writes a map as an array of alternating keys and values, and a set as an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doc {
    /// Keys with values, in order.
    Map(Vec<(&'static str, Doc)>),
    /// An array, in order.
    Array(Vec<Doc>),
    /// A set, without duplicates.
    Set(Vec<Doc>),
    /// A bulk string with a fixed text.
    Str(&'static str),
    /// A simple string with a fixed text.
    Status(&'static str),
    /// A simple string composed for this reply.
    StatusText(String),
    /// An integer, written as `:n`.
    Int(i64),
    /// Null; a null bulk string in RESP2.
    Null,
}

/// The tree in RESP3 notation without lengths of strings: `%1 $flags ~1 +fast`.
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
