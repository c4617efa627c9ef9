//! Names in error messages: positions, variables, functions.
//!
//! The name of a value in a register is found as in PUC-Rio's Lua (PUC): the local variable in the register,
//! or the source of the value in the instruction that last set the register.

use crate::arena::Arena;
use crate::code::{Instr, Linked, Op, Proto};
use crate::fault::Fault;
use crate::heap::Heap;
use crate::object::{Frame, Work};
use crate::value::Value;

/// The prefix `chunk:line: ` for the instruction before a frame's `pc`.
pub(super) fn position(code: &Arena<Linked>, frame: &Frame) -> Vec<u8> {
    let proto = &code.at(frame.proto).proto;
    let mut out = proto.chunk.shown.to_vec();
    out.extend_from_slice(format!(":{}: ", proto.line_at(frame.pc)).as_bytes());
    out
}

/// The error of an operation on a value of a wrong type; `pc` is the index of the instruction after the
/// failed one.
#[cold]
#[inline(never)]
pub(super) fn operand_error(
    heap: &Heap,
    linked: &Linked,
    _function: u32,
    pc: usize,
    register: Option<u8>,
    value: Value,
    what: &str,
) -> Fault {
    // The search for the name is charged, because it may read the whole function.
    heap.strings.handled(pc.saturating_mul(4));
    let name = register.and_then(|register| variable(heap, linked, pc - 1, register));
    let kind = value.type_name();
    let mut text = format!("attempt to {what} ").into_bytes();
    match name {
        Some((sort, name)) => {
            text.extend_from_slice(format!("{sort} '").as_bytes());
            text.extend_from_slice(c_string(&name));
            text.extend_from_slice(format!("' (a {kind} value)").as_bytes());
        }
        None => text.extend_from_slice(format!("a {kind} value").as_bytes()),
    }
    Fault::bare(text)
}

fn c_string(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The kind and name of the function that a Lua frame is calling: the kind is `global`, `local`,
/// `method`, `field` or `upvalue`.
pub(super) fn called(heap: &Heap, code: &Arena<Linked>, frame: &Frame) -> Option<(&'static str, Vec<u8>)> {
    if frame.work != Work::Lua {
        return None;
    }
    let linked = code.at(frame.proto);
    let pc = (frame.pc as usize).checked_sub(1)?;
    let instr = linked.proto.code.get(pc)?;
    match instr.op {
        Op::Call | Op::TailCall | Op::ForEach => variable(heap, linked, pc, instr.a),
        _ => None,
    }
}

/// The kind and name of the value in a register at an instruction.
pub(super) fn variable(
    heap: &Heap,
    linked: &Linked,
    pc: usize,
    register: u8,
) -> Option<(&'static str, Vec<u8>)> {
    let proto = &*linked.proto;
    if let Some(name) = proto.local_name(register as usize, pc) {
        return Some(("local", name.to_vec()));
    }
    let at = last_setter(proto, pc, register)?;
    let instr = proto.code[at];
    let constant = |index: u32| match linked.consts.get(index as usize).and_then(|value| value.as_str()) {
        Some(text) => heap.bytes(text).to_vec(),
        None => b"?".to_vec(),
    };
    match instr.op {
        Op::GetGlobal => Some(("global", constant(instr.d))),
        Op::Move if instr.b < instr.a => variable(heap, linked, at, instr.b),
        Op::GetField => Some(("field", constant(instr.d))),
        Op::GetTable | Op::GetIndex => Some(("field", b"?".to_vec())),
        Op::GetUpvalue => {
            proto.captures.get(instr.b as usize).map(|capture| ("upvalue", capture.name.to_vec()))
        }
        Op::Method => Some(("method", constant(instr.d))),
        _ => None,
    }
}

/// The last instruction before `pc` that set a register, ignoring code that forward jumps skip.
fn last_setter(proto: &Proto, pc: usize, register: u8) -> Option<usize> {
    let mut last = None;
    let mut at = 0;
    while at < pc {
        let instr = proto.code[at];
        if sets(&instr, register) {
            last = Some(at);
        }
        // A forward jump that ends at `pc` or before it is followed, so that the instructions that it skips
        // do not count. As in PUC, jumps of tests are followed, too.
        if jumps(instr.op) {
            let target = instr.d as usize;
            if target > at && target <= pc {
                at = target;
                continue;
            }
        }
        at += 1;
    }
    last
}

fn jumps(op: Op) -> bool {
    use Op::{
        Equal, EqualK, ForPrep, GreaterEqualK, GreaterK, Jump, Less, LessEqual, LessEqualK, LessK, Test,
        TestSet,
    };
    matches!(
        op,
        Jump | Test
            | TestSet
            | Equal
            | EqualK
            | Less
            | LessEqual
            | LessK
            | LessEqualK
            | GreaterK
            | GreaterEqualK
            | ForPrep
    )
}

/// Whether an instruction sets a register according to PUC's table of instructions, in which a test counts as
/// setting its register.
fn sets(instr: &Instr, register: u8) -> bool {
    let Instr { op, a, b, .. } = *instr;
    match op {
        Op::Move
        | Op::LoadK
        | Op::LoadBool
        | Op::GetUpvalue
        | Op::GetGlobal
        | Op::GetTable
        | Op::GetField
        | Op::GetIndex
        | Op::NewTable
        | Op::Add
        | Op::Sub
        | Op::Mul
        | Op::Div
        | Op::Mod
        | Op::Pow
        | Op::AddK
        | Op::SubK
        | Op::MulK
        | Op::DivK
        | Op::ModK
        | Op::PowK
        | Op::Negate
        | Op::Not
        | Op::Length
        | Op::Concat
        | Op::Test
        | Op::TestSet
        | Op::ForPrep
        | Op::Closure => a == register,
        Op::LoadNil => a <= register && register <= b,
        Op::Method => register == a || register == a.wrapping_add(1),
        Op::Call | Op::TailCall => register >= a,
        Op::ForLoop => register == a,
        Op::ForEach => u16::from(register) >= u16::from(a) + 2,
        Op::VarArg => {
            let count = u16::from(b).wrapping_sub(1);
            register >= a && (b == 0 || u16::from(register) < u16::from(a) + count)
        }
        Op::SetUpvalue
        | Op::SetGlobal
        | Op::SetTable
        | Op::SetField
        | Op::SetFieldK
        | Op::SetIndex
        | Op::Jump
        | Op::Equal
        | Op::EqualK
        | Op::Less
        | Op::LessEqual
        | Op::LessK
        | Op::LessEqualK
        | Op::GreaterK
        | Op::GreaterEqualK
        | Op::Return
        | Op::SetList
        | Op::Close => false,
    }
}
