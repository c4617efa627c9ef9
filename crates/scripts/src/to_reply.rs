//! Conversion of a script's result to a reply, in steps, because a table may have ten million elements,
//! or contain itself.
//!
//! Invariants: (1) a step does about as much work as the caller allows; (2) when a step returns `Done`,
//! the written bytes are a complete reply, even if an error replaces a table that was nested too deeply;
//! (3) the script's run stays open until the conversion ends, so that the values stay alive.

use sluice_commands::until_zero;
use sluice_lua::{Heap, Kind, TableRef, Value};
use sluice_resp::{Outbox, Protocol, Reply};

/// Maximum depth of nested tables in a reply. At this depth the reference's stack ends.
const DEPTH_MAX: usize = 7995;

/// Error for a result whose tables are nested more deeply than [`DEPTH_MAX`].
const TOO_DEEP: &[u8] = b"ERR reached lua stack limit";

/// A string of at least this many bytes is shared with the script, not copied.
const SHARED_BYTES_MIN: usize = 16 << 10;

/// Number of bytes of a text whose copying takes about as long as writing one element.
const BYTES_PER_ELEMENT: usize = 256;

/// The result of a step of the conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyProgress {
    /// The reply is complete.
    Done,
    /// The conversion needs more steps.
    More,
    /// The reply would exceed its limit of bytes.
    TooLarge,
}

/// A table whose elements are being written.
#[derive(Clone, Copy, Debug)]
enum Level {
    /// The elements of an array are being counted, up to the first nil.
    Counting { table: TableRef, len: i64 },
    /// The elements of an array are being written. `next` is the next index, and `len` the last.
    Array { table: TableRef, next: i64, len: i64 },
    /// The pairs of a map, or the keys of a set, are being counted.
    CountingPairs { table: TableRef, after: Value, len: usize, is_set: bool },
    /// The pairs of a map or the keys of a set are being written. `after` is the key that was written last.
    Pairs { table: TableRef, after: Value, is_set: bool },
}

/// The conversion of a result, which writes into an outbox.
#[derive(Debug)]
pub struct ReplyConversion {
    /// The tables that are being written, the outermost first.
    levels: Vec<Level>,
    /// The value to be written next, before the innermost table continues. For a pair of a map, this is the
    /// key.
    next: Option<Value>,
    /// The value to be written after `next`. For a pair of a map, this is the value that belongs to the key.
    then: Option<Value>,
    /// `server.setresp(3)`: whether booleans are written as RESP3 booleans.
    is_resp3: bool,
    /// Errors written since the host last took them, which no command has counted in its statistics.
    pub errors: Vec<Vec<u8>>,
    /// Whether an error was written, including errors that a command has counted.
    pub has_error: bool,
}

/// Maximum length in bytes of a text that [`write_plain`] writes.
const PLAIN_BYTES_MAX: usize = 1024;

/// Writes a result that needs no conversion: a number or a short text. Returns false if nothing
/// was written.
#[inline]
pub fn write_plain(
    value: Value,
    heap: &Heap,
    protocol: Protocol,
    out: &mut Outbox,
    bytes_max: usize,
) -> bool {
    // Results that may exceed the limit are left to the conversion.
    if out.len() + 2 * PLAIN_BYTES_MAX > bytes_max {
        return false;
    }
    if let Some(text) = value.as_str() {
        let text = heap.bytes(text);
        if text.len() <= PLAIN_BYTES_MAX {
            Reply::new(out, protocol).bulk(text);
            return true;
        }
    } else if let Some(number) = value.as_number() {
        Reply::new(out, protocol).int(sluice_lua::to_integer(number));
        return true;
    }
    false
}

impl ReplyConversion {
    /// A conversion of this result. `is_resp3`: whether the script has chosen RESP3.
    pub fn new(value: Value, is_resp3: bool) -> ReplyConversion {
        ReplyConversion {
            levels: Vec::new(),
            next: Some(value),
            then: None,
            is_resp3,
            errors: Vec::new(),
            has_error: false,
        }
    }

