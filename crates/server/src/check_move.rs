//! The server's part of `--check-move`: the connection to the examined server. The crate `moving` decides
//! what is asked and what the answers mean.

mod connection;

use connection::MoveConnection;
use sluice_moving::{MovePlan, Peer};
use sluice_tls::Context;

/// The exit status if the server could not be examined.
pub const NOT_JUDGED: u8 = 3;

/// Examines another server. Returns the text for standard output and the exit status; `Err` has the
/// reason why the server could not be examined.
///
/// # Errors
/// The connection fails, a request is refused, or a reply is missing, late, malformed or too large.
pub fn run(plan: &MovePlan, tls: Option<Context>) -> Result<(String, u8), String> {
    let mut open = |host: &str, port| -> Result<Box<dyn Peer>, String> {
        Ok(Box::new(MoveConnection::open(host, port, plan.timeout(), tls.clone())?))
    };
    let mut connection = open(plan.host(), plan.port())?;
    sluice_moving::run(connection.as_mut(), &mut open, plan, crate::cli::VERSION)
        .map_err(|broken| broken.text(&plan.target()))
}
