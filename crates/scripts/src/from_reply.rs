//! Conversion of a command's reply to a Lua value for the script.
//!
//! | reply | value |
//! |---|---|
//! | integer, bulk string, array | number, string, table |
//! | simple string | table with `ok` |
//! | error | table with `err` |
//! | null of RESP2; null of RESP3 | `false`; `nil` |
//! | boolean | boolean |
//! | double | table with `double` |
//! | big number | table with `big_number` |
//! | verbatim string | table with `verbatim_string`, a table with `format` and `string` |
//! | map, set | table with `map`, with `set`, a table by key |
//!
//! Invariants: (1) the bytes are a reply of the engine; other bytes would become some value or an error,
//! without a panic; (2) a large string is shared with the keyspace, not copied; (3) the depth of recursion
//! is bounded.

use crate::machine::error_table;
use sluice_base::Bytes;
use sluice_base::num::parse_f64;
use sluice_lua::{Fault, Heap, Value};
use sluice_resp::Outbox;

/// A reply as a Lua value.
#[derive(Clone, Copy, Debug)]
pub struct ReplyValue {
    /// The value, according to the module's table.
    pub value: Value,
    /// Whether the reply is an error.
    pub is_error: bool,
}

/// Maximum depth of nested collections in a reply; the engine's replies have at most five levels.
const DEPTH_MAX: usize = 64;

/// Converts the first reply in an outbox to a value.
///
/// # Errors
/// `not enough memory`. Cost: O(bytes), without the shared bytes.
pub fn reply_value(outbox: &Outbox, heap: &mut Heap) -> Result<ReplyValue, Fault> {
    let (head, shared) = outbox.parts();
    // Each byte is charged four times, because the smallest elements take only three or four bytes of the
    // reply.
    heap.note_bytes(head.len().saturating_mul(4));
    let mut reader = ReplyReader { head, shared, at: 0 };
    let is_error = head.first() == Some(&b'-');
    Ok(ReplyValue { value: reader.value(heap, 0)?, is_error })
}

/// A reader of an outbox, which consists of bytes and shared values between them.
struct ReplyReader<'a> {
    head: &'a [u8],
    /// Shared values that are not read yet, with their positions in `head`.
    shared: &'a [(usize, Bytes)],
    at: usize,
}

