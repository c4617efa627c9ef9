//! Splits lines with quotes into words, as in inline commands and configuration lines, and, as the inverse,
//! quotes words for listings.
//!
//! Invariant: (1) `split_args(quoted(x))` is `[x]`, for any bytes.

/// A quote was opened and not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unbalanced;

/// The source of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// A configuration file or a value of CONFIG SET.
    Config,
    /// An inline request: if its very last bytes are a backslash and a quote, they mean a backslash and the
    /// closing quote.
    Inline,
}

/// Splits `line` into words.
///
/// Words are separated by spaces, tabs, CR and LF; a vertical tab or form feed is skipped before a word only.
/// Quotes may begin anywhere in a word: in double quotes `\n \r \t \b \a`, `\xHH` and `\` before any other
/// byte are escapes, in single quotes only `\'`. Outside of quotes a backslash is an ordinary byte. The line
/// ends at a NUL.
pub fn split_args(line: &[u8], dialect: Dialect) -> Result<Vec<Vec<u8>>, Unbalanced> {
    let mut words = Vec::new();
    let mut word = Vec::new();
    let mut rest = line;
    while let Some(after) = next_word(rest, dialect, &mut word)? {
        words.push(std::mem::take(&mut word));
        rest = after;
    }
    Ok(words)
}

/// Appends the first word of `line` to `word` and returns the rest of the line; `None` if there is no word.
///
/// For callers that keep words in their own buffer. Cost: linear in the bytes read.
pub fn next_word<'a>(
    line: &'a [u8],
    dialect: Dialect,
    word: &mut Vec<u8>,
) -> Result<Option<&'a [u8]>, Unbalanced> {
    let blank = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let mut rest = &line[blank..];
    if matches!(rest, [] | [0, ..]) {
        return Ok(None);
    }
    loop {
        match rest {
            [] | [b' ' | b'\t' | b'\r' | b'\n' | 0, ..] => return Ok(Some(rest)),
            [b'"', quoted @ ..] => rest = double_quoted(quoted, dialect, word)?,
            [b'\'', quoted @ ..] => rest = single_quoted(quoted, dialect, word)?,
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
        }
    }
}

fn double_quoted<'a>(
    mut rest: &'a [u8],
    dialect: Dialect,
    word: &mut Vec<u8>,
) -> Result<&'a [u8], Unbalanced> {
    loop {
        let (byte, tail) = match rest {
            [] | [0, ..] => return Err(Unbalanced),
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), tail)
            }
            [b'\\', b'"'] if dialect == Dialect::Inline => (b'\\', &rest[1..]),
            // A NUL is not escaped, because the line ends before it.
            [b'\\', escaped, tail @ ..] if *escaped != 0 => (unescape(*escaped), tail),
            [byte, tail @ ..] => (*byte, tail),
        };
        word.push(byte);
        rest = tail;
    }
}

fn single_quoted<'a>(
    mut rest: &'a [u8],
    dialect: Dialect,
    word: &mut Vec<u8>,
) -> Result<&'a [u8], Unbalanced> {
    loop {
        let (byte, tail) = match rest {
            [] | [0, ..] => return Err(Unbalanced),
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\''] if dialect == Dialect::Inline => (b'\\', &rest[1..]),
            [b'\\', b'\'', tail @ ..] => (b'\'', tail),
            [byte, tail @ ..] => (*byte, tail),
        };
        word.push(byte);
        rest = tail;
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20).wrapping_sub(b'a' - 10),
    }
}

/// Appends words separated by single spaces so that [`split_args`] returns them: words with quotes in them,
/// and words that `also` selects, are quoted, all others are not. No word may contain white space or a zero
/// byte.
pub fn push_words(out: &mut Vec<u8>, words: &[u8], also: impl Fn(&[u8]) -> bool) {
    for (at, word) in words.split(|&byte| byte == b' ').enumerate() {
        out.extend_from_slice(if at > 0 { b" " } else { b"" });
        if word.iter().any(|byte| matches!(byte, b'"' | b'\'')) || also(word) {
            push_quoted(out, word);
        } else {
            out.extend_from_slice(word);
        }
    }
}

/// Appends `text` in double quotes, with escapes for quotes, backslashes and unprintable bytes.
pub fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            7 => out.extend_from_slice(b"\\a"),
            8 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let pair = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(&[b'\\', b'x', pair[0], pair[1]]);
            }
        }
    }
    out.push(b'"');
}

/// Like [`push_quoted`], but returns a new vector.
pub fn quoted(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_quoted(&mut out, text);
    out
}

