//! Linking prototypes into a machine: their constants become values of its heap.

use std::sync::Arc;

use crate::arena::{Arena, Object};
use crate::code::{Const, Linked, Proto};
use crate::fault::Fault;
use crate::heap::Heap;
use crate::symbols::{MachineSymbols, SymbolUse};
use crate::value::Value;
use crate::vm::machine::Machine;

/// Links a prototype and its inner prototypes into a machine; returns the prototype's index.
pub(crate) fn link_into(machine: &mut Machine, proto: &Arc<Proto>) -> Result<u32, Fault> {
    let usage = if machine.is_permanent { SymbolUse::Lasts } else { SymbolUse::GoesWithRun };
    link(&mut machine.heap, &mut machine.code, (&mut machine.symbols, usage), proto)
}

fn link(
    heap: &mut Heap,
    code: &mut Arena<Linked>,
    (symbols, usage): (&mut MachineSymbols, SymbolUse),
    proto: &Arc<Proto>,
) -> Result<u32, Fault> {
    let mut inner = Vec::with_capacity(proto.protos().len());
    for child in proto.protos() {
        inner.push(link(heap, code, (&mut *symbols, usage), child)?);
    }
    let mut consts = Vec::with_capacity(proto.consts().len());
    for constant in proto.consts() {
        let value = match constant {
            Const::Nil => Value::NIL,
            Const::Bool(truth) => Value::boolean(*truth),
            Const::Number(number) => Value::number(*number),
            Const::Text(text) => symbols.symbol(heap, text, usage)?,
        };
        consts.push(value);
    }
    let hash = |value: &Value| value.as_str().map_or(0, |string| heap.strings.hash(string));
    let hashes = match consts.iter().any(|value: &Value| value.is_str()) {
        true => consts.iter().map(hash).collect(),
        false => Box::default(),
    };
    let linked = Linked {
        proto: proto.clone(),
        consts: consts.into(),
        hashes,
        inner: inner.into(),
        loaded: 0,
        colour: heap.colour,
    };
    let bytes = linked.outside() + Arena::<Linked>::SLOT;
    let index = code.add(linked);
    heap.charge(bytes)?;
    Ok(index)
}

/// Frees the constants of a linked prototype and of its inner prototypes, because the heap has them as
/// values. Does nothing if the prototype has another owner.
pub(crate) fn drop_constants(code: &mut Arena<Linked>, index: u32) {
    let linked = code.at_mut(index);
    let unlinked = Arc::get_mut(&mut linked.proto).and_then(|proto| proto.unlinked.take());
    if unlinked.is_some() {
        drop(unlinked);
        for inner in linked.inner.clone() {
            drop_constants(code, inner);
        }
    }
}
