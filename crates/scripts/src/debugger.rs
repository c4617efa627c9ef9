//! SCRIPT DEBUG SYNC: the state of a debugger session, and the debugger's texts. The engine's
//! part is in `engine/scripting/debugger.rs`.
//!
//! ```text
//!   EVAL of a client with SCRIPT DEBUG SYNC
//!     │ the run stops before its first line; its execution unit stays open
//!     ▼
//!   the client's requests are words for the debugger (`Engine::submit_to_debugger`), answered at once
//!     │ step, continue
//!     ▼
//!   the run goes on, instruction by instruction, until a line stops it again, or it ends: <endsession>, the reply, the end of the connection
//! ```
//!
//! Invariants: (1) the debugger's output is sent before the reply of EVAL, as arrays of simple strings; (2)
//! while a run is stopped, requests of other clients are postponed, and after `busy-reply-threshold` they
//! are answered with BUSY; (3) when the client is gone or the server ends, a stopped run continues without
//! its debugger, or ends if it has written nothing.

mod human;
mod stepping;

use crate::debugger::human::push_human;
use crate::machine::ScriptMachine;
use sluice_commands::Args;
use sluice_lua::{CodePosition, LineWatch};
use sluice_resp::Outbox;

/// Nanoseconds between two checks of a stopped run. A check finds out whether other clients must be
/// answered with BUSY, and whether the run has lost its client.
pub const LOOK_NS: u64 = 100_000_000;
/// The name of the chunk that EVAL runs. The debugger shows only the lines of this chunk.
const CHUNK: &[u8] = b"@user_script";

/// Number of bytes of a line that are shown until `maxlen` changes this number.
const SHOWN_BYTES: usize = 256;
/// The smallest number, except 0, that `maxlen` sets.
const SHOWN_BYTES_MIN: usize = 60;
/// Number of bytes of a value that are shown with `maxlen 0`, and the greatest number that `maxlen` sets.
pub const SHOWN_BYTES_MAX: usize = 1 << 20;
/// Maximum number of breakpoints in a session.
const BREAKPOINTS_MAX: usize = 64;
/// Milliseconds for which a run may continue without a stop if `busy-reply-threshold` is 0.
const THRESHOLD_MS: u64 = 5000;
/// Number of lines before and after the current line that `list` shows.
const CONTEXT: u32 = 5;
/// When more bytes of output than this wait for the client, values and calls are left out until the run
/// stops.
const LOG_BYTES_MAX: usize = 4 << 20;

/// A session of the debugger, for one run of EVAL.
#[derive(Debug)]
pub struct Debugger {
    /// The lines of the script, including a first line with `#!`.
    source: Vec<Vec<u8>>,
    /// Detects the first instruction of each line.
    watch: LineWatch,
    /// Number of the line in which the run is, counted from 1.
    line: u32,
    /// Whether the run stops at the next line.
    steps: bool,
    /// The reason for the next stop, if the reason is neither a step nor a breakpoint.
    reason: Option<&'static str>,
    /// Whether the run is stopped.
    is_stopped: bool,
    /// Whether the run is about to execute the instruction at which it was stopped.
    leaves_line: bool,
    /// When the run last continued, in ns of the monotonic clock.
    went_on_ns: u64,
    /// Whether a command that the client has called runs.
    pub is_calling: bool,
    /// Whether the client ended the run with `abort`.
    is_aborted: bool,
    breakpoints: Vec<u32>,
    /// Maximum number of bytes of a line that are shown; 0 for no limit.
    shown_bytes: usize,
    /// Whether the client has received the hint that long lines are cut off.
    has_told_of_cut: bool,
    /// Output lines that wait to be sent.
    log: Vec<Vec<u8>>,
    log_bytes: usize,
    /// The arguments that are keys, for programs evaluated by the debugger.
    pub keys: Vec<Vec<u8>>,
    /// The other arguments of EVAL, for programs evaluated by the debugger.
    pub argv: Vec<Vec<u8>>,
    /// The machine for programs evaluated by the debugger; `None` before the first program.
    pub aside: Option<Box<ScriptMachine>>,
}

/// The action that a request to the debugger wants from the engine.
#[derive(Debug, PartialEq, Eq)]
pub enum DebugStep {
    /// No action, because the debugger has answered.
    Answered,
    /// Resume the run, which continues or ends.
    GoOn,
    /// Call the command that consists of the request's words after the first word.
    Call,
    /// Evaluate this program in the debugger's own machine.
    Evaluate(Vec<u8>),
    /// Print the value of this variable, or of all local variables if there is no name.
    Print(Option<Vec<u8>>),
    /// Print the functions whose calls have not returned.
    Trace,
}

