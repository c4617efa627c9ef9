//! Emission of a function's instructions: registers, expressions that are not in a register yet,
//! lists of jumps.
//!
//! The compiler makes one pass. An expression is a description until the place of its value is known. Jumps
//! whose target is not known yet form a list. A list is represented by the index of its last jump, whose `d`
//! is the index of the first jump, so both ends are found in O(1). Registers are assigned as PUC's compiler
//! does, so that error messages name the same variables.

pub(super) mod operators;

use std::collections::HashMap;
use std::sync::Arc;

use super::lex::{Lexer, SyntaxError};
use crate::code::{Capture, ChunkName, Const, Draft, Instr, Local, Op, Proto};

/// No jump: an empty list, or an unknown target.
pub(super) const NO_JUMP: u32 = u32::MAX;

/// No particular register.
const NO_REGISTER: u8 = 255;

/// A function must use fewer registers than this, as in PUC.
const REGISTERS_MAX: u32 = 250;

/// Maximum number of instructions that a jump may skip, as in PUC, whose instructions have 18 bits for the
/// distance.
const JUMP_MAX: u32 = 131_071;

/// Maximum number of local variables of a function that are alive at a time.
pub(super) const LOCALS_MAX: usize = 200;

/// Maximum number of local variables of a function in total.
pub(super) const LOCALS_IN_ALL_MAX: usize = 32_767;

/// Maximum number of upvalues of a function.
const UPVALUES_MAX: usize = 60;

/// The key of an index expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum IndexKey {
    Register(u8),
    Text(u32),
    Number(u32),
}

/// Where an expression's value is, or how the value can still be produced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Void,
    Nil,
    True,
    False,
    /// The constant with this index, which is a string.
    Text(u32),
    Number(f64),
    Local(u8),
    Upvalue(u8),
    Global(u32),
    Indexed(u8, IndexKey),
    /// A comparison, whose jump is taken if the comparison is true.
    Jump(u32),
    /// An instruction whose target register can still be chosen.
    Open(u32),
    /// A value in this register.
    Fixed(u8),
    Call(u32),
    VarArg(u32),
}

/// An expression, with the jumps that leave it when it is true or false.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expr {
    pub(super) kind: Kind,
    pub(super) on_true: u32,
    pub(super) on_false: u32,
}

impl Expr {
    pub(super) fn new(kind: Kind) -> Expr {
        Expr { kind, on_true: NO_JUMP, on_false: NO_JUMP }
    }

    fn has_jumps(&self) -> bool {
        self.on_true != self.on_false
    }

    fn as_numeral(&self) -> Option<f64> {
        match self.kind {
            Kind::Number(number) if self.on_true == NO_JUMP && self.on_false == NO_JUMP => Some(number),
            _ => None,
        }
    }
}

/// A block of statements.
#[derive(Debug)]
pub(super) struct Scope {
    pub(super) breaks: u32,
    pub(super) locals: usize,
    pub(super) has_upvalue: bool,
    pub(super) is_loop: bool,
}

/// A constant as a key of the map of constants.
#[derive(PartialEq, Eq, Hash)]
enum ConstKey {
    Nil,
    Bool(bool),
    Number(u64),
    Text(Arc<[u8]>),
}

/// A function that is being compiled.
pub(super) struct Func {
    pub(super) proto: Draft,
    consts: HashMap<ConstKey, u32>,
    pub(super) blocks: Vec<Scope>,
    /// Active local variables, by register: indexes into the draft's list of locals.
    pub(super) active: Vec<usize>,
    pub(super) free: u32,
    last_target: u32,
    /// Jumps whose target is the next instruction.
    pending: u32,
    /// Whether a jump skips more than [`JUMP_MAX`] instructions.
    pub(super) is_too_long: bool,
}

type Result<T> = std::result::Result<T, SyntaxError>;

impl Func {
    pub(super) fn new(chunk: Arc<ChunkName>, line: u32) -> Func {
        Func {
            proto: Draft { chunk, line, max_stack: 2, ..Draft::default() },
            consts: HashMap::new(),
            blocks: Vec::new(),
            active: Vec::new(),
            free: 0,
            last_target: NO_JUMP,
            pending: NO_JUMP,
            is_too_long: false,
        }
    }

    pub(super) fn pc(&self) -> u32 {
        self.proto.code.len() as u32
    }

