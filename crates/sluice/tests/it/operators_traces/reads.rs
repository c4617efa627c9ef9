//! The parts of replies that an operator reads, and names for values that differ between runs.

use sluice_resp::Value;

/// What a trace reads from a reply.
pub enum Read {
    /// The whole reply must be this text.
    Is(String),
    /// The whole reply is compared between the runs.
    Same,
    /// The type of the reply must be this: `text`, `verbatim`, `array`, `map`, `integer`, `status`.
    Kind(String),
    /// The reply must be an error that contains this text, in any case.
    Error(String),
    /// The text of the reply must contain this part.
    Has(String),
    /// A line `NAME:value`; compared between the runs, or with this value.
    Field(String, Option<String>),
    /// A line `NAME:value` whose value is a number, which may differ.
    Number(String),
    /// The part with this number, counted from 1, of a line `NAME:a=1,b=2` has this name (`a` or `b`).
    Part(String, usize, String),
    /// The columns with these numbers, counted from 1, of all lines, and all columns after the last of these
    /// columns.
    Columns(Vec<usize>),
    /// An array or map of names and values must have these names; the values may differ.
    Names(Vec<String>),
    /// The reply must be an id: 40 digits.
    Id,
    /// A node of ours must answer this text, and the reference another one; the trace gives the reason.
    Differs(String),
}

impl Read {
    pub fn parse(text: &str) -> Option<Read> {
        let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
        let mut words = rest.split(' ').map(str::to_owned);
        Some(match first {
            "is" => Read::Is(rest.to_owned()),
            "same" => Read::Same,
            "kind" => Read::Kind(rest.to_owned()),
            "error" => Read::Error(rest.to_owned()),
            "has" => Read::Has(rest.to_owned()),
            "field" => Read::Field(words.next()?, words.next()),
            "number" => Read::Number(rest.to_owned()),
            "part" => Read::Part(words.next()?, words.next()?.parse().ok()?, words.next()?),
            "columns" => Read::Columns(words.map(|word| word.parse().ok()).collect::<Option<_>>()?),
            "names" => Read::Names(words.collect()),
            "id" => Read::Id,
            "differs" => {
                let (wanted, reason) = rest.split_once(" | ")?;
                assert!(!reason.is_empty());
                Read::Differs(wanted.to_owned())
            }
            _ => return None,
        })
    }

    /// The compared part of a reply; the error says what the reply lacks.
    pub fn of(&self, reply: &Value, is_ours: bool, names: &Names) -> Result<String, String> {
        let whole = || names.put(&text_of(reply));
        let field = |name: &str| {
            let text = whole();
            let value =
                text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned));
            value.ok_or_else(|| format!("no field {name} in {text:?}"))
        };
        let holds = |does: bool, what: &str| {
            does.then(|| what.to_owned()).ok_or_else(|| format!("{what}: {:?}", whole()))
        };
        match self {
            Read::Is(wanted) => holds(whole() == *wanted, wanted),
            Read::Same => Ok(whole()),
            Read::Kind(wanted) => holds(kind_of(reply) == wanted, wanted),
            Read::Error(part) => {
                let is_error = matches!(reply, Value::Error(_) | Value::BulkError(_));
                holds(is_error && whole().to_lowercase().contains(&part.to_lowercase()), part)
            }
            Read::Has(part) => holds(whole().contains(part), part),
            Read::Field(name, None) => field(name).map(|value| format!("{name}:{value}")),
            Read::Field(name, Some(wanted)) => holds(field(name)? == *wanted, &format!("{name}:{wanted}")),
            Read::Number(name) => holds(field(name)?.parse::<f64>().is_ok(), &format!("{name} is a number")),
            Read::Part(name, at, key) => {
                let value = field(name)?;
                let part = value.split(',').nth(at - 1).unwrap_or_default().to_owned();
                holds(part.starts_with(&format!("{key}=")), &format!("part {at} of {name} is {key}"))
            }
            Read::Columns(columns) => Ok(columns_of(&whole(), columns)),
            Read::Names(wanted) => {
                let found = names_of(reply);
                let missing: Vec<_> = wanted.iter().filter(|name| !found.contains(name)).collect();
                holds(missing.is_empty(), &format!("names {wanted:?} in {found:?}"))
                    .map(|_| format!("names {wanted:?}"))
            }
            Read::Id => holds(is_id(&text_of(reply)), "an id"),
            Read::Differs(wanted) => {
                let is_it = whole() == *wanted;
                holds(is_it == is_ours, &format!("only ours answers {wanted}"))
            }
        }
    }
}

fn columns_of(text: &str, columns: &[usize]) -> String {
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let last = columns.last().copied().unwrap_or(0);
            let mut shown: Vec<&str> =
                columns.iter().map(|at| words.get(at - 1).copied().unwrap_or("(none)")).collect();
            shown.extend(words.iter().skip(last));
            shown.join(" ")
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

fn kind_of(reply: &Value) -> &'static str {
    match reply {
        Value::Simple(_) => "status",
        Value::Bulk(_) => "text",
        Value::Verbatim([b't', b'x', b't'], _) => "verbatim",
        Value::Int(_) => "integer",
        Value::Array(_) => "array",
        Value::Map(_) => "map",
        _ => "another",
    }
}

/// A reply as text; arrays and maps as their elements in brackets.
pub fn text_of(reply: &Value) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let list = |items: &[Value]| items.iter().map(text_of).collect::<Vec<_>>().join(" ");
    match reply {
        Value::Simple(bytes) => format!("+{}", text(bytes)),
        Value::Error(bytes) | Value::BulkError(bytes) => format!("-{}", text(bytes)),
        Value::Bulk(bytes) | Value::Verbatim(_, bytes) => text(bytes),
        Value::Double(bytes) | Value::BigNumber(bytes) => text(bytes),
        Value::Int(number) => number.to_string(),
        Value::Boolean(value) => value.to_string(),
        Value::NullBulk | Value::NullArray | Value::Null => "(nil)".to_owned(),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => format!("[{}]", list(items)),
        Value::Map(pairs) => {
            let pairs: Vec<_> =
                pairs.iter().map(|(name, value)| format!("{} {}", text_of(name), text_of(value))).collect();
            format!("[{}]", pairs.join(" "))
        }
        Value::Attributed(_, value) => text_of(value),
    }
}

fn names_of(reply: &Value) -> Vec<String> {
    match reply {
        Value::Array(items) => items.iter().step_by(2).map(text_of).collect(),
        Value::Map(pairs) => pairs.iter().map(|(name, _)| text_of(name)).collect(),
        _ => Vec::new(),
    }
}

fn is_id(word: &str) -> bool {
    word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Names for ids, addresses, ports and folders, which differ between two runs.
#[derive(Default)]
pub struct Names(pub Vec<(String, String)>);

impl Names {
    /// The text with names in place of the differing values.
    pub fn put(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (found, name) in &self.0 {
            text = text.replace(found, name);
        }
        // Other ids, such as those of shards, have no name in the list and become `HEX`.
        let mut out = String::new();
        let mut word = String::new();
        for character in text.chars().chain(['\0']) {
            if character.is_ascii_alphanumeric() {
                word.push(character);
                continue;
            }
            out.push_str(if is_id(&word) { "HEX" } else { &word });
            word.clear();
            if character != '\0' {
                out.push(character);
            }
        }
        out
    }
}
