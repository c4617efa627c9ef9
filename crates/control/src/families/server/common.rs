//! The view of the server from which INFO, ROLE and MEMORY make their replies.

use crate::ctx::ReportCtx;
use crate::observe::info::View;
use sluice_numbers::facts::Facts;

pub(crate) fn view<'a>(ctx: &'a ReportCtx<'_>, facts: &'a Facts) -> View<'a> {
    View {
        now: ctx.now,
        asker: Some(ctx.session),
        sessions: ctx.sessions,
        control: ctx.control,
        stats: ctx.stats,
        keyspace: ctx.keyspace,
        job: ctx.job,
        scripts: ctx.scripts,
        facts,
        client_memory: None,
    }
}