    /// The error that a function exceeds a limit.
    pub(super) fn limit_error(&self, lex: &Lexer<'_>, limit: usize, what: &str) -> SyntaxError {
        let text = match self.proto.line {
            0 => format!("main function has more than {limit} {what}"),
            line => format!("function at line {line} has more than {limit} {what}"),
        };
        lex.plain_error(&text)
    }

    // Instructions.

    pub(super) fn emit(&mut self, lex: &Lexer<'_>, op: Op, a: u8, b: u8, c: u8, d: u32) -> u32 {
        self.resolve_pending();
        // A jump with an unknown target is a list of one jump.
        let d = if d == NO_JUMP { self.pc() } else { d };
        self.proto.code.push(Instr { op, a, b, c, d });
        self.proto.lines.push(lex.last_line);
        self.pc() - 1
    }

    /// Changes the line of the last instruction.
    pub(super) fn fix_line(&mut self, line: u32) {
        if let Some(last) = self.proto.lines.last_mut() {
            *last = line;
        }
    }

    pub(super) fn at(&mut self, pc: u32) -> &mut Instr {
        &mut self.proto.code[pc as usize]
    }

    pub(super) fn emit_nil(&mut self, lex: &Lexer<'_>, from: u8, count: u32) {
        let to = (u32::from(from) + count - 1) as u8;
        let is_target = self.pc() == self.last_target || self.pending != NO_JUMP;
        if !is_target
            && let Some(last) = self.proto.code.last_mut()
            && last.op == Op::LoadNil
            && last.a <= from
            && u32::from(from) <= u32::from(last.b) + 1
        {
            last.b = last.b.max(to);
            return;
        }
        self.emit(lex, Op::LoadNil, from, to, 0, 0);
    }

    pub(super) fn emit_return(&mut self, lex: &Lexer<'_>, first: u8, count: i32) {
        self.emit(lex, Op::Return, first, (count + 1) as u8, 0, 0);
    }

    // Constants.

    fn constant(&mut self, key: ConstKey, value: Const) -> u32 {
        let next = self.proto.consts.len() as u32;
        let index = *self.consts.entry(key).or_insert(next);
        if index == next {
            self.proto.consts.push(value);
        }
        index
    }

    pub(super) fn text_constant(&mut self, text: &Arc<[u8]>) -> u32 {
        self.constant(ConstKey::Text(text.clone()), Const::Text(text.clone()))
    }

    fn number_constant(&mut self, number: f64) -> u32 {
        // 0 and -0 share one constant, the one that occurs first, as in PUC's table of constants.
        let key = if number == 0.0 { 0 } else { number.to_bits() };
        self.constant(ConstKey::Number(key), Const::Number(number))
    }

    /// The constant for an expression, if the expression is constant.
    fn constant_of(&mut self, expr: &Expr) -> Option<u32> {
        if expr.has_jumps() {
            return None;
        }
        match expr.kind {
            Kind::Nil => Some(self.constant(ConstKey::Nil, Const::Nil)),
            Kind::True => Some(self.constant(ConstKey::Bool(true), Const::Bool(true))),
            Kind::False => Some(self.constant(ConstKey::Bool(false), Const::Bool(false))),
            Kind::Number(number) => Some(self.number_constant(number)),
            Kind::Text(index) => Some(index),
            _ => None,
        }
    }

    // Registers.

    pub(super) fn check_stack(&mut self, lex: &Lexer<'_>, count: u32) -> Result<()> {
        let size = self.free + count;
        if size > u32::from(self.proto.max_stack) {
            if size >= REGISTERS_MAX {
                return Err(lex.syntax_error("function or expression too complex"));
            }
            self.proto.max_stack = size as u8;
        }
        Ok(())
    }

    pub(super) fn reserve(&mut self, lex: &Lexer<'_>, count: u32) -> Result<()> {
        self.check_stack(lex, count)?;
        self.free += count;
        Ok(())
    }

    fn free_register(&mut self, register: u8) {
        if usize::from(register) >= self.active.len() {
            self.free = self.free.saturating_sub(1);
            debug_assert!(u32::from(register) == self.free);
        }
    }

    pub(super) fn free_expr(&mut self, expr: &Expr) {
        if let Kind::Fixed(register) = expr.kind {
            self.free_register(register);
        }
    }

    // Jumps.

    pub(super) fn jump(&mut self, lex: &Lexer<'_>) -> u32 {
        let pending = std::mem::replace(&mut self.pending, NO_JUMP);
        let mut jump = self.emit(lex, Op::Jump, 0, 0, 0, NO_JUMP);
        self.join(&mut jump, pending);
        jump
    }

