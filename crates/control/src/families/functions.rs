//! FCALL, FCALL_RO and FUNCTION, run by `Engine::run_script`.

use crate::ctx::{Handler, Route, ScriptCommand, route};
use sluice_command::specs::scripting as specs;
use sluice_commands::{DataHandler, reply_help};

pub(crate) const ROUTES: &[Route] = &[
    route(&specs::FCALL, Handler::Script(ScriptCommand::Fcall)),
    route(&specs::FCALL_RO, Handler::Script(ScriptCommand::FcallRo)),
    route(&specs::FUNCTION_DELETE, Handler::Script(ScriptCommand::FunctionDelete)),
    route(&specs::FUNCTION_DUMP, Handler::Script(ScriptCommand::FunctionDump)),
    route(&specs::FUNCTION_FLUSH, Handler::Script(ScriptCommand::FunctionFlush)),
    route(
        &specs::FUNCTION_HELP,
        Handler::Data(DataHandler::Static(|ctx, _| reply_help(ctx, &specs::FUNCTION))),
    ),
    route(&specs::FUNCTION_KILL, Handler::Script(ScriptCommand::FunctionKill)),
    route(&specs::FUNCTION_LIST, Handler::Script(ScriptCommand::FunctionList)),
    route(&specs::FUNCTION_LOAD, Handler::Script(ScriptCommand::FunctionLoad)),
    route(&specs::FUNCTION_RESTORE, Handler::Script(ScriptCommand::FunctionRestore)),
    route(&specs::FUNCTION_STATS, Handler::Script(ScriptCommand::FunctionStats)),
];
