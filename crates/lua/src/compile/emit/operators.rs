//! Operators: conditions as jumps, arithmetic, comparisons.

use super::{Expr, Func, Kind, NO_JUMP, NO_REGISTER, Result};
use crate::code::Op;
use crate::compile::lex::Lexer;

impl Func {
    /// Makes an expression an operand: the index of its constant if the expression is constant, otherwise a
    /// register into which the value is put.
    fn make_operand(&mut self, lex: &Lexer<'_>, expr: &mut Expr) -> Result<Operand> {
        self.make_value(lex, expr)?;
        if let Some(index) = self.constant_of(expr) {
            return Ok(Operand::Constant(index));
        }
        self.put_into_any(lex, expr).map(Operand::Register)
    }

    // Conditions.

    /// Inverts the condition of a comparison's jump.
    fn invert(&mut self, expr: &Expr) {
        if let Kind::Jump(pc) = expr.kind {
            let instr = self.at(pc);
            instr.c = 1 - instr.c;
        }
    }

    fn jump_if(&mut self, lex: &Lexer<'_>, expr: &mut Expr, when: bool) -> Result<u32> {
        if let Kind::Open(pc) = expr.kind
            && self.at(pc).op == Op::Not
        {
            // The instruction `not` is removed, and the jump's condition is inverted instead.
            let register = self.at(pc).b;
            self.proto.code.pop();
            self.proto.lines.pop();
            return Ok(self.emit(lex, Op::Test, register, 0, u8::from(!when), NO_JUMP));
        }
        self.discharge_any(lex, expr)?;
        self.free_expr(expr);
        let Kind::Fixed(register) = expr.kind else { return Ok(NO_JUMP) };
        Ok(self.emit(lex, Op::TestSet, NO_REGISTER, register, u8::from(when), NO_JUMP))
    }

    /// Continues if the expression is true, and jumps if it is false.
    pub(in crate::compile) fn go_if_true(&mut self, lex: &Lexer<'_>, expr: &mut Expr) -> Result<()> {
        self.discharge(lex, expr);
        let jump = match expr.kind {
            Kind::Text(_) | Kind::Number(_) | Kind::True => NO_JUMP,
            Kind::Jump(pc) => {
                self.invert(expr);
                pc
            }
            _ => self.jump_if(lex, expr, false)?,
        };
        self.join(&mut expr.on_false, jump);
        self.patch_here(expr.on_true);
        expr.on_true = NO_JUMP;
        Ok(())
    }

    fn go_if_false(&mut self, lex: &Lexer<'_>, expr: &mut Expr) -> Result<()> {
        self.discharge(lex, expr);
        let jump = match expr.kind {
            Kind::Nil | Kind::False => NO_JUMP,
            Kind::Jump(pc) => pc,
            _ => self.jump_if(lex, expr, true)?,
        };
        self.join(&mut expr.on_true, jump);
        self.patch_here(expr.on_false);
        expr.on_false = NO_JUMP;
        Ok(())
    }

    fn not(&mut self, lex: &Lexer<'_>, expr: &mut Expr) -> Result<()> {
        self.discharge(lex, expr);
        match expr.kind {
            Kind::Nil | Kind::False => expr.kind = Kind::True,
            Kind::Text(_) | Kind::Number(_) | Kind::True => expr.kind = Kind::False,
            Kind::Jump(_) => self.invert(expr),
            _ => {
                self.discharge_any(lex, expr)?;
                self.free_expr(expr);
                if let Kind::Fixed(register) = expr.kind {
                    expr.kind = Kind::Open(self.emit(lex, Op::Not, 0, register, 0, 0));
                }
            }
        }
        std::mem::swap(&mut expr.on_true, &mut expr.on_false);
        self.drop_values(expr.on_false);
        self.drop_values(expr.on_true);
        Ok(())
    }

    // Operators.

    /// Compiles a unary operator, after its operand.
    pub(in crate::compile) fn prefix(&mut self, lex: &Lexer<'_>, op: Unary, expr: &mut Expr) -> Result<()> {
        match op {
            Unary::Minus => {
                if let Some(number) = expr.as_numeral() {
                    if !number.is_nan() {
                        expr.kind = Kind::Number(-number);
                    }
                    return Ok(());
                }
                self.unary(lex, Op::Negate, expr)
            }
            Unary::Not => self.not(lex, expr),
            Unary::Length => self.unary(lex, Op::Length, expr),
        }
    }

    fn unary(&mut self, lex: &Lexer<'_>, op: Op, expr: &mut Expr) -> Result<()> {
        let register = self.put_into_any(lex, expr)?;
        self.free_expr(expr);
        *expr = Expr::new(Kind::Open(self.emit(lex, op, 0, register, 0, 0)));
        Ok(())
    }

