//! The connection to the server that is asked, and the reasons that the server gives no answer.

use crate::arguments::MovePlan;
use crate::replies::code_of;
use sluice_resp::Value;

/// A connection to a server that is asked.
pub trait Peer {
    /// Sends requests together, and waits for a reply to each.
    ///
    /// # Errors
    /// The connection cannot be used any more.
    fn ask_all(&mut self, requests: &[Vec<&[u8]>]) -> Result<Vec<Value>, NoAnswer>;

    /// Waits a moment, so that the questions do not load the other server.
    fn pause(&mut self);

    /// Sends one request and waits for the reply.
    ///
    /// # Errors
    /// The errors of [`Peer::ask_all`].
    fn ask(&mut self, words: &[&str]) -> Result<Value, NoAnswer> {
        let words = words.iter().map(|word| word.as_bytes()).collect();
        self.ask_all(&[words])?.pop().ok_or(NoAnswer::NoReply)
    }
}

/// The reason that the peer does not answer, and will not answer later either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The peer has ended the connection.
    Closed,
    /// The peer has not answered in time.
    Timeout,
    /// A reply is missing, or is not in the protocol.
    NoReply,
    /// A reply is larger than the check accepts.
    TooLarge,
    /// The connection failed with this error of the operating system.
    System(String),
    /// The peer refuses even PING, with an error of this code.
    Refused(String),
    /// The peer refuses this user, or with `None` the default user, with an error of this code.
    RefusedUser(Option<String>, String),
    /// The peer wants a password, and the plan has none.
    NoAuth,
}

impl NoAnswer {
    /// A sentence about the peer at `target`.
    pub fn text(&self, target: &str) -> String {
        match self {
            NoAnswer::Closed => {
                format!("{target} has closed the connection: does its port speak TLS (--tls)?")
            }
            NoAnswer::Timeout => format!("{target} does not answer in time (--timeout SECONDS)"),
            NoAnswer::NoReply => format!("{target} does not speak the protocol of Redis and Valkey"),
            NoAnswer::TooLarge => format!("{target} sends more than any server does"),
            NoAnswer::System(reason) => format!("{target}: {reason}"),
            NoAnswer::Refused(code) => format!("{target} refuses: {code}"),
            NoAnswer::RefusedUser(None, code) => format!("{target} refuses this password: {code}"),
            NoAnswer::RefusedUser(Some(user), code) => {
                format!("{target} refuses the user {user} with this password: {code}")
            }
            NoAnswer::NoAuth => format!(
                "{target} requires a password: VALKEYCLI_AUTH, REDISCLI_AUTH or --pass-from-env, and --user NAME"
            ),
        }
    }
}

/// Connects to a server at an address and port, or returns the reason that the connection failed.
pub type OpenPeer<'a> = dyn FnMut(&str, u16) -> Result<Box<dyn Peer>, String> + 'a;

/// Authenticates, and checks that the peer answers.
///
/// # Errors
/// The peer refuses the user or every command, or does not answer.
pub fn enter(peer: &mut dyn Peer, plan: &MovePlan) -> Result<(), NoAnswer> {
    if let Some(auth) = plan.auth() {
        match peer.ask_all(&[auth])?.pop() {
            Some(Value::Error(text)) => return Err(NoAnswer::RefusedUser(plan.user(), code_of(&text))),
            Some(_) => {}
            None => return Err(NoAnswer::NoReply),
        }
    }
    match peer.ask(&["PING"])? {
        Value::Error(text) if text.starts_with(b"NOAUTH") => Err(NoAnswer::NoAuth),
        // These errors do not end the check: a user may have no right to PING, and a server that is loading
        // refuses PING but answers INFO.
        Value::Error(text) if text.starts_with(b"NOPERM") || text.starts_with(b"LOADING") => Ok(()),
        Value::Error(text) => Err(NoAnswer::Refused(code_of(&text))),
        _ => Ok(()),
    }
}
