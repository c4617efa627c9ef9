//! A Rust file for the checks: its code with comments and literals blanked, and its comments separately.
//!
//! Invariants: (1) `code` has as many lines as the file, and each of its characters keeps its line and
//! column, so a location found there is a location in the file; (2) the scanner knows just enough of Rust to
//! distinguish code from comments, strings, raw strings and character literals. It is no parser, and its
//! result for a file that does not compile is unspecified.

/// One file, separated into code and comments.
pub(crate) struct Source {
    /// Relative to the root.
    pub(crate) path: String,
    /// Lines with comments and the insides of literals replaced by blanks.
    pub(crate) code: Vec<String>,
    /// The comment text of each line, `//` and the like included; empty where there is none.
    pub(crate) comments: Vec<String>,
    /// For each line, whether it belongs to code that only tests compile.
    pub(crate) test: Vec<bool>,
}

/// One token of the product's code: a word, `::`, or one character.
pub(crate) struct Token {
    pub(crate) text: String,
    /// The line of the token, from 1.
    pub(crate) line: usize,
}

/// A function with a body.
pub(crate) struct Function {
    /// The function's name without its path.
    pub(crate) name: String,
    /// Line of the `fn`, from 1.
    pub(crate) line: usize,
    /// Lines from `fn` to the closing brace, both included.
    pub(crate) lines: usize,
}

/// The syntax that the scanner is inside of.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    Code,
    LineComment,
    BlockComment { depth: u32 },
    Text,
    RawText { hashes: usize },
}

impl Source {
    /// Separates the text of the file `path` into code and comments.
    pub(crate) fn scan(path: &str, text: &str) -> Source {
        let (code, comments) = split(text);
        let mut source = Source { path: path.to_string(), test: vec![false; code.len()], code, comments };
        source.mark_tests();
        source
    }

    /// Whether the whole file is only compiled for tests, benches or examples, judged by its path.
    fn is_test_file(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let folders = ["/tests/", "/benches/", "/examples/"];
        matches!(name, "tests.rs" | "model.rs") || folders.iter().any(|folder| self.path.contains(folder))
    }

    /// Fills `test`: the whole of a test file, otherwise each item after a `cfg` attribute that names
    /// `test`, up to the end of the item.
    fn mark_tests(&mut self) {
        if self.is_test_file() {
            self.test.fill(true);
            return;
        }
        let mut line = 0;
        while line < self.code.len() {
            let code = self.code[line].replace(' ', "");
            let marks = ["#[cfg(test)]", "#[cfg(all(test,", "#[cfg(any(test,", ",any(test,feature="];
            if marks.iter().any(|mark| code.contains(mark)) {
                let end = self.end_of_item(line);
                self.test[line..=end].fill(true);
                line = end;
            }
            line += 1;
        }
    }

    /// The line on which the item that starts at `first` ends: at its `;` or at the brace that closes its
    /// first brace.
    fn end_of_item(&self, first: usize) -> usize {
        let mut depth = 0_usize;
        for (line, code) in self.code.iter().enumerate().skip(first) {
            for letter in code.chars() {
                match letter {
                    '{' => depth += 1,
                    // The brace closes the enclosing block, so the item is its last variant, field or arm.
                    '}' if depth == 0 => return line.saturating_sub(1).max(first),
                    '}' if depth == 1 => return line,
                    '}' => depth -= 1,
                    ';' if depth == 0 => return line,
                    _ => {}
                }
            }
        }
        self.code.len() - 1
    }

