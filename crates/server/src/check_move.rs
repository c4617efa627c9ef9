//! The server's part of `--check-move`: the connection to the server that is looked at. What is asked and
//! judged is the crate `moving`.

mod connection;

use connection::MoveConnection;
use sluice_moving::{MovePlan, Peer};
use sluice_tls::Context;

/// The exit status where nothing could be judged.
pub const NOT_JUDGED: u8 = 3;

/// Asks and judges: the text for standard output and the exit status. `Err` is why nothing could be judged.
///
/// # Errors
/// No connection, no right to ask, or replies that are none.
pub fn run(plan: &MovePlan, tls: Option<Context>) -> Result<(String, u8), String> {
    let mut open = |host: &str, port| -> Result<Box<dyn Peer>, String> {
        Ok(Box::new(MoveConnection::open(host, port, plan.timeout(), tls.clone())?))
    };
    let mut connection = open(plan.host(), plan.port())?;
    sluice_moving::run(connection.as_mut(), &mut open, plan, crate::cli::VERSION)
        .map_err(|broken| broken.text(&plan.target()))
}
