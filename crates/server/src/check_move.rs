//! `--check-move`: what of a running server's use is missing here, asked over its own protocol.
//!
//! ```text
//!  arguments ──► connect ──► ask ──► facts ──► judge ──► report
//!                (bytes)    (commands)        (pure)
//! ```
//!
//! Invariants: (1) the other server is only read, and no command that is sent blocks it: `ask.rs` lists them;
//! (2) replies are a stranger's bytes: size, number of values, depth and time are bounded; (3) no password,
//! no digest of one, no value of a secret directive, no key and no value of data is printed: the facts do not
//! hold them, but for payloads of DUMP, which are judged and dropped; (4) what is printed is ASCII of one
//! line each, whatever the server says: `shown.rs`.

mod arguments;
mod ask;
mod connect;
mod facts;
mod finding;
mod judge;
mod report;
mod shown;

pub use arguments::MovePlan;

use connect::MoveConnection;
use report::MoveReport;
use sluice_tls::Context;

/// The exit status where nothing could be judged.
pub const NOT_JUDGED: u8 = 3;

/// Asks and judges: the text for standard output and the exit status. `Err` is why nothing could be judged.
///
/// # Errors
/// No connection, no right to ask, or replies that are none.
pub fn run(plan: &MovePlan, tls: Option<Context>) -> Result<(String, u8), String> {
    let mut connection = MoveConnection::open(plan, tls)?;
    let facts = ask::ask(&mut connection, plan).map_err(|broken| broken.text(&plan.target()))?;
    let report = MoveReport::new(plan.target(), judge::judge(&facts));
    let text = if plan.is_json() { report.json() } else { report.text() };
    Ok((text, report.status()))
}
