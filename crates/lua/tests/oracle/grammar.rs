//! Random programs that end.

use sluice_base::Rng;

/// A program.
pub(crate) fn program(rng: &mut Rng) -> String {
    let _ = rng;
    "return 1".to_string()
}
