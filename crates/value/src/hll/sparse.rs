//! The sparse registers: run-length operations, and raising one register.

use super::registers::{Corrupt, HEADER_BYTES, REGISTERS, RegisterMark, Registers};
use std::fmt::Write;

/// The result of raising a register.
pub(super) enum Raised {
    /// The register has the new value.
    Yes,
    /// The register has that value or a greater one already.
    No,
    /// The sparse form cannot hold the value; the string is unchanged.
    TooLarge,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SparseOp {
    /// A run of zeros, in one byte.
    Zeros(usize),
    /// A run of zeros, in two bytes.
    ManyZeros(usize),
    /// A run of registers with one value.
    Values(u8, usize),
}

impl SparseOp {
    /// The operation at the beginning of `bytes`. A missing second byte counts as zero.
    fn read(bytes: &[u8]) -> Option<SparseOp> {
        let first = *bytes.first()?;
        Some(match first >> 6 {
            0 => SparseOp::Zeros(usize::from(first & 63) + 1),
            1 => {
                let low = bytes.get(1).copied().unwrap_or(0);
                SparseOp::ManyZeros((usize::from(first & 63) << 8 | usize::from(low)) + 1)
            }
            _ => SparseOp::Values((first >> 2 & 31) + 1, usize::from(first & 3) + 1),
        })
    }

    /// Bytes of the operation, 1 or 2.
    fn len(self) -> usize {
        match self {
            SparseOp::Zeros(_) | SparseOp::Values(..) => 1,
            SparseOp::ManyZeros(_) => 2,
        }
    }

    /// Number of registers that the operation covers.
    fn run(self) -> usize {
        match self {
            SparseOp::Zeros(run) | SparseOp::ManyZeros(run) | SparseOp::Values(_, run) => run,
        }
    }

    /// The value of the covered registers.
    fn value(self) -> u8 {
        match self {
            SparseOp::Zeros(_) | SparseOp::ManyZeros(_) => 0,
            SparseOp::Values(value, _) => value,
        }
    }
}

/// Maximum number of zeros that an operation of one byte covers.
const ZEROS_MAX: usize = 64;
/// Maximum number of registers of one nonzero value that an operation covers.
const VALUES_MAX: usize = 4;
/// The largest value that an operation can express.
const VALUE_MAX: u8 = 32;
/// Number of operations, around a change, that are examined for joining neighbours.
const JOINED: usize = 5;

/// Appends the operation for `run` zeros, if there are any.
pub(super) fn push_zeros(bytes: &mut Vec<u8>, run: usize) {
    debug_assert!(run <= REGISTERS);
    match run {
        0 => {}
        1..=ZEROS_MAX => bytes.push((run - 1) as u8),
        _ => bytes.extend([0x40 | ((run - 1) >> 8) as u8, (run - 1) as u8]),
    }
}

/// Appends the operation for `run` registers of a value, if there are any.
fn push_values(bytes: &mut Vec<u8>, value: u8, run: usize) {
    debug_assert!(run <= VALUES_MAX);
    if run > 0 {
        bytes.push(values(value, run));
    }
}

fn values(value: u8, run: usize) -> u8 {
    0x80 | (value - 1) << 2 | (run - 1) as u8
}

/// Appends an operation for `run` registers that another operation covered before it was split.
fn push_rest(bytes: &mut Vec<u8>, value: u8, run: usize) {
    if value == 0 { push_zeros(bytes, run) } else { push_values(bytes, value, run) }
}

/// Raises each of `registers` to the value in the operations.
pub(super) fn merge(mut ops: &[u8], registers: &mut Registers) -> Result<(), Corrupt> {
    let mut at = 0;
    while let Some(op) = SparseOp::read(ops) {
        let run = registers.get_mut(at..at + op.run()).ok_or(Corrupt)?;
        if op.value() > 0 {
            run.iter_mut().for_each(|register| *register = (*register).max(op.value()));
        }
        at += op.run();
        ops = ops.get(op.len()..).unwrap_or_default();
    }
    if at == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// The operation that a register belongs to.
struct OpPosition {
    op: SparseOp,
    /// Offset of the operation in the string.
    at: usize,
    /// Offset of the previous operation, if there is one.
    before: Option<usize>,
    /// The first register that the operation covers.
    first: usize,
}

fn find(bytes: &[u8], register: usize) -> Option<OpPosition> {
    let (mut at, mut before, mut first) = (HEADER_BYTES, None, 0);
    loop {
        let op = SparseOp::read(bytes.get(at..)?)?;
        if register < first + op.run() {
            return Some(OpPosition { op, at, before, first });
        }
        before = Some(at);
        at += op.len();
        first += op.run();
    }
}

/// Raises one register of the string `bytes`. The string does not grow beyond `bytes_max` bytes.
pub(super) fn raise(bytes: &mut Vec<u8>, mark: RegisterMark, bytes_max: usize) -> Result<Raised, Corrupt> {
    if mark.value > VALUE_MAX {
        return Ok(Raised::TooLarge);
    }
    let OpPosition { op, at, before, first } = find(bytes, mark.register).ok_or(Corrupt)?;
    let value = op.value();
    if value >= mark.value {
        return Ok(Raised::No);
    }
    // An operation of one byte for one register is overwritten.
    if op.run() == 1 && op.len() == 1 {
        bytes[at] = values(mark.value, 1);
    } else {
        // The operation is split into three: for the registers before this one, for this one, and for those
        // after it. The three operations take at most five bytes.
        let mut made = Vec::with_capacity(5);
        push_rest(&mut made, value, mark.register - first);
        push_values(&mut made, mark.value, 1);
        push_rest(&mut made, value, first + op.run() - 1 - mark.register);
        let end = (at + op.len()).min(bytes.len());
        let grows = made.len() > op.len();
        if grows && bytes.len() + made.len() - op.len() > bytes_max {
            return Ok(Raised::TooLarge);
        }
        bytes.splice(at..end, made);
    }
    join(bytes, before.unwrap_or(HEADER_BYTES));
    Ok(Raised::Yes)
}

/// Joins neighbouring runs of an equal nonzero value. Examines only the next few operations from `at` on,
/// because a change touches no others.
fn join(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..JOINED {
        let Some(op) = bytes.get(at..).and_then(SparseOp::read) else { return };
        let next = bytes.get(at + op.len()..).and_then(SparseOp::read);
        match (op, next) {
            (SparseOp::Values(value, run), Some(SparseOp::Values(other, more)))
                if value == other && run + more <= VALUES_MAX =>
            {
                bytes[at + 1] = values(value, run + more);
                bytes.remove(at);
            }
            (op, _) => at += op.len(),
        }
    }
}

/// The operations in the format of PFDEBUG DECODE.
pub(super) fn text(mut ops: &[u8]) -> String {
    let mut text = String::new();
    while let Some(op) = SparseOp::read(ops) {
        let separator = if text.is_empty() { "" } else { " " };
        let written = match op {
            SparseOp::Zeros(run) => write!(text, "{separator}z:{run}"),
            SparseOp::ManyZeros(run) => write!(text, "{separator}Z:{run}"),
            SparseOp::Values(value, run) => write!(text, "{separator}v:{value},{run}"),
        };
        debug_assert!(written.is_ok(), "a string takes any text");
        ops = ops.get(op.len()..).unwrap_or_default();
    }
    text
}
