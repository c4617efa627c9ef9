//! Parsing of statements.

use std::sync::Arc;

use super::{LEVELS_MAX, Parser, Result};
use crate::code::Op;
use crate::compile::emit::{Expr, IndexKey, Kind, NO_JUMP};
use crate::compile::lex::Token;

impl Parser<'_> {
    // Statements.

    /// Parses a statement; returns true if it must be the last one of its block.
    pub(super) fn statement(&mut self) -> Result<bool> {
        let line = self.lex.line;
        match self.lex.token {
            Token::If => self.if_statement(line)?,
            Token::While => self.while_statement(line)?,
            Token::Do => {
                self.lex.advance()?;
                self.block()?;
                self.expect_match(&Token::End, &Token::Do, line)?;
            }
            Token::For => self.for_statement(line)?,
            Token::Repeat => self.repeat_statement(line)?,
            Token::Function => self.function_statement(line)?,
            Token::Local => {
                self.lex.advance()?;
                if self.accept(&Token::Function)? { self.local_function()? } else { self.local_statement()? }
            }
            Token::Return => {
                self.return_statement()?;
                return Ok(true);
            }
            Token::Break => {
                self.lex.advance()?;
                self.break_statement()?;
                return Ok(true);
            }
            _ => self.expr_statement()?,
        }
        Ok(false)
    }

    fn expr_statement(&mut self) -> Result<()> {
        let expr = self.primary_expr()?;
        if let Kind::Call(pc) = expr.kind {
            self.func().at(pc).c = 1;
            return Ok(());
        }
        self.assignment(vec![expr])
    }

    /// Parses the rest of an assignment, after its first targets.
    fn assignment(&mut self, targets: Vec<Expr>) -> Result<()> {
        let mut targets = targets;
        self.check_target(&targets)?;
        while self.accept(&Token::Char(b','))? {
            let next = self.primary_expr()?;
            targets.push(next);
            if let Kind::Local(register) = next.kind {
                self.resolve_conflict(&mut targets, register)?;
            }
            if targets.len() > LEVELS_MAX - self.levels + 1 {
                let at = self.funcs.len() - 1;
                let limit = LEVELS_MAX - self.levels;
                return Err(self.funcs[at].limit_error(&self.lex, limit, "variables in assignment"));
            }
            self.check_target(&targets)?;
        }
        self.expect(&Token::Char(b'='))?;
        let (mut value, count) = self.expr_list()?;
        if count == targets.len() as i32 {
            // The last value is stored in the last target directly.
            func!(self, set_one, &mut value);
            let last = targets.pop().unwrap_or(value);
            func!(self, store, &last, &mut value)?;
        } else {
            self.adjust(targets.len() as i32, count, &mut value)?;
            if count > targets.len() as i32 {
                self.func().free -= (count - targets.len() as i32) as u32;
            }
        }
        while let Some(target) = targets.pop() {
            let mut value = Expr::new(Kind::Fixed((self.func().free - 1) as u8));
            func!(self, store, &target, &mut value)?;
        }
        Ok(())
    }

    fn check_target(&self, targets: &[Expr]) -> Result<()> {
        match targets.last().map(|target| target.kind) {
            Some(Kind::Local(_) | Kind::Upvalue(_) | Kind::Global(_) | Kind::Indexed(..)) => Ok(()),
            _ => Err(self.lex.syntax_error("syntax error")),
        }
    }

    /// If a local is assigned to while an earlier target uses it as table or index, that target
    /// gets a copy.
    fn resolve_conflict(&mut self, targets: &mut [Expr], register: u8) -> Result<()> {
        let copy = self.func().free as u8;
        let mut is_used = false;
        for target in targets {
            if let Kind::Indexed(table, key) = &mut target.kind {
                if *table == register {
                    is_used = true;
                    *table = copy;
                }
                if *key == IndexKey::Register(register) {
                    is_used = true;
                    *key = IndexKey::Register(copy);
                }
            }
        }
        if is_used {
            emit!(self, Op::Move, copy, register, 0, 0);
            func!(self, reserve, 1)?;
        }
        Ok(())
    }

    /// Adjusts `count` expressions, of which the last is `last`, to the number of variables.
    fn adjust(&mut self, variables: i32, count: i32, last: &mut Expr) -> Result<()> {
        let mut extra = variables - count;
        if matches!(last.kind, Kind::Call(_) | Kind::VarArg(_)) {
            extra = (extra + 1).max(0);
            func!(self, set_results, last, extra)?;
            if extra > 1 {
                func!(self, reserve, extra as u32 - 1)?;
            }
            return Ok(());
        }
        if last.kind != Kind::Void {
            func!(self, put_into_next, last)?;
        }
        if extra > 0 {
            let register = self.func().free as u8;
            func!(self, reserve, extra as u32)?;
            func!(self, emit_nil, register, extra as u32);
        }
        Ok(())
    }

    /// Parses a condition; returns the list of jumps taken if it is false.
    fn condition(&mut self) -> Result<u32> {
        let mut expr = self.expr()?;
        if expr.kind == Kind::Nil {
            expr.kind = Kind::False;
        }
        func!(self, go_if_true, &mut expr)?;
        Ok(expr.on_false)
    }

    fn if_statement(&mut self, line: u32) -> Result<()> {
        let mut done = NO_JUMP;
        let mut otherwise = self.then_block()?;
        loop {
            match self.lex.token {
                Token::ElseIf => {
                    let jump = func!(self, jump);
                    self.func().join(&mut done, jump);
                    self.func().patch_here(otherwise);
                    otherwise = self.then_block()?;
                }
                Token::Else => {
                    let jump = func!(self, jump);
                    self.func().join(&mut done, jump);
                    self.func().patch_here(otherwise);
                    self.lex.advance()?;
                    self.block()?;
                    break;
                }
                _ => {
                    self.func().join(&mut done, otherwise);
                    break;
                }
            }
        }
        self.func().patch_here(done);
        self.expect_match(&Token::End, &Token::If, line)
    }

    fn then_block(&mut self) -> Result<u32> {
        self.lex.advance()?;
        let otherwise = self.condition()?;
        self.expect(&Token::Then)?;
        self.block()?;
        Ok(otherwise)
    }

    fn while_statement(&mut self, line: u32) -> Result<()> {
        self.lex.advance()?;
        let start = self.func().label();
        let exit = self.condition()?;
        self.open_block(true);
        self.expect(&Token::Do)?;
        self.block()?;
        let jump = func!(self, jump);
        self.func().patch(jump, start);
        self.expect_match(&Token::End, &Token::While, line)?;
        self.close_block();
        self.func().patch_here(exit);
        Ok(())
    }

    fn repeat_statement(&mut self, line: u32) -> Result<()> {
        let start = self.func().label();
        self.open_block(true);
        self.open_block(false);
        self.lex.advance()?;
        self.chunk()?;
        self.expect_match(&Token::Until, &Token::Repeat, line)?;
        let again = self.condition()?;
        let has_upvalue = self.func().blocks.last().is_some_and(|block| block.has_upvalue);
        if has_upvalue {
            self.break_statement()?;
            self.func().patch_here(again);
            self.close_block();
            let jump = func!(self, jump);
            self.func().patch(jump, start);
        } else {
            self.close_block();
            self.func().patch(again, start);
        }
        self.close_block();
        Ok(())
    }

    fn for_statement(&mut self, line: u32) -> Result<()> {
        self.open_block(true);
        self.lex.advance()?;
        let name = self.name()?;
        match self.lex.token {
            Token::Char(b'=') => self.for_numbers(&name, line)?,
            Token::Char(b',') | Token::In => self.for_each(&name, line)?,
            _ => return Err(self.lex.syntax_error("'=' or 'in' expected")),
        }
        self.expect_match(&Token::End, &Token::For, line)?;
        self.close_block();
        Ok(())
    }

    fn for_numbers(&mut self, name: &Arc<[u8]>, line: u32) -> Result<()> {
        let base = self.func().free as u8;
        let hidden = self.hidden_locals(&["(for index)", "(for limit)", "(for step)"])?;
        let variable = self.new_local(name, hidden.len())?;
        self.lex.advance()?;
        self.expr_to_next()?;
        self.expect(&Token::Char(b','))?;
        self.expr_to_next()?;
        if self.accept(&Token::Char(b','))? {
            self.expr_to_next()?;
        } else {
            let mut one = Expr::new(Kind::Number(1.0));
            func!(self, put_into_next, &mut one)?;
        }
        self.activate(&hidden);
        self.expect(&Token::Do)?;
        let prepare = emit!(self, Op::ForPrep, base, 0, 0, NO_JUMP);
        self.for_body(&[variable])?;
        self.func().patch_here(prepare);
        emit!(self, Op::ForLoop, base, 0, 0, prepare + 1);
        self.func().fix_line(line);
        Ok(())
    }

    fn expr_to_next(&mut self) -> Result<()> {
        let mut expr = self.expr()?;
        func!(self, put_into_next, &mut expr)
    }

    fn hidden_locals(&mut self, names: &[&str; 3]) -> Result<Vec<usize>> {
        let mut locals = Vec::with_capacity(3);
        for name in names {
            locals.push(self.new_local(&name.as_bytes().into(), locals.len())?);
        }
        Ok(locals)
    }

    fn for_each(&mut self, name: &Arc<[u8]>, _line: u32) -> Result<()> {
        let base = self.func().free as u8;
        let hidden = self.hidden_locals(&["(for generator)", "(for state)", "(for control)"])?;
        let mut variables = vec![self.new_local(name, hidden.len())?];
        while self.accept(&Token::Char(b','))? {
            let name = self.name()?;
            variables.push(self.new_local(&name, hidden.len() + variables.len())?);
        }
        self.expect(&Token::In)?;
        let line = self.lex.line;
        let (mut last, count) = self.expr_list()?;
        self.adjust(3, count, &mut last)?;
        if count > 3 {
            self.func().free -= count as u32 - 3;
        }
        func!(self, check_stack, 3)?;
        self.activate(&hidden);
        self.expect(&Token::Do)?;
        let prepare = func!(self, jump);
        self.for_body(&variables)?;
        self.func().patch_here(prepare);
        emit!(self, Op::ForEach, base, 0, variables.len() as u8, prepare + 1);
        self.func().fix_line(line);
        Ok(())
    }

    fn for_body(&mut self, variables: &[usize]) -> Result<()> {
        self.open_block(false);
        self.activate(variables);
        func!(self, reserve, variables.len() as u32)?;
        self.block()?;
        self.close_block();
        Ok(())
    }

    fn function_statement(&mut self, line: u32) -> Result<()> {
        self.lex.advance()?;
        let mut target = self.variable()?;
        while self.is(b'.') {
            self.field(&mut target)?;
        }
        let is_method = self.is(b':');
        if is_method {
            self.field(&mut target)?;
        }
        let mut function = self.body(is_method, line)?;
        func!(self, store, &target, &mut function)?;
        self.func().fix_line(line);
        Ok(())
    }

    fn local_function(&mut self) -> Result<()> {
        let name = self.name()?;
        let local = self.new_local(&name, 0)?;
        let register = self.func().free as u8;
        func!(self, reserve, 1)?;
        self.activate(&[local]);
        let line = self.lex.line;
        let mut function = self.body(false, line)?;
        func!(self, store, &Expr::new(Kind::Local(register)), &mut function)?;
        // The debugger may show the variable's name only from here on.
        let pc = self.func().pc();
        self.func().proto.locals[local].from = pc;
        Ok(())
    }

    fn local_statement(&mut self) -> Result<()> {
        let mut locals = Vec::new();
        loop {
            let name = self.name()?;
            locals.push(self.new_local(&name, locals.len())?);
            if !self.accept(&Token::Char(b','))? {
                break;
            }
        }
        let (mut last, count) =
            if self.accept(&Token::Char(b'='))? { self.expr_list()? } else { (Expr::new(Kind::Void), 0) };
        self.adjust(locals.len() as i32, count, &mut last)?;
        self.activate(&locals);
        Ok(())
    }

    fn return_statement(&mut self) -> Result<()> {
        self.lex.advance()?;
        if self.block_ends() || self.is(b';') {
            func!(self, emit_return, 0, 0);
            return Ok(());
        }
        let (mut expr, count) = self.expr_list()?;
        let locals = self.func().active.len() as u8;
        if matches!(expr.kind, Kind::Call(_) | Kind::VarArg(_)) {
            func!(self, set_results, &expr, -1)?;
            if let (Kind::Call(pc), 1) = (expr.kind, count) {
                let call = self.func().at(pc);
                call.op = Op::TailCall;
            }
            func!(self, emit_return, locals, -1);
        } else if count == 1 {
            let register = func!(self, put_into_any, &mut expr)?;
            func!(self, emit_return, register, 1);
        } else {
            func!(self, put_into_next, &mut expr)?;
            func!(self, emit_return, locals, count);
        }
        Ok(())
    }

    fn break_statement(&mut self) -> Result<()> {
        let mut has_upvalue = false;
        let mut target = None;
        for (index, block) in self.func().blocks.iter().enumerate().rev() {
            if block.is_loop {
                target = Some((index, block.locals));
                break;
            }
            has_upvalue |= block.has_upvalue;
        }
        let Some((index, locals)) = target else { return Err(self.lex.syntax_error("no loop to break")) };
        if has_upvalue {
            emit!(self, Op::Close, locals as u8, 0, 0, 0);
        }
        let jump = func!(self, jump);
        let func = self.func();
        let mut breaks = func.blocks[index].breaks;
        func.join(&mut breaks, jump);
        func.blocks[index].breaks = breaks;
        Ok(())
    }
}