    /// Compiles the part of a binary operator that is between its operands.
    pub(in crate::compile) fn infix(&mut self, lex: &Lexer<'_>, op: Binary, left: &mut Expr) -> Result<()> {
        match op {
            Binary::And => self.go_if_true(lex, left),
            Binary::Or => self.go_if_false(lex, left),
            Binary::Concat => self.put_into_next(lex, left),
            Binary::Arithmetic(_) if left.as_numeral().is_some() => Ok(()),
            Binary::Arithmetic(_) | Binary::Equal(_) | Binary::Order { .. } => {
                self.make_operand(lex, left).map(|_| ())
            }
        }
    }

    /// Compiles a binary operator, after both operands.
    pub(in crate::compile) fn postfix(
        &mut self,
        lex: &Lexer<'_>,
        op: Binary,
        left: &mut Expr,
        right: &mut Expr,
    ) -> Result<()> {
        match op {
            Binary::And => {
                self.discharge(lex, right);
                self.join(&mut right.on_false, left.on_false);
                *left = *right;
            }
            Binary::Or => {
                self.discharge(lex, right);
                self.join(&mut right.on_true, left.on_true);
                *left = *right;
            }
            Binary::Concat => self.concat(lex, left, right)?,
            Binary::Arithmetic(op) => self.arithmetic(lex, op, left, right)?,
            Binary::Equal(when) => self.equal(lex, when, left, right)?,
            Binary::Order { strict, swap } => {
                if swap {
                    self.order(lex, strict, right, left, LaterOperand::Left)?;
                    *left = *right;
                } else {
                    self.order(lex, strict, left, right, LaterOperand::Right)?;
                }
            }
        }
        Ok(())
    }

    fn concat(&mut self, lex: &Lexer<'_>, left: &mut Expr, right: &mut Expr) -> Result<()> {
        self.make_value(lex, right)?;
        if let (Kind::Open(pc), Kind::Fixed(register)) = (right.kind, left.kind)
            && self.at(pc).op == Op::Concat
        {
            self.free_expr(left);
            self.at(pc).b = register;
            left.kind = Kind::Open(pc);
            return Ok(());
        }
        self.put_into_next(lex, right)?;
        let (Kind::Fixed(a), Kind::Fixed(b)) = (left.kind, right.kind) else { return Ok(()) };
        self.free_expr(right);
        self.free_expr(left);
        *left = Expr::new(Kind::Open(self.emit(lex, Op::Concat, 0, a, b, 0)));
        Ok(())
    }

    fn arithmetic(
        &mut self,
        lex: &Lexer<'_>,
        op: Arithmetic,
        left: &mut Expr,
        right: &mut Expr,
    ) -> Result<()> {
        if let (Some(a), Some(b)) = (left.as_numeral(), right.as_numeral())
            && let Some(number) = op.fold(a, b)
        {
            left.kind = Kind::Number(number);
            return Ok(());
        }
        // An instruction can name a number as its right operand, or as its left operand if the operation
        // commutes.
        if let Some(number) = right.as_numeral() {
            // The right number becomes a constant first, as in PUC: 0 and -0 share one constant, which has
            // the sign of the zero that was added first.
            let index = self.number_constant(number);
            let a = self.put_into_any(lex, left)?;
            self.free_expr(left);
            *left = Expr::new(Kind::Open(self.emit(lex, op.with_constant(), 0, a, 0, index)));
            return Ok(());
        }
        if let Some(number) = left.as_numeral()
            && matches!(op, Arithmetic::Add | Arithmetic::Mul)
        {
            let b = self.put_into_any(lex, right)?;
            let index = self.number_constant(number);
            self.free_expr(right);
            *left = Expr::new(Kind::Open(self.emit(lex, op.with_constant(), 0, b, 1, index)));
            return Ok(());
        }
        let (a, b) = self.two_registers(lex, left, right)?;
        self.free_two(left, right);
        *left = Expr::new(Kind::Open(self.emit(lex, op.plain(), 0, a, b, 0)));
        Ok(())
    }

    /// Puts both operands into registers. The right one is evaluated already, so a constant on the left
    /// gets a later register.
    fn two_registers(&mut self, lex: &Lexer<'_>, left: &mut Expr, right: &mut Expr) -> Result<(u8, u8)> {
        let b = self.put_into_any(lex, right)?;
        let a = self.put_into_any(lex, left)?;
        Ok((a, b))
    }

    /// Frees the registers of two operands, the higher one first.
    fn free_two(&mut self, left: &Expr, right: &Expr) {
        let register = |expr: &Expr| match expr.kind {
            Kind::Fixed(register) => Some(register),
            _ => None,
        };
        if register(left) > register(right) {
            self.free_expr(left);
            self.free_expr(right);
        } else {
            self.free_expr(right);
            self.free_expr(left);
        }
    }

