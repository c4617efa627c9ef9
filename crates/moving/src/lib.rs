//! `--check-move`: asks a running server, over its own protocol, which features it uses, and reports which of
//! them are missing here.
//!
//! ```text
//!  arguments ──► a Peer ──► ask ──► facts ──► judge ──► report
//!                (the       (commands)
//!                process's)
//! ```
//!
//! Invariants: (1) the other server is only read, and no command that is sent blocks it (`ask.rs` lists the
//! commands); (2) replies are untrusted: the [`Peer`] bounds their size, number of values, depth and time;
//! (3) no password, no digest of a password, no value of a secret directive, no key and no value of a key is
//! printed: the facts do not hold them, except payloads of DUMP, which are judged and dropped; (4) the output
//! is ASCII with one line for each finding, whatever the server answers (`shown.rs`).

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

/// Asks the server and judges the answers; returns the text for standard output and the exit status. `open`
/// connects to the other nodes of a cluster; `version` is that of Sluice, for the report.
///
/// # Errors
/// The peer refuses the user or every command, does not answer, or does not reply in the protocol.
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
