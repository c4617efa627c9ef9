//! `cjson.decode`.
//!
//! The first slot of the function's window (see [`Ctx`]) has the text. After it, each open object or array
//! has two slots, for its table and for the key whose value is being read. The text ends at its first zero
//! byte, as in C.

use crate::fault::Fault;
use crate::native::{Ctx, NativeStep, State};
use crate::text::number::strtod;
use crate::value::Value;

use super::super::output::{RecentTexts, append, fuel, reserve};
use super::settings::{SLOTS_MAX, Setting, read};

/// A token of JSON; [`JsonToken::name`] is its name in error messages.
#[derive(Clone, Copy, PartialEq, Debug)]
enum JsonToken {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// A string, whose bytes are in the reader's buffer.
    Text,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
    /// A part of a long string was read, and the string continues.
    Unfinished,
}

impl JsonToken {
    fn name(self) -> &'static str {
        match self {
            JsonToken::ObjectBegin => "T_OBJ_BEGIN",
            JsonToken::ObjectEnd => "T_OBJ_END",
            JsonToken::ArrayBegin => "T_ARR_BEGIN",
            JsonToken::ArrayEnd => "T_ARR_END",
            JsonToken::Text | JsonToken::Unfinished => "T_STRING",
            JsonToken::Number(_) => "T_NUMBER",
            JsonToken::Boolean(_) => "T_BOOLEAN",
            JsonToken::Null => "T_NULL",
            JsonToken::Colon => "T_COLON",
            JsonToken::Comma => "T_COMMA",
            JsonToken::End => "T_END",
            JsonToken::Error(name) => name,
        }
    }
}

/// Reads the tokens of a text.
struct TokenReader {
    at: usize,
    /// The index of the token's first byte, or of its error.
    index: usize,
    /// The bytes of the current string.
    text: Vec<u8>,
    /// Whether a string has been read in part.
    inside: bool,
    invalid_numbers: bool,
}

/// The kind of token that the grammar expects next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonWanted {
    Value,
    FirstElement,
    FirstKey,
    Key,
    Colon,
    /// After a value: a comma or a closing bracket.
    CommaOrEnd,
    End,
}

/// An open object or array.
#[derive(Clone, Copy)]
enum Container {
    /// An array with this number of elements so far.
    Array(i64),
    Object,
}

/// The state of a decoding between two steps.
struct Decoding {
    reader: TokenReader,
    wanted: JsonWanted,
    containers: Vec<Container>,
    /// The slots that decoding would use on the stack of PUC-Rio's Lua; their number limits the nesting.
    slots: usize,
    depth_max: usize,
}

/// Bytes of a string that are read between two checks of the budget.
const PART: usize = 64 * 1024;

pub(super) fn decode(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    if ctx.count() != 1 {
        return Err(Fault::argument(1, "expected 1 argument"));
    }
    let text = ctx.check_str(1)?;
    let bytes = ctx.heap.bytes(text);
    if bytes.len() >= 2 && (bytes[0] == 0 || bytes[1] == 0) {
        return Err(Fault::text("JSON parser does not support UTF-16 or UTF-32"));
    }
    let reader = TokenReader {
        at: 0,
        index: 0,
        text: Vec::new(),
        inside: false,
        invalid_numbers: read(ctx, Setting::DecodeInvalid) != 0,
    };
    let depth_max = read(ctx, Setting::DecodeDepth).max(0) as usize;
    run(ctx, Decoding { reader, wanted: JsonWanted::Value, containers: Vec::new(), slots: 1, depth_max })
}

pub(super) fn decode_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<Decoding>() else { return Ok(NativeStep::Return(0)) };
    run(ctx, *state)
}

fn run(ctx: &mut Ctx<'_>, mut state: Decoding) -> Result<NativeStep, Fault> {
    let Some(source) = ctx.arg(1).as_str() else { return Ok(NativeStep::Return(0)) };
    let mut left = fuel(ctx);
    let mut texts = RecentTexts::new();
    loop {
        let before = left;
        let from = state.reader.at;
        let token = state.reader.next(ctx.heap.bytes(source));
        left = left.saturating_sub(1 + (state.reader.at - from) as u64 / 16);
        match token {
            JsonToken::Unfinished => {
                let (len, room) = (state.reader.text.len(), state.reader.text.capacity());
                if room - len < PART + 4 {
                    reserve(ctx.heap, &mut state.reader.text, PART + 4)?;
                }
            }
            token => {
                if state.step(ctx, &mut texts, token)? {
                    return Ok(NativeStep::Return(1));
                }
            }
        }
        if !ctx.charge(before - left) || left == 0 {
            return Ok(NativeStep::Pause(Box::new(state)));
        }
    }
}

