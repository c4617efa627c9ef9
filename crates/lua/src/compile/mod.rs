//! The compiler: source text to prototypes, in one pass.

mod emit;
mod lex;
mod parse;

use std::sync::Arc;

use crate::code::{ChunkName, Proto};
use crate::text::number::c_text;

/// Longest name of a chunk in errors, with the zero at its end in C.
const NAME_MAX: usize = 80;

/// Compiles a chunk. Its name is as `loadstring` takes it: `=name` as it is, `@file`, or the source itself.
///
/// # Errors
/// The text of the error, with its position.
pub(crate) fn compile(source: &[u8], name: &[u8]) -> Result<Arc<Proto>, Vec<u8>> {
    // A zero ends the name, as in C.
    let given = c_text(name);
    let chunk = ChunkName { given: given.into(), shown: display_name(given) };
    parse::parse(source, Arc::new(chunk)).map(Arc::new)
}

/// The name of a chunk as errors show it.
fn display_name(name: &[u8]) -> Box<[u8]> {
    match name {
        [b'=', rest @ ..] => rest[..rest.len().min(NAME_MAX - 1)].into(),
        [b'@', rest @ ..] => {
            let room = NAME_MAX - " '...' ".len() - 1;
            if rest.len() <= room {
                return rest.into();
            }
            [b"...", &rest[rest.len() - room..]].concat().into()
        }
        source => {
            let room = NAME_MAX - " [string \"...\"] ".len() - 1;
            let line = source.iter().take(room + 1).take_while(|byte| !matches!(byte, b'\n' | b'\r')).count();
            let shown = line.min(room);
            let dots: &[u8] = if shown < source.len() { b"..." } else { b"" };
            [b"[string \"", &source[..shown], dots, b"\"]"].concat().into()
        }
    }
}
