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
    /// The coroutine, by a number of its own.
    pub coroutine: u32,
    /// Functions that are running in the coroutine, this one included.
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

/// Finds the instructions with which lines begin, as the reference's line hook does: the first of a function, one of another line than
/// that function's last, and the target of a jump backward.
#[derive(Debug, Default)]
pub struct LineWatch {
    /// The last place of each function that is running: coroutine, depth, line, instruction.
    last: Vec<(u32, usize, u32, u32)>,
}

impl LineWatch {
    /// Takes note of the place where the run goes on. Whether a line begins there. O(functions that run).
    pub fn notice(&mut self, place: &Place<'_>) -> bool {
        self.last.retain(|(coroutine, depth, ..)| *coroutine != place.coroutine || *depth <= place.depth);
        let known = self.last.iter_mut().find(|last| (last.0, last.1) == (place.coroutine, place.depth));
        let Some((.., line, instruction)) = known else {
            self.last.push((place.coroutine, place.depth, place.line, place.instruction));
            return true;
        };
        let begins = *line != place.line || place.instruction <= *instruction || place.instruction == 0;
        (*line, *instruction) = (place.line, place.instruction);
        begins
    }
}

impl Machine {
    /// Where the run goes on; `None` where a native function does.
    pub(crate) fn next_place(&self) -> Option<Place<'_>> {
        let frame = self.co.frames.last().filter(|frame| frame.work == Work::Lua)?;
        let proto = &self.code.at(frame.proto).proto;
        // The reference's compiler leaves a beginning out that only empties variables: they are empty.
        if frame.pc < proto.first_shown() {
            return None;
        }
        let line = *proto.lines.get(frame.pc as usize)?;
        Some(Place {
            chunk: &proto.chunk.given,
            line,
            instruction: frame.pc,
            coroutine: self.thread.0,
            depth: self.co.frames.len(),
        })
    }

    /// The functions of the language that run, the innermost first.
    fn frames(&self) -> impl Iterator<Item = (usize, &Frame)> {
        self.co.frames.iter().enumerate().rev().filter(|(_, frame)| frame.work == Work::Lua)
    }

    /// The instruction that a frame is at: the next one of the innermost, the call of the others.
    fn at_instruction(&self, at: usize, frame: &Frame) -> usize {
        let is_innermost = at + 1 == self.co.frames.len();
        frame.pc as usize - usize::from(!is_innermost && frame.pc > 0)
    }

    /// The local variables that live in a function of the language, in the order of their coming; 0 is the innermost.
    pub(crate) fn locals(&self, level: usize) -> Vec<(&[u8], Value)> {
        let Some((at, frame)) = self.frames().nth(level) else { return Vec::new() };
        let proto = &self.code.at(frame.proto).proto;
        let pc = self.at_instruction(at, frame);
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
                line: proto.lines.get(self.at_instruction(at, frame)).copied().unwrap_or(0),
                is_chunk: proto.line == 0,
            }
        };
        self.frames().map(caller).collect()
    }
}
