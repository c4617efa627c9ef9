//! The interpreter's loop over instructions.
//!
//! The loop works on the top frame, which is a Lua function. It follows calls and returns between Lua
//! functions, and calls of native functions that return at once. In all other cases it writes the machine's
//! state back and returns an [`Exit`], which `machine.rs` handles.
//!
//! Invariants: (1) `base + 256 <= stack.len()` for the top frame, so no register is out of bounds; (2) each
//! backward jump and each call uses budget and checks whether the collector has work.

use super::exit::{Exit, World};
use super::inside::{
    CallWanted, RunningCoroutine, SwitchCall, deliver, enter, hand_back, is_deep, push_frame, switch,
};
use super::names::operand_error;
use super::operate::{self, Assign, Compared, Joined, Operated, Trouble, modulo};
use super::stack::{
    FRAMES_MAX, NESTED_MAX, WINDOW, WindowBounds, close_upvalues, empty, ensure, extra_args, open_upvalue,
    place_args, place_results, window,
};
use crate::code::Op;
use crate::fault::Fault;
use crate::heap::{Heap, Metamethod};
use crate::native::{NativeStep, coerce};
use crate::object::{After, UpvalueState, Work};
use crate::table::{TableSlot, to_index};
use crate::value::{TableRef, ThreadRef, Value};

/// The number that a byte with a 5-bit exponent and a 3-bit mantissa encodes, as PUC-Rio's Lua (PUC) encodes
/// the sizes of tables.
fn from_floating(byte: u8) -> usize {
    let exponent = byte >> 3;
    if exponent == 0 { usize::from(byte) } else { usize::from(byte & 7 | 8) << (exponent - 1) }
}