impl Decoding {
    /// Processes a token. Returns true at the end, with the result as the window's last value.
    #[inline]
    fn step(&mut self, ctx: &mut Ctx<'_>, texts: &mut RecentTexts, token: JsonToken) -> Result<bool, Fault> {
        match (self.wanted, token) {
            (JsonWanted::FirstElement, JsonToken::ArrayEnd)
            | (JsonWanted::FirstKey, JsonToken::ObjectEnd) => self.close(ctx)?,
            (JsonWanted::FirstElement | JsonWanted::Value, token) => self.value(ctx, texts, token)?,
            (JsonWanted::FirstKey | JsonWanted::Key, JsonToken::Text) => {
                let key = texts.string(ctx.heap, &self.reader.text)?;
                let slot = 2 * self.containers.len() + 1;
                ctx.set(slot, key);
                self.wanted = JsonWanted::Colon;
            }
            (JsonWanted::FirstKey | JsonWanted::Key, _) => {
                return Err(self.unexpected("object key string", token));
            }
            (JsonWanted::Colon, JsonToken::Colon) => self.wanted = JsonWanted::Value,
            (JsonWanted::Colon, _) => return Err(self.unexpected("colon", token)),
            (JsonWanted::CommaOrEnd, token) => self.behind(ctx, token)?,
            (JsonWanted::End, JsonToken::End) => return Ok(true),
            (JsonWanted::End, _) => return Err(self.unexpected("the end", token)),
        }
        Ok(false)
    }

    fn behind(&mut self, ctx: &mut Ctx<'_>, token: JsonToken) -> Result<(), Fault> {
        match (self.containers.last(), token) {
            (Some(Container::Array(_)), JsonToken::ArrayEnd)
            | (Some(Container::Object), JsonToken::ObjectEnd) => self.close(ctx),
            (Some(Container::Array(_)), JsonToken::Comma) => {
                self.wanted = JsonWanted::Value;
                Ok(())
            }
            (Some(Container::Object), JsonToken::Comma) => {
                self.wanted = JsonWanted::Key;
                Ok(())
            }
            (Some(Container::Array(_)) | None, _) => Err(self.unexpected("comma or array end", token)),
            (Some(Container::Object), _) => Err(self.unexpected("comma or object end", token)),
        }
    }

    #[inline]
    fn value(&mut self, ctx: &mut Ctx<'_>, texts: &mut RecentTexts, token: JsonToken) -> Result<(), Fault> {
        let value = match token {
            JsonToken::Text => texts.string(ctx.heap, &self.reader.text)?,
            JsonToken::Number(number) => Value::number(number),
            JsonToken::Boolean(truth) => Value::boolean(truth),
            JsonToken::Null => Value::NULL,
            JsonToken::ObjectBegin => return self.open(ctx, Container::Object),
            JsonToken::ArrayBegin => return self.open(ctx, Container::Array(0)),
            JsonToken::ObjectEnd
            | JsonToken::ArrayEnd
            | JsonToken::Colon
            | JsonToken::Comma
            | JsonToken::End
            | JsonToken::Error(_)
            | JsonToken::Unfinished => return Err(self.unexpected("value", token)),
        };
        self.store(ctx, value)
    }

    /// Stores a finished value in the innermost open object or array, or as the result.
    #[inline]
    fn store(&mut self, ctx: &mut Ctx<'_>, value: Value) -> Result<(), Fault> {
        let slot = 2 * self.containers.len();
        self.wanted = JsonWanted::CommaOrEnd;
        match self.containers.last_mut() {
            None => {
                ctx.truncate(1);
                ctx.push(value);
                self.wanted = JsonWanted::End;
                Ok(())
            }
            Some(Container::Array(count)) => {
                *count += 1;
                let Some(table) = ctx.arg(slot).as_table() else { return Ok(()) };
                append(ctx.heap, table, *count, value)
            }
            Some(Container::Object) => {
                let Some(table) = ctx.arg(slot).as_table() else { return Ok(()) };
                ctx.heap.set(table, ctx.arg(slot + 1), value)
            }
        }
    }

