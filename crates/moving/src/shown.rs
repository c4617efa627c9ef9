//! Bytes of the other server in printable form.

use std::fmt::Write;

/// Bytes of the other server in printable ASCII, the first [`SHOWN_MAX`] of them.
pub fn shown(bytes: &[u8]) -> String {
    let mut out = String::new();
    for &byte in bytes.iter().take(SHOWN_MAX) {
        match byte {
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    if bytes.len() > SHOWN_MAX {
        out.push_str("...");
    }
    out
}

/// At most this many bytes of one value are printed.
const SHOWN_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_forges_a_line() {
        assert_eq!(shown(b"a\n  works: x\x1b[2J\xff"), "a\\x0a  works: x\\x1b[2J\\xff");
        assert_eq!(shown(&[b'a'; 200]).len(), SHOWN_MAX + 3);
    }
}
