//! Values of fields: what INFO writes, and the number that the metrics endpoint shows.

use crate::info::families::FamilyId;
use sluice_base::num::{IntBuffer, push_u64};
use std::fmt;
use std::io::Write;

/// A value.
#[derive(Clone, Copy, Debug)]
pub enum FieldValue<'a> {
    /// A natural number.
    Uint(u64),
    /// An integer.
    Int(i64),
    /// A number that INFO writes with so many decimals.
    Decimal(f64, usize),
    /// A number that INFO writes with two decimals and a percent sign.
    Percent(f64),
    /// Microseconds, which INFO writes as seconds with all decimals.
    Micros(u64),
    /// No number.
    Text(&'a str),
    /// A word of INFO's that is a number elsewhere.
    Word(&'static str, u8),
    /// Several: `name=value,name=value`.
    Parts(&'a [ValuePart<'a>]),
}

impl FieldValue<'_> {
    /// Whether what was tried last went well.
    pub fn status(is_fine: bool) -> FieldValue<'static> {
        if is_fine { FieldValue::Word("ok", 1) } else { FieldValue::Word("err", 0) }
    }

    /// As INFO writes it.
    pub(crate) fn text(&self) -> String {
        let mut out = Vec::new();
        push(&mut out, self);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The number, if it is one.
    pub(crate) fn number(&self) -> Option<Number> {
        match *self {
            FieldValue::Uint(number) => Some(Number::Uint(number)),
            FieldValue::Int(number) => Some(Number::Int(number)),
            FieldValue::Decimal(number, _) | FieldValue::Percent(number) => Some(Number::Float(number)),
            FieldValue::Micros(us) => Some(Number::Float(us as f64 / 1e6)),
            FieldValue::Word(_, number) => Some(Number::Uint(u64::from(number))),
            FieldValue::Text(_) | FieldValue::Parts(_) => None,
        }
    }
}

/// Appends a value as INFO writes it. Whole numbers, which most fields are, and texts are copied without the
/// formatting machinery: a reply has some two hundred fields, and that was a third of its time.
pub(super) fn push(out: &mut Vec<u8>, value: &FieldValue<'_>) {
    // Writing to a vector cannot fail.
    let _ = match *value {
        FieldValue::Uint(number) => return push_u64(out, number),
        FieldValue::Int(number) => return out.extend_from_slice(IntBuffer::new().format(number)),
        FieldValue::Text(text) | FieldValue::Word(text, _) => return out.extend_from_slice(text.as_bytes()),
        FieldValue::Parts(parts) => return push_parts(out, parts),
        FieldValue::Decimal(number, decimals) => write!(out, "{number:.decimals$}"),
        FieldValue::Percent(number) => write!(out, "{number:.2}%"),
        FieldValue::Micros(us) => write!(out, "{}.{:06}", us / 1_000_000, us % 1_000_000),
    };
}

fn push_parts(out: &mut Vec<u8>, parts: &[ValuePart<'_>]) {
    for (at, part) in parts.iter().filter(|part| !part.name.is_empty()).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(part.name.as_bytes());
        out.push(b'=');
        push(out, &part.value);
    }
}

/// One of several values of a field.
#[derive(Clone, Copy, Debug)]
pub struct ValuePart<'a> {
    /// As INFO writes it; empty where INFO does not.
    pub name: &'static str,
    /// Its value.
    pub value: FieldValue<'a>,
    /// It is a label of the field's numbers, under this name.
    pub label: Option<&'static str>,
    /// It is a number of this family.
    pub family: Option<FamilyId>,
}

impl<'a> ValuePart<'a> {
    /// INFO alone has it.
    pub fn shown(name: &'static str, value: impl Into<FieldValue<'a>>) -> ValuePart<'a> {
        ValuePart { name, value: value.into(), label: None, family: None }
    }

    /// A number of a family.
    pub fn number(name: &'static str, family: FamilyId, value: impl Into<FieldValue<'a>>) -> ValuePart<'a> {
        ValuePart { family: Some(family), ..ValuePart::shown(name, value) }
    }

    /// A label.
    pub fn label(name: &'static str, label: &'static str, value: impl Into<FieldValue<'a>>) -> ValuePart<'a> {
        ValuePart { label: Some(label), ..ValuePart::shown(name, value) }
    }

    /// A label that INFO does not write.
    pub fn hidden_label(label: &'static str, value: impl Into<FieldValue<'a>>) -> ValuePart<'a> {
        ValuePart::label("", label, value)
    }
}

/// A number of the metrics endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A natural number.
    Uint(u64),
    /// An integer.
    Int(i64),
    /// A fraction.
    Float(f64),
}

impl Number {
    /// The number in a larger unit.
    pub(crate) fn over(self, divisor: u32) -> Number {
        match (self, divisor) {
            (number, 1) => number,
            (Number::Uint(number), _) => Number::Float(number as f64 / f64::from(divisor)),
            (Number::Int(number), _) => Number::Float(number as f64 / f64::from(divisor)),
            (Number::Float(number), _) => Number::Float(number / f64::from(divisor)),
        }
    }
}

/// As both text formats of the endpoint write it.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Number::Uint(number) => write!(f, "{number}"),
            Number::Int(number) => write!(f, "{number}"),
            Number::Float(number) if number.is_nan() => f.write_str("NaN"),
            Number::Float(number) if number.is_infinite() => {
                f.write_str(if number > 0.0 { "+Inf" } else { "-Inf" })
            }
            Number::Float(number) => write!(f, "{number}"),
        }
    }
}

macro_rules! numbers {
    ($variant:ident $as:ty: $($of:ty)*) => {
        $( impl From<$of> for FieldValue<'_> {
            fn from(number: $of) -> Self {
                FieldValue::$variant(number as $as)
            }
        } )*
    };
}

numbers! { Uint u64: u8 u16 u32 u64 usize }
numbers! { Int i64: i32 i64 isize }

impl<'a> From<&'a str> for FieldValue<'a> {
    fn from(text: &'a str) -> Self {
        FieldValue::Text(text)
    }
}

impl<'a> From<&'a String> for FieldValue<'a> {
    fn from(text: &'a String) -> Self {
        FieldValue::Text(text)
    }
}

/// `a / b`, and 1 where there is nothing to compare.
pub fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 1.0 } else { a as f64 / b as f64 }
}

/// `a - b` with its sign.
pub fn difference(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b) as i64
}
