//! The grammar.

use std::sync::Arc;

use super::emit::{Arithmetic, Binary, Block, Expr, Func, Key, Kind, LOCALS_MAX, NO_JUMP, Unary};
use super::lex::{Lexer, SyntaxError, Token, describe};
use crate::code::{LIST_BATCH, Op, Proto};

/// Depth of the grammar.
const LEVELS_MAX: usize = 200;

/// Depth of the calls that the reference has made when it begins to compile.
const LEVELS_BEFORE: usize = 1;

/// Priority of a unary operator.
const UNARY_PRIORITY: u8 = 8;

type Result<T> = std::result::Result<T, SyntaxError>;

/// Compiles a chunk.
pub(super) fn parse(source: &[u8], chunk: Arc<[u8]>) -> Result<Proto> {
    let mut main = Func::new(chunk.clone(), 0);
    main.proto.is_vararg = true;
    let mut parser = Parser { lex: Lexer::new(source, chunk), funcs: vec![main], levels: LEVELS_BEFORE };
    parser.lex.advance()?;
    parser.chunk()?;
    parser.expect_end()?;
    parser.close_func()
}

struct Parser<'s> {
    lex: Lexer<'s>,
    funcs: Vec<Func>,
    levels: usize,
}

/// A table constructor at work.
struct Constructor {
    table: u8,
    pc: u32,
    pending: u32,
    stored: u32,
    hashed: u32,
}

/// A number as a "floating byte": five bits of exponent, three of mantissa, rounded up.
fn floating_byte(number: u32) -> u8 {
    let (mut number, mut exponent) = (number, 0);
    while number >= 16 {
        number = number.div_ceil(2);
        exponent += 1;
    }
    if number < 8 { number as u8 } else { ((exponent + 1) << 3 | (number - 8)) as u8 }
}

macro_rules! emit {
    ($parser:expr, $op:expr, $a:expr, $b:expr, $c:expr, $d:expr) => {{
        let parser = &mut *$parser;
        let at = parser.funcs.len() - 1;
        parser.funcs[at].emit(&parser.lex, $op, $a, $b, $c, $d)
    }};
}

macro_rules! func {
    ($parser:expr, $method:ident $(, $arg:expr)*) => {{
        let parser = &mut *$parser;
        let at = parser.funcs.len() - 1;
        parser.funcs[at].$method(&parser.lex $(, $arg)*)
    }};
}