impl Debugger {
    /// A debugger for EVAL with these arguments; `keys` is the number of keys among the arguments.
    pub fn new(args: Args<'_>, keys: usize) -> Debugger {
        let texts = |range: std::ops::Range<usize>| range.map(|at| args.at(at).to_vec()).collect();
        let mut source: Vec<Vec<u8>> = args.at(1).split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        if source.len() > 1 && source.last().is_some_and(Vec::is_empty) {
            source.pop();
        }
        Debugger {
            source,
            watch: LineWatch::default(),
            line: 0,
            steps: true,
            reason: None,
            is_stopped: false,
            leaves_line: false,
            went_on_ns: 0,
            is_calling: false,
            is_aborted: false,
            breakpoints: Vec::new(),
            shown_bytes: SHOWN_BYTES,
            has_told_of_cut: false,
            log: Vec::new(),
            log_bytes: 0,
            keys: texts(3..3 + keys),
            argv: texts(3 + keys..args.len()),
            aside: None,
        }
    }

    /// Whether the run is stopped, and waits for its client.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Approximate bytes of the session.
    pub fn footprint(&self) -> usize {
        let texts = |texts: &[Vec<u8>]| {
            texts.iter().map(|text| text.capacity() + size_of::<Vec<u8>>()).sum::<usize>()
        };
        let aside = self.aside.as_ref().map_or(0, |machine| machine.bytes());
        size_of::<Debugger>()
            + texts(&self.source)
            + texts(&self.keys)
            + texts(&self.argv)
            + self.log_bytes
            + aside
    }

    /// Called before each instruction of the run. Returns whether the run stops before the instruction.
    fn arrives(&mut self, position: &CodePosition<'_>) -> bool {
        if std::mem::take(&mut self.leaves_line) || !self.watch.notice(position) || position.chunk != CHUNK {
            return false;
        }
        self.line = position.line;
        let is_breakpoint = self.breakpoints.contains(&position.line);
        if !self.steps && !is_breakpoint && self.reason.is_none() {
            return false;
        }
        let reason = match self.reason.take() {
            Some(reason) => reason,
            None if is_breakpoint => "break point",
            None => "step over",
        };
        self.is_stopped = true;
        self.say(format!("* Stopped at {}, stop reason = {reason}", self.line));
        self.show_line(self.line);
        true
    }

    /// Resumes the run. If `steps`, the run stops at the next line, and otherwise at the next reason to stop.
    fn go_on(&mut self, steps: bool, now_ns: u64) {
        self.steps = steps;
        self.is_stopped = false;
        self.leaves_line = true;
        self.went_on_ns = now_ns;
    }

    /// Makes the run stop at the next line if it has continued for `threshold_ms` without a stop;
    /// 0 means 5000 ms.
    pub fn look_at_time(&mut self, now_ns: u64, threshold_ms: u64) {
        let threshold_ms = if threshold_ms == 0 { THRESHOLD_MS } else { threshold_ms };
        if !self.steps
            && self.reason.is_none()
            && now_ns.saturating_sub(self.went_on_ns) >= threshold_ms * 1_000_000
        {
            self.reason = Some("timeout reached, infinite loop?");
        }
    }

