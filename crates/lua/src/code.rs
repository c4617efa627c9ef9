//! The compiler's output: prototypes of functions, immutable and shared.
//!
//! Instructions work on registers. A function uses fewer than 250 registers, so every register that an
//! instruction accesses, even R[a + 3], lies in the window of 256 slots that the machine provides for a call.

use std::sync::Arc;

use sluice_base::heap;

use crate::arena::{Colour, Object};
use crate::text::number::c_text;
use crate::value::Value;

/// Operations. `R` is a register, `K` a constant, `U` an upvalue; `d` of a jump is the index of the
/// instruction to continue with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(rustdoc::broken_intra_doc_links, reason = "`R[a]` is a register, and no link")]
pub(crate) enum Op {
    /// R[a] = R[b]
    Move,
    /// R[a] = K[d]
    LoadK,
    /// R[a] = b; if c, step over the next instruction
    LoadBool,
    /// R[a..=b] = nil
    LoadNil,
    /// R[a] = U[b]
    GetUpvalue,
    /// U[b] = R[a]
    SetUpvalue,
    /// R[a] = environment[K[d]]
    GetGlobal,
    /// environment[K[d]] = R[a]
    SetGlobal,
    /// R[a] = R[b][R[c]]
    GetTable,
    /// R[a] = R[b][K[d]]; the key is a string
    GetField,
    /// R[a] = R[b][K[d]]; the key is a number
    GetIndex,
    /// R[a][R[b]] = R[c]
    SetTable,
    /// R[a][K[d]] = R[c]; the key is a string
    SetField,
    /// R[a][K[d]] = K[b + 256 c]; the key is a string
    SetFieldK,
    /// R[a][K[d]] = R[c]; the key is a number
    SetIndex,
    /// R[a] = a new table, with sizes b and c as "floating bytes"
    NewTable,
    /// R[a + 1] = R[b]; R[a] = R[b][K[d]]
    Method,
    /// R[a] = R[b] + R[c], and so on
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    /// R[a] = R[b] + K[d], and so on; the constant is a number, and the left operand if c is 1
    AddK,
    SubK,
    MulK,
    DivK,
    ModK,
    PowK,
    /// R[a] = -R[b]
    Negate,
    /// R[a] = not R[b]
    Not,
    /// R[a] = #R[b]
    Length,
    /// R[a] = R[b] .. ... .. R[c]
    Concat,
    /// Continue with instruction d
    Jump,
    /// If truth of R[a] is c, go to d
    Test,
    /// If truth of R[b] is c, R[a] = R[b] and go to d
    TestSet,
    /// If (R[a] == R[b]) is c, go to d
    Equal,
    /// If (R[a] == K[b]) is c, go to d
    EqualK,
    /// If (R[a] < R[b]) is c, go to d
    Less,
    /// If (R[a] <= R[b]) is c, go to d
    LessEqual,
    /// If (R[a] < K[b]) is c, go to d; here and in the next three, the constant is a number
    LessK,
    LessEqualK,
    /// If (K[b] < R[a]) is c, go to d
    GreaterK,
    GreaterEqualK,
    /// Call R[a] with b - 1 arguments, or with those up to the top if b is 0; c - 1 results are wanted, or
    /// all if c is 0
    Call,
    /// Return R[a](b - 1 arguments)
    TailCall,
    /// Return b - 1 values from R[a] on, or those up to the top
    Return,
    /// R[a] -= R[a + 2]; go to d
    ForPrep,
    /// R[a] += R[a + 2]; if it is not past R[a + 1], R[a + 3] = R[a] and go to d
    ForLoop,
    /// R[a + 3], ... = c results of R[a](R[a + 1], R[a + 2]); if R[a + 3] is not nil, R[a + 2] = R[a + 3] and
    /// go to d
    ForEach,
    /// R[a][50 (d - 1) + i] = R[a + i], for i from 1 to b, or up to the top
    SetList,
    /// Close the upvalues from R[a] on
    Close,
    /// R[a] = a closure of the d-th prototype
    Closure,
    /// R[a], ... = b - 1 of the extra arguments, or all
    VarArg,
}

/// An instruction of eight bytes: the operation and its operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instr {
    pub(crate) op: Op,
    pub(crate) a: u8,
    pub(crate) b: u8,
    pub(crate) c: u8,
    pub(crate) d: u32,
}

const _: () = assert!(size_of::<Instr>() == 8);

/// A constant of a function, before it is linked into a heap.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Const {
    Nil,
    Bool(bool),
    Number(f64),
    Text(Arc<[u8]>),
}