    /// The tokens of the file's product code, without lifetimes.
    pub(crate) fn tokens(&self) -> Vec<Token> {
        let mut found = Vec::new();
        for (index, code) in self.code.iter().enumerate().filter(|(index, _)| !self.test[*index]) {
            let mut rest = code.as_str();
            while let Some(letter) = rest.chars().next() {
                let word = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
                let is_lifetime = letter == '\'';
                let length = match () {
                    () if word > 0 => word,
                    () if is_lifetime => {
                        1 + rest[1..].find(|letter| !is_word(letter)).unwrap_or(rest.len() - 1)
                    }
                    () if rest.starts_with("::") => 2,
                    () => letter.len_utf8(),
                };
                if !is_lifetime && !letter.is_whitespace() {
                    found.push(Token { text: rest[..length].to_owned(), line: index + 1 });
                }
                rest = &rest[length..];
            }
        }
        found
    }

    /// Every function with a body, nested ones included.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (line, code) in self.code.iter().enumerate() {
            for at in words(code, "fn") {
                let name: String = code[at + 2..].trim_start().chars().take_while(|c| is_word(*c)).collect();
                if name.is_empty() {
                    continue; // a function pointer type
                }
                if let Some(end) = self.end_of_body(line, at) {
                    found.push(Function { name, line: line + 1, lines: end - line + 1 });
                }
            }
        }
        found
    }

    /// The line of the brace that closes the body of the function whose `fn` is at `line`, `column`;
    /// `None` for a declaration without a body.
    fn end_of_body(&self, line: usize, column: usize) -> Option<usize> {
        let (mut braces, mut others) = (0_usize, 0_usize);
        for (index, code) in self.code.iter().enumerate().skip(line) {
            let start = if index == line { column } else { 0 };
            for letter in code[start..].chars() {
                match letter {
                    '(' | '[' => others += 1,
                    ')' | ']' => others = others.saturating_sub(1),
                    '{' => braces += 1,
                    '}' if braces <= 1 => return Some(index),
                    '}' => braces -= 1,
                    ';' if braces == 0 && others == 0 => return None,
                    _ => {}
                }
            }
        }
        None
    }
}

/// The byte positions at which `word` occurs in `code` as a separate word.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Whether `letter` may be part of a name.
pub(crate) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Code and comments of `text`, line by line.
fn split(text: &str) -> (Vec<String>, Vec<String>) {
    let mut code = vec![String::new()];
    let mut comments = vec![String::new()];
    let letters: Vec<char> = text.chars().collect();
    let mut inside = Inside::Code;
    let mut at = 0;
    while at < letters.len() {
        if letters[at] == '\n' {
            if inside == Inside::LineComment {
                inside = Inside::Code;
            }
            code.push(String::new());
            comments.push(String::new());
            at += 1;
            continue;
        }
        let (next, taken) = advance(inside, &letters, at);
        let run: String = letters[at..at + taken].iter().filter(|letter| **letter != '\n').collect();
        let commented =
            [inside, next].iter().any(|i| matches!(i, Inside::LineComment | Inside::BlockComment { .. }));
        let literal = taken > 1 && next == Inside::Code;
        let blank = commented || literal || inside != Inside::Code;
        code.last_mut().expect("one line").extend(run.chars().map(|c| if blank { ' ' } else { c }));
        if commented {
            comments.last_mut().expect("one line").push_str(&run);
        }
        inside = next;
        at += taken;
    }
    (code, comments)
}

/// The scanner's state after the characters at `at`, and the number of characters taken (never past the
/// end of a line).
fn advance(inside: Inside, letters: &[char], at: usize) -> (Inside, usize) {
    let here = |text: &str| text.chars().enumerate().all(|(i, c)| letters.get(at + i) == Some(&c));
    match inside {
        Inside::LineComment => (inside, 1),
        Inside::BlockComment { depth } if here("*/") => {
            (if depth == 1 { Inside::Code } else { Inside::BlockComment { depth: depth - 1 } }, 2)
        }
        Inside::BlockComment { depth } if here("/*") => (Inside::BlockComment { depth: depth + 1 }, 2),
        Inside::BlockComment { .. } => (inside, 1),
        Inside::Text if here("\"") => (Inside::Code, 1),
        Inside::Text if letters[at] == '\\' && letters.get(at + 1).is_some_and(|c| *c != '\n') => (inside, 2),
        Inside::Text => (inside, 1),
        Inside::RawText { hashes } => {
            let closes = letters[at] == '"' && (1..=hashes).all(|i| letters.get(at + i) == Some(&'#'));
            if closes { (Inside::Code, 1 + hashes) } else { (inside, 1) }
        }
        Inside::Code if here("//") => (Inside::LineComment, 2),
        Inside::Code if here("/*") => (Inside::BlockComment { depth: 1 }, 2),
        Inside::Code if here("\"") => (Inside::Text, 1),
        Inside::Code => raw_text(letters, at).or_else(|| character(letters, at)).unwrap_or((Inside::Code, 1)),
    }
}

