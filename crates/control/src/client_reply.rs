//! Replies that are dropped instead of sent.

use crate::Control;
use crate::process::Process;
use sluice_base::LogLevel;
use sluice_commands::ReplyMode;
use sluice_resp::Mark;
use sluice_session::{Closing, Session};

impl Control {
    /// Applies CLIENT REPLY to the reply since `mark`. A replica whose command has produced a reply is
    /// closed, because no reply may be sent to a replica.
    #[cold]
    pub fn apply_reply_mode(&mut self, session: &mut Session, mark: Mark, process: &mut dyn Process) {
        match session.caller.reply {
            ReplyMode::On | ReplyMode::SkipNext | ReplyMode::Attaching => {}
            ReplyMode::Off => session.outbox.rewind(mark),
            ReplyMode::Skipping => {
                session.outbox.rewind(mark);
                session.caller.reply = ReplyMode::On;
            }
            ReplyMode::Forbidden if session.outbox.len_since(mark) == 0 => {}
            ReplyMode::Forbidden => {
                session.outbox.rewind(mark);
                session.caller.closing = Closing::Now;
                self.clients.to_close.push(session.key);
                let command = session.caller.last_command.map_or("<unknown>", |spec| spec.full_name);
                let mut text =
                    format!("Replica generated a reply to command '{command}', disconnecting it: ");
                session.push_line(process.recent().unix_s(), self.clients.line_sources(), None, &mut text);
                process.log(LogLevel::Warning, &text);
            }
        }
    }
}
