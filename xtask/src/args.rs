//! Command lines of tasks: `--name value`, `--flag` and the words between them.
//!
//! Invariant: an option that the task does not know is an error, so a misspelt one never passes silently.

use crate::error::Result;

/// The arguments of one task; options are taken out until only words are left.
pub(crate) struct Arguments {
    left: Vec<String>,
}

impl Arguments {
    /// The arguments that follow the task's name.
    pub(crate) fn new(arguments: &[String]) -> Arguments {
        Arguments { left: arguments.to_vec() }
    }

    /// Removes every `--name`; returns whether there was one.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.left.len();
        self.left.retain(|word| word != name);
        self.left.len() < before
    }

    /// Removes the first `--name value` or `--name=value`, and returns the value.
    pub(crate) fn option(&mut self, name: &str) -> Result<Option<String>> {
        let joined = format!("{name}=");
        let Some(at) = self.left.iter().position(|word| word == name || word.starts_with(&joined)) else {
            return Ok(None);
        };
        let word = self.left.remove(at);
        if let Some(value) = word.strip_prefix(&joined) {
            return Ok(Some(value.to_string()));
        }
        if at == self.left.len() {
            return Err(format!("{name} needs a value").into());
        }
        Ok(Some(self.left.remove(at)))
    }

    /// Removes `--name N`; `default` if it is absent. `_` may group the digits.
    pub(crate) fn number(&mut self, name: &str, default: u64) -> Result<u64> {
        Ok(self.option_number(name)?.unwrap_or(default))
    }

    /// Removes `--name N`, if there is one. `_` may group the digits.
    pub(crate) fn option_number(&mut self, name: &str) -> Result<Option<u64>> {
        let Some(text) = self.option(name)? else { return Ok(None) };
        let number = text.replace('_', "").parse();
        number.map(Some).map_err(|_| format!("{name} needs a whole number, not {text:?}").into())
    }

    /// The remaining words; an error when one of them looks like an option.
    pub(crate) fn words(self) -> Result<Vec<String>> {
        match self.left.iter().find(|word| word.starts_with("--")) {
            Some(word) => Err(format!("unknown option {word}").into()),
            None => Ok(self.left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;

    fn of(words: &[&str]) -> Arguments {
        Arguments::new(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_taken_in_both_forms_and_words_stay() {
        let mut arguments = of(&["a", "--seed", "7", "--n=1_000", "--quick", "b"]);
        assert_eq!(arguments.number("--seed", 0).expect("a number"), 7);
        assert_eq!(arguments.number("--n", 0).expect("a number"), 1000);
        assert!(arguments.flag("--quick"));
        assert_eq!(arguments.words().expect("only words"), ["a", "b"]);
    }

    #[test]
    fn an_unknown_option_and_a_missing_value_are_errors() {
        assert!(of(&["--what"]).words().is_err());
        assert!(of(&["--seed"]).option("--seed").is_err());
        assert!(of(&["--seed", "x"]).number("--seed", 0).is_err());
    }
}
