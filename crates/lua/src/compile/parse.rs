//! The parser: reads the tokens of a chunk, and emits the instructions of its functions in one pass.

use std::sync::Arc;

use super::emit::operators::{Arithmetic, Binary, Unary};
use super::emit::{Expr, Func, Kind, LOCALS_IN_ALL_MAX, LOCALS_MAX, NO_JUMP, Scope};
use super::lex::{Lexer, SyntaxError, Token, describe};
use crate::code::{ChunkName, LIST_BATCH, Op, Proto};

/// The deepest nesting of the grammar.
const LEVELS_MAX: usize = 200;

/// The levels that the reference has already used when it begins to compile.
const LEVELS_BEFORE: usize = 1;

/// The priority of unary operators.
const UNARY_PRIORITY: u8 = 8;

type Result<T> = std::result::Result<T, SyntaxError>;

/// Compiles a chunk; the errors are syntax errors with their position.
pub(super) fn parse(source: &[u8], chunk: Arc<ChunkName>) -> Result<Proto> {
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

/// A table constructor that is being parsed.
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

mod statements;

impl Parser<'_> {
    fn func(&mut self) -> &mut Func {
        let at = self.funcs.len() - 1;
        &mut self.funcs[at]
    }

    // Tokens.

    fn is(&self, byte: u8) -> bool {
        self.lex.token == Token::Char(byte)
    }

    /// Consumes a token if it is the current one; returns whether it is.
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

    /// Consumes the token that closes the construct begun on `line` with `open`.
    fn expect_match(&mut self, close: &Token, open: &Token, line: u32) -> Result<()> {
        self.check_jumps()?;
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
        self.check_jumps()?;
        self.func().end_locals(0);
        match self.funcs.pop() {
            Some(func) => Ok(func.finish()),
            None => Err(self.lex.plain_error("no function to end")),
        }
    }

    /// # Errors
    /// A jump of the function is too long.
    fn check_jumps(&mut self) -> Result<()> {
        match self.func().is_too_long {
            true => Err(self.lex.syntax_error("control structure too long")),
            false => Ok(()),
        }
    }

    fn open_block(&mut self, is_loop: bool) {
        let func = self.func();
        let locals = func.active.len();
        func.blocks.push(Scope { breaks: NO_JUMP, locals, has_upvalue: false, is_loop });
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
            self.check_jumps()?;
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
        if self.func().proto.locals.len() >= LOCALS_IN_ALL_MAX {
            // In PUC this error comes from the memory allocator, so it has no position.
            return Err(b"too many local variables".to_vec());
        }
        Ok(self.func().declare(name))
    }

    /// Makes the local variables visible from here on.
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

    /// Looks up a variable by name in a function and the functions around it.
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

    /// The binary operator at the current token, with its left and right priorities.
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

    /// Parses an expression of operators with a higher priority than `limit`; also returns the
    /// next operator.
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
                    func!(self, put_into_any, &mut expr)?;
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
                    func!(self, put_into_next, &mut expr)?;
                    self.call_args(&mut expr)?;
                }
                _ => return Ok(expr),
            }
        }
    }

    fn field(&mut self, expr: &mut Expr) -> Result<()> {
        func!(self, put_into_any, expr)?;
        self.lex.advance()?;
        let name = self.name()?;
        let mut key = Expr::new(Kind::Text(self.func().text_constant(&name)));
        func!(self, index, expr, &mut key)
    }

    fn bracket_key(&mut self) -> Result<Expr> {
        self.lex.advance()?;
        let mut key = self.expr()?;
        func!(self, make_value, &mut key)?;
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
                func!(self, put_into_next, &mut args)?;
            }
            self.func().free - u32::from(base)
        };
        *function = Expr::new(Kind::Call(emit!(self, Op::Call, base, count as u8, 2, 0)));
        let func = self.func();
        func.fix_line(line);
        func.free = u32::from(base) + 1;
        Ok(())
    }

    /// Parses expressions separated by commas; all but the last go into registers. Returns the last
    /// expression, and the number of expressions.
    fn expr_list(&mut self) -> Result<(Expr, i32)> {
        let mut count = 1;
        let mut expr = self.expr()?;
        while self.accept(&Token::Char(b','))? {
            func!(self, put_into_next, &mut expr)?;
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
        func!(self, put_into_next, &mut expr)?;
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
        func!(self, put_into_next, item)?;
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
            func!(self, put_into_next, item)?;
        }
        self.store_items(state, state.pending as u8);
        Ok(())
    }

    /// Stores the items that are in registers: `count` of them, or all up to the top.
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
        let mut more = !self.is(b')');
        while more {
            if self.accept(&Token::Dots)? {
                locals.push(self.new_local(&b"arg"[..].into(), locals.len())?);
                let proto = &mut self.func().proto;
                proto.wants_arg = true;
                proto.is_vararg = true;
                break;
            }
            let Token::Name(_) = self.lex.token else {
                return Err(self.lex.syntax_error("<name> or '...' expected"));
            };
            let name = self.name()?;
            locals.push(self.new_local(&name, locals.len())?);
            more = self.accept(&Token::Char(b','))?;
        }
        self.activate(&locals);
        let func = self.func();
        let extra = usize::from(func.proto.is_vararg);
        func.proto.params = (func.active.len() - extra) as u8;
        let count = func.active.len() as u32;
        func!(self, reserve, count)
    }
}
