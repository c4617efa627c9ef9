//! The server's part of `--check-move`: the connection to the server that is looked at. What is asked and
//! judged is the crate `moving`.

mod connection;

use connection::MoveConnection;
use sluice_moving::MovePlan;
use sluice_tls::Context;

/// The exit status where nothing could be judged.
pub const NOT_JUDGED: u8 = 3;

/// Asks and judges: the text for standard output and the exit status. `Err` is why nothing could be judged.
///
/// # Errors
/// No connection, no right to ask, or replies that are none.
pub fn run(plan: &MovePlan, tls: Option<Context>) -> Result<(String, u8), String> {
    let mut connection = MoveConnection::open(plan, tls)?;
    sluice_moving::run(&mut connection, plan, crate::cli::VERSION)
        .map_err(|broken| broken.text(&plan.target()))
}