/// The source of an upvalue when a closure is made.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    /// Whether the variable is in a register of the function that makes the closure; otherwise it is one of
    /// that function's upvalues. `index` is that of the register or of the upvalue.
    pub(crate) in_register: bool,
    pub(crate) index: u8,
    pub(crate) name: Arc<[u8]>,
}

/// A local variable, for error messages and the debugger.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) name: Arc<[u8]>,
    /// The index of the first instruction in which the variable lives; `to` is the index after the last
    /// one.
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// Maximum number of elements that one [`Op::SetList`] stores.
pub(crate) const LIST_BATCH: usize = 50;

/// The name of a chunk, shared by its functions.
#[derive(Debug, Default)]
pub struct ChunkName {
    /// The name as `loadstring` and hosts give it: `=name`, `@file`, or the source itself, up to
    /// a zero byte.
    pub(crate) given: Box<[u8]>,
    /// The name as error messages show it.
    pub(crate) shown: Box<[u8]>,
}

impl ChunkName {
    /// A name in the form of `loadstring`: `=name`, `@file`, or the source itself. A zero byte ends the name,
    /// as in C. Chunks that are compiled with clones of one `Arc` share the name.
    pub fn new(name: &[u8]) -> Arc<ChunkName> {
        let given = c_text(name);
        Arc::new(ChunkName { given: given.into(), shown: display_name(given) })
    }
}

/// Longest name of a chunk in error messages, including C's zero byte.
const NAME_MAX: usize = 80;

/// The name of a chunk as error messages show it.
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

/// A function that is being compiled.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) code: Vec<Instr>,
    /// The line of each instruction.
    pub(crate) lines: Vec<u32>,
    pub(crate) consts: Vec<Const>,
    pub(crate) protos: Vec<Arc<Proto>>,
    pub(crate) captures: Vec<Capture>,
    pub(crate) locals: Vec<Local>,
    pub(crate) params: u8,
    pub(crate) is_vararg: bool,
    pub(crate) wants_arg: bool,
    pub(crate) max_stack: u8,
    pub(crate) line: u32,
    pub(crate) chunk: Arc<ChunkName>,
}

impl Draft {
    /// The finished function, with vectors shrunk to their lengths.
    pub(crate) fn finish(self) -> Proto {
        let Draft { code, lines, consts, protos, captures, locals, .. } = self;
        let unlinked = match consts.is_empty() && protos.is_empty() {
            true => None,
            false => Some(Box::new(Unlinked { consts, protos })),
        };
        Proto {
            code: code.into(),
            lines: LineTable::of(&lines),
            unlinked,
            captures: captures.into(),
            locals: locals.into(),
            params: self.params,
            is_vararg: self.is_vararg,
            wants_arg: self.wants_arg,
            max_stack: self.max_stack,
            line: self.line,
            chunk: self.chunk,
        }
    }
}

/// The line of each instruction.
#[derive(Debug, Default)]
struct LineTable {
    /// The line of the first instruction.
    first: u32,
    /// Instructions whose line differs from that of the previous instruction, each with its line.
    changes: Box<[(u32, u32)]>,
}

impl LineTable {
    fn of(lines: &[u32]) -> LineTable {
        let first = lines.first().copied().unwrap_or(0);
        let changed = lines.windows(2).zip(1..).filter(|(pair, _)| pair[0] != pair[1]);
        LineTable { first, changes: changed.map(|(pair, at)| (at, pair[1])).collect() }
    }

    fn at(&self, index: usize) -> u32 {
        match self.changes.partition_point(|(from, _)| *from as usize <= index) {
            0 => self.first,
            before => self.changes[before - 1].1,
        }
    }
}

/// The parts of a function that a machine copies when it links the function.
#[derive(Debug)]
pub(crate) struct Unlinked {
    pub(crate) consts: Vec<Const>,
    pub(crate) protos: Vec<Arc<Proto>>,
}

/// A compiled function with its inner functions. It is independent of any heap, so machines and threads can
/// share it.
#[derive(Debug, Default)]
pub struct Proto {
    pub(crate) code: Box<[Instr]>,
    lines: LineTable,
    /// Constants and inner functions; `None` if there are none, or if the only machine that uses the
    /// function has linked it.
    pub(crate) unlinked: Option<Box<Unlinked>>,
    pub(crate) captures: Box<[Capture]>,
    pub(crate) locals: Box<[Local]>,
    pub(crate) params: u8,
    /// Whether the function has `...` as its last parameter.
    pub(crate) is_vararg: bool,
    /// Whether the function has `...` but never reads it. Its extra arguments are then stored in a table
    /// `arg`, as in Lua 5.0.
    pub(crate) wants_arg: bool,
    pub(crate) max_stack: u8,
    /// The line where the function begins; 0 for a chunk.
    pub(crate) line: u32,
    /// The name of the chunk.
    pub(crate) chunk: Arc<ChunkName>,
}

