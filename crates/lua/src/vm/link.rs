//! Prototypes in a machine: constants become values of its heap.

use std::sync::Arc;

use crate::arena::{Arena, Object};
use crate::code::{Const, Linked, Proto};
use crate::fault::Fault;
use crate::heap::Heap;
use crate::value::Value;

/// Finds strings that constants share with the libraries' names, so that looking them up compares no bytes.
pub(crate) trait Symbols {
    /// The string of that text, made when there is none.
    fn symbol(&mut self, heap: &mut Heap, text: &Arc<[u8]>) -> Result<Value, Fault>;
}

/// Brings a prototype and those in it into the machine, and answers its index.
pub(crate) fn link(
    heap: &mut Heap,
    code: &mut Arena<Linked>,
    symbols: &mut dyn Symbols,
    proto: &Arc<Proto>,
) -> Result<u32, Fault> {
    let mut inner = Vec::with_capacity(proto.protos.len());
    for child in &proto.protos {
        inner.push(link(heap, code, symbols, child)?);
    }
    let mut consts = Vec::with_capacity(proto.consts.len());
    let mut hashes = Vec::with_capacity(proto.consts.len());
    for constant in &proto.consts {
        let value = match constant {
            Const::Nil => Value::NIL,
            Const::Bool(truth) => Value::boolean(*truth),
            Const::Number(number) => Value::number(*number),
            Const::Text(text) => symbols.symbol(heap, text)?,
        };
        consts.push(value);
        hashes.push(value.as_str().map_or(0, |string| heap.strings.hash(string)));
    }
    let linked = Linked {
        proto: proto.clone(),
        consts: consts.into(),
        hashes: hashes.into(),
        inner: inner.into(),
        colour: heap.colour,
    };
    let bytes = linked.outside() + Arena::<Linked>::SLOT;
    let index = code.add(linked);
    heap.charge(bytes)?;
    Ok(index)
}
