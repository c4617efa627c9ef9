//! Words of a line: blanks separate, quotes hold together. The inverse, [`quote`], writes any bytes as one word.

use crate::number::is_space;

/// The words of `line`, or `None` when a quote is not closed.
///
/// In double quotes `\n \r \t \b \a \xHH` are escapes and `\` before anything else stands for that; in single quotes
/// only `\'` is. A quote may begin and end within a word. A zero byte outside of quotes ends the line.
pub fn split_args(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let blanks = rest.iter().position(|byte| !is_space(*byte)).unwrap_or(rest.len());
        rest = &rest[blanks..];
        if rest.is_empty() || rest[0] == 0 {
            return Some(words);
        }
        let (word, after) = one_word(rest)?;
        words.push(word);
        rest = after;
    }
}

/// The first word of `rest` and what follows it; `rest` does not begin with a blank.
fn one_word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] | [0, ..] => return Some((word, &[])),
            [b' ' | b'\n' | b'\r' | b'\t', after @ ..] => return Some((word, after)),
            [b'"', after @ ..] => rest = double_quoted(after, &mut word)?,
            [b'\'', after @ ..] => rest = single_quoted(after, &mut word)?,
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] | [0, ..] => return None,
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push(hex_digit(*high) * 16 + hex_digit(*low));
                rest = after;
            }
            [b'\\', escaped, after @ ..] if *escaped != 0 => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = after;
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] | [0, ..] => return None,
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                rest = after;
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

/// The value of a digit that `is_ascii_hexdigit` accepted.
fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10),
    }
}

/// Appends `bytes` to `out` in double quotes, such that [`split_args`] gives them back as one word.
pub fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', *byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            7 => out.extend(b"\\a"),
            8 => out.extend(b"\\b"),
            b' '..=b'~' => out.push(*byte),
            other => out.extend(format!("\\x{other:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}