    /// Continues writing. `work` is the allowed work in elements, and is decreased by the work done.
    /// `bytes_max`: maximum length in bytes of the whole reply.
    pub fn step(
        &mut self,
        heap: &mut Heap,
        protocol: Protocol,
        out: &mut Outbox,
        bytes_max: usize,
        work: &mut i64,
    ) -> ReplyProgress {
        loop {
            if *work <= 0 {
                return ReplyProgress::More;
            }
            *work -= 1;
            if let Some(value) = self.next.take() {
                let before = out.len();
                self.write(value, heap, &mut Reply::new(out, protocol));
                *work -= ((out.len() - before) / BYTES_PER_ELEMENT) as i64;
                self.next = self.then.take();
                if out.len() > bytes_max {
                    return ReplyProgress::TooLarge;
                }
                continue;
            }
            let Some(level) = self.levels.last_mut() else { return ReplyProgress::Done };
            match level {
                Level::Counting { table, len } => {
                    // Eight elements are counted for one unit of work, because counting an element costs
                    // less than writing it.
                    for _ in 0..8 {
                        if heap.get_int(*table, *len + 1).is_nil() {
                            Reply::new(out, protocol).array(*len as usize);
                            *level = Level::Array { table: *table, next: 1, len: *len };
                            break;
                        }
                        *len += 1;
                    }
                }
                Level::Array { table, next, len } => {
                    if *next > *len {
                        self.levels.pop();
                        continue;
                    }
                    self.next = Some(heap.get_int(*table, *next));
                    *next += 1;
                }
                Level::CountingPairs { table, after, len, is_set } => match heap.next(*table, *after) {
                    Ok(Some((key, _))) => (*after, *len) = (key, *len + 1),
                    Ok(None) | Err(_) => {
                        let mut reply = Reply::new(out, protocol);
                        if *is_set {
                            reply.set(*len)
                        } else {
                            reply.map(*len)
                        }
                        *level = Level::Pairs { table: *table, after: Value::NIL, is_set: *is_set };
                    }
                },
                Level::Pairs { table, after, is_set } => match heap.next(*table, *after) {
                    Ok(Some((key, value))) => {
                        *after = key;
                        self.next = Some(key);
                        self.then = (!*is_set).then_some(value);
                    }
                    Ok(None) | Err(_) => drop(self.levels.pop()),
                },
            }
        }
    }

    /// Writes a value, or the beginning of a table whose elements follow in later steps.
    fn write(&mut self, value: Value, heap: &mut Heap, reply: &mut Reply<'_>) {
        if self.levels.len() >= DEPTH_MAX {
            self.has_error = true;
            self.errors.push(TOO_DEEP.to_vec());
            return reply.error(TOO_DEEP);
        }
        match value.kind() {
            Kind::String => {
                let Some(text) = value.as_str() else { return };
                match heap.shared_bytes(text).filter(|bytes| bytes.len() >= SHARED_BYTES_MIN) {
                    Some(bytes) => reply.bulk_shared(&bytes),
                    None => reply.bulk(heap.bytes(text)),
                }
            }
            Kind::Boolean if self.is_resp3 => reply.boolean(value.truthy()),
            Kind::Boolean if value.truthy() => reply.int(1),
            Kind::Number => reply.int(sluice_lua::to_integer(value.as_number().unwrap_or_default())),
            Kind::Table => {
                if let Some(table) = value.as_table() {
                    self.write_table(table, heap, reply);
                }
            }
            Kind::Boolean
            | Kind::Nil
            | Kind::LightUserdata
            | Kind::Closure
            | Kind::Native
            | Kind::Userdata
            | Kind::Thread => reply.null(),
        }
    }

    fn write_table(&mut self, table: TableRef, heap: &mut Heap, reply: &mut Reply<'_>) {
        // Most tables are arrays without special fields.
        if heap.node_count(table) > 0 && self.write_special(table, heap, reply) {
            return;
        }
        self.levels.push(Level::Counting { table, len: 0 });
    }

    /// Writes a table whose fields mark it as an error, status, double, map and so on. Returns whether
    /// the table is such a table.
    fn write_special(&mut self, table: TableRef, heap: &mut Heap, reply: &mut Reply<'_>) -> bool {
        if let Some(text) = heap.get_text(table, b"err").as_str() {
            let text = until_zero(heap.bytes(text));
            reply.error_of_script(text);
            self.has_error = true;
            if !is_counted(table, heap) {
                self.errors.push(text.to_vec());
            }
            return true;
        }
        if let Some(text) = heap.get_text(table, b"ok").as_str() {
            reply.simple(until_zero(heap.bytes(text)));
            return true;
        }
        if let Some(number) = heap.get_text(table, b"double").as_number() {
            reply.double(number);
            return true;
        }
        if let Some(text) = heap.get_text(table, b"big_number").as_str() {
            let digits = heap.bytes(text);
            if digits.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
                // Line breaks are replaced by spaces here, because RESP2 sends the digits as a bulk string,
                // in which line breaks would remain. As in the reference, the digits end at the first NUL
                // byte.
                let digits = until_zero(digits)
                    .iter()
                    .map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte });
                reply.big_number(&digits.collect::<Vec<u8>>());
            } else {
                reply.big_number(digits);
            }
            return true;
        }
        if let Some(inner) = heap.get_text(table, b"verbatim_string").as_table() {
            let format = heap.get_text(inner, b"format").as_str();
            let text = heap.get_text(inner, b"string").as_str();
            if let (Some(format), Some(text)) = (format, text) {
                let mut letters = *b"   ";
                let format = until_zero(heap.bytes(format));
                let len = format.len().min(3);
                letters[..len].copy_from_slice(&format[..len]);
                reply.verbatim(&letters, heap.bytes(text));
                return true;
            }
        }
        for (name, is_set) in [(&b"map"[..], false), (b"set", true)] {
            if let Some(table) = heap.get_text(table, name).as_table() {
                self.levels.push(Level::CountingPairs { table, after: Value::NIL, len: 0, is_set });
                return true;
            }
        }
        false
    }
}