    fn equal(&mut self, lex: &Lexer<'_>, when: bool, left: &mut Expr, right: &mut Expr) -> Result<()> {
        let second = self.make_operand(lex, right)?;
        let first = self.make_operand(lex, left)?;
        let pc = match (first, second) {
            (Operand::Register(a), Operand::Constant(k)) if k < 256 => {
                self.free_expr(left);
                self.emit(lex, Op::EqualK, a, k as u8, u8::from(when), NO_JUMP)
            }
            (Operand::Constant(k), Operand::Register(b)) if k < 256 => {
                self.free_expr(right);
                self.emit(lex, Op::EqualK, b, k as u8, u8::from(when), NO_JUMP)
            }
            _ => {
                let (a, b) = self.two_registers(lex, left, right)?;
                self.free_two(left, right);
                self.emit(lex, Op::Equal, a, b, u8::from(when), NO_JUMP)
            }
        };
        *left = Expr::new(Kind::Jump(pc));
        Ok(())
    }

    /// Compiles `first < second` or `first <= second` as a jump, which replaces `first`.
    fn order(
        &mut self,
        lex: &Lexer<'_>,
        strict: bool,
        first: &mut Expr,
        second: &mut Expr,
        later: LaterOperand,
    ) -> Result<()> {
        let numeral = |expr: &Expr| expr.as_numeral();
        let (a, b) = (numeral(first), numeral(second));
        let pc = match (a, b) {
            (None, Some(number)) if self.names_small(number) => {
                let register = self.put_into_any(lex, first)?;
                let index = self.number_constant(number) as u8;
                self.free_expr(first);
                let op = if strict { Op::LessK } else { Op::LessEqualK };
                self.emit(lex, op, register, index, 1, NO_JUMP)
            }
            (Some(number), None) if self.names_small(number) => {
                let register = self.put_into_any(lex, second)?;
                let index = self.number_constant(number) as u8;
                self.free_expr(second);
                let op = if strict { Op::GreaterK } else { Op::GreaterEqualK };
                self.emit(lex, op, register, index, 1, NO_JUMP)
            }
            _ => {
                // The operand that is later in the source may not have a register yet, so it is put into
                // one first.
                let (x, y) = match later {
                    LaterOperand::Right => self.two_registers(lex, first, second)?,
                    LaterOperand::Left => {
                        let (b, a) = self.two_registers(lex, second, first)?;
                        (a, b)
                    }
                };
                self.free_two(first, second);
                let op = if strict { Op::Less } else { Op::LessEqual };
                self.emit(lex, op, x, y, 1, NO_JUMP)
            }
        };
        *first = Expr::new(Kind::Jump(pc));
        Ok(())
    }

    /// Adds a number to the constants unless it is there already; returns whether it is one of the first 256.
    fn names_small(&mut self, number: f64) -> bool {
        self.number_constant(number) < 256
    }
}

/// An operand that an instruction can name.
#[derive(Clone, Copy, Debug)]
enum Operand {
    Register(u8),
    Constant(u32),
}

/// Which operand of a comparison comes later in the source.
#[derive(Clone, Copy, Debug)]
enum LaterOperand {
    Left,
    Right,
}

/// The unary operators of the language.
#[derive(Clone, Copy, Debug)]
pub(in crate::compile) enum Unary {
    Minus,
    Not,
    Length,
}

/// The arithmetic operators of the language.
#[derive(Clone, Copy, Debug)]
pub(in crate::compile) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
}

impl Arithmetic {
    /// The result of the operator on two numbers, computed at compile time; `None` if it must be computed at
    /// run time.
    fn fold(self, a: f64, b: f64) -> Option<f64> {
        let number = match self {
            Arithmetic::Add => a + b,
            Arithmetic::Sub => a - b,
            Arithmetic::Mul => a * b,
            Arithmetic::Div if b == 0.0 => return None,
            Arithmetic::Div => a / b,
            Arithmetic::Mod if b == 0.0 => return None,
            Arithmetic::Mod => a - (a / b).floor() * b,
            Arithmetic::Pow => a.powf(b),
        };
        if number.is_nan() { None } else { Some(number) }
    }

    fn plain(self) -> Op {
        match self {
            Arithmetic::Add => Op::Add,
            Arithmetic::Sub => Op::Sub,
            Arithmetic::Mul => Op::Mul,
            Arithmetic::Div => Op::Div,
            Arithmetic::Mod => Op::Mod,
            Arithmetic::Pow => Op::Pow,
        }
    }

    fn with_constant(self) -> Op {
        match self {
            Arithmetic::Add => Op::AddK,
            Arithmetic::Sub => Op::SubK,
            Arithmetic::Mul => Op::MulK,
            Arithmetic::Div => Op::DivK,
            Arithmetic::Mod => Op::ModK,
            Arithmetic::Pow => Op::PowK,
        }
    }
}

/// Binary operators. `Order` with `swap` is `>` or `>=`.
#[derive(Clone, Copy, Debug)]
pub(in crate::compile) enum Binary {
    Arithmetic(Arithmetic),
    Concat,
    Equal(bool),
    Order { strict: bool, swap: bool },
    And,
    Or,
}
