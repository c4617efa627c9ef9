//! Formatting a reply for people.
//!
//! | reply | shown |
//! |---|---|
//! | bulk or verbatim string, simple string, error | quoted; the latter two with `+` and `-` |
//! | integer, big number | its digits |
//! | array or push, set, map | `[a,b]`, `~(a,b)`, `{a => b}` |
//! | null of RESP2; null of RESP3; boolean; double | `NULL`; `(null)`; `#true`; `(double) 1.5` |

/// Maximum depth to which nested collections are shown.
const DEPTH_MAX: usize = 64;

/// Appends the first reply in `wire` to `out`, and stops soon after `limit` bytes. Cost: O(appended bytes).
pub(super) fn push_human(wire: &[u8], out: &mut Vec<u8>, limit: usize) {
    ReplyText { wire, at: 0, limit }.push(out, 0);
}

struct ReplyText<'w> {
    wire: &'w [u8],
    at: usize,
    limit: usize,
}

impl<'w> ReplyText<'w> {
    fn line(&mut self) -> &'w [u8] {
        let rest = &self.wire[self.at.min(self.wire.len())..];
        let len = rest.iter().position(|byte| *byte == b'\r').unwrap_or(rest.len());
        self.at += len + 2;
        &rest[..len]
    }

    fn push(&mut self, out: &mut Vec<u8>, depth: usize) {
        let is_room = depth < DEPTH_MAX && out.len() <= self.limit;
        let Some(kind) = self.wire.get(self.at).copied().filter(|_| is_room) else { return };
        self.at += 1;
        let line = self.line();
        let count = || sluice_base::num::parse_i64(line).and_then(|count| usize::try_from(count).ok());
        match kind {
            b'+' | b'-' => push_quoted(&[&[kind], line].concat(), out, self.limit),
            b'$' | b'=' => match count() {
                Some(len) => {
                    let rest = &self.wire[self.at.min(self.wire.len())..];
                    push_quoted(&rest[..len.min(rest.len())], out, self.limit);
                    self.at += len + 2;
                }
                None => out.extend_from_slice(b"NULL"),
            },
            b'*' | b'>' => match count() {
                Some(count) => self.push_all(out, depth, count, [b"[", b",", b"]"]),
                None => out.extend_from_slice(b"NULL"),
            },
            b'~' => self.push_all(out, depth, count().unwrap_or(0), [b"~(", b",", b")"]),
            b'%' => {
                out.push(b'{');
                for at in 0..count().unwrap_or(0) {
                    if at > 0 {
                        out.push(b',');
                    }
                    self.push(out, depth + 1);
                    out.extend_from_slice(b" => ");
                    self.push(out, depth + 1);
                    if out.len() > self.limit {
                        break;
                    }
                }
                out.push(b'}');
            }
            b'_' => out.extend_from_slice(b"(null)"),
            b'#' => out.extend_from_slice(if line == b"t" { b"#true" } else { b"#false" }),
            b',' => {
                out.extend_from_slice(b"(double) ");
                out.extend_from_slice(line);
            }
            _ => out.extend_from_slice(line),
        }
    }

    fn push_all(
        &mut self,
        out: &mut Vec<u8>,
        depth: usize,
        count: usize,
        [open, between, close]: [&[u8]; 3],
    ) {
        out.extend_from_slice(open);
        for at in 0..count {
            if at > 0 {
                out.extend_from_slice(between);
            }
            self.push(out, depth + 1);
            if out.len() > self.limit {
                break;
            }
        }
        out.extend_from_slice(close);
    }
}

fn push_quoted(text: &[u8], out: &mut Vec<u8>, limit: usize) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            0x20..0x7f => out.push(*byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
        if out.len() > limit {
            break;
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::push_human;

    fn human(wire: &[u8]) -> String {
        let mut out = Vec::new();
        push_human(wire, &mut out, 200);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn replies_are_shown_as_the_reference_shows_them() {
        let cases: [(&[u8], &str); 10] = [
            (b"+OK\r\n", "\"+OK\""),
            (b"-ERR no\r\n", "\"-ERR no\""),
            (b":2\r\n", "2"),
            (b"$-1\r\n", "NULL"),
            (b"$6\r\na\nb\x01\"q\r\n", "\"a\\nb\\x01\\\"q\""),
            (b"*2\r\n$1\r\na\r\n:5\r\n", "[\"a\",5]"),
            (b"*0\r\n", "[]"),
            (b"%1\r\n$1\r\nf\r\n$1\r\nv\r\n", "{\"f\" => \"v\"}"),
            (b",1.5\r\n", "(double) 1.5"),
            (b"_\r\n", "(null)"),
        ];
        for (wire, shown) in cases {
            assert_eq!(human(wire), shown);
        }
    }

    #[test]
    fn what_is_no_reply_and_what_is_long_ends() {
        for wire in
            [&b""[..], b"*", b"$9\r\nab", b"%2\r\n", b"*1000000000000\r\n", b"$99999999999999999999\r\n"]
        {
            assert!(human(wire).len() < 1000);
        }
        let long = [b"$5000\r\n", &[b'x'; 5000][..], b"\r\n"].concat();
        assert!(human(&long).len() < 210);
        assert!(human(&b"*1\r\n".repeat(100)).len() < 200);
    }
}