impl Parser<'_> {
    fn func(&mut self) -> &mut Func {
        let at = self.funcs.len() - 1;
        &mut self.funcs[at]
    }

    // Tokens.

    fn is(&self, byte: u8) -> bool {
        self.lex.token == Token::Char(byte)
    }

    /// Steps over a token if it is there.
    fn accept(&mut self, token: &Token) -> Result<bool> {
        if self.lex.token != *token {
            return Ok(false);
        }
        self.lex.advance()?;
        Ok(true)
    }

    fn expect(&mut self, token: &Token) -> Result<()> {
        if self.accept(token)? { Ok(()) } else { Err(self.missing(token)) }
    }

    fn missing(&self, token: &Token) -> SyntaxError {
        self.lex.syntax_error(&format!("'{}' expected", String::from_utf8_lossy(&describe(token))))
    }

    fn expect_end(&mut self) -> Result<()> {
        if self.lex.token == Token::End0 { Ok(()) } else { Err(self.missing(&Token::End0)) }
    }

    /// Steps over the token that closes what began on `line` with `open`.
    fn expect_match(&mut self, close: &Token, open: &Token, line: u32) -> Result<()> {
        if self.accept(close)? {
            return Ok(());
        }
        if line == self.lex.line {
            return Err(self.missing(close));
        }
        let text = |token| String::from_utf8_lossy(&describe(token)).into_owned();
        let (close, open) = (text(close), text(open));
        Err(self.lex.syntax_error(&format!("'{close}' expected (to close '{open}' at line {line})")))
    }

    fn name(&mut self) -> Result<Arc<[u8]>> {
        let Token::Name(name) = &self.lex.token else {
            return Err(self.missing(&Token::Name(Arc::default())));
        };
        let name = name.clone();
        self.lex.advance()?;
        Ok(name)
    }

    fn enter(&mut self) -> Result<()> {
        self.levels += 1;
        if self.levels > LEVELS_MAX {
            return Err(self.lex.plain_error("chunk has too many syntax levels"));
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.levels -= 1;
    }

    // Functions and blocks.

    fn close_func(&mut self) -> Result<Proto> {
        func!(self, emit_return, 0, 0);
        self.func().end_locals(0);
        match self.funcs.pop() {
            Some(func) => Ok(func.finish()),
            None => Err(self.lex.plain_error("no function to end")),
        }
    }

    fn open_block(&mut self, is_loop: bool) {
        let func = self.func();
        let locals = func.active.len();
        func.blocks.push(Block { breaks: NO_JUMP, locals, has_upvalue: false, is_loop });
    }

    fn close_block(&mut self) {
        let Some(block) = self.func().blocks.pop() else { return };
        self.func().end_locals(block.locals);
        if block.has_upvalue {
            emit!(self, Op::Close, block.locals as u8, 0, 0, 0);
        }
        let func = self.func();
        func.free = func.active.len() as u32;
        func.patch_here(block.breaks);
    }

    fn block_ends(&self) -> bool {
        matches!(self.lex.token, Token::Else | Token::ElseIf | Token::End | Token::End0 | Token::Until)
    }

    fn chunk(&mut self) -> Result<()> {
        self.enter()?;
        let mut is_last = false;
        while !is_last && !self.block_ends() {
            is_last = self.statement()?;
            self.accept(&Token::Char(b';'))?;
            let func = self.func();
            func.free = func.active.len() as u32;
        }
        self.leave();
        Ok(())
    }

    fn block(&mut self) -> Result<()> {
        self.open_block(false);
        self.chunk()?;
        self.close_block();
        Ok(())
    }

    // Variables.

    fn new_local(&mut self, name: &Arc<[u8]>, waiting: usize) -> Result<usize> {
        if self.func().active.len() + waiting + 1 > LOCALS_MAX {
            let at = self.funcs.len() - 1;
            return Err(self.funcs[at].limit_error(&self.lex, LOCALS_MAX, "local variables"));
        }
        Ok(self.func().declare(name))
    }

    /// From here on the variables are visible.
    fn activate(&mut self, locals: &[usize]) {
        let func = self.func();
        let pc = func.pc();
        for local in locals {
            func.proto.locals[*local].from = pc;
            func.active.push(*local);
        }
    }

    fn activate_named(&mut self, names: &[&str]) -> Result<()> {
        for name in names {
            let local = self.new_local(&name.as_bytes().into(), 0)?;
            self.activate(&[local]);
        }
        Ok(())
    }

    fn variable(&mut self) -> Result<Expr> {
        let name = self.name()?;
        let at = self.funcs.len() - 1;
        if let Some(kind) = self.find_variable(at, &name, true)? {
            return Ok(Expr::new(kind));
        }
        let index = self.func().text_constant(&name);
        Ok(Expr::new(Kind::Global(index)))
    }

    /// The variable of that name in a function or those around it.
    fn find_variable(&mut self, at: usize, name: &Arc<[u8]>, is_here: bool) -> Result<Option<Kind>> {
        if let Some(register) = self.funcs[at].find_local(name) {
            if !is_here {
                let blocks = self.funcs[at].blocks.iter_mut().rev();
                if let Some(block) = blocks.into_iter().find(|block| block.locals <= usize::from(register)) {
                    block.has_upvalue = true;
                }
            }
            return Ok(Some(Kind::Local(register)));
        }
        if at == 0 {
            return Ok(None);
        }
        let (in_register, index) = match self.find_variable(at - 1, name, false)? {
            Some(Kind::Local(register)) => (true, register),
            Some(Kind::Upvalue(index)) => (false, index),
            _ => return Ok(None),
        };
        let index = self.funcs[at].upvalue(&self.lex, name, in_register, index)?;
        Ok(Some(Kind::Upvalue(index)))
    }

    // Expressions.

    fn expr(&mut self) -> Result<Expr> {
        self.sub_expr(0).map(|(expr, _)| expr)
    }

    fn unary_operator(&self) -> Option<Unary> {
        match self.lex.token {
            Token::Not => Some(Unary::Not),
            Token::Char(b'-') => Some(Unary::Minus),
            Token::Char(b'#') => Some(Unary::Length),
            _ => None,
        }
    }

    /// The binary operator at hand, with its priorities to the left and to the right.
    fn binary_operator(&self) -> Option<(Binary, u8, u8)> {
        Some(match self.lex.token {
            Token::Char(b'+') => (Binary::Arithmetic(Arithmetic::Add), 6, 6),
            Token::Char(b'-') => (Binary::Arithmetic(Arithmetic::Sub), 6, 6),
            Token::Char(b'*') => (Binary::Arithmetic(Arithmetic::Mul), 7, 7),
            Token::Char(b'/') => (Binary::Arithmetic(Arithmetic::Div), 7, 7),
            Token::Char(b'%') => (Binary::Arithmetic(Arithmetic::Mod), 7, 7),
            Token::Char(b'^') => (Binary::Arithmetic(Arithmetic::Pow), 10, 9),
            Token::Concat => (Binary::Concat, 5, 4),
            Token::NotEqual => (Binary::Equal(false), 3, 3),
            Token::Equal => (Binary::Equal(true), 3, 3),
            Token::Char(b'<') => (Binary::Order { strict: true, swap: false }, 3, 3),
            Token::LessEqual => (Binary::Order { strict: false, swap: false }, 3, 3),
            Token::Char(b'>') => (Binary::Order { strict: true, swap: true }, 3, 3),
            Token::GreaterEqual => (Binary::Order { strict: false, swap: true }, 3, 3),
            Token::And => (Binary::And, 2, 2),
            Token::Or => (Binary::Or, 1, 1),
            _ => return None,
        })
    }

    /// An expression of operators that bind more strongly than `limit`, and the operator behind it.
    fn sub_expr(&mut self, limit: u8) -> Result<(Expr, Option<(Binary, u8, u8)>)> {
        self.enter()?;
        let mut expr = match self.unary_operator() {
            Some(op) => {
                self.lex.advance()?;
                let (mut operand, _) = self.sub_expr(UNARY_PRIORITY)?;
                func!(self, prefix, op, &mut operand)?;
                operand
            }
            None => self.simple_expr()?,
        };
        let mut next = self.binary_operator();
        while let Some((op, left, right)) = next
            && left > limit
        {
            self.lex.advance()?;
            func!(self, infix, op, &mut expr)?;
            let (mut second, behind) = self.sub_expr(right)?;
            func!(self, postfix, op, &mut expr, &mut second)?;
            next = behind;
        }
        self.leave();
        Ok((expr, next))
    }

    fn simple_expr(&mut self) -> Result<Expr> {
        let kind = match &self.lex.token {
            Token::Number(number) => Kind::Number(*number),
            Token::Text(text) => {
                let text = text.clone();
                Kind::Text(self.func().text_constant(&text))
            }
            Token::Nil => Kind::Nil,
            Token::True => Kind::True,
            Token::False => Kind::False,
            Token::Dots => {
                if !self.func().proto.is_vararg {
                    return Err(self.lex.syntax_error("cannot use '...' outside a vararg function"));
                }
                self.func().proto.wants_arg = false;
                Kind::VarArg(emit!(self, Op::VarArg, 0, 1, 0, 0))
            }
            Token::Char(b'{') => return self.constructor(),
            Token::Function => {
                self.lex.advance()?;
                let line = self.lex.line;
                return self.body(false, line);
            }
            _ => return self.primary_expr(),
        };
        self.lex.advance()?;
        Ok(Expr::new(kind))
    }

    fn prefix_expr(&mut self) -> Result<Expr> {
        match &self.lex.token {
            Token::Char(b'(') => {
                let line = self.lex.line;
                self.lex.advance()?;
                let mut expr = self.expr()?;
                self.expect_match(&Token::Char(b')'), &Token::Char(b'('), line)?;
                func!(self, discharge, &mut expr);
                Ok(expr)
            }
            Token::Name(_) => self.variable(),
            _ => Err(self.lex.syntax_error("unexpected symbol")),
        }
    }

    fn primary_expr(&mut self) -> Result<Expr> {
        let mut expr = self.prefix_expr()?;
        loop {
            match &self.lex.token {
                Token::Char(b'.') => self.field(&mut expr)?,
                Token::Char(b'[') => {
                    func!(self, to_any_register, &mut expr)?;
                    let mut key = self.bracket_key()?;
                    func!(self, index, &mut expr, &mut key)?;
                }
                Token::Char(b':') => {
                    self.lex.advance()?;
                    let name = self.name()?;
                    let name = self.func().text_constant(&name);
                    func!(self, method, &mut expr, name)?;
                    self.call_args(&mut expr)?;
                }
                Token::Char(b'(' | b'{') | Token::Text(_) => {
                    func!(self, to_next_register, &mut expr)?;
                    self.call_args(&mut expr)?;
                }
                _ => return Ok(expr),
            }
        }
    }

    fn field(&mut self, expr: &mut Expr) -> Result<()> {
        func!(self, to_any_register, expr)?;
        self.lex.advance()?;
        let name = self.name()?;
        let mut key = Expr::new(Kind::Text(self.func().text_constant(&name)));
        func!(self, index, expr, &mut key)
    }

    fn bracket_key(&mut self) -> Result<Expr> {
        self.lex.advance()?;
        let mut key = self.expr()?;
        func!(self, to_value, &mut key)?;
        self.expect(&Token::Char(b']'))?;
        Ok(key)
    }

    fn call_args(&mut self, function: &mut Expr) -> Result<()> {
        let line = self.lex.line;
        let mut args = match &self.lex.token {
            Token::Char(b'(') => {
                if line != self.lex.last_line {
                    return Err(self.lex.syntax_error("ambiguous syntax (function call x new statement)"));
                }
                self.lex.advance()?;
                let args = if self.is(b')') { Expr::new(Kind::Void) } else { self.expr_list()?.0 };
                if matches!(args.kind, Kind::Call(_) | Kind::VarArg(_)) {
                    func!(self, set_results, &args, -1)?;
                }
                self.expect_match(&Token::Char(b')'), &Token::Char(b'('), line)?;
                args
            }
            Token::Char(b'{') => self.constructor()?,
            Token::Text(text) => {
                let text = text.clone();
                let index = self.func().text_constant(&text);
                self.lex.advance()?;
                Expr::new(Kind::Text(index))
            }
            _ => return Err(self.lex.syntax_error("function arguments expected")),
        };
        let Kind::Fixed(base) = function.kind else { return Err(self.lex.syntax_error("unexpected symbol")) };
        let count = if matches!(args.kind, Kind::Call(_) | Kind::VarArg(_)) {
            0
        } else {
            if args.kind != Kind::Void {
                func!(self, to_next_register, &mut args)?;
            }
            self.func().free - u32::from(base)
        };
        *function = Expr::new(Kind::Call(emit!(self, Op::Call, base, count as u8, 2, 0)));
        let func = self.func();
        func.fix_line(line);
        func.free = u32::from(base) + 1;
        Ok(())
    }

    /// Expressions between commas: all but the last in registers. The last, and how many there are.
    fn expr_list(&mut self) -> Result<(Expr, i32)> {
        let mut count = 1;
        let mut expr = self.expr()?;
        while self.accept(&Token::Char(b','))? {
            func!(self, to_next_register, &mut expr)?;
            expr = self.expr()?;
            count += 1;
        }
        Ok((expr, count))
    }

    // Table constructors.

    fn constructor(&mut self) -> Result<Expr> {
        let line = self.lex.line;
        let pc = emit!(self, Op::NewTable, 0, 0, 0, 0);
        let mut expr = Expr::new(Kind::Open(pc));
        func!(self, to_next_register, &mut expr)?;
        let Kind::Fixed(table) = expr.kind else { return Ok(expr) };
        let mut state = Constructor { table, pc, pending: 0, stored: 0, hashed: 0 };
        let mut item = Expr::new(Kind::Void);
        self.expect(&Token::Char(b'{'))?;
        while !self.is(b'}') {
            self.close_item(&mut state, &mut item)?;
            let is_record = match &self.lex.token {
                Token::Name(_) => *self.lex.peek()? == Token::Char(b'='),
                token => *token == Token::Char(b'['),
            };
            if is_record {
                self.record(&mut state)?;
            } else {
                item = self.expr()?;
                state.pending += 1;
            }
            if !self.accept(&Token::Char(b','))? && !self.accept(&Token::Char(b';'))? {
                break;
            }
        }
        self.expect_match(&Token::Char(b'}'), &Token::Char(b'{'), line)?;
        self.last_item(&mut state, &mut item)?;
        let instr = self.func().at(state.pc);
        instr.b = floating_byte(state.stored);
        instr.c = floating_byte(state.hashed);
        Ok(expr)
    }

    fn record(&mut self, state: &mut Constructor) -> Result<()> {
        let free = self.func().free;
        let mut key = if let Token::Name(_) = self.lex.token {
            let name = self.name()?;
            Expr::new(Kind::Text(self.func().text_constant(&name)))
        } else {
            self.bracket_key()?
        };
        state.hashed += 1;
        self.expect(&Token::Char(b'='))?;
        let mut target = Expr::new(Kind::Fixed(state.table));
        func!(self, index, &mut target, &mut key)?;
        let mut value = self.expr()?;
        func!(self, store, &target, &mut value)?;
        self.func().free = free;
        Ok(())
    }

    fn close_item(&mut self, state: &mut Constructor, item: &mut Expr) -> Result<()> {
        if item.kind == Kind::Void {
            return Ok(());
        }
        func!(self, to_next_register, item)?;
        item.kind = Kind::Void;
        if state.pending as usize == LIST_BATCH {
            self.store_items(state, state.pending as u8);
        }
        Ok(())
    }

    fn last_item(&mut self, state: &mut Constructor, item: &mut Expr) -> Result<()> {
        if state.pending == 0 {
            return Ok(());
        }
        if matches!(item.kind, Kind::Call(_) | Kind::VarArg(_)) {
            func!(self, set_results, item, -1)?;
            self.store_items(state, 0);
            state.stored -= 1;
            return Ok(());
        }
        if item.kind != Kind::Void {
            func!(self, to_next_register, item)?;
        }
        self.store_items(state, state.pending as u8);
        Ok(())
    }

    /// Stores the items that lie in registers, `count` of them or as many as there are.
    fn store_items(&mut self, state: &mut Constructor, count: u8) {
        let batch = state.stored / LIST_BATCH as u32 + 1;
        state.stored += state.pending;
        state.pending = 0;
        emit!(self, Op::SetList, state.table, count, 0, batch);
        self.func().free = u32::from(state.table) + 1;
    }

    // Functions.

    fn body(&mut self, is_method: bool, line: u32) -> Result<Expr> {
        let func = Func::new(self.lex.chunk.clone(), line);
        self.funcs.push(func);
        self.expect(&Token::Char(b'('))?;
        if is_method {
            self.activate_named(&["self"])?;
        }
        self.params()?;
        self.expect(&Token::Char(b')'))?;
        self.chunk()?;
        self.expect_match(&Token::End, &Token::Function, line)?;
        let proto = self.close_func()?;
        self.func().proto.protos.push(Arc::new(proto));
        let index = self.func().proto.protos.len() as u32 - 1;
        Ok(Expr::new(Kind::Open(emit!(self, Op::Closure, 0, 0, 0, index))))
    }

    fn params(&mut self) -> Result<()> {
        let mut locals = Vec::new();
        while !self.is(b')') {
            if self.accept(&Token::Dots)? {
                locals.push(self.new_local(&b"arg"[..].into(), locals.len())?);
                let proto = &mut self.func().proto;
                proto.wants_arg = true;
                proto.is_vararg = true;
            } else if let Token::Name(_) = self.lex.token {
                let name = self.name()?;
                locals.push(self.new_local(&name, locals.len())?);
            } else {
                return Err(self.lex.syntax_error("<name> or '...' expected"));
            }
            if self.func().proto.is_vararg || !self.accept(&Token::Char(b','))? {
                break;
            }
        }
        self.activate(&locals);
        let func = self.func();
        let extra = usize::from(func.proto.is_vararg);
        func.proto.params = (func.active.len() - extra) as u8;
        let count = func.active.len() as u32;
        func!(self, reserve, count)
    }

    // Statements.

    /// A statement; true when it has to be the last of its block.
    fn statement(&mut self) -> Result<bool> {
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

    /// The rest of an assignment behind its first targets.
    fn assignment(&mut self, targets: Vec<Expr>) -> Result<()> {
        let mut targets = targets;
        self.check_target(&targets)?;
        while self.accept(&Token::Char(b','))? {
            let next = self.primary_expr()?;
            targets.push(next);
            if let Kind::Local(register) = next.kind {
                self.resolve_conflict(&mut targets, register)?;
            }
            if targets.len() > LEVELS_MAX - self.levels {
                let at = self.funcs.len() - 1;
                let limit = LEVELS_MAX - self.levels;
                return Err(self.funcs[at].limit_error(&self.lex, limit, "variables in assignment"));
            }
            self.check_target(&targets)?;
        }
        self.expect(&Token::Char(b'='))?;
        let (mut value, count) = self.expr_list()?;
        if count == targets.len() as i32 {
            // The last value goes to the last target directly.
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

    /// A local that is assigned to while an earlier target indexes by it is copied for that target.
    fn resolve_conflict(&mut self, targets: &mut [Expr], register: u8) -> Result<()> {
        let copy = self.func().free as u8;
        let mut is_used = false;
        for target in targets {
            if let Kind::Indexed(table, key) = &mut target.kind {
                if *table == register {
                    is_used = true;
                    *table = copy;
                }
                if *key == Key::Register(register) {
                    is_used = true;
                    *key = Key::Register(copy);
                }
            }
        }
        if is_used {
            emit!(self, Op::Move, copy, register, 0, 0);
            func!(self, reserve, 1)?;
        }
        Ok(())
    }

    /// Makes `count` expressions, of which the last is `last`, as many as there are variables.
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
            func!(self, to_next_register, last)?;
        }
        if extra > 0 {
            let register = self.func().free as u8;
            func!(self, reserve, extra as u32)?;
            func!(self, emit_nil, register, extra as u32);
        }
        Ok(())
    }

    /// A condition: the jumps to take when it is false.
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
            func!(self, to_next_register, &mut one)?;
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
        func!(self, to_next_register, &mut expr)
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
        // Only from here on can the name be shown.
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
            let register = func!(self, to_any_register, &mut expr)?;
            func!(self, emit_return, register, 1);
        } else {
            func!(self, to_next_register, &mut expr)?;
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