    pub(super) fn label(&mut self) -> u32 {
        self.last_target = self.pc();
        self.last_target
    }

    /// Adds the jumps of `other` to a list. O(1): a list is known by its last jump, whose `d` is the index of
    /// the first jump.
    pub(super) fn join(&mut self, list: &mut u32, other: u32) {
        if other == NO_JUMP {
            return;
        }
        if *list != NO_JUMP {
            let (first, first_of_other) = (self.at(*list).d, self.at(other).d);
            self.at(*list).d = first_of_other;
            self.at(other).d = first;
        }
        *list = other;
    }

    /// The jump after `jump` in a list, or `None` after the last one. If `jump` is `None`, the first jump of
    /// the list.
    fn next_jump(&mut self, list: u32, jump: Option<u32>) -> Option<u32> {
        match jump {
            None if list == NO_JUMP => None,
            Some(jump) if jump == list => None,
            _ => Some(self.at(jump.unwrap_or(list)).d),
        }
    }

    /// Sets the target of all jumps of a list.
    pub(super) fn patch(&mut self, list: u32, target: u32) {
        if target == self.pc() {
            return self.patch_here(list);
        }
        self.patch_values(list, target, NO_REGISTER, target);
    }

    pub(super) fn patch_here(&mut self, list: u32) {
        self.label();
        let mut pending = self.pending;
        self.join(&mut pending, list);
        self.pending = pending;
    }

    fn resolve_pending(&mut self) {
        let pending = std::mem::replace(&mut self.pending, NO_JUMP);
        let here = self.pc();
        self.patch_values(pending, here, NO_REGISTER, here);
    }

    /// Sets the targets of a list: jumps that carry a value go to `with_value` and store the value in
    /// `register`, others go to `without`.
    fn patch_values(&mut self, list: u32, with_value: u32, register: u8, without: u32) {
        let mut next = self.next_jump(list, None);
        while let Some(jump) = next {
            next = self.next_jump(list, next);
            let target = if self.set_test_register(jump, register) { with_value } else { without };
            self.is_too_long |= target.abs_diff(jump + 1) > JUMP_MAX;
            self.at(jump).d = target;
        }
    }

    /// Sets the register of a test that carries a value, or turns the test into one that carries none.
    /// Returns whether the instruction was a test that carries a value (`TestSet`).
    fn set_test_register(&mut self, jump: u32, register: u8) -> bool {
        let instr = self.at(jump);
        if instr.op != Op::TestSet {
            return false;
        }
        if register != NO_REGISTER && register != instr.b {
            instr.a = register;
        } else {
            *instr = Instr { op: Op::Test, a: instr.b, b: 0, c: instr.c, d: instr.d };
        }
        true
    }

    /// Whether any jump of a list carries no value.
    fn needs_value(&mut self, list: u32) -> bool {
        let mut next = self.next_jump(list, None);
        while let Some(jump) = next {
            if self.at(jump).op != Op::TestSet {
                return true;
            }
            next = self.next_jump(list, next);
        }
        false
    }

    fn drop_values(&mut self, list: u32) {
        let mut next = self.next_jump(list, None);
        while let Some(jump) = next {
            self.set_test_register(jump, NO_REGISTER);
            next = self.next_jump(list, next);
        }
    }

    // Expressions to registers.