/// Entry point of the fuzzer: words of any line survive being quoted and split.
pub fn fuzz_quote(data: &[u8]) {
    for dialect in [Dialect::Config, Dialect::Inline] {
        let Ok(words) = split_args(data, dialect) else { continue };
        let line: Vec<u8> = words.iter().flat_map(|word| [quoted(word), b" ".to_vec()].concat()).collect();
        assert_eq!(split_args(&line, dialect), Ok(words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn quoting_and_splitting_are_inverses() {
        let mut rng = Rng::new(11);
        for _ in 0..50_000 {
            let text: Vec<u8> = (0..rng.below(12)).map(|_| rng.next_u64() as u8).collect();
            assert_eq!(split_args(&quoted(&text), Dialect::Config), Ok(vec![text.clone()]));
            assert_eq!(split_args(&quoted(&text), Dialect::Inline), Ok(vec![text]));
        }
    }

    #[test]
    fn words_are_split_as_they_were_pushed() {
        let words = br#"a b"c 'd' e\f g) (h"#;
        let mut out = Vec::new();
        push_words(&mut out, words, |word| word.ends_with(b")"));
        assert_eq!(out, br#"a "b\"c" "'d'" e\f "g)" (h"#);
        assert_eq!(split_args(&out, Dialect::Config).map(|words| words.join(&b' ')), Ok(words.to_vec()));
    }

    #[test]
    fn words_are_what_the_reference_answers() {
        let table: [(&[u8], &[&[u8]]); 31] = [
            (b"", &[]),
            (b" \t\r\n\x0b\x0c", &[]),
            (b"  set  k\tv \r", &[b"set", b"k", b"v"]),
            (br#""a""b""#, &[b"ab"]),
            (br#""""""#, &[b""]),
            (b"'a'b", &[b"ab"]),
            (b"a'b'c", &[b"abc"]),
            (br"'a\'b'", &[b"a'b"]),
            (br"'a\nb'", &[br"a\nb"]),
            (br"'a\\b'", &[br"a\\b"]),
            (br#""\n\r\t\b\a\q\\\"""#, &[b"\n\r\t\x08\x07q\\\""]),
            (br#""\x4""#, &[b"x4"]),
            (br#""\xzz""#, &[b"xzz"]),
            (br#""\xAf""#, &[b"\xaf"]),
            (br"a\ b", &[br"a\", b"b"]),
            (br#"a\"b""#, &[br"a\b"]),
            (br"a\\b", &[br"a\\b"]),
            (br#""a" "b""#, &[b"a", b"b"]),
            (br#"a"b c"d"#, &[b"ab cd"]),
            (br#"'a'"b"c"#, &[b"abc"]),
            (br#""\x00""#, &[b"\0"]),
            (b"''", &[b""]),
            (br#"a"""#, &[b"a"]),
            (b"a\x0bb \x0bc", &[b"a\x0bb", b"c"]),
            (b"a\x0cb", &[b"a\x0cb"]),
            (br"\x41", &[br"\x41"]),
            (br#""a\\""#, &[br"a\"]),
            (br#""\x4g1""#, &[b"x4g1"]),
            (b"\"a\rb\"", &[b"a\rb"]),
            (b"a\rb", &[b"a", b"b"]),
            (b"a\0b", &[b"a"]),
        ];
        for (line, words) in table {
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
            for dialect in [Dialect::Config, Dialect::Inline] {
                let shown = String::from_utf8_lossy(line);
                assert_eq!(split_args(line, dialect), Ok(words.clone()), "{shown} {dialect:?}");
            }
        }
    }

    #[test]
    fn an_open_quote_is_unbalanced() {
        for line in ["\"a", "'", "a\"b", "\"a'", "'a\"", "\"\\", "\"\\\"", "'\\'", "\"a\0\"", "\"\\\0\""] {
            assert_eq!(split_args(line.as_bytes(), Dialect::Config), Err(Unbalanced), "{line:?}");
        }
        for line in ["\"a", "'", "a\"b", "\"a'", "'a\"", "\"\\", "\"a\\\"b", "\"a\\\" ", "'\\' "] {
            assert_eq!(split_args(line.as_bytes(), Dialect::Inline), Err(Unbalanced), "{line:?}");
        }
    }

    #[test]
    fn a_last_escaped_quote_closes_an_inline_word() {
        let table: [(&[u8], &[u8]); 5] = [
            (br#""a\""#, br"a\"),
            (br#""\""#, br"\"),
            (br"'a\'", br"a\"),
            (br#"\"a b\""#, br"\a b\"),
            (br#""a\"b""#, br#"a"b"#),
        ];
        for (line, word) in table {
            assert_eq!(split_args(line, Dialect::Inline), Ok(vec![word.to_vec()]));
        }
    }

    #[test]
    fn any_bytes_may_be_fuzzed() {
        let mut rng = Rng::new(12);
        const BYTES: &[u8] = b"ab\"\"''\\\\ x4\r\n\t\x0b\x0c\x00\xff";
        for _ in 0..50_000 {
            let len = rng.below(16);
            let line: Vec<u8> = (0..len).map(|_| BYTES[rng.below(BYTES.len() as u64) as usize]).collect();
            fuzz_quote(&line);
        }
    }

    #[test]
    fn listings_show_escapes_and_lower_case_hex() {
        assert_eq!(
            quoted(b"a\"\\\n\r\t\x07\x08\x00\x1b\x7f\xff~ "),
            br#""a\"\\\n\r\t\a\b\x00\x1b\x7f\xff~ ""#
        );
    }
}
