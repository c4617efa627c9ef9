//! The rights that the rules of one user or one role grant.

use crate::rule::RuleError;
use crate::selector::Selector;
use crate::text::word;
use sluice_base::heap;
use sluice_base::quote;

/// A set of rights: the root selector, and one extra selector for each pair of parentheses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    root: Selector,
    extra: Vec<Selector>,
}

impl Rights {
    /// Rights of a new user or role: nothing, except the defaults of a new selector.
    pub(crate) fn new(all_channels: bool) -> Rights {
        Rights { root: Selector::new(all_channels), extra: Vec::new() }
    }

    /// The selector of the rules outside of parentheses.
    pub fn root(&self) -> &Selector {
        &self.root
    }

    /// The selectors in parentheses, in the order given.
    pub fn extra_selectors(&self) -> &[Selector] {
        &self.extra
    }

    /// The root selector, then the extra ones.
    pub(crate) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.extra)
    }

    /// Applies a rule about commands, keys, channels, databases or selectors; a selector in parentheses is
    /// one rule. An empty rule has no effect, and any other rule is a syntax error. Cost: the same as for
    /// [`Selector::apply`], for each rule in the parentheses.
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

    /// Appends the canonical text of the rules to `out`.
    pub(crate) fn describe(&self, out: &mut Vec<u8>) {
        self.root.describe(out);
        for selector in &self.extra {
            // A word that ends with `)` is quoted, because it would otherwise close the selector when the
            // text is read again. The reference writes such words unquoted, and reads a different selector
            // from its own text.
            let mut words = Vec::new();
            selector.describe(&mut words);
            out.extend_from_slice(b" (");
            quote::push_words(out, &words, |word| word.ends_with(b")"));
            out.push(b')');
        }
    }

    /// Bytes of heap memory that the contents hold, as the allocator rounds them, without the value itself.
    pub(crate) fn footprint(&self) -> usize {
        heap::vec(&self.extra) + self.selectors().map(Selector::footprint).sum::<usize>()
    }
}
