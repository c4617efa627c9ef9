//! The lexer: source text to tokens, and syntax errors.

use std::sync::Arc;

use crate::code::ChunkName;

use crate::text::number::{c_text, parse_number, prefix};

/// A token of the language.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A character that is a token by itself, whether the grammar uses it or not.
    Char(u8),
    And,
    Break,
    Do,
    Else,
    ElseIf,
    End,
    False,
    For,
    Function,
    If,
    In,
    Local,
    Nil,
    Not,
    Or,
    Repeat,
    Return,
    Then,
    True,
    Until,
    While,
    /// The operator `..` of concatenation.
    Concat,
    /// The token `...` for extra arguments.
    Dots,
    /// The operator `==` of comparison.
    Equal,
    /// The operator `>=` of comparison.
    GreaterEqual,
    /// The operator `<=` of comparison.
    LessEqual,
    /// The operator `~=` of comparison.
    NotEqual,
    Number(f64),
    Name(Arc<[u8]>),
    Text(Arc<[u8]>),
    /// The end of the source.
    End0,
}

const WORDS: [(&str, Token); 21] = [
    ("and", Token::And),
    ("break", Token::Break),
    ("do", Token::Do),
    ("else", Token::Else),
    ("elseif", Token::ElseIf),
    ("end", Token::End),
    ("false", Token::False),
    ("for", Token::For),
    ("function", Token::Function),
    ("if", Token::If),
    ("in", Token::In),
    ("local", Token::Local),
    ("nil", Token::Nil),
    ("not", Token::Not),
    ("or", Token::Or),
    ("repeat", Token::Repeat),
    ("return", Token::Return),
    ("then", Token::Then),
    ("true", Token::True),
    ("until", Token::Until),
    ("while", Token::While),
];

const OPERATORS: [(&str, Token); 6] = [
    ("..", Token::Concat),
    ("...", Token::Dots),
    ("==", Token::Equal),
    (">=", Token::GreaterEqual),
    ("<=", Token::LessEqual),
    ("~=", Token::NotEqual),
];

/// The message of an error in a source text, with its position.
pub(crate) type SyntaxError = Vec<u8>;

/// Bytes at the start of a token that are scanned one by one, because most tokens are shorter.
const NEAR: usize = 16;

/// Whether a byte can be part of a name or of the end of a number.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The token as error messages show it.
pub(super) fn describe(token: &Token) -> Vec<u8> {
    match token {
        Token::Char(byte) if byte.is_ascii_control() => format!("char({byte})").into_bytes(),
        Token::Char(byte) => vec![*byte],
        Token::Number(_) => b"<number>".to_vec(),
        Token::Name(_) => b"<name>".to_vec(),
        Token::Text(_) => b"<string>".to_vec(),
        Token::End0 => b"<eof>".to_vec(),
        word => {
            let mut known = WORDS.iter().chain(&OPERATORS);
            known
                .find(|(_, token)| token == word)
                .map(|(text, _)| text.as_bytes().to_vec())
                .unwrap_or_default()
        }
    }
}

/// Reads tokens from a source; [`Lexer::peek`] reads one token ahead.
pub(super) struct Lexer<'s> {
    source: &'s [u8],
    at: usize,
    /// The bytes of the current token for error messages, except those covered by `span`.
    buffer: Vec<u8>,
    /// The place of the last token in the source, if it is a word or a number: error messages show those
    /// bytes, which are not copied.
    span: Option<(usize, usize)>,
    /// The token that the parser is looking at.
    pub(super) token: Token,
    ahead: Option<Token>,
    /// The line of the reading position, from 1.
    pub(super) line: u32,
    /// The line of the last consumed token.
    pub(super) last_line: u32,
    pub(super) chunk: Arc<ChunkName>,
}