/// The fixed part of [`Proto::bytes`] for each function.
const FUNCTION_BYTES: usize = 160;

impl Proto {
    pub(crate) fn consts(&self) -> &[Const] {
        self.unlinked.as_deref().map_or(&[][..], |unlinked| &unlinked.consts[..])
    }

    pub(crate) fn protos(&self) -> &[Arc<Proto>] {
        self.unlinked.as_deref().map_or(&[][..], |unlinked| &unlinked.protos[..])
    }

    /// Approximate bytes of the function and its inner functions, before a machine has linked them.
    /// `loadstring` and `load` charge the script's budget in proportion to them.
    pub fn bytes(&self) -> usize {
        let text = |text: &Arc<[u8]>| text.len() + 32;
        let consts: usize = self
            .consts()
            .iter()
            .map(|value| match value {
                Const::Text(bytes) => text(bytes) + 24,
                Const::Nil | Const::Bool(_) | Const::Number(_) => 24,
            })
            .sum();
        let locals: usize = self.locals.iter().map(|local| text(&local.name) + 24).sum();
        let inner: usize = self.protos().iter().map(|proto| proto.bytes()).sum();
        FUNCTION_BYTES + self.code.len() * 12 + consts + locals + inner
    }

    /// Approximate bytes that remain of the function and its inner functions after the only owner
    /// has linked it.
    pub fn linked_bytes(&self) -> usize {
        let name = |name: &Arc<[u8]>| heap::block(name.len() + 16);
        let locals: usize = self.locals.iter().map(|local| name(&local.name)).sum();
        let captures: usize = self.captures.iter().map(|capture| name(&capture.name)).sum();
        heap::counted::<Proto>()
            + heap::block(size_of_val(&*self.code))
            + heap::block(size_of_val(&*self.lines.changes))
            + heap::block(size_of_val(&*self.locals))
            + heap::block(size_of_val(&*self.captures))
            + locals
            + captures
            + self.inner_bytes()
    }

    /// Like [`Proto::linked_bytes`], but only for the inner functions. These bytes remain when a chunk is
    /// unloaded.
    pub fn inner_bytes(&self) -> usize {
        self.protos().iter().map(|proto| proto.linked_bytes()).sum()
    }

    /// The first instruction after those that only set the function's own variables to nil. The reference's
    /// compiler omits such instructions, because at the start of a function these registers are nil already.
    pub(crate) fn first_shown(&self) -> u32 {
        let params = self.params + u8::from(self.wants_arg);
        u32::from(self.code.first().is_some_and(|instr| instr.op == Op::LoadNil && instr.a >= params))
    }

    /// The line of the instruction before `pc`.
    pub(crate) fn line_at(&self, pc: u32) -> u32 {
        self.line_of((pc as usize).saturating_sub(1)).unwrap_or(0)
    }

    /// The line of an instruction; `None` beyond the last.
    pub(crate) fn line_of(&self, index: usize) -> Option<u32> {
        (index < self.code.len()).then(|| self.lines.at(index))
    }

    /// The name of the variable in register `register` while instruction `pc` runs.
    pub(crate) fn local_name(&self, register: usize, pc: usize) -> Option<&[u8]> {
        let living = self.locals.iter().take_while(|local| local.from as usize <= pc);
        living.filter(|local| pc < local.to as usize).nth(register).map(|local| &*local.name)
    }
}

/// The handle of a loaded chunk, until [`crate::Vm::unload`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedChunk {
    /// The index of the prototype in the machine. `number` identifies the chunk, because a later chunk may
    /// have the same index.
    pub(crate) code: u32,
    pub(crate) number: u32,
}

/// A prototype linked into a machine: its constants are values of the heap.
#[derive(Debug, Default)]
pub(crate) struct Linked {
    pub(crate) proto: Arc<Proto>,
    pub(crate) consts: Box<[Value]>,
    /// The hash of each constant that is a string; empty if none is.
    pub(crate) hashes: Box<[u32]>,
    /// The indexes of the inner functions.
    pub(crate) inner: Box<[u32]>,
    /// For the main function of a loaded chunk, the number of the chunk; otherwise 0. A number other than 0
    /// keeps the prototype alive.
    pub(crate) loaded: u32,
    pub(crate) colour: Colour,
}

const _: () = assert!(size_of::<Linked>() == 64);

impl Object for Linked {
    type Shared = Vec<Linked>;

    fn colour(&self) -> Colour {
        self.colour
    }

    fn paint(&mut self, colour: Colour) {
        self.colour = colour;
    }

    fn outside(&self) -> usize {
        size_of_val(&*self.consts) + size_of_val(&*self.hashes) + size_of_val(&*self.inner)
    }
}
