//! Replies as short texts, for expectations in tests.

use sluice_resp::{Value, decode};

/// Replies as text, one per line: `+OK`, `-ERR …`, `:1`, `"bulk"`, `nil`, `[a, b]`, `{k: v}`, `~[set]`,
/// `>[push]`, `,1.5`, `#true`, `(big`, `=txt:verbatim`. RESP2's two nulls are `nil` and `nil-array`; RESP3's
/// is `null`.
pub fn render(bytes: &[u8]) -> String {
    let mut rest = bytes;
    let mut lines = Vec::new();
    while !rest.is_empty() {
        match decode(rest) {
            Ok(Some((value, len))) => {
                lines.push(one(&value));
                rest = &rest[len..];
            }
            Ok(None) => {
                lines.push(format!("(cut off) {}", escaped(rest)));
                break;
            }
            Err(error) => {
                lines.push(format!("(no reply at {}) {}", error.offset, escaped(rest)));
                break;
            }
        }
    }
    lines.join("\n")
}

fn one(value: &Value) -> String {
    let list = |items: &[Value]| items.iter().map(one).collect::<Vec<_>>().join(", ");
    let pairs = |items: &[(Value, Value)]| {
        items.iter().map(|(k, v)| format!("{}: {}", one(k), one(v))).collect::<Vec<_>>().join(", ")
    };
    match value {
        Value::Simple(text) => format!("+{}", escaped(text)),
        Value::Error(text) => format!("-{}", escaped(text)),
        Value::Int(n) => format!(":{n}"),
        Value::Bulk(text) => format!("\"{}\"", escaped(text)),
        Value::NullBulk => "nil".into(),
        Value::NullArray => "nil-array".into(),
        Value::Null => "null".into(),
        Value::Array(items) => format!("[{}]", list(items)),
        Value::Map(items) => format!("{{{}}}", pairs(items)),
        Value::Set(items) => format!("~[{}]", list(items)),
        Value::Push(items) => format!(">[{}]", list(items)),
        Value::Attributed(items, value) => format!("|{{{}}} {}", pairs(items), one(value)),
        Value::Double(text) => format!(",{}", escaped(text)),
        Value::Boolean(b) => format!("#{b}"),
        Value::BigNumber(text) => format!("({}", escaped(text)),
        Value::Verbatim(format, text) => format!("={}:{}", escaped(format), escaped(text)),
        Value::BulkError(text) => format!("!{}", escaped(text)),
    }
}

fn escaped(text: &[u8]) -> String {
    text.escape_ascii().to_string().replace("\\\"", "\"").replace("\\'", "'")
}
