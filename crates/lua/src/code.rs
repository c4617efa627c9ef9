//! What the compiler makes: prototypes of functions, immutable and shared.
//!
//! Instructions work on registers, of which a function has at most 250, so an operand of eight bits cannot
//! leave the window of 256 that the machine holds.

use std::sync::Arc;

use crate::arena::{Colour, Object};
use crate::value::Value;

/// Operations. `R` is a register, `K` a constant, `U` an upvalue; `d` of a jump is the instruction to go on
/// with.
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
    /// R[a] = R[b][K[d]], a string
    GetField,
    /// R[a] = R[b][K[d]], a number
    GetIndex,
    /// R[a][R[b]] = R[c]
    SetTable,
    /// R[a][K[d]] = R[c], a string
    SetField,
    /// R[a][K[d]] = K[b + 256 c], a string
    SetFieldK,
    /// R[a][K[d]] = R[c], a number
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
    /// R[a] = R[b] + K[d], a number; c: the constant stands on the left
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
    /// Go to d
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
    /// If (R[a] < K[b]) is c, go to d: a number, as in the next three
    LessK,
    LessEqualK,
    /// If (K[b] < R[a]) is c, go to d
    GreaterK,
    GreaterEqualK,
    /// Call R[a] with b - 1 arguments, or those up to the top; c - 1 results are wanted, or all
    Call,
    /// Return R[a](b - 1 arguments)
    TailCall,
    /// Return b - 1 values from R[a] on, or those up to the top
    Return,
    /// R[a] -= R[a + 2]; go to d
    ForPrep,
    /// R[a] += R[a + 2]; if it is not behind R[a + 1], R[a + 3] = R[a] and go to d
    ForLoop,
    /// R[a + 3], ... of c values = R[a](R[a + 1], R[a + 2]); if the first is not nil, R[a + 2] = it and go to
    /// d
    ForEach,
    /// R[a][50 (d - 1) + i] = R[a + i], b values, or those up to the top
    SetList,
    /// Close the upvalues from R[a] on
    Close,
    /// R[a] = a closure of the d-th prototype
    Closure,
    /// R[a], ... = b - 1 of the extra arguments, or all
    VarArg,
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instr {
    pub(crate) op: Op,
    pub(crate) a: u8,
    pub(crate) b: u8,
    pub(crate) c: u8,
    pub(crate) d: u32,
}

const _: () = assert!(size_of::<Instr>() == 8);

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Const {
    Nil,
    Bool(bool),
    Number(f64),
    Text(Arc<[u8]>),
}

/// Where a closure finds an upvalue when it is made.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    /// In a register of the function that makes it, else among that one's upvalues.
    pub(crate) in_register: bool,
    pub(crate) index: u8,
    pub(crate) name: Arc<[u8]>,
}

/// A local variable, for the texts of errors.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) name: Arc<[u8]>,
    /// Instructions during which the variable lives: from, to.
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// Elements that one [`Op::SetList`] stores at most.
pub(crate) const LIST_BATCH: usize = 50;

/// The name of a chunk.
#[derive(Debug, Default)]
pub(crate) struct ChunkName {
    /// As `loadstring` and hosts give it: `=name`, `@file`, or the source itself, up to a zero.
    pub given: Box<[u8]>,
    /// As errors show it.
    pub shown: Box<[u8]>,
}

/// A compiled function, and the functions in it. Knows no heap, so it can be shared between machines and
/// threads.
#[derive(Debug, Default)]
pub struct Proto {
    pub(crate) code: Vec<Instr>,
    /// The line of each instruction.
    pub(crate) lines: Vec<u32>,
    pub(crate) consts: Vec<Const>,
    pub(crate) protos: Vec<Arc<Proto>>,
    pub(crate) captures: Vec<Capture>,
    pub(crate) locals: Vec<Local>,
    pub(crate) params: u8,
    /// Takes `...`
    pub(crate) is_vararg: bool,
    /// Takes `...` and never reads it: its extra arguments go into a table `arg`, as in Lua 5.0.
    pub(crate) wants_arg: bool,
    pub(crate) max_stack: u8,
    /// Where the function begins; 0 for a chunk.
    pub(crate) line: u32,
    /// The name of the chunk.
    pub(crate) chunk: Arc<ChunkName>,
}

impl Proto {
    /// Bytes that the function and those in it take, about.
    pub fn bytes(&self) -> usize {
        let text = |text: &Arc<[u8]>| text.len() + 32;
        let consts: usize = self
            .consts
            .iter()
            .map(|value| match value {
                Const::Text(bytes) => text(bytes) + 24,
                Const::Nil | Const::Bool(_) | Const::Number(_) => 24,
            })
            .sum();
        let locals: usize = self.locals.iter().map(|local| text(&local.name) + 24).sum();
        size_of::<Proto>() + self.code.len() * 12 + consts + locals + self.inner_bytes()
    }

    /// Bytes that the functions in it take, about: what is left of a chunk that is unloaded.
    pub fn inner_bytes(&self) -> usize {
        self.protos.iter().map(|proto| proto.bytes()).sum()
    }

    /// The first instruction that does more than empty the function's own variables. The reference's compiler
    /// leaves such a beginning out: the variables are empty there.
    pub(crate) fn first_shown(&self) -> u32 {
        let params = self.params + u8::from(self.wants_arg);
        u32::from(self.code.first().is_some_and(|instr| instr.op == Op::LoadNil && instr.a >= params))
    }

    /// The line of the instruction before `pc`.
    pub(crate) fn line_at(&self, pc: u32) -> u32 {
        let at = (pc as usize).saturating_sub(1);
        self.lines.get(at).copied().unwrap_or(0)
    }

    /// The name of the variable in register `register` while instruction `pc` runs.
    pub(crate) fn local_name(&self, register: usize, pc: usize) -> Option<&[u8]> {
        let living = self.locals.iter().take_while(|local| local.from as usize <= pc);
        living.filter(|local| pc < local.to as usize).nth(register).map(|local| &*local.name)
    }
}

/// A prototype in a machine: its constants are values of the heap.
#[derive(Debug, Default)]
pub(crate) struct Linked {
    pub(crate) proto: Arc<Proto>,
    pub(crate) consts: Box<[Value]>,
    /// For each constant that is a string its hash.
    pub(crate) hashes: Box<[u32]>,
    /// The functions in it, as indexes.
    pub(crate) inner: Box<[u32]>,
    pub(crate) colour: Colour,
}

impl Object for Linked {
    fn colour(&self) -> Colour {
        self.colour
    }

    fn paint(&mut self, colour: Colour) {
        self.colour = colour;
    }

    fn outside(&self) -> usize {
        self.consts.len() * 12 + self.inner.len() * 4
    }
}