    /// Sets the number of results of a call or `...`.
    pub(super) fn set_results(&mut self, lex: &Lexer<'_>, expr: &Expr, count: i32) -> Result<()> {
        match expr.kind {
            Kind::Call(pc) => self.at(pc).c = (count + 1) as u8,
            Kind::VarArg(pc) => {
                let register = self.free as u8;
                let instr = self.at(pc);
                instr.b = (count + 1) as u8;
                instr.a = register;
                self.reserve(lex, 1)?;
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn set_one(&mut self, _lex: &Lexer<'_>, expr: &mut Expr) {
        self.set_one_result(expr);
    }

    fn set_one_result(&mut self, expr: &mut Expr) {
        match expr.kind {
            Kind::Call(pc) => expr.kind = Kind::Fixed(self.at(pc).a),
            Kind::VarArg(pc) => {
                self.at(pc).b = 2;
                expr.kind = Kind::Open(pc);
            }
            _ => {}
        }
    }

    /// Makes the value of an expression available: a local variable becomes its register, any other variable
    /// becomes an instruction that reads it, and a call or `...` is set to return one result.
    pub(super) fn discharge(&mut self, lex: &Lexer<'_>, expr: &mut Expr) {
        match expr.kind {
            Kind::Local(register) => expr.kind = Kind::Fixed(register),
            Kind::Upvalue(index) => expr.kind = Kind::Open(self.emit(lex, Op::GetUpvalue, 0, index, 0, 0)),
            Kind::Global(name) => expr.kind = Kind::Open(self.emit(lex, Op::GetGlobal, 0, 0, 0, name)),
            Kind::Indexed(table, key) => {
                if let IndexKey::Register(register) = key {
                    self.free_register(register);
                }
                self.free_register(table);
                let pc = match key {
                    IndexKey::Register(register) => self.emit(lex, Op::GetTable, 0, table, register, 0),
                    IndexKey::Text(index) => self.emit(lex, Op::GetField, 0, table, 0, index),
                    IndexKey::Number(index) => self.emit(lex, Op::GetIndex, 0, table, 0, index),
                };
                expr.kind = Kind::Open(pc);
            }
            Kind::Call(_) | Kind::VarArg(_) => self.set_one_result(expr),
            _ => {}
        }
    }

    fn discharge_to(&mut self, lex: &Lexer<'_>, expr: &mut Expr, register: u8) {
        self.discharge(lex, expr);
        match expr.kind {
            Kind::Nil => self.emit_nil(lex, register, 1),
            Kind::True | Kind::False => {
                self.emit(lex, Op::LoadBool, register, u8::from(expr.kind == Kind::True), 0, 0);
            }
            Kind::Text(index) => {
                self.emit(lex, Op::LoadK, register, 0, 0, index);
            }
            Kind::Number(number) => {
                let index = self.number_constant(number);
                self.emit(lex, Op::LoadK, register, 0, 0, index);
            }
            Kind::Open(pc) => self.at(pc).a = register,
            Kind::Fixed(from) if from != register => {
                self.emit(lex, Op::Move, register, from, 0, 0);
            }
            Kind::Fixed(_) => {}
            // An expression without a value, or a jump, has no value to store.
            _ => return,
        }
        expr.kind = Kind::Fixed(register);
    }

    fn discharge_any(&mut self, lex: &Lexer<'_>, expr: &mut Expr) -> Result<()> {
        if !matches!(expr.kind, Kind::Fixed(_)) {
            self.reserve(lex, 1)?;
            self.discharge_to(lex, expr, (self.free - 1) as u8);
        }
        Ok(())
    }

    fn put_into(&mut self, lex: &Lexer<'_>, expr: &mut Expr, register: u8) {
        self.discharge_to(lex, expr, register);
        if let Kind::Jump(pc) = expr.kind {
            self.join(&mut expr.on_true, pc);
        }
        if expr.has_jumps() {
            let (mut load_false, mut load_true) = (NO_JUMP, NO_JUMP);
            if self.needs_value(expr.on_true) || self.needs_value(expr.on_false) {
                let over = if matches!(expr.kind, Kind::Jump(_)) { NO_JUMP } else { self.jump(lex) };
                self.label();
                load_false = self.emit(lex, Op::LoadBool, register, 0, 1, 0);
                self.label();
                load_true = self.emit(lex, Op::LoadBool, register, 1, 0, 0);
                self.patch_here(over);
            }
            let end = self.label();
            self.patch_values(expr.on_false, end, register, load_false);
            self.patch_values(expr.on_true, end, register, load_true);
        }
        *expr = Expr::new(Kind::Fixed(register));
    }

    pub(super) fn put_into_next(&mut self, lex: &Lexer<'_>, expr: &mut Expr) -> Result<()> {
        self.discharge(lex, expr);
        self.free_expr(expr);
        self.reserve(lex, 1)?;
        self.put_into(lex, expr, (self.free - 1) as u8);
        Ok(())
    }

    pub(super) fn put_into_any(&mut self, lex: &Lexer<'_>, expr: &mut Expr) -> Result<u8> {
        self.discharge(lex, expr);
        if let Kind::Fixed(register) = expr.kind {
            if !expr.has_jumps() {
                return Ok(register);
            }
            if usize::from(register) >= self.active.len() {
                self.put_into(lex, expr, register);
                return Ok(register);
            }
        }
        self.put_into_next(lex, expr)?;
        Ok((self.free - 1) as u8)
    }

    pub(super) fn make_value(&mut self, lex: &Lexer<'_>, expr: &mut Expr) -> Result<()> {
        if expr.has_jumps() {
            self.put_into_any(lex, expr)?;
        } else {
            self.discharge(lex, expr);
        }
        Ok(())
    }

    pub(super) fn store(&mut self, lex: &Lexer<'_>, variable: &Expr, value: &mut Expr) -> Result<()> {
        match variable.kind {
            Kind::Local(register) => {
                self.free_expr(value);
                self.put_into(lex, value, register);
                return Ok(());
            }
            Kind::Upvalue(index) => {
                let register = self.put_into_any(lex, value)?;
                self.emit(lex, Op::SetUpvalue, register, index, 0, 0);
            }
            Kind::Global(name) => {
                let register = self.put_into_any(lex, value)?;
                self.emit(lex, Op::SetGlobal, register, 0, 0, name);
            }
            Kind::Indexed(table, key) => self.store_indexed(lex, table, key, value)?,
            _ => {}
        }
        self.free_expr(value);
        Ok(())
    }

    fn store_indexed(&mut self, lex: &Lexer<'_>, table: u8, key: IndexKey, value: &mut Expr) -> Result<()> {
        if let IndexKey::Text(name) = key {
            self.make_value(lex, value)?;
            if let Some(index) = self.constant_of(value).filter(|index| *index < 1 << 16) {
                self.emit(lex, Op::SetFieldK, table, index as u8, (index >> 8) as u8, name);
                return Ok(());
            }
        }
        let register = self.put_into_any(lex, value)?;
        match key {
            IndexKey::Register(key) => self.emit(lex, Op::SetTable, table, key, register, 0),
            IndexKey::Text(index) => self.emit(lex, Op::SetField, table, 0, register, index),
            IndexKey::Number(index) => self.emit(lex, Op::SetIndex, table, 0, register, index),
        };
        Ok(())
    }

    /// Compiles `expr:name`: the function and the object go into two neighbouring registers.
    pub(super) fn method(&mut self, lex: &Lexer<'_>, expr: &mut Expr, name: u32) -> Result<()> {
        let object = self.put_into_any(lex, expr)?;
        self.free_expr(expr);
        let function = self.free as u8;
        self.reserve(lex, 2)?;
        self.emit(lex, Op::Method, function, object, 0, name);
        *expr = Expr::new(Kind::Fixed(function));
        Ok(())
    }

    pub(super) fn index(&mut self, lex: &Lexer<'_>, table: &mut Expr, key: &mut Expr) -> Result<()> {
        let Kind::Fixed(register) = table.kind else { return Err(lex.syntax_error("unexpected symbol")) };
        self.make_value(lex, key)?;
        let key = match (key.kind, key.has_jumps()) {
            (Kind::Text(index), false) => IndexKey::Text(index),
            (Kind::Number(number), false) => IndexKey::Number(self.number_constant(number)),
            _ => IndexKey::Register(self.put_into_any(lex, key)?),
        };
        *table = Expr::new(Kind::Indexed(register, key));
        Ok(())
    }

    // Upvalues.

    /// The index of the upvalue that captures this register or this upvalue of the enclosing function. If
    /// there is none yet, one is added, with this name.
    pub(super) fn upvalue(
        &mut self,
        lex: &Lexer<'_>,
        name: &Arc<[u8]>,
        in_register: bool,
        index: u8,
    ) -> Result<u8> {
        let same = |capture: &Capture| capture.in_register == in_register && capture.index == index;
        if let Some(at) = self.proto.captures.iter().position(same) {
            return Ok(at as u8);
        }
        if self.proto.captures.len() >= UPVALUES_MAX {
            return Err(self.limit_error(lex, UPVALUES_MAX, "upvalues"));
        }
        self.proto.captures.push(Capture { in_register, index, name: name.clone() });
        Ok((self.proto.captures.len() - 1) as u8)
    }

    // Locals.

    pub(super) fn declare(&mut self, name: &Arc<[u8]>) -> usize {
        self.proto.locals.push(Local { name: name.clone(), from: 0, to: 0 });
        self.proto.locals.len() - 1
    }

    pub(super) fn find_local(&self, name: &[u8]) -> Option<u8> {
        let found = self.active.iter().rposition(|local| &*self.proto.locals[*local].name == name);
        found.map(|register| register as u8)
    }

    pub(super) fn end_locals(&mut self, keep: usize) {
        let pc = self.pc();
        for local in self.active.drain(keep..) {
            self.proto.locals[local].to = pc;
        }
    }

    /// Ends the function: jumps to its end get their target.
    pub(super) fn finish(mut self) -> Proto {
        self.resolve_pending();
        self.proto.finish()
    }
}
