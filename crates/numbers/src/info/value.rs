//! Values of fields: the text for INFO, and the number for the metrics endpoint.

use crate::info::families::FamilyId;
use sluice_base::num::{IntBuffer, push_u64};
use std::fmt;
use std::io::Write;

/// The value of a field of INFO.
#[derive(Clone, Copy, Debug)]
pub enum FieldValue<'a> {
    /// A number that is never negative.
    Uint(u64),
    /// A number that may be negative.
    Int(i64),
    /// A number, with the count of decimals that INFO writes.
    Decimal(f64, usize),
    /// A number that INFO writes with two decimals and a percent sign.
    Percent(f64),
    /// Microseconds, which INFO writes as seconds with six decimals.
    Micros(u64),
    /// A text without a number; the endpoint has no metric for it.
    Text(&'a str),
    /// A word in INFO, and the number that the endpoint shows for it.
    Word(&'static str, u8),
    /// Several values: `name=value,name=value`.
    Parts(&'a [ValuePart<'a>]),
}

impl FieldValue<'_> {
    /// `ok` or `err`, with 1 or 0 for the endpoint: the result of the last attempt.
    pub fn status(is_fine: bool) -> FieldValue<'static> {
        if is_fine { FieldValue::Word("ok", 1) } else { FieldValue::Word("err", 0) }
    }

    /// The text that INFO writes.
    pub(crate) fn text(&self) -> String {
        let mut out = Vec::new();
        push(&mut out, self);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The number for the endpoint, if the value has one.
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

/// Appends the text for INFO. Integers, which most fields are, and texts are copied without the formatting
/// machinery: a reply has some two hundred fields, and formatting them took a third of its time.
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

/// One of the values of a field.
#[derive(Clone, Copy, Debug)]
pub struct ValuePart<'a> {
    /// The name in INFO; empty if INFO does not write the part.
    pub name: &'static str,
    /// The part's value: INFO writes it if the part has a name, the endpoint if it has a label or a family.
    pub value: FieldValue<'a>,
    /// Name of a label if the part is a label of the field's numbers; `None` otherwise.
    pub label: Option<&'static str>,
    /// Family of the number if the part is a number for the endpoint; `None` otherwise.
    pub family: Option<FamilyId>,
}

impl<'a> ValuePart<'a> {
    /// A part that only INFO shows.
    pub fn shown(name: &'static str, value: impl Into<FieldValue<'a>>) -> ValuePart<'a> {
        ValuePart { name, value: value.into(), label: None, family: None }
    }

    /// A part that is also a number of the family `family`.
    pub fn number(name: &'static str, family: FamilyId, value: impl Into<FieldValue<'a>>) -> ValuePart<'a> {
        ValuePart { family: Some(family), ..ValuePart::shown(name, value) }
    }

    /// A part that is also a label of the field's numbers.
    pub fn label(name: &'static str, label: &'static str, value: impl Into<FieldValue<'a>>) -> ValuePart<'a> {
        ValuePart { label: Some(label), ..ValuePart::shown(name, value) }
    }

    /// A part that is a label of the field's numbers and missing in INFO.
    pub fn hidden_label(label: &'static str, value: impl Into<FieldValue<'a>>) -> ValuePart<'a> {
        ValuePart::label("", label, value)
    }
}

/// A number at the metrics endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A number that is never negative.
    Uint(u64),
    /// A number that may be negative.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
}

impl Number {
    /// The number divided by `divisor`; unchanged for 1.
    pub(crate) fn over(self, divisor: u32) -> Number {
        match (self, divisor) {
            (number, 1) => number,
            (Number::Uint(number), _) => Number::Float(number as f64 / f64::from(divisor)),
            (Number::Int(number), _) => Number::Float(number as f64 / f64::from(divisor)),
            (Number::Float(number), _) => Number::Float(number / f64::from(divisor)),
        }
    }
}

/// The text in both formats of the endpoint.
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

/// `a / b`; 1 if `b` is 0.
pub fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 1.0 } else { a as f64 / b as f64 }
}

/// `a - b`, which may be negative.
pub fn difference(a: u64, b: u64) -> i64 {
    a.wrapping_sub(b) as i64
}
