//! `--check-move`: what of a running server's use is missing here, asked over its own protocol.
//!
//! ```text
//!  arguments ──► a Peer ──► ask ──► facts ──► judge ──► report
//!                (the       (commands)
//!                process's)
//! ```
//!
//! Invariants: (1) the other server is only read, and no command that is sent blocks it: `ask.rs` lists them;
//! (2) replies are a stranger's bytes: the [`Peer`] bounds their size, number of values, depth and time; (3)
//! no password, no digest of one, no value of a secret directive, no key and no value of data is printed: the
//! facts do not hold them, but for payloads of DUMP, which are judged and dropped; (4) what is printed is
//! ASCII of one line each, whatever the server says: `shown.rs`.

mod arguments;
mod ask;
mod facts;
mod finding;
mod judge;
mod peer;
mod replies;
mod report;
mod shown;

pub use arguments::{CHECK_MOVE, MovePlan, shown_target};
pub use peer::{NoAnswer, OpenPeer, Peer};
use report::MoveReport;

/// Asks and judges: the text for standard output and the exit status. `open` connects to the other nodes of a
/// cluster; `version` is that of the server that would take the place.
///
/// # Errors
/// No right to ask, or replies that are none.
pub fn run(
    peer: &mut dyn Peer,
    open: &mut OpenPeer<'_>,
    plan: &MovePlan,
    version: &str,
) -> Result<(String, u8), NoAnswer> {
    let facts = ask::ask(peer, open, plan)?;
    let report = MoveReport::new(plan.target(), version, judge::judge(&facts));
    let text = if plan.is_json() { report.json() } else { report.text() };
    Ok((text, report.status()))
}
