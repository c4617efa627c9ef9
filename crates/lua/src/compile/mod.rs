//! The compiler: source text to prototypes, in one pass.

mod emit;
mod lex;
mod parse;

use std::sync::Arc;

use crate::code::{ChunkName, Proto};

/// Compiles a chunk of that name.
///
/// # Errors
/// The text of the error, with its position.
pub(crate) fn compile(source: &[u8], name: Arc<ChunkName>) -> Result<Arc<Proto>, Vec<u8>> {
    parse::parse(source, name).map(Arc::new)
}
