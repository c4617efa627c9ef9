//! What a user may do by rules of its own, or by those of a role.

use crate::rule::RuleError;
use crate::selector::Selector;
use crate::text::word;
use sluice_base::heap;
use sluice_base::quote;

/// Rights: those that stand outside of parentheses, and each pair of parentheses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    root: Selector,
    extra: Vec<Selector>,
}

impl Rights {
    /// None at all, but for what a new selector has.
    pub(crate) fn new(all_channels: bool) -> Rights {
        Rights { root: Selector::new(all_channels), extra: Vec::new() }
    }

    /// The rights that stand outside of parentheses.
    pub fn root(&self) -> &Selector {
        &self.root
    }

    /// The rights that stand in parentheses, in order.
    pub fn extra_selectors(&self) -> &[Selector] {
        &self.extra
    }

    /// All selectors, that outside of parentheses first.
    pub(crate) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.extra)
    }

    /// Applies a rule about commands, keys, channels, databases or selectors; a selector in one piece. Any
    /// other rule is a syntax error. Cost: as the rule's kind has it, linear in what is there.
    pub(crate) fn apply(&mut self, rule: &[u8], all_channels: bool) -> Result<(), RuleError> {
        if rule.is_empty() {
            return Ok(());
        }
        if let [b'(', inner @ .., b')'] = rule {
            self.extra.push(Selector::parse(inner, all_channels)?);
        } else if word(rule).eq_ignore_ascii_case(b"clearselectors") {
            self.extra.clear();
        } else {
            self.root.apply(rule)?;
        }
        Ok(())
    }

    /// Appends the canonical text.
    pub(crate) fn describe(&self, out: &mut Vec<u8>) {
        self.root.describe(out);
        for selector in &self.extra {
            // Within parentheses words are read with their quotes, and one that ends with a parenthesis
            // closes. The reference writes such words as they are, and reads another selector out of them.
            let mut words = Vec::new();
            selector.describe(&mut words);
            out.extend_from_slice(b" (");
            quote::push_words(out, &words, |word| word.ends_with(b")"));
            out.push(b')');
        }
    }

    /// Bytes that the allocator has given, those of the value itself apart.
    pub(crate) fn footprint(&self) -> usize {
        heap::vec(&self.extra) + self.selectors().map(Selector::footprint).sum::<usize>()
    }
}