impl<'s> Lexer<'s> {
    pub(super) fn new(source: &'s [u8], chunk: Arc<ChunkName>) -> Lexer<'s> {
        Lexer {
            source,
            at: 0,
            buffer: Vec::new(),
            span: None,
            token: Token::End0,
            ahead: None,
            line: 1,
            last_line: 1,
            chunk,
        }
    }

    /// Moves on to the next token.
    pub(super) fn advance(&mut self) -> Result<(), SyntaxError> {
        self.last_line = self.line;
        self.token = match self.ahead.take() {
            Some(token) => token,
            None => self.read()?,
        };
        Ok(())
    }

    /// The token after the current one.
    pub(super) fn peek(&mut self) -> Result<&Token, SyntaxError> {
        let token = self.read()?;
        Ok(self.ahead.insert(token))
    }

    // Errors.

    /// An error message that shows no token.
    pub(super) fn plain_error(&self, text: &str) -> SyntaxError {
        let mut out = self.chunk.shown.to_vec();
        out.extend_from_slice(format!(":{}: {text}", self.line).as_bytes());
        out
    }

    fn error_near(&self, text: &str, near: &[u8]) -> SyntaxError {
        let mut out = self.plain_error(text);
        out.extend_from_slice(b" near '");
        // The reference prints the token as a C string, up to a zero byte.
        out.extend_from_slice(c_text(near));
        out.push(b'\'');
        out
    }

    /// An error message that shows the current token.
    pub(super) fn syntax_error(&self, text: &str) -> SyntaxError {
        match &self.token {
            Token::Name(_) | Token::Text(_) | Token::Number(_) => self.error_near(text, self.shown()),
            // The reference treats the token of a zero byte as no token.
            Token::Char(0) => self.plain_error(text),
            token => self.error_near(text, &describe(token)),
        }
    }

    /// The bytes of the last token, as error messages show them.
    fn shown(&self) -> &[u8] {
        match self.span {
            Some((from, to)) => &self.source[from..to],
            None => &self.buffer,
        }
    }

    // Reading.

    fn current(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    fn save(&mut self) {
        if let Some(byte) = self.current() {
            self.buffer.push(byte);
            self.at += 1;
        }
    }

    /// The number of next bytes for which `is_of_kind` is true.
    fn count_next(&self, is_of_kind: impl Fn(u8) -> bool + Copy) -> usize {
        let rest = &self.source[self.at..];
        let near = rest.iter().take(NEAR).take_while(|byte| is_of_kind(**byte)).count();
        if near < NEAR { near } else { NEAR + prefix(&rest[NEAR..], is_of_kind) }
    }

    /// Appends the next bytes for which `is_of_kind` is true to the buffer.
    fn save_all(&mut self, is_of_kind: impl Fn(u8) -> bool + Copy) {
        let end = self.at + self.count_next(is_of_kind);
        self.buffer.extend_from_slice(&self.source[self.at..end]);
        self.at = end;
    }

    fn is_newline(&self) -> bool {
        matches!(self.current(), Some(b'\n' | b'\r'))
    }

    /// Skips a line end, which may be two bytes.
    fn newline(&mut self) {
        let first = self.current();
        self.at += 1;
        if self.is_newline() && self.current() != first {
            self.at += 1;
        }
        self.line += 1;
    }

    fn read(&mut self) -> Result<Token, SyntaxError> {
        self.buffer.clear();
        self.span = None;
        loop {
            let Some(byte) = self.current() else { return Ok(Token::End0) };
            match byte {
                b'\n' | b'\r' => self.newline(),
                b' ' | b'\t' | 0x0b | 0x0c => self.at += 1,
                b'-' => {
                    self.at += 1;
                    if self.current() != Some(b'-') {
                        return Ok(Token::Char(b'-'));
                    }
                    self.at += 1;
                    self.comment()?;
                }
                b'[' => {
                    return match self.separator() {
                        Some(level) => self.long_text(level, "unfinished long string").map(Token::Text),
                        None if self.buffer.len() == 1 => Ok(Token::Char(b'[')),
                        None => Err(self.error_near("invalid long string delimiter", &self.buffer)),
                    };
                }
                b'=' => return Ok(self.maybe_equal(b'=', Token::Equal)),
                b'<' => return Ok(self.maybe_equal(b'<', Token::LessEqual)),
                b'>' => return Ok(self.maybe_equal(b'>', Token::GreaterEqual)),
                b'~' => return Ok(self.maybe_equal(b'~', Token::NotEqual)),
                b'"' | b'\'' => return self.text(byte),
                b'.' => return self.dots(),
                b'0'..=b'9' => return self.number(),
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => return Ok(self.word()),
                _ => {
                    self.at += 1;
                    return Ok(Token::Char(byte));
                }
            }
        }
    }

    fn maybe_equal(&mut self, byte: u8, double: Token) -> Token {
        self.at += 1;
        if self.current() != Some(b'=') {
            return Token::Char(byte);
        }
        self.at += 1;
        double
    }

    // PUC looks up the next byte in a C string of accepted bytes, and so also accepts the zero byte at the
    // end of that string. Therefore a zero byte counts as a point in `..` and `...`, and as `e` or a sign in
    // a number.

    fn dots(&mut self) -> Result<Token, SyntaxError> {
        self.save();
        if matches!(self.current(), Some(b'.' | 0)) {
            self.at += 1;
            if matches!(self.current(), Some(b'.' | 0)) {
                self.at += 1;
                return Ok(Token::Dots);
            }
            return Ok(Token::Concat);
        }
        if self.current().is_some_and(|byte| byte.is_ascii_digit()) {
            self.number()
        } else {
            Ok(Token::Char(b'.'))
        }
    }

    fn word(&mut self) -> Token {
        let from = self.at;
        self.at += self.count_next(is_word);
        self.span = Some((from, self.at));
        let text = &self.source[from..self.at];
        match WORDS.iter().find(|(word, _)| word.as_bytes() == text) {
            Some((_, token)) => token.clone(),
            None => Token::Name(text.into()),
        }
    }

    /// Reads a number; if it begins with a point, the point has been read already.
    fn number(&mut self) -> Result<Token, SyntaxError> {
        let from = self.at - self.buffer.len();
        self.at += self.count_next(|byte| byte.is_ascii_digit() || byte == b'.');
        if matches!(self.current(), Some(b'e' | b'E' | 0)) {
            self.at += 1;
            if matches!(self.current(), Some(b'+' | b'-' | 0)) {
                self.at += 1;
            }
        }
        self.at += self.count_next(is_word);
        self.span = Some((from, self.at));
        let text = &self.source[from..self.at];
        match parse_number(text) {
            Some(number) => Ok(Token::Number(number)),
            None => Err(self.error_near("malformed number", text)),
        }
    }

    /// Skips `[==[` or `]==]` except for the last bracket; returns the number of equal signs, or `None` if
    /// there is no such separator.
    fn separator(&mut self) -> Option<usize> {
        let bracket = self.current();
        self.save();
        let mut level = 0;
        while self.current() == Some(b'=') {
            self.save();
            level += 1;
        }
        if self.current() == bracket { Some(level) } else { None }
    }

    fn comment(&mut self) -> Result<(), SyntaxError> {
        if self.current() == Some(b'[') {
            let level = self.separator();
            self.buffer.clear();
            if let Some(level) = level {
                self.long_text(level, "unfinished long comment")?;
                self.buffer.clear();
                return Ok(());
            }
        }
        self.at += prefix(&self.source[self.at..], |byte| !matches!(byte, b'\n' | b'\r'));
        Ok(())
    }

    fn long_text(&mut self, level: usize, unfinished: &str) -> Result<Arc<[u8]>, SyntaxError> {
        self.save();
        let from = self.buffer.len();
        if self.is_newline() {
            self.newline();
        }
        loop {
            match self.current() {
                None => return Err(self.error_near(unfinished, b"<eof>")),
                Some(b']') => {
                    let start = self.buffer.len();
                    if self.separator() == Some(level) {
                        self.save();
                        let text = self.buffer.get(from..start).unwrap_or_default().into();
                        return Ok(text);
                    }
                }
                Some(b'\n' | b'\r') => {
                    self.newline();
                    self.buffer.push(b'\n');
                }
                Some(_) => self.save_all(|byte| !matches!(byte, b']' | b'\n' | b'\r')),
            }
        }
    }

    fn text(&mut self, quote: u8) -> Result<Token, SyntaxError> {
        self.save();
        loop {
            match self.current() {
                None => return Err(self.error_near("unfinished string", b"<eof>")),
                Some(b'\n' | b'\r') => return Err(self.error_near("unfinished string", &self.buffer)),
                Some(b'\\') => self.escape()?,
                Some(byte) if byte == quote => {
                    self.save();
                    let text = &self.buffer[1..self.buffer.len() - 1];
                    return Ok(Token::Text(text.into()));
                }
                Some(_) => {
                    let is_plain = |byte| byte != quote && !matches!(byte, b'\n' | b'\r' | b'\\');
                    self.save_all(is_plain);
                }
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        self.at += 1;
        let Some(byte) = self.current() else { return Ok(()) };
        let plain = match byte {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'\n' | b'\r' => {
                self.newline();
                self.buffer.push(b'\n');
                return Ok(());
            }
            b'0'..=b'9' => return self.decimal_escape(),
            other => other,
        };
        self.at += 1;
        self.buffer.push(plain);
        Ok(())
    }

    fn decimal_escape(&mut self) -> Result<(), SyntaxError> {
        let mut code = 0_u32;
        for _ in 0..3 {
            let Some(digit) = self.current().filter(u8::is_ascii_digit) else { break };
            code = code * 10 + u32::from(digit - b'0');
            self.at += 1;
        }
        match u8::try_from(code) {
            Ok(byte) => {
                self.buffer.push(byte);
                Ok(())
            }
            Err(_) => Err(self.error_near("escape sequence too large", &self.buffer)),
        }
    }
}