/// Runs instructions until the loop must be left. With `EACH`, the budget counts every instruction.
pub(super) fn execute<const EACH: bool>(
    heap: &mut Heap,
    world: World<'_>,
    running: RunningCoroutine<'_>,
    budget: &mut i64,
) -> Exit {
    let World { code, natives, known, main } = world;
    let mut running = running;
    'frame: loop {
        let thread = *running.thread;
        let co = &mut **running.co;
        let Some(frame) = co.frames.last() else { return Exit::Return { from: 0, count: 0 } };
        let base = frame.base as usize;
        let function = frame.function;
        let mut pc = frame.pc as usize;
        let linked = code.at(frame.proto);
        let proto = &*linked.proto;
        let instrs = &proto.code[..];
        let consts = &linked.consts[..];
        let Some(mut regs) = co.stack[base..].first_chunk_mut::<WINDOW>() else {
            return Exit::Fault(Fault::bare("stack overflow"));
        };

        macro_rules! window {
            () => {
                match co.stack[base..].first_chunk_mut::<WINDOW>() {
                    Some(window) => regs = window,
                    None => return Exit::Fault(Fault::bare("stack overflow")),
                }
            };
        }
        macro_rules! save {
            () => {
                if let Some(frame) = co.frames.last_mut() {
                    frame.pc = pc as u32;
                }
            };
        }
        macro_rules! fault {
            ($fault:expr) => {{
                save!();
                return Exit::Fault($fault);
            }};
        }
        macro_rules! attempt {
            ($result:expr) => {
                match $result {
                    Ok(value) => value,
                    Err(fault) => fault!(fault),
                }
            };
        }
        // Leaves the loop if the collector has work or if much work must be charged. It is used by
        // instructions that may have done much work.
        macro_rules! pay {
            () => {
                if !EACH && heap.is_due() {
                    save!();
                    return Exit::Collect;
                }
            };
        }
        macro_rules! trouble {
            ($trouble:expr, $first:expr, $second:expr) => {{
                let fault = match $trouble {
                    Trouble::Fault(fault) => fault,
                    Trouble::First(what) => {
                        operand_error(heap, linked, function, pc, Some($first), regs[$first as usize], what)
                    }
                    Trouble::Second(what) => {
                        operand_error(heap, linked, function, pc, Some($second), regs[$second as usize], what)
                    }
                };
                fault!(fault)
            }};
        }
        // Continues at an instruction; a backward jump checks the budget.
        macro_rules! jump {
            ($target:expr) => {{
                let target = $target as usize;
                if target < pc && !EACH {
                    *budget -= (pc - target) as i64;
                    if *budget <= 0 || heap.is_due() {
                        pc = target;
                        save!();
                        return if heap.is_due() { Exit::Collect } else { Exit::Budget };
                    }
                }
                pc = target;
            }};
        }
        // Calls the value in a slot.
        macro_rules! call {
            ($func:expr, $args:expr, $want:expr, $after:expr) => {{
                let call = CallWanted { func: $func, args: $args, want: $want, after: $after };
                if EACH {
                    return Exit::Call {
                        func: call.func,
                        args: call.args,
                        want: call.want,
                        after: call.after,
                    };
                }
                match enter(heap, (&world, thread), co, budget, call) {
                    None => continue 'frame,
                    Some(exit) => return exit,
                }
            }};
        }
        // Calls a metamethod; its arguments go into the slots after the frame's registers.
        macro_rules! meta {
            ($after:expr, $handler:expr $(, $arg:expr)*) => {{
                let func = base + usize::from(proto.max_stack);
                let mut at = func;
                let handler = $handler;
                let args = [$($arg),*];
                co.stack[at] = handler;
                for arg in args {
                    at += 1;
                    co.stack[at] = arg;
                }
                save!();
                call!(func, args.len(), 1, $after);
            }};
        }
        macro_rules! settle {
            ($outcome:expr, $i:expr) => {
                match $outcome {
                    Ok(Operated::Value(value)) => {
                        regs[$i.a as usize] = value;
                        pay!();
                    }
                    Ok(Operated::Call(handler, x, y)) => meta!(After::Register($i.a), handler, x, y),
                    Err(trouble) => trouble!(trouble, $i.b, $i.c),
                }
            };
        }
        macro_rules! arithmetic {
            ($i:expr, $event:expr, $x:ident, $y:ident, $value:expr) => {{
                let (a, b) = (regs[$i.b as usize], regs[$i.c as usize]);
                if a.is_number() && b.is_number() {
                    let ($x, $y) = (a.double(), b.double());
                    regs[$i.a as usize] = Value::result($value);
                } else {
                    settle!(operate::arithmetic(heap, $event, a, b), $i);
                }
            }};
        }
        macro_rules! arithmetic_k {
            ($i:expr, $event:expr, $x:ident, $y:ident, $value:expr) => {{
                let (a, k) = (regs[$i.b as usize], consts[$i.d as usize]);
                if a.is_number() {
                    let ($x, $y) = (a.double(), k.double());
                    regs[$i.a as usize] = Value::result($value);
                } else {
                    // An error can only be about the operand in the register, because a constant operand is
                    // always a number.
                    let (a, b) = if $i.c != 0 { (k, a) } else { (a, k) };
                    match operate::arithmetic(heap, $event, a, b) {
                        Ok(Operated::Value(value)) => {
                            regs[$i.a as usize] = value;
                            pay!();
                        }
                        Ok(Operated::Call(handler, x, y)) => meta!(After::Register($i.a), handler, x, y),
                        Err(trouble) => trouble!(trouble, $i.b, $i.b),
                    }
                }
            }};
        }
        macro_rules! compare {
            ($i:expr, $strict:expr, $first:expr, $second:expr, $numbers:expr) => {{
                let (a, b) = ($first, $second);
                let truth = if a.is_number() && b.is_number() {
                    let numbers: fn(f64, f64) -> bool = $numbers;
                    numbers(a.double(), b.double())
                } else {
                    match operate::order(heap, $strict, a, b) {
                        Ok(Compared::Known(truth)) => truth,
                        Ok(Compared::Call(handler)) => {
                            meta!(After::Jump { when: $i.c != 0, target: $i.d }, handler, a, b)
                        }
                        Ok(Compared::Reverse(handler)) => {
                            meta!(After::Jump { when: $i.c == 0, target: $i.d }, handler, b, a)
                        }
                        Err(fault) => fault!(fault),
                    }
                };
                if truth == ($i.c != 0) {
                    jump!($i.d);
                }
                if !a.is_number() {
                    pay!();
                }
            }};
        }

        loop {
            if EACH {
                if *budget <= 0 || heap.is_due() {
                    save!();
                    return if heap.is_due() { Exit::Collect } else { Exit::Budget };
                }
                *budget -= 1;
            }
            let i = instrs[pc];
            pc += 1;
            match i.op {
                Op::Move => regs[i.a as usize] = regs[i.b as usize],
                Op::LoadK => regs[i.a as usize] = consts[i.d as usize],
                Op::LoadBool => {
                    regs[i.a as usize] = Value::boolean(i.b != 0);
                    pc += usize::from(i.c);
                }
                Op::LoadNil => empty(&mut regs[i.a as usize..=i.b as usize]),
                Op::GetUpvalue => {
                    let index = heap.closures.at(function).capture(i.b as usize);
                    match heap.upvalues.at(index).state {
                        UpvalueState::Closed(value) => regs[i.a as usize] = value,
                        UpvalueState::Open(owner, slot) => {
                            let value = if owner == thread {
                                co.stack[slot as usize]
                            } else {
                                open_value(heap, owner, slot)
                            };
                            window!();
                            regs[i.a as usize] = value;
                        }
                    }
                }
                Op::SetUpvalue => {
                    let value = regs[i.a as usize];
                    let index = heap.closures.at(function).capture(i.b as usize);
                    match heap.upvalues.at(index).state {
                        UpvalueState::Closed(_) => heap.set_closed(index, value),
                        UpvalueState::Open(owner, slot) if owner == thread => {
                            co.stack[slot as usize] = value;
                            window!();
                        }
                        UpvalueState::Open(owner, slot) => set_open_value(heap, owner, slot, value),
                    }
                }
                Op::GetGlobal => {
                    let env = heap.closures.at(function).env;
                    let key = consts[i.d as usize];
                    let hash = linked.hashes[i.d as usize];
                    let value = heap.tables.at(env).get_str(key, hash, &heap.strings);
                    if value.is_nil() && heap.tables.at(env).has_meta() {
                        match operate::index(heap, TableRef(env).into(), key) {
                            Ok(Operated::Value(value)) => regs[i.a as usize] = value,
                            Ok(Operated::Call(handler, x, y)) => meta!(After::Register(i.a), handler, x, y),
                            Err(trouble) => trouble!(trouble, i.a, i.a),
                        }
                    } else {
                        regs[i.a as usize] = value;
                    }
                }
                Op::SetGlobal => {
                    let env = heap.closures.at(function).env;
                    let key = consts[i.d as usize];
                    let value = regs[i.a as usize];
                    match operate::assign(heap, TableRef(env).into(), key, value) {
                        Ok(Assign::Done) => {}
                        Ok(Assign::Call(handler, object)) => {
                            meta!(After::Nothing, handler, object, key, value)
                        }
                        Err(trouble) => trouble!(trouble, i.a, i.a),
                    }
                }
                Op::GetTable => {
                    let (object, key) = (regs[i.b as usize], regs[i.c as usize]);
                    if let Some(table) = object.as_table() {
                        let t = heap.tables.at(table.0);
                        let value = if key.is_number() {
                            t.get_number(key.double(), &heap.strings)
                        } else if let Some(string) = key.as_str() {
                            let value = t.get_str(key, heap.strings.hash(string), &heap.strings);
                            if heap.is_due() && (!value.is_nil() || !t.has_meta()) {
                                // The loop exits to charge the work of hashing or comparing a long key, or
                                // of following a long chain.
                                regs[i.a as usize] = value;
                                pay!();
                                continue;
                            }
                            value
                        } else {
                            t.get(key, &heap.strings)
                        };
                        if !value.is_nil() || !t.has_meta() {
                            regs[i.a as usize] = value;
                            continue;
                        }
                    }
                    settle!(operate::index(heap, object, key), i);
                }
                Op::GetField => {
                    let object = regs[i.b as usize];
                    let key = consts[i.d as usize];
                    if let Some(table) = object.as_table() {
                        let t = heap.tables.at(table.0);
                        let value = t.get_str(key, linked.hashes[i.d as usize], &heap.strings);
                        if !value.is_nil() || !t.has_meta() {
                            regs[i.a as usize] = value;
                            continue;
                        }
                    }
                    settle!(operate::index(heap, object, key), i);
                }
                Op::GetIndex => {
                    let object = regs[i.b as usize];
                    let key = consts[i.d as usize];
                    if let Some(table) = object.as_table() {
                        let t = heap.tables.at(table.0);
                        let value = t.get_number(key.double(), &heap.strings);
                        if !value.is_nil() || !t.has_meta() {
                            regs[i.a as usize] = value;
                            continue;
                        }
                    }
                    settle!(operate::index(heap, object, key), i);
                }
                Op::SetTable => {
                    let (object, key, value) = (regs[i.a as usize], regs[i.b as usize], regs[i.c as usize]);
                    if let Some(table) = object.as_table()
                        && let Some(t) = heap.tables.own_mut(table.0)
                    {
                        let has_meta = t.has_meta();
                        if key.is_number()
                            && t.guard == 0
                            && let Some(index) = to_index(key.double())
                            && let Some(slot) = t.array.get_mut(index.wrapping_sub(1))
                            && (!has_meta || !slot.is_nil())
                        {
                            *slot = value;
                            continue;
                        }
                        if !has_meta {
                            attempt!(heap.set(table, key, value));
                            pay!();
                            continue;
                        }
                    }
                    match operate::assign(heap, object, key, value) {
                        Ok(Assign::Done) => pay!(),
                        Ok(Assign::Call(handler, object)) => {
                            meta!(After::Nothing, handler, object, key, value)
                        }
                        Err(trouble) => trouble!(trouble, i.a, i.a),
                    }
                }
                Op::SetField | Op::SetFieldK => {
                    let object = regs[i.a as usize];
                    let key = consts[i.d as usize];
                    let value = if i.op == Op::SetField {
                        regs[i.c as usize]
                    } else {
                        consts[usize::from(i.b) | usize::from(i.c) << 8]
                    };
                    if let Some(table) = object.as_table()
                        && let Some(t) = heap.tables.own_mut(table.0)
                    {
                        let slot = t.find_str(key, linked.hashes[i.d as usize], &heap.strings);
                        if let Some(at) = slot
                            && t.guard == 0
                            && (!t.nodes[at].value.is_nil() || !t.has_meta())
                        {
                            t.lacks = 0;
                            t.nodes[at].value = value;
                            continue;
                        }
                        if !t.has_meta() {
                            attempt!(match slot {
                                Some(at) => heap.set_slot(table, TableSlot::Node(at), value),
                                None => heap.set_new(table, key, value),
                            });
                            pay!();
                            continue;
                        }
                    }
                    match operate::assign(heap, object, key, value) {
                        Ok(Assign::Done) => pay!(),
                        Ok(Assign::Call(handler, object)) => {
                            meta!(After::Nothing, handler, object, key, value)
                        }
                        Err(trouble) => trouble!(trouble, i.a, i.a),
                    }
                }
                Op::SetIndex => {
                    let (object, key, value) = (regs[i.a as usize], consts[i.d as usize], regs[i.c as usize]);
                    match operate::assign(heap, object, key, value) {
                        Ok(Assign::Done) => {}
                        Ok(Assign::Call(handler, object)) => {
                            meta!(After::Nothing, handler, object, key, value)
                        }
                        Err(trouble) => trouble!(trouble, i.a, i.a),
                    }
                }
                Op::NewTable => {
                    let table = attempt!(heap.new_table(from_floating(i.b), from_floating(i.c)));
                    regs[i.a as usize] = table.into();
                }
                Op::Method => {
                    let object = regs[i.b as usize];
                    regs[i.a.wrapping_add(1) as usize] = object;
                    let key = consts[i.d as usize];
                    let hash = linked.hashes[i.d as usize];
                    let meta = if let Some(table) = object.as_table() {
                        let t = heap.tables.at(table.0);
                        let value = t.get_str(key, hash, &heap.strings);
                        if !value.is_nil() {
                            regs[i.a as usize] = value;
                            continue;
                        }
                        t.meta()
                    } else if object.is_str() {
                        heap.string_meta
                    } else {
                        None
                    };
                    // This is the usual way to write classes: the object's metatable has a table as
                    // `__index`.
                    if let Some(meta) = meta {
                        let (name, name_hash) = heap.events[Metamethod::Index as usize];
                        let class = heap.tables.at(meta.0).get_str(name, name_hash, &heap.strings);
                        if let Some(class) = class.as_table() {
                            let value = heap.tables.at(class.0).get_str(key, hash, &heap.strings);
                            if !value.is_nil() {
                                regs[i.a as usize] = value;
                                continue;
                            }
                        }
                    }
                    settle!(operate::index(heap, object, key), i);
                }
                Op::Add => arithmetic!(i, Metamethod::Add, x, y, x + y),
                Op::Sub => arithmetic!(i, Metamethod::Sub, x, y, x - y),
                Op::Mul => arithmetic!(i, Metamethod::Mul, x, y, x * y),
                Op::Div => arithmetic!(i, Metamethod::Div, x, y, x / y),
                Op::Mod => arithmetic!(i, Metamethod::Mod, x, y, modulo(x, y)),
                Op::Pow => arithmetic!(i, Metamethod::Pow, x, y, x.powf(y)),
                Op::AddK => arithmetic_k!(i, Metamethod::Add, x, y, x + y),
                Op::SubK => arithmetic_k!(i, Metamethod::Sub, x, y, x - y),
                Op::MulK => arithmetic_k!(i, Metamethod::Mul, x, y, x * y),
                Op::DivK => arithmetic_k!(i, Metamethod::Div, x, y, x / y),
                Op::ModK => arithmetic_k!(i, Metamethod::Mod, x, y, modulo(x, y)),
                Op::PowK => arithmetic_k!(i, Metamethod::Pow, x, y, x.powf(y)),
                Op::Negate => {
                    let value = regs[i.b as usize];
                    if value.is_number() {
                        regs[i.a as usize] = Value::result(-value.double());
                    } else {
                        match operate::arithmetic(heap, Metamethod::Unm, value, value) {
                            Ok(Operated::Value(value)) => {
                                regs[i.a as usize] = value;
                                pay!();
                            }
                            Ok(Operated::Call(handler, x, y)) => meta!(After::Register(i.a), handler, x, y),
                            Err(trouble) => trouble!(trouble, i.b, i.b),
                        }
                    }
                }
                Op::Not => regs[i.a as usize] = Value::boolean(!regs[i.b as usize].truthy()),
                Op::Length => {
                    let value = regs[i.b as usize];
                    if let Some(table) = value.as_table() {
                        regs[i.a as usize] =
                            Value::result(heap.tables.at(table.0).border(&heap.strings) as f64);
                        pay!();
                    } else if let Some(string) = value.as_str() {
                        regs[i.a as usize] = Value::result(heap.bytes(string).len() as f64);
                    } else {
                        match operate::length(heap, value) {
                            Ok(Operated::Value(value)) => regs[i.a as usize] = value,
                            Ok(Operated::Call(handler, x, y)) => meta!(After::Register(i.a), handler, x, y),
                            Err(trouble) => trouble!(trouble, i.b, i.b),
                        }
                    }
                }
                Op::Concat => {
                    let (first, last) = (i.b as usize, i.c as usize);
                    match operate::concat(heap, &mut regs[..], first, last) {
                        Ok(Joined::Done) => {
                            regs[i.a as usize] = regs[first];
                            heap.strings.handled(heap.strings.bytes_of(regs[first]));
                            pay!();
                        }
                        Ok(Joined::Call(handler, at)) => {
                            let (x, y) = (regs[at], regs[at + 1]);
                            meta!(After::Concat { first: i.b, at: at as u8, into: i.a }, handler, x, y);
                        }
                        Ok(Joined::Error(at)) => {
                            let at = if regs[at].is_str() || regs[at].is_number() { at + 1 } else { at };
                            trouble!(Trouble::First("concatenate"), at as u8, at as u8);
                        }
                        Ok(Joined::Long(from, to)) => {
                            save!();
                            let slots = (base + from, base + to);
                            return Exit::Join { slots, first: i.b, into: i.a };
                        }
                        Err(fault) => fault!(fault),
                    }
                }
                Op::Jump => jump!(i.d),
                Op::Test => {
                    if regs[i.a as usize].truthy() == (i.c != 0) {
                        jump!(i.d);
                    }
                }
                Op::TestSet => {
                    let value = regs[i.b as usize];
                    if value.truthy() == (i.c != 0) {
                        regs[i.a as usize] = value;
                        jump!(i.d);
                    }
                }
                Op::Equal | Op::EqualK => {
                    let a = regs[i.a as usize];
                    let b = if i.op == Op::Equal { regs[i.b as usize] } else { consts[i.b as usize] };
                    let truth = if a.is_number() && b.is_number() {
                        a.double() == b.double()
                    } else if a.same(b) {
                        true
                    } else if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
                        let truth = heap.strings.same(x, y);
                        if truth == (i.c != 0) {
                            jump!(i.d);
                        }
                        pay!();
                        continue;
                    } else if a.is_object() && b.is_object() {
                        let handler = operate::equality(heap, a, b);
                        if !handler.is_nil() {
                            meta!(After::Jump { when: i.c != 0, target: i.d }, handler, a, b);
                        }
                        false
                    } else {
                        false
                    };
                    if truth == (i.c != 0) {
                        jump!(i.d);
                    }
                }
                Op::Less => compare!(i, true, regs[i.a as usize], regs[i.b as usize], |x, y| x < y),
                Op::LessEqual => compare!(i, false, regs[i.a as usize], regs[i.b as usize], |x, y| x <= y),
                Op::LessK => compare!(i, true, regs[i.a as usize], consts[i.b as usize], |x, y| x < y),
                Op::LessEqualK => compare!(i, false, regs[i.a as usize], consts[i.b as usize], |x, y| x <= y),
                Op::GreaterK => compare!(i, true, consts[i.b as usize], regs[i.a as usize], |x, y| x < y),
                Op::GreaterEqualK => {
                    compare!(i, false, consts[i.b as usize], regs[i.a as usize], |x, y| x <= y)
                }
                Op::Call => {
                    let func = base + i.a as usize;
                    let args =
                        if i.b != 0 { i.b as usize - 1 } else { (co.top as usize).saturating_sub(func + 1) };
                    let want = i32::from(i.c) - 1;
                    let callee = co.stack[func];
                    save!();
                    if let Some(closure) = callee.as_closure() {
                        if co.frames.len() >= FRAMES_MAX {
                            return Exit::Fault(Fault::bare("stack overflow"));
                        }
                        let call = CallWanted { func, args, want, after: After::Results };
                        if let Err(fault) = push_frame(heap, code, co, closure, call) {
                            return Exit::Fault(fault);
                        }
                        if !EACH {
                            *budget -= 1;
                            if *budget <= 0 || heap.is_due() {
                                return if heap.is_due() { Exit::Collect } else { Exit::Budget };
                            }
                        }
                        continue 'frame;
                    }
                    let Some(native) = callee.as_native() else {
                        return Exit::Call { func, args, want, after: After::Results };
                    };
                    let top = func + 1 + args;
                    if let Err(fault) = ensure(heap, &mut co.stack, top) {
                        return Exit::Fault(fault);
                    }
                    let call = natives[heap.natives.at(native.0).native as usize].call;
                    if !EACH {
                        *budget -= 1;
                    }
                    let bounds = WindowBounds { base: func + 1, top, function: native.0, thread, main };
                    let mut ctx = window(heap, co, budget, bounds);
                    let step = call(&mut ctx);
                    let top = ctx.top;
                    match step {
                        Ok(NativeStep::Return(count)) => {
                            if count == 1 && want == 1 {
                                co.stack[func] = co.stack[top - 1];
                            } else {
                                if let Err(fault) =
                                    ensure(heap, &mut co.stack, func + want.max(0) as usize + count)
                                {
                                    return Exit::Fault(fault);
                                }
                                place_results(co, top - count, count, func, want);
                            }
                            if heap.is_due() {
                                return Exit::Collect;
                            }
                            window!();
                        }
                        Ok(NativeStep::Machine(demand)) if !EACH => {
                            let call = SwitchCall { func, top, function: native.0, want };
                            if !switch(heap, &demand, &mut running, call) {
                                let step = Ok(NativeStep::Machine(demand));
                                return native_step(step, func, top, native.0, want);
                            }
                            if *budget <= 0 || heap.is_due() {
                                return if heap.is_due() { Exit::Collect } else { Exit::Budget };
                            }
                            continue 'frame;
                        }
                        step => return native_step(step, func, top, native.0, want),
                    }
                }
                Op::TailCall => {
                    let func = base + i.a as usize;
                    let args =
                        if i.b != 0 { i.b as usize - 1 } else { (co.top as usize).saturating_sub(func + 1) };
                    save!();
                    let Some(closure) = co.stack[func].as_closure() else {
                        // A native function is called without a tail call, because the return instruction
                        // that follows passes its results on.
                        let native = co.stack[func].as_native().filter(|_| !EACH);
                        let Some(native) = native else {
                            return Exit::Call { func, args, want: -1, after: After::Results };
                        };
                        let top = func + 1 + args;
                        if let Err(fault) = ensure(heap, &mut co.stack, top) {
                            return Exit::Fault(fault);
                        }
                        let call = natives[heap.natives.at(native.0).native as usize].call;
                        *budget -= 1;
                        let bounds = WindowBounds { base: func + 1, top, function: native.0, thread, main };
                        let mut ctx = window(heap, co, budget, bounds);
                        let step = call(&mut ctx);
                        let top = ctx.top;
                        let Ok(NativeStep::Return(count)) = step else {
                            return native_step(step, func, top, native.0, -1);
                        };
                        if let Err(fault) = ensure(heap, &mut co.stack, func + count) {
                            return Exit::Fault(fault);
                        }
                        place_results(co, top - count, count, func, -1);
                        if heap.is_due() {
                            return Exit::Collect;
                        }
                        window!();
                        continue;
                    };
                    close_upvalues(heap, &mut co.open, &co.stack, base as u32);
                    let Some(frame) = co.frames.last_mut() else { continue 'frame };
                    let to = frame.func as usize;
                    co.stack.copy_within(func..func + 1 + args, to);
                    let index = heap.closures.at(closure.0).proto;
                    let target = &*code.at(index).proto;
                    let new_base = match place_args(heap, &mut co.stack, target, to, args) {
                        Ok(new_base) => new_base,
                        Err(fault) => return Exit::Fault(fault),
                    };
                    frame.base = new_base as u32;
                    frame.function = closure.0;
                    frame.proto = index;
                    frame.pc = 0;
                    frame.tails = frame.tails.saturating_add(1);
                    if !EACH {
                        *budget -= 1;
                        if *budget <= 0 || heap.is_due() {
                            return if heap.is_due() { Exit::Collect } else { Exit::Budget };
                        }
                    }
                    continue 'frame;
                }
                Op::Return => {
                    let from = base + i.a as usize;
                    let count =
                        if i.b != 0 { i.b as usize - 1 } else { (co.top as usize).saturating_sub(from) };
                    close_upvalues(heap, &mut co.open, &co.stack, base as u32);
                    let depth = co.frames.len();
                    let Some(frame) = co.frames.last() else { continue 'frame };
                    if frame.after != After::Results || depth < 2 || co.frames[depth - 2].work != Work::Lua {
                        let each = match frame.after {
                            After::Each { first, count } => Some((first, count)),
                            _ => None,
                        };
                        heap.strings.moved(count);
                        if EACH || *budget <= 0 || heap.is_due() {
                            save!();
                            return Exit::Return { from, count };
                        }
                        if let Some((first, wanted)) = each {
                            co.frames.truncate(depth - 1);
                            co.nested -= 1;
                            let after = After::Each { first, count: wanted };
                            deliver(code, co, budget, after, (from, count));
                            if *budget <= 0 {
                                return Exit::Budget;
                            }
                            continue 'frame;
                        }
                        save!();
                        match hand_back(heap, (&world, thread), co, budget, (from, count)) {
                            None => continue 'frame,
                            Some(exit) => return exit,
                        }
                    }
                    let (func, want) = (frame.func as usize, frame.want);
                    co.frames.pop();
                    if count == 1 && want == 1 {
                        co.stack[func] = co.stack[from];
                    } else {
                        heap.strings.moved(count);
                        if want > count as i32
                            && let Err(fault) = ensure(heap, &mut co.stack, func + want as usize)
                        {
                            return Exit::Fault(fault);
                        }
                        place_results(co, from, count, func, want);
                    }
                    continue 'frame;
                }
                Op::ForPrep => {
                    let [start, limit, step] = [0, 1, 2].map(|at| regs[i.a.wrapping_add(at) as usize]);
                    let number = |value| coerce(heap, value);
                    let Some(start) = number(start) else {
                        fault!(Fault::bare("'for' initial value must be a number"))
                    };
                    let Some(limit) = number(limit) else {
                        fault!(Fault::bare("'for' limit must be a number"))
                    };
                    let Some(step) = number(step) else { fault!(Fault::bare("'for' step must be a number")) };
                    regs[i.a as usize] = Value::number(start - step);
                    regs[i.a.wrapping_add(1) as usize] = Value::number(limit);
                    regs[i.a.wrapping_add(2) as usize] = Value::number(step);
                    pc = i.d as usize;
                    pay!();
                }
                Op::ForLoop => {
                    let step = regs[i.a.wrapping_add(2) as usize].double();
                    let limit = regs[i.a.wrapping_add(1) as usize].double();
                    let index = regs[i.a as usize].double() + step;
                    if if step > 0.0 { index <= limit } else { limit <= index } {
                        regs[i.a as usize] = Value::result(index);
                        regs[i.a.wrapping_add(3) as usize] = Value::result(index);
                        jump!(i.d);
                    }
                }
                Op::ForEach => {
                    let iterator = regs[i.a as usize];
                    let (state, control) =
                        (regs[i.a.wrapping_add(1) as usize], regs[i.a.wrapping_add(2) as usize]);
                    // In PUC an iterator's step is also a call on the C stack, so it may be one
                    // call too many.
                    if let Some(native) = iterator.as_native()
                        && let Some(table) = state.as_table()
                        && co.nested + co.below + 1 != NESTED_MAX
                    {
                        let native = heap.natives.at(native.0).native;
                        if native == known.next {
                            match heap.tables.at(table.0).next(control, &heap.strings) {
                                Ok(Some((key, value))) => {
                                    regs[i.a.wrapping_add(2) as usize] = key;
                                    regs[i.a.wrapping_add(3) as usize] = key;
                                    regs[i.a.wrapping_add(4) as usize] = value;
                                    if i.c > 2 {
                                        empty(&mut regs[i.a as usize + 5..i.a as usize + 3 + i.c as usize]);
                                    }
                                    jump!(i.d);
                                    continue;
                                }
                                Ok(None) => continue,
                                Err(()) => fault!(Fault::without_position("invalid key to 'next'")),
                            }
                        }
                        if native == known.inext && control.is_number() {
                            let index = control.double() + 1.0;
                            let value = heap.tables.at(table.0).get_number(index, &heap.strings);
                            if value.is_nil() {
                                continue;
                            }
                            regs[i.a.wrapping_add(2) as usize] = Value::result(index);
                            regs[i.a.wrapping_add(3) as usize] = Value::result(index);
                            regs[i.a.wrapping_add(4) as usize] = value;
                            if i.c > 2 {
                                empty(&mut regs[i.a as usize + 5..i.a as usize + 3 + i.c as usize]);
                            }
                            jump!(i.d);
                            continue;
                        }
                    }
                    let func = base + i.a as usize + 3;
                    regs[i.a.wrapping_add(3) as usize] = iterator;
                    regs[i.a.wrapping_add(4) as usize] = state;
                    regs[i.a.wrapping_add(5) as usize] = control;
                    save!();
                    let after = After::Each { first: i.a, count: i.c };
                    if let Some(closure) = iterator.as_closure().filter(|_| !EACH && !is_deep(co)) {
                        let call = CallWanted { func, args: 2, want: i32::from(i.c), after };
                        if let Err(fault) = push_frame(heap, code, co, closure, call) {
                            return Exit::Fault(fault);
                        }
                        co.nested += 1;
                        *budget -= 1;
                        if *budget <= 0 || heap.is_due() {
                            return if heap.is_due() { Exit::Collect } else { Exit::Budget };
                        }
                        continue 'frame;
                    }
                    call!(func, 2, i32::from(i.c), after);
                }
                Op::SetList => {
                    let from = base + i.a as usize + 1;
                    let count = if i.b != 0 { i.b as usize } else { (co.top as usize).saturating_sub(from) };
                    let Some(table) = regs[i.a as usize].as_table() else { continue };
                    let before = (i.d as usize - 1) * crate::code::LIST_BATCH;
                    attempt!(operate::set_list(heap, table, before, &co.stack[from..from + count]));
                    heap.strings.moved(count);
                    window!();
                    pay!();
                }
                Op::Close => {
                    close_upvalues(heap, &mut co.open, &co.stack, (base + i.a as usize) as u32);
                    window!();
                }
                Op::Closure => {
                    let index = linked.inner[i.d as usize];
                    let mut captures = [0; 64];
                    let wanted = &code.at(index).proto.captures;
                    for (at, capture) in wanted.iter().enumerate().take(64) {
                        captures[at] = if capture.in_register {
                            let slot = (base + capture.index as usize) as u32;
                            attempt!(open_upvalue(heap, &mut co.open, thread, slot))
                        } else {
                            heap.closures.at(function).capture(capture.index as usize)
                        };
                    }
                    let env = TableRef(heap.closures.at(function).env);
                    let closure = attempt!(heap.new_closure(index, env, &captures[..wanted.len().min(64)]));
                    regs[i.a as usize] = closure.into();
                }
                Op::VarArg => {
                    let Some(frame) = co.frames.last() else { continue };
                    let extra = extra_args(frame, proto);
                    let from = base - extra;
                    let to = base + i.a as usize;
                    let count = if i.b != 0 { i.b as usize - 1 } else { extra };
                    if let Err(fault) = ensure(heap, &mut co.stack, to + count) {
                        fault!(fault);
                    }
                    heap.strings.moved(count);
                    let copied = count.min(extra);
                    co.stack.copy_within(from..from + copied, to);
                    empty(&mut co.stack[to + copied..to + count]);
                    if i.b == 0 {
                        co.top = (to + count) as u32;
                    }
                    window!();
                }
            }
        }
    }
}

/// The exit for a native function that was called plainly and did not return at once.
fn native_step(step: Result<NativeStep, Fault>, func: usize, top: usize, function: u32, want: i32) -> Exit {
    Exit::NativeStep { step, func, top, function, want, after: After::Results }
}

/// The value of a variable in another coroutine's stack.
#[cold]
pub(super) fn open_value(heap: &Heap, owner: ThreadRef, slot: u32) -> Value {
    let coroutine = heap.threads.at(owner.0).coroutine.as_ref();
    coroutine.and_then(|coroutine| coroutine.stack.get(slot as usize).copied()).unwrap_or_default()
}

#[cold]
pub(super) fn set_open_value(heap: &mut Heap, owner: ThreadRef, slot: u32, value: Value) {
    heap.shade_if_marking(value);
    let coroutine = heap.threads.at_mut(owner.0).coroutine.as_mut();
    if let Some(cell) = coroutine.and_then(|coroutine| coroutine.stack.get_mut(slot as usize)) {
        *cell = value;
    }
}