    fn open(&mut self, ctx: &mut Ctx<'_>, container: Container) -> Result<(), Fault> {
        let depth = self.containers.len() + 1;
        let (wanted, slots, kept) = match container {
            Container::Array(_) => (JsonWanted::FirstElement, 2, 1),
            Container::Object => (JsonWanted::FirstKey, 3, 2),
        };
        if depth > self.depth_max || self.slots + slots > SLOTS_MAX {
            let at = self.reader.at;
            return Err(Fault::text(format!(
                "Found too many nested data structures ({depth}) at character {at}"
            )));
        }
        self.slots += kept;
        self.containers.push(container);
        self.wanted = wanted;
        let table = ctx.heap.new_table(0, 0)?;
        ctx.truncate(2 * depth - 1);
        ctx.push(table.into());
        ctx.push(Value::NIL);
        Ok(())
    }

    fn close(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Fault> {
        let table = ctx.arg(2 * self.containers.len());
        match self.containers.pop() {
            Some(Container::Array(_)) => self.slots -= 1,
            Some(Container::Object) => self.slots -= 2,
            None => {}
        }
        self.store(ctx, table)
    }

    #[cold]
    fn unexpected(&self, wanted: &str, token: JsonToken) -> Fault {
        let index = self.reader.index + 1;
        Fault::text(format!("Expected {wanted} but found {} at character {index}", token.name()))
    }
}

impl TokenReader {
    /// Reads the next token of `source`.
    #[inline]
    fn next(&mut self, source: &[u8]) -> JsonToken {
        if self.inside {
            return self.read_text(source);
        }
        let mut at = self.at;
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = source.get(at) {
            at += 1;
        }
        self.index = at;
        self.at = at;
        let byte = source.get(at).copied().unwrap_or(0);
        let token = match byte {
            b'{' => JsonToken::ObjectBegin,
            b'}' => JsonToken::ObjectEnd,
            b'[' => JsonToken::ArrayBegin,
            b']' => JsonToken::ArrayEnd,
            b',' => JsonToken::Comma,
            b':' => JsonToken::Colon,
            0 => return JsonToken::End,
            b'"' => {
                self.at += 1;
                self.text.clear();
                self.inside = true;
                return self.read_text(source);
            }
            b'-' | b'0'..=b'9' => return self.number(source),
            b'f' | b'i' | b'I' | b'n' | b'N' | b't' | b'+' => return self.word(source),
            _ => return JsonToken::Error("invalid token"),
        };
        self.at += 1;
        token
    }

    fn number(&mut self, source: &[u8]) -> JsonToken {
        let rest = &source[self.at..];
        if !self.invalid_numbers && is_invalid_number(rest) {
            return JsonToken::Error("invalid number");
        }
        self.any_number(rest)
    }

    fn any_number(&mut self, rest: &[u8]) -> JsonToken {
        match strtod(rest) {
            Some((number, used)) => {
                self.at += used;
                JsonToken::Number(number)
            }
            None => JsonToken::Error("invalid number"),
        }
    }