impl<'a> ReplyReader<'a> {
    /// The rest of the current line, without its line end.
    #[inline]
    fn line(&mut self) -> &'a [u8] {
        let rest = &self.head[self.at.min(self.head.len())..];
        let len = rest.iter().position(|byte| *byte == b'\r').unwrap_or(rest.len());
        self.at += len + 2;
        &rest[..len]
    }

    #[inline]
    fn number(&mut self) -> i64 {
        sluice_base::num::parse_i64(self.line()).unwrap_or(0)
    }

    fn value(&mut self, heap: &mut Heap, depth: usize) -> Result<Value, Fault> {
        let Some(kind) = self.head.get(self.at).copied().filter(|_| depth < DEPTH_MAX) else {
            return Ok(Value::NIL);
        };
        self.at += 1;
        match kind {
            b'$' => match usize::try_from(self.number()) {
                Ok(len) => self.string(len, heap),
                Err(_) => Ok(Value::FALSE),
            },
            b':' => Ok(Value::number(self.number() as f64)),
            b'*' | b'>' => match usize::try_from(self.number()) {
                Ok(len) => self.array(len, heap, depth),
                Err(_) => Ok(Value::FALSE),
            },
            b'+' => {
                let text = heap.new_string(self.line())?;
                field(heap, b"ok", text)
            }
            b'-' => {
                let coded = [b"-", self.line()].concat();
                let table = error_table(heap, &coded)?;
                heap.set_text(table, b"ignore_error_stats_update", Value::TRUE)?;
                Ok(table.into())
            }
            b'_' => {
                self.line();
                Ok(Value::NIL)
            }
            b'#' => Ok(Value::boolean(self.line() == b"t")),
            b',' => {
                let number = parse_f64(self.line()).unwrap_or(f64::NAN);
                field(heap, b"double", Value::number(number))
            }
            b'(' => {
                let text = heap.new_string(self.line())?;
                field(heap, b"big_number", text)
            }
            b'=' => self.verbatim(heap),
            b'%' => {
                let len = usize::try_from(self.number()).unwrap_or(0);
                let map = heap.new_table(0, len)?;
                for _ in 0..len {
                    let key = self.value(heap, depth + 1)?;
                    let value = self.value(heap, depth + 1)?;
                    heap.set(map, key, value)?;
                }
                field(heap, b"map", map.into())
            }
            b'~' => {
                let len = usize::try_from(self.number()).unwrap_or(0);
                let set = heap.new_table(0, len)?;
                for _ in 0..len {
                    let member = self.value(heap, depth + 1)?;
                    heap.set(set, member, Value::TRUE)?;
                }
                field(heap, b"set", set.into())
            }
            // Scripts do not see attributes, so the value is that of the reply after the attribute.
            b'|' => {
                let len = usize::try_from(self.number()).unwrap_or(0);
                for _ in 0..len.saturating_mul(2) {
                    self.value(heap, depth + 1)?;
                }
                self.value(heap, depth + 1)
            }
            _ => Ok(Value::NIL),
        }
    }

    fn array(&mut self, len: usize, heap: &mut Heap, depth: usize) -> Result<Value, Fault> {
        let table = heap.new_table(len, 0)?;
        for index in 1..=len as i64 {
            let value = self.value(heap, depth + 1)?;
            heap.set_int(table, index, value)?;
        }
        Ok(table.into())
    }

    fn verbatim(&mut self, heap: &mut Heap) -> Result<Value, Fault> {
        let len = usize::try_from(self.number()).unwrap_or(0);
        let text = self.take(len);
        let (format, text) = text.split_at(text.len().min(3));
        let (format, text) = (heap.new_string(format)?, heap.new_string(text.get(1..).unwrap_or_default())?);
        let inner = heap.new_table(0, 2)?;
        heap.set_text(inner, b"string", text)?;
        heap.set_text(inner, b"format", format)?;
        field(heap, b"verbatim_string", inner.into())
    }

    /// A bulk string of `len` bytes.
    #[inline]
    fn string(&mut self, len: usize, heap: &mut Heap) -> Result<Value, Fault> {
        match self.shared.first() {
            Some((position, bytes)) if *position <= self.at && bytes.len() == len => {
                let bytes = bytes.clone();
                self.shared = &self.shared[1..];
                self.at += 2;
                heap.share_string(bytes)
            }
            Some((position, _)) if *position < self.at + len => {
                heap.room(len)?;
                let mut text = Vec::with_capacity(len);
                self.gather(len, &mut text);
                heap.take_string(text)
            }
            _ => {
                let text = self.take(len);
                heap.new_string(text)
            }
        }
    }

    /// The next `len` bytes, none of which are shared; skips the line end after them.
    fn take(&mut self, len: usize) -> &'a [u8] {
        let from = self.at.min(self.head.len());
        let text = &self.head[from..(from + len).min(self.head.len())];
        self.at = from + len + 2;
        text
    }

    /// Copies a string that lies in several parts.
    fn gather(&mut self, len: usize, text: &mut Vec<u8>) {
        while text.len() < len {
            let left = len - text.len();
            let run_end = match self.shared.first() {
                Some((position, bytes)) if *position <= self.at => {
                    text.extend_from_slice(bytes);
                    self.shared = &self.shared[1..];
                    continue;
                }
                Some((position, _)) => *position,
                None => self.head.len(),
            };
            let from = self.at.min(self.head.len());
            let to = run_end.min(from + left).max(from);
            if from == to {
                break;
            }
            text.extend_from_slice(&self.head[from..to]);
            self.at = to;
        }
        self.at += 2;
    }
}

