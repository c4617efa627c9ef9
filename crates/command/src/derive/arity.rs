//! Checks whether the number of arguments of a call fits the command's arity.

use crate::spec::Spec;

/// Whether a call with `count` arguments fits the arity. `count` includes the names of the command and of its
/// container.
#[inline]
pub fn accepts(spec: &Spec, count: usize) -> bool {
    spec.arity.accepts(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::{server::CONFIG_GET, string::GET};

    #[test]
    fn exact_arity_takes_that_many_only() {
        assert_eq!([1, 2, 3].map(|count| accepts(&GET, count)), [false, true, false]);
    }

    #[test]
    fn arity_of_a_subcommand_counts_its_container() {
        assert_eq!([2, 3, 300].map(|count| accepts(&CONFIG_GET, count)), [false, true, true]);
    }
}
