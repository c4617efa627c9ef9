//! What a debugger sees of a run that stands: where the run goes on, the local variables of a function, the functions that called.

use super::machine::Machine;
use super::names;
use crate::object::{Frame, Work};
use crate::value::Value;

/// Where a function of the language stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'r> {
    /// The name of the chunk, as it was given.
    pub chunk: &'r [u8],
    /// The line, from 1 on, of the instruction that is next.
    pub line: u32,
    /// Which instruction of its function that is.
    pub instruction: u32,
    /// Functions that are running, this one included: coroutines count by themselves.
    pub depth: usize,
}

/// A function that is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// What its caller calls it; `None` for the chunk, and for a function without a name.
    pub name: Option<Vec<u8>>,
    /// The line that it is in.
    pub line: u32,
    /// It is the chunk itself.
    pub is_chunk: bool,
}

impl Machine {
    /// Where the run goes on; `None` where a native function does.
    pub(crate) fn next_place(&self) -> Option<Place<'_>> {
        let frame = self.co.frames.last().filter(|frame| frame.work == Work::Lua)?;
        let proto = &self.code.at(frame.proto).proto;
        let line = *proto.lines.get(frame.pc as usize)?;
        Some(Place {
            chunk: &proto.chunk.given,
            line,
            instruction: frame.pc,
            depth: self.co.frames.len(),
        })
    }

    /// The functions of the language that run, the innermost first.
    fn frames(&self) -> impl Iterator<Item = (usize, &Frame)> {
        self.co.frames.iter().enumerate().rev().filter(|(_, frame)| frame.work == Work::Lua)
    }

    /// The local variables that live in a function of the language, in the order of their coming; 0 is the innermost.
    pub(crate) fn locals(&self, level: usize) -> Vec<(&[u8], Value)> {
        let Some((_, frame)) = self.frames().nth(level) else { return Vec::new() };
        let proto = &self.code.at(frame.proto).proto;
        let pc = frame.pc as usize;
        let living = proto.locals.iter().take_while(|local| local.from as usize <= pc);
        let living = living.filter(|local| pc < local.to as usize).enumerate();
        let value = |register: usize| self.co.stack.get(frame.base as usize + register).copied();
        living.map(|(register, local)| (&*local.name, value(register).unwrap_or(Value::NIL))).collect()
    }

    /// The functions of the language that run, the innermost first.
    pub(crate) fn callers(&self) -> Vec<Caller> {
        let caller = |(at, frame): (usize, &Frame)| {
            let proto = &self.code.at(frame.proto).proto;
            let named = at.checked_sub(1).and_then(|outer| names::called(&self.code, &self.co.frames[outer]));
            Caller {
                name: named.map(|(_, name)| name),
                line: proto.lines.get(frame.pc as usize).copied().unwrap_or(0),
                is_chunk: proto.line == 0,
            }
        };
        self.frames().map(caller).collect()
    }
}