    /// Adds an output line; line ends within it become spaces.
    pub fn say(&mut self, line: impl Into<Vec<u8>>) {
        let mut line = line.into();
        // The line is sent as a simple string, which cannot contain line ends.
        line.iter_mut().filter(|byte| matches!(**byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
        self.log_bytes += line.len();
        self.log.push(line);
    }

    /// Adds an output line with a value, and cuts the line off if it is long.
    pub fn print_shortened(&mut self, mut line: Vec<u8>) {
        if self.log_bytes > LOG_BYTES_MAX {
            return;
        }
        let is_cut = self.shown_bytes > 0 && line.len() > self.shown_bytes;
        if is_cut {
            line.truncate(self.shown_bytes);
            line.extend_from_slice(b" ...");
        }
        self.say(line);
        if is_cut && !std::mem::replace(&mut self.has_told_of_cut, true) {
            self.say("<hint> The above reply was trimmed. Use 'maxlen 0' to disable trimming.");
        }
    }

    /// Maximum number of bytes of a value that need to be formatted.
    pub fn value_bytes(&self) -> usize {
        if self.shown_bytes == 0 { SHOWN_BYTES_MAX } else { self.shown_bytes }
    }

    /// Adds an output line with a tag and a value.
    fn print_value(&mut self, tag: &[u8], write: impl FnOnce(&mut Vec<u8>, usize)) {
        let mut line = tag.to_vec();
        let limit = self.value_bytes() + line.len();
        write(&mut line, limit);
        self.print_shortened(line);
    }

    /// Writes all waiting output lines as one array.
    pub fn tell(&mut self, output: &mut Outbox) {
        output.push(format!("*{}\r\n", self.log.len()).as_bytes());
        for line in self.log.drain(..) {
            output.push(b"+");
            output.push(&line);
            output.push(b"\r\n");
        }
        self.log_bytes = 0;
    }

    /// Adds a line of the source, marked if it is the current one or has a breakpoint.
    fn show_line(&mut self, number: u32) {
        let Some(text) = self.source.get((number as usize).wrapping_sub(1)) else { return };
        let arrow = if number == self.line { "->" } else { "  " };
        let point = if self.breakpoints.contains(&number) { "#" } else { " " };
        let line = [format!("{arrow}{point}{number:<3} ").as_bytes(), text].concat();
        self.say(line);
    }

    fn list(&mut self, around: u32, context: u32) {
        let last = u32::try_from(self.source.len()).unwrap_or(u32::MAX);
        let to = around.saturating_add(context).min(last);
        for number in around.saturating_sub(context).max(1)..=to {
            self.show_line(number);
        }
    }

    /// Answers a request of the client, or returns the action that the request wants. `words` has at least
    /// one word.
    pub fn ask(&mut self, words: &[&[u8]], now_ns: u64) -> DebugStep {
        let is = |names: &[&str]| names.iter().any(|name| words[0].eq_ignore_ascii_case(name.as_bytes()));
        let arguments = words.len() - 1;
        let number =
            |at: usize| std::str::from_utf8(words[at]).ok().and_then(|text| text.parse::<i64>().ok());
        if is(&["h", "help"]) && arguments == 0 {
            HELP.iter().for_each(|line| self.say(*line));
        } else if is(&["s", "step", "n", "next"]) && arguments == 0 {
            self.go_on(true, now_ns);
            return DebugStep::GoOn;
        } else if is(&["c", "continue"]) && arguments == 0 {
            self.go_on(false, now_ns);
            return DebugStep::GoOn;
        } else if is(&["a", "abort"]) && arguments == 0 {
            self.is_aborted = true;
            self.go_on(false, now_ns);
            return DebugStep::GoOn;
        } else if is(&["t", "trace"]) && arguments == 0 {
            return DebugStep::Trace;
        } else if is(&["m", "max", "maxlen"]) && arguments <= 1 && !is(&["m"]) {
            match arguments {
                0 => self.say(format!("Current maxlen is {}", self.shown_bytes)),
                _ => self.set_shown_bytes(number(1)),
            }
        } else if is(&["b", "break"]) && arguments <= 1 {
            match arguments {
                0 => self.show_breakpoints(),
                _ => self.set_breakpoint(number(1), words[1]),
            }
        } else if is(&["e", "eval"]) && arguments >= 1 {
            return DebugStep::Evaluate(words[1..].join(&b' '));
        } else if is(&["p", "print"]) && arguments <= 1 {
            return DebugStep::Print(words.get(1).map(|name| name.to_vec()));
        } else if is(&["l", "list"]) && arguments <= 2 {
            let positive = |at: usize| number(at).and_then(|n| u32::try_from(n).ok());
            let around = if arguments >= 1 { positive(1).unwrap_or(0) } else { self.line };
            let around = if around == 0 { self.line } else { around };
            let context = if arguments == 2 { positive(2).unwrap_or(0) } else { CONTEXT };
            self.list(around, context);
        } else if is(&["w", "whole"]) && arguments == 0 {
            self.list(1, u32::MAX);
        } else if is(&["v", "valkey", "r", "redis", "server"]) && arguments >= 1 {
            return DebugStep::Call;
        } else {
            self.say("<error> Unknown debugger command or wrong number of arguments.");
        }
        DebugStep::Answered
    }

    fn set_shown_bytes(&mut self, bytes: Option<i64>) {
        match bytes.and_then(|bytes| usize::try_from(bytes).ok()) {
            Some(0) => {
                self.shown_bytes = 0;
                self.say("<value> replies are not truncated.");
            }
            Some(bytes) => {
                self.shown_bytes = bytes.clamp(SHOWN_BYTES_MIN, SHOWN_BYTES_MAX);
                self.say(format!("<value> replies are truncated at {} bytes.", self.shown_bytes));
            }
            None => self.say("<error> Invalid maxlen value."),
        }
        // A client that sets the length needs no hint that long lines are cut off.
        self.has_told_of_cut = true;
    }

    fn show_breakpoints(&mut self) {
        if self.breakpoints.is_empty() {
            return self.say("No breakpoints set. Use 'b <line>' to add one.");
        }
        self.say(format!("{} breakpoints set:", self.breakpoints.len()));
        for line in self.breakpoints.clone() {
            self.show_line(line);
        }
    }

    fn set_breakpoint(&mut self, line: Option<i64>, word: &[u8]) {
        let Some(line) = line else {
            return self.say([b"Invalid argument:'", word, b"'"].concat());
        };
        let number = u32::try_from(line.unsigned_abs()).unwrap_or(u32::MAX);
        let is_known = self.breakpoints.contains(&number);
        match line {
            0 => {
                self.breakpoints.clear();
                self.say("All breakpoints removed.");
            }
            1.. if number as usize > self.source.len() => self.say("Wrong line number."),
            1.. if self.breakpoints.len() == BREAKPOINTS_MAX && !is_known => {
                self.say("Too many breakpoints set.");
            }
            1.. => {
                if !is_known {
                    self.breakpoints.push(number);
                }
                self.list(number, 1);
            }
            _ if is_known => {
                self.breakpoints.retain(|known| *known != number);
                self.say("Breakpoint removed.");
            }
            _ => self.say("No breakpoint in the specified line."),
        }
    }

    /// Adds a command called by the script or the client to the output, while the client steps or calls.
    pub fn show_call<'w>(&mut self, words: impl Iterator<Item = &'w [u8]>) {
        if self.shows_calls() {
            let mut line = b"<command>".to_vec();
            for word in words {
                line.push(b' ');
                line.extend_from_slice(word);
                if line.len() > self.value_bytes() {
                    break;
                }
            }
            self.print_shortened(line);
        }
    }

    /// Adds the reply of a called command to the output, while the client steps or calls.
    pub fn show_reply(&mut self, reply: &Outbox) {
        if !self.shows_calls() {
            return;
        }
        let wire = reply.flatten();
        self.print_value(b"<reply> ", |line, limit| push_human(&wire, line, limit));
        if wire.starts_with(b"-") {
            self.print_shortened([b"<error> ", &*wire].concat());
        }
    }

    /// Adds to the output that a called command was refused, while the client steps or calls. `wire` is the
    /// error in the form for a client, `told` in the form for the script.
    pub fn show_refusal(&mut self, wire: &[u8], told: &[u8]) {
        if self.shows_calls() {
            let wire = [b"-", wire, b"\r\n"].concat();
            self.print_value(b"<reply> ", |line, limit| push_human(&wire, line, limit));
            self.say([b"<error> ", told].concat());
        }
    }

    fn shows_calls(&self) -> bool {
        self.is_calling || self.steps && !self.is_stopped
    }
}

/// The answer to `help`: the commands and their effects.
const HELP: [&str; 24] = [
    "Lua debugger, commands:",
    "[h]elp               This help.",
    "[s]tep, [n]ext       Run the current line and stop again.",
    "[c]ontinue           Run to the next breakpoint.",
    "[a]bort              End the script with an error. What it has changed stays.",
    "[l]ist [line] [ctx]  The source around a line, of the current one without",
    "                     an argument, with [ctx] lines before and after.",
    "[w]hole              The whole source.",
    "[p]rint [var]        The value of a local variable, of KEYS or of ARGV;",
    "                     of all local variables without an argument.",
    "[b]reak [line]       Set a breakpoint; -line removes one, 0 removes all;",
    "                     without an argument they are listed.",
    "[t]race              The functions that run.",
    "[e]val <code>        Run Lua code beside the script: it sees KEYS and",
    "                     ARGV, not the script's local variables.",
    "[v]alkey <cmd>       Run a command; redis and server are the same.",
    "[max]len [len]       Bytes of a line that are shown, 60 at least; 0 means",
    "                     all. Without an argument the number is shown.",
    "",
    "In a script:",
    "server.debug(...)    Show values here.",
    "server.breakpoint()  Stop at the next line.",
    "",
    "The connection is closed after the script's reply.",
];