    fn word(&mut self, source: &[u8]) -> JsonToken {
        let rest = &source[self.at..];
        for (word, token) in [
            (&b"true"[..], JsonToken::Boolean(true)),
            (b"false", JsonToken::Boolean(false)),
            (b"null", JsonToken::Null),
        ] {
            if rest.starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        if self.invalid_numbers && is_invalid_number(rest) {
            return self.any_number(rest);
        }
        JsonToken::Error("invalid token")
    }

    /// Continues reading a string, to its end or for [`PART`] bytes.
    fn read_text(&mut self, source: &[u8]) -> JsonToken {
        let end = source.len().min(self.at + PART);
        if self.text.capacity() - self.text.len() < PART.min(source.len() - self.at) {
            // The memory limit needs no check here: a short string takes little memory, and the memory of a
            // long string was requested before.
            let plain = source[self.at..end].iter().position(|&byte| byte == b'"');
            self.text.reserve(plain.unwrap_or(end - self.at));
        }
        while self.at < end {
            let rest = &source[self.at..end];
            let plain = rest.iter().position(|&byte| matches!(byte, b'"' | b'\\' | 0));
            let count = plain.unwrap_or(rest.len());
            self.text.extend_from_slice(&rest[..count]);
            self.at += count;
            match rest.get(count) {
                None => break,
                Some(b'"') => {
                    self.at += 1;
                    self.inside = false;
                    return JsonToken::Text;
                }
                Some(b'\\') => {
                    if let Err(error) = self.escape(&source[self.at..]) {
                        return self.failed(error);
                    }
                }
                Some(_) => return self.failed("unexpected end of string"),
            }
        }
        if self.at >= source.len() { self.failed("unexpected end of string") } else { JsonToken::Unfinished }
    }

    fn failed(&mut self, error: &'static str) -> JsonToken {
        self.index = self.at;
        JsonToken::Error(error)
    }

    /// Reads an escape sequence at the beginning of `rest`.
    fn escape(&mut self, rest: &[u8]) -> Result<(), &'static str> {
        let byte = match rest.get(1).copied().unwrap_or(0) {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 0x0c,
            b'r' => b'\r',
            b'u' => {
                let (point, used) = unicode(rest).ok_or("invalid unicode escape code")?;
                let mut utf8 = [0; 4];
                self.text.extend_from_slice(encode_utf8(point, &mut utf8));
                self.at += used;
                return Ok(());
            }
            _ => return Err("invalid escape code"),
        };
        self.text.push(byte);
        self.at += 2;
        Ok(())
    }
}

/// A code point, and the number of bytes that its one or two escape sequences take.
fn unicode(rest: &[u8]) -> Option<(u32, usize)> {
    let first = hex4(rest.get(2..6)?)?;
    if first & 0xf800 != 0xd800 {
        return Some((first, 6));
    }
    if first & 0x400 != 0 || rest.get(6..8)? != b"\\u" {
        return None;
    }
    let second = hex4(rest.get(8..12)?)?;
    if second & 0xfc00 != 0xdc00 {
        return None;
    }
    Some((((first & 0x3ff) << 10 | second & 0x3ff) + 0x1_0000, 12))
}

fn hex4(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, &digit| Some(sum << 4 | (digit as char).to_digit(16)?))
}

fn encode_utf8(point: u32, buffer: &mut [u8; 4]) -> &[u8] {
    match char::from_u32(point) {
        Some(letter) => letter.encode_utf8(buffer).as_bytes(),
        None => &[],
    }
}

/// Whether the text begins like a number that `strtod` accepts and JSON does not: with a plus sign,
/// hexadecimal, with leading zeros, infinite or not a number.
fn is_invalid_number(rest: &[u8]) -> bool {
    if rest.first() == Some(&b'+') {
        return true;
    }
    let rest = rest.strip_prefix(b"-").unwrap_or(rest);
    match rest.first() {
        Some(b'0') => matches!(rest.get(1), Some(b'x' | b'X' | b'0'..=b'9')),
        Some(byte) if *byte > b'9' => {
            rest.len() >= 3 && [&b"inf"[..], b"nan"].iter().any(|word| rest[..3].eq_ignore_ascii_case(word))
        }
        _ => false,
    }
}

/// Reads all tokens of any bytes.
pub(super) fn fuzz(data: &[u8]) {
    for invalid_numbers in [false, true] {
        let mut reader = TokenReader { at: 0, index: 0, text: Vec::new(), inside: false, invalid_numbers };
        loop {
            let before = reader.at;
            let token = reader.next(data);
            match token {
                JsonToken::End | JsonToken::Error(_) => break,
                _ => assert!(reader.at > before, "a token takes bytes"),
            }
        }
        assert!(reader.index <= data.len());
    }
}

/// The string that a JSON literal stands for; used by `fuzz_json`.
pub(super) fn read_string(literal: &[u8]) -> Option<Vec<u8>> {
    let mut reader = TokenReader { at: 0, index: 0, text: Vec::new(), inside: false, invalid_numbers: false };
    loop {
        match reader.next(literal) {
            JsonToken::Unfinished => {}
            JsonToken::Text => return Some(reader.text),
            _ => return None,
        }
    }
}
