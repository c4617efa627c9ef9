//! EVAL and related commands, and SCRIPT, run by `Engine::run_script`.

use crate::ctx::{Handler, Route, ScriptCommand, route};
use sluice_command::specs::scripting as specs;
use sluice_commands::{DataHandler, reply_help};

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::EVAL, Handler::Script(ScriptCommand::Eval)),
    route(&specs::EVALSHA, Handler::Script(ScriptCommand::EvalSha)),
    route(&specs::EVALSHA_RO, Handler::Script(ScriptCommand::EvalShaRo)),
    route(&specs::EVAL_RO, Handler::Script(ScriptCommand::EvalRo)),
    route(&specs::SCRIPT_DEBUG, Handler::Script(ScriptCommand::ScriptDebug)),
    route(&specs::SCRIPT_EXISTS, Handler::Script(ScriptCommand::ScriptExists)),
    route(&specs::SCRIPT_FLUSH, Handler::Script(ScriptCommand::ScriptFlush)),
    route(&specs::SCRIPT_HELP, Handler::Data(DataHandler::Static(|ctx, _| reply_help(ctx, &specs::SCRIPT)))),
    route(&specs::SCRIPT_KILL, Handler::Script(ScriptCommand::ScriptKill)),
    route(&specs::SCRIPT_LOAD, Handler::Script(ScriptCommand::ScriptLoad)),
    route(&specs::SCRIPT_SHOW, Handler::Script(ScriptCommand::ScriptShow)),
];
