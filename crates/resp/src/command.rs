//! Writes requests in the form in which clients and primaries send them and append-only files contain them.

use sluice_base::num::push_u64;

/// Writes a command as a RESP array of bulk strings.
pub fn push_command<'a>(out: &mut Vec<u8>, argv: impl ExactSizeIterator<Item = &'a [u8]>) {
    push_command_head(out, argv.len());
    for arg in argv {
        push_argument(out, arg);
    }
}

/// Writes the header of a command of `arguments` arguments. The caller then writes each argument with
/// [`push_argument`].
#[inline]
pub fn push_command_head(out: &mut Vec<u8>, arguments: usize) {
    out.push(b'*');
    push_u64(out, arguments as u64);
    out.extend_from_slice(b"\r\n");
}

/// Writes the next argument of a command begun with [`push_command_head`].
#[inline]
pub fn push_argument(out: &mut Vec<u8>, arg: &[u8]) {
    out.push(b'$');
    push_u64(out, arg.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(arg);
    out.extend_from_slice(b"\r\n");
}