/// A table with one field.
fn field(heap: &mut Heap, name: &[u8], value: Value) -> Result<Value, Fault> {
    let table = heap.new_table(0, 1)?;
    heap.set_text(table, name, value)?;
    Ok(table.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{MachineKind, ScriptMachine};
    use crate::to_reply::{ReplyConversion, ReplyProgress};
    use sluice_resp::{Protocol, Reply};

    /// Converts a reply to a Lua value and the value back to a reply.
    fn there_and_back(write: impl FnOnce(&mut Outbox), as_version: Protocol) -> Vec<u8> {
        let mut machine = ScriptMachine::open(MachineKind::Eval, 64 << 20, false).unwrap();
        let mut outbox = Outbox::new();
        write(&mut outbox);
        let value = reply_value(&outbox, machine.vm.heap()).unwrap().value;
        let mut out = Outbox::new();
        let mut conversion = ReplyConversion::new(value, as_version == Protocol::Resp3);
        while conversion.step(machine.vm.heap(), Protocol::Resp3, &mut out, 1 << 20, &mut 3)
            == ReplyProgress::More
        {}
        out.flatten()
    }

    #[test]
    fn replies_become_values_and_replies_again() {
        let texts: [&[u8]; 10] = [
            b"$5\r\nhello\r\n",
            b"$0\r\n\r\n",
            b":-12\r\n",
            b"+OK\r\n",
            b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n",
            b"#t\r\n",
            b",2.5\r\n",
            b"(12345678901234567890\r\n",
            b"=7\r\ntxt:abc\r\n",
            b"%1\r\n$1\r\nk\r\n:1\r\n",
        ];
        for text in texts {
            let back = there_and_back(|outbox| outbox.push(text), Protocol::Resp3);
            assert_eq!(back.escape_ascii().to_string(), text.escape_ascii().to_string());
        }
        assert_eq!(there_and_back(|outbox| outbox.push(b"$-1\r\n"), Protocol::Resp2), b"_\r\n");
        assert_eq!(there_and_back(|outbox| outbox.push(b"~1\r\n:7\r\n"), Protocol::Resp3), b"~1\r\n:7\r\n");
        let error = there_and_back(|outbox| outbox.push(b"-WRONGTYPE no\r\n"), Protocol::Resp2);
        assert_eq!(error, b"-WRONGTYPE no\r\n");
    }

    #[test]
    fn large_strings_are_read_where_they_lie() {
        let large = vec![b'x'; 100_000];
        let shared = Bytes::from_vec(large.clone());
        let back = there_and_back(
            |outbox| {
                let mut reply = Reply::new(outbox, Protocol::Resp2);
                reply.array(3);
                reply.int(1);
                reply.bulk_shared(&shared);
                reply.bulk_header(200_003);
                reply.part_shared(&shared);
                reply.raw(b"abc");
                reply.part_shared(&shared);
                reply.raw(b"\r\n");
            },
            Protocol::Resp2,
        );
        let parts = [&large[..], b"abc", &large].concat();
        let wanted = [b"*3\r\n:1\r\n$100000\r\n", &large[..], b"\r\n$200003\r\n", &parts, b"\r\n"].concat();
        assert!(back == wanted);
    }

    #[test]
    fn bytes_that_are_no_reply_do_not_panic() {
        for text in
            [&b""[..], b"$100\r\nab", b"*3\r\n:1", b"%2\r\n", b"=1\r\na\r\n", b"?", b"$", b"*1000\r\n"]
        {
            let mut outbox = Outbox::new();
            outbox.push(text);
            let mut machine = ScriptMachine::open(MachineKind::Eval, 64 << 20, false).unwrap();
            let _ = reply_value(&outbox, machine.vm.heap());
        }
    }
}