/// Whether the error in this table was already counted when its command failed.
pub fn is_counted(table: TableRef, heap: &Heap) -> bool {
    heap.get_text(table, b"ignore_error_stats_update") == Value::TRUE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{MachineKind, ScriptMachine};
    use sluice_lua::{RunOutcome, compile};

    #[expect(clippy::disallowed_methods, reason = "programs of one's own need no clock")]
    /// Returns the reply for the value that a program returns, which is converted in steps of `work`.
    fn reply_of(source: &str, protocol: Protocol, is_resp3: bool, work: i64) -> (String, usize) {
        let mut machine = ScriptMachine::open(MachineKind::Eval, 1 << 30, false).unwrap();
        let chunk = machine.vm.load(&compile(source.as_bytes(), b"@user_script").unwrap()).unwrap();
        let mut run = machine.vm.start(chunk);
        let outcome = run.resume_unwatched(u64::MAX);
        assert!(matches!(outcome, RunOutcome::Done), "{outcome:?}");
        let value = run.results().first().copied().unwrap_or_default();
        let (mut out, mut plain) = (Outbox::new(), Outbox::new());
        let is_plain = write_plain(value, machine.vm.heap(), protocol, &mut plain, 1 << 30);
        let mut conversion = ReplyConversion::new(value, is_resp3);
        let mut steps = 1;
        while conversion.step(machine.vm.heap(), protocol, &mut out, 1 << 30, &mut work.clone())
            == ReplyProgress::More
        {
            steps += 1;
        }
        let written = out.flatten();
        assert!(!is_plain || plain.flatten() == written);
        (String::from_utf8_lossy(&written).replace("\r\n", " "), steps)
    }

    #[test]
    fn values_are_written_as_the_reference_writes_them() {
        use Protocol::{Resp2, Resp3};
        let rows = [
            ("return 3.99", Resp2, false, ":3 "),
            ("return -3.99", Resp2, false, ":-3 "),
            ("return true", Resp2, false, ":1 "),
            ("return false", Resp2, false, "$-1 "),
            ("return false", Resp3, false, "_ "),
            ("return false", Resp3, true, "#f "),
            ("return true", Resp2, true, ":1 "),
            ("return {1,2,nil,4}", Resp2, false, "*2 :1 :2 "),
            ("return {1,{2,{}},'x'}", Resp2, false, "*3 :1 *2 :2 *0 $1 x "),
            ("return {ok='fi\\r\\nne'}", Resp2, false, "+fi  ne "),
            ("return {err='MY err'}", Resp2, false, "-MY err "),
            ("return {double=1.5}", Resp3, false, ",1.5 "),
            ("return {double=1.5}", Resp2, false, "$3 1.5 "),
            ("return {big_number='12'}", Resp3, false, "(12 "),
            ("return {big_number='1\\r\\n2\\0003'}", Resp2, false, "$4 1  2 "),
            ("return {verbatim_string={format='mkd',string='x'}}", Resp3, false, "=5 mkd:x "),
            ("return {map={a=1}}", Resp3, false, "%1 $1 a :1 "),
            ("return {map={a=1}}", Resp2, false, "*2 $1 a :1 "),
            ("return {set={a=true}}", Resp3, false, "~1 $1 a "),
            ("return function() end", Resp2, false, "$-1 "),
            ("return", Resp2, false, "$-1 "),
        ];
        for (source, protocol, is_resp3, wanted) in rows {
            for work in [1, 1000] {
                assert_eq!(reply_of(source, protocol, is_resp3, work).0, wanted, "{source}");
            }
        }
    }

    #[test]
    fn a_table_in_itself_ends_in_an_error_at_the_deepest_level() {
        let (reply, _) = reply_of("local a = {} a[1] = a return a", Protocol::Resp2, false, i64::MAX);
        assert_eq!(reply.matches("*1 ").count(), DEPTH_MAX);
        assert!(reply.ends_with("*1 -ERR reached lua stack limit "));
    }

    #[test]
    fn a_large_table_takes_many_steps() {
        let (reply, steps) =
            reply_of("local t = {} for i = 1, 100000 do t[i] = 1 end return t", Protocol::Resp2, false, 1000);
        assert_eq!(reply.len(), "*100000 ".len() + 300_000);
        assert!(steps > 100, "{steps}");
    }
}
