//! Patterns in our data tables. `*` matches any run of characters, and any other character only itself.

/// Whether all of `text` matches `pattern`. Cost: at worst the length of the text to the power of the number
/// of stars; both numbers are small.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(rest) = text.strip_prefix(head) else {
        return false;
    };
    let ends = (0..=rest.len()).filter(|&end| rest.is_char_boundary(end));
    ends.into_iter().any(|end| matches(tail, &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_run_and_the_rest_for_itself() {
        assert!(matches("a*c", "abbc"));
        assert!(matches("a*c*", "acéé"));
        assert!(matches("*", ""));
        assert!(!matches("a*c", "abbd"));
        assert!(!matches("a", "ab"));
    }
}