/// The opening of a raw string at `at`.
fn raw_text(letters: &[char], at: usize) -> Option<(Inside, usize)> {
    let follows_word = at > 0 && is_word(letters[at - 1]) && letters[at - 1] != 'b' && letters[at - 1] != 'c';
    if letters[at] != 'r' || follows_word {
        return None;
    }
    let hashes = letters[at + 1..].iter().take_while(|letter| **letter == '#').count();
    let opens = letters.get(at + 1 + hashes) == Some(&'"');
    opens.then_some((Inside::RawText { hashes }, 2 + hashes))
}

/// A character literal at `at`, which is not a lifetime.
fn character(letters: &[char], at: usize) -> Option<(Inside, usize)> {
    if letters[at] != '\'' {
        return None;
    }
    if letters.get(at + 1) == Some(&'\\') {
        let length = letters[at + 3..].iter().take(9).position(|letter| *letter == '\'')?;
        // The scanner continues after the closing quote of the literal.
        return Some((Inside::Code, length + 4)).filter(|_| !letters[at..at + length + 4].contains(&'\n'));
    }
    (letters.get(at + 2) == Some(&'\'')).then_some((Inside::Code, 3))
}

#[cfg(test)]
mod tests {
    use super::{Source, words};

    #[test]
    fn comments_strings_and_characters_are_not_code() {
        let source = Source::scan(
            "a.rs",
            "let a = \"unsafe { // \"; // unsafe\nlet b = r#\"fn x\"#; let c = '\"'; fn y() {}\n",
        );
        assert!(!source.code.iter().any(|line| line.contains("unsafe")));
        assert_eq!(source.comments[0], "// unsafe");
        assert_eq!(words(&source.code[1], "fn").count(), 1);
    }

    #[test]
    fn a_block_comment_nests_and_a_lifetime_opens_nothing() {
        let source =
            Source::scan("a.rs", "/* a /* b */ c */ fn f<'a>(x: &'a str) -> [u8; 2] {\n}\nfn g();\n");
        let functions = source.functions();
        assert_eq!(functions.len(), 1);
        assert_eq!((functions[0].name.as_str(), functions[0].lines), ("f", 2));
    }

    #[test]
    fn a_test_module_is_marked_to_its_closing_brace() {
        let source =
            Source::scan("a.rs", "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n");
        assert_eq!(source.test[..6], [false, true, true, true, true, false]);
    }

    #[test]
    fn the_brace_behind_a_test_variant_is_not_of_the_test() {
        let source = Source::scan("a.rs", "enum A {\n    B,\n    #[cfg(test)]\n    C,\n}\nstruct D;\n");
        assert_eq!(source.test[..6], [false, false, true, true, false, false]);
        let source = Source::scan("a.rs", "fn a() {}\n#[cfg(all(test, unix))]\nmod tests {\n}\nfn b() {}\n");
        assert_eq!(source.test[..5], [false, true, true, true, false]);
    }

    #[test]
    fn an_escaped_quote_does_not_end_a_literal() {
        let source = Source::scan("a.rs", "let a = '\\''; let c = '{'; let b = \"\\\"unsafe\"; fn f() {}");
        assert_eq!(source.functions().len(), 1);
        assert!(!source.code[0].contains("unsafe"));
    }
}
