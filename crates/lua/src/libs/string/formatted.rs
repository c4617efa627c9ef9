//! The function `string.format`.

use crate::fault::Fault;
use crate::native::{Ctx, NativeStep, State};
use crate::text::format::{
    Conversion, DirectiveError, WHOLE_TEXT_MIN, is_written_whole, push_byte, push_float, push_quoted_inside,
    push_signed, push_text, push_unsigned, scan,
};
use crate::value::StrRef;

use super::super::output::{CHUNK, cost, reserve};

/// Maximum number of bytes that a directive other than `%q` and `%s` writes.
const DIRECTIVE_MAX: usize = 512;

/// The state of a format between two steps.
struct Formatting {
    out: Vec<u8>,
    /// The index of the next byte of the format.
    at: usize,
    /// The index of the last used argument.
    argument: usize,
    /// Set while a `%q`, or a `%s` with a long string, is being written: the form of the string, and the
    /// number of its bytes that were written.
    under_way: Option<(TextForm, usize)>,
}

/// The form of a string that is written in several steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextForm {
    Quoted,
    Plain,
}

impl From<DirectiveError> for Fault {
    fn from(error: DirectiveError) -> Fault {
        Fault::text(error.text())
    }
}

pub(super) fn format(ctx: &mut Ctx<'_>) -> Result<NativeStep, Fault> {
    let format = ctx.check_str(1)?;
    if ctx.heap.bytes(format) == b"%s" && ctx.heap.strings.bytes_of(ctx.arg(2)) >= WHOLE_TEXT_MIN {
        return ctx.one(ctx.arg(2));
    }
    let mut out = ctx.heap.buffer();
    let len = ctx.heap.bytes(format).len();
    reserve(ctx.heap, &mut out, len + 32)?;
    run(ctx, Formatting { out, at: 0, argument: 1, under_way: None })
}

pub(super) fn format_on(ctx: &mut Ctx<'_>, state: State) -> Result<NativeStep, Fault> {
    let Ok(state) = state.downcast::<Formatting>() else { return Ok(NativeStep::Return(0)) };
    run(ctx, *state)
}

fn run(ctx: &mut Ctx<'_>, mut state: Formatting) -> Result<NativeStep, Fault> {
    let format = ctx.check_str(1)?;
    loop {
        if let Some((form, from)) = state.under_way {
            write_part(ctx, &mut state, form, from)?;
        } else {
            let rest = &ctx.heap.bytes(format)[state.at..];
            if rest.is_empty() {
                let value = ctx.heap.finish_buffer(state.out)?;
                return ctx.one(value);
            }
            let literal = rest[..rest.len().min(CHUNK)].iter().position(|&byte| byte == b'%');
            let literal = literal.unwrap_or(rest.len().min(CHUNK));
            if literal >= 32 {
                ctx.charge(cost(literal));
            }
            if literal > 0 {
                reserve(ctx.heap, &mut state.out, literal)?;
                state.out.extend_from_slice(&ctx.heap.bytes(format)[state.at..state.at + literal]);
                state.at += literal;
            } else {
                directive(ctx, &mut state, format)?;
            }
        }
        if !ctx.charge(1) {
            return Ok(NativeStep::Pause(Box::new(state)));
        }
    }
}

/// Writes the directive whose percent sign is the next byte.
fn directive(ctx: &mut Ctx<'_>, state: &mut Formatting, format: StrRef) -> Result<(), Fault> {
    let rest = &ctx.heap.bytes(format)[state.at + 1..];
    if rest.first() == Some(&b'%') {
        reserve(ctx.heap, &mut state.out, 1)?;
        state.out.push(b'%');
        state.at += 2;
        return Ok(());
    }
    state.argument += 1;
    let index = state.argument;
    if index > ctx.count() {
        return Err(Fault::argument(index, "no value"));
    }
    let directive = scan(rest)?;
    state.at += 1 + directive.len;
    let layout = &directive.layout;
    reserve(ctx.heap, &mut state.out, DIRECTIVE_MAX.min(64))?;
    match directive.conversion {
        Conversion::Byte => push_byte(&mut state.out, layout, ctx.check_number(index)?),
        Conversion::Signed => push_signed(&mut state.out, layout, ctx.check_number(index)?),
        Conversion::Unsigned(radix) => push_unsigned(&mut state.out, layout, radix, ctx.check_number(index)?),
        Conversion::Float(letter) => {
            let number = ctx.check_number(index)?;
            reserve(ctx.heap, &mut state.out, DIRECTIVE_MAX)?;
            // The written bytes are charged, because the exact value may have hundreds of digits.
            let before = state.out.len();
            push_float(&mut state.out, layout, letter, number);
            ctx.charge((state.out.len() - before) as u64 / 8 + 2);
        }
        Conversion::Quoted => {
            ctx.check_str(index)?;
            state.out.push(b'"');
            state.under_way = Some((TextForm::Quoted, 0));
        }
        Conversion::Text => {
            let string = ctx.check_str(index)?;
            let len = ctx.heap.bytes(string).len();
            reserve(ctx.heap, &mut state.out, len.max(DIRECTIVE_MAX.min(100)))?;
            if len > CHUNK && is_written_whole(layout, len) {
                // A long string is written in several steps; it needs neither cutting nor padding.
                state.under_way = Some((TextForm::Plain, 0));
                return Ok(());
            }
            push_text(&mut state.out, layout, ctx.heap.bytes(string));
            ctx.charge(cost(len));
        }
    }
    Ok(())
}

/// Writes a part of a string, from position `from` on.
fn write_part(ctx: &mut Ctx<'_>, state: &mut Formatting, form: TextForm, from: usize) -> Result<(), Fault> {
    let string = ctx.check_str(state.argument)?;
    let end = ctx.heap.bytes(string).len().min(from + CHUNK);
    let widest = if form == TextForm::Quoted { 4 } else { 1 };
    reserve(ctx.heap, &mut state.out, (end - from) * widest + usize::from(form == TextForm::Quoted))?;
    let text = ctx.heap.bytes(string);
    match form {
        TextForm::Quoted => push_quoted_inside(&mut state.out, &text[from..end]),
        TextForm::Plain => state.out.extend_from_slice(&text[from..end]),
    }
    state.under_way = Some((form, end));
    if end == text.len() {
        if form == TextForm::Quoted {
            state.out.push(b'"');
        }
        state.under_way = None;
    }
    ctx.charge(cost(end - from));
    Ok(())
}
