//! AUTH, and the subcommands of ACL, which include those about roles.

use crate::action::Action;
use crate::ctx::{Handler, Route, UsersCtx, route};
use crate::process::Process;
use crate::users::UsersState;
use crate::users::load::{JudgedUsers, UserLoad};
use crate::users::refusals::{LoggedRefusal, line_of};
use sluice_acl::{
    AuthError, GENPASS_BITS_DEFAULT, Refusal, RefusalContext, Rights, Selector, genpass, random_bytes_for,
};
use sluice_base::{LogLevel, Now};
use sluice_command::derive::acl::categories;
use sluice_command::derive::help;
use sluice_command::spec::Cat;
use sluice_command::specs::{connection, server as specs};
use sluice_command::{Named, Spec, table};
use sluice_commands::{Args, CmdError, Outcome, Run, WaitFor, resolve_renamed, shown, until_zero};
use sluice_config::{Config, param};
use sluice_numbers::stats::RefusalCounts;
use sluice_session::Session;
use sluice_session::identity::Identity;
use sluice_session::line::LineSources;

pub(crate) const ROUTES: &[Route] = &[
    route(&connection::AUTH, Handler::Users(auth)),
    route(&specs::ACL_CAT, Handler::Users(cat)),
    route(&specs::ACL_DELROLE, Handler::Users(delrole)),
    route(&specs::ACL_DELUSER, Handler::Users(deluser)),
    route(&specs::ACL_DIGEST, Handler::Users(digest)),
    route(&specs::ACL_DRYRUN, Handler::Users(dryrun)),
    route(&specs::ACL_GENPASS, Handler::Users(generate_password)),
    route(&specs::ACL_GETROLE, Handler::Users(getrole)),
    route(&specs::ACL_GETUSER, Handler::Users(getuser)),
    route(&specs::ACL_HELP, Handler::Users(acl_help)),
    route(&specs::ACL_LIST, Handler::Users(list)),
    route(&specs::ACL_LOAD, Handler::Users(load)),
    route(&specs::ACL_LOG, Handler::Users(log)),
    route(&specs::ACL_ROLES, Handler::Users(roles)),
    route(&specs::ACL_SAVE, Handler::Users(save)),
    route(&specs::ACL_SETROLE, Handler::Users(setrole)),
    route(&specs::ACL_SETUSER, Handler::Users(setuser)),
    route(&specs::ACL_USERS, Handler::Users(users)),
    route(&specs::ACL_WHOAMI, Handler::Users(whoami)),
];

/// The user for AUTH with only a password.
const DEFAULT_USER: &[u8] = b"default";

fn auth(ctx: &mut UsersCtx<'_>, args: Args<'_>) -> Run {
    let (user, password) = match args.len() {
        2 if ctx.users.users().default_user().is_nopass() => {
            return Err(CmdError::text(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        2 => (DEFAULT_USER, args.at(1)),
        3 => (args.at(1), args.at(2)),
        _ => return Err(CmdError::Syntax),
    };
    let attempt = Attempt { command: args.at(0), user, password };
    let UsersCtx { users, sources, config, stats, .. } = ctx;
    authenticate(ctx.session, &attempt, users, *sources, config, &mut stats.failures.refused, ctx.now)?;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// The credentials of AUTH or HELLO.
pub(super) struct Attempt<'a> {
    /// The command's name as the client wrote it, for the log.
    pub command: &'a [u8],
    pub user: &'a [u8],
    pub password: &'a [u8],
}

/// Authenticates the client as a user, or logs the refusal and leaves the client's user unchanged.
pub(super) fn authenticate(
    session: &mut Session,
    attempt: &Attempt<'_>,
    users: &mut UsersState,
    sources: LineSources<'_>,
    config: &Config,
    counts: &mut RefusalCounts,
    now: Now,
) -> Result<(), CmdError> {
    match users.users().authenticate(attempt.user, attempt.password) {
        Ok(user) => {
            session.caller.act_as(Identity::authenticated(user));
            Ok(())
        }
        Err(AuthError::UnknownUser | AuthError::Disabled | AuthError::WrongPassword) => {
            let in_multi = session.transaction.is_some() || session.caller.flags.in_exec;
            let context = if in_multi { RefusalContext::Multi } else { RefusalContext::Toplevel };
            let refused = LoggedRefusal { refusal: Refusal::Auth, context, object: attempt.command };
            users.note(refused, attempt.user, &line_of(session, sources, now), counts, config, now);
            Err(CmdError::text(AuthError::TEXT))
        }
    }
}

fn whoami(ctx: &mut UsersCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.bulk(ctx.session.caller.user_name());
    Ok(Outcome::Done)
}

fn users(ctx: &mut UsersCtx<'_>, _: Args<'_>) -> Run {
    let users = ctx.users.users();
    ctx.reply.array(users.count());
    users.iter().for_each(|user| ctx.reply.bulk(user.name()));
    Ok(Outcome::Done)
}

fn list(ctx: &mut UsersCtx<'_>, _: Args<'_>) -> Run {
    let users = ctx.users.users();
    ctx.reply.array(users.roles().count() + users.count());
    users.lines().for_each(|line| ctx.reply.bulk(&line));
    Ok(Outcome::Done)
}

fn digest(ctx: &mut UsersCtx<'_>, _: Args<'_>) -> Run {
    ctx.reply.bulk(ctx.users.users().digest().as_bytes());
    Ok(Outcome::Done)
}

fn getuser(ctx: &mut UsersCtx<'_>, args: Args<'_>) -> Run {
    let users = ctx.users.users();
    let Some(user) = users.get(args.at(2)) else {
        ctx.reply.null();
        return Ok(Outcome::Done);
    };
    // Roles are not shown until one exists, so that clients of 9.1 see the reply of 9.1.
    let has_roles = users.roles().count() > 0;
    let reply = &mut ctx.reply;
    reply.map(7 + usize::from(has_roles));
    reply.bulk(b"flags");
    let flags: Vec<&str> = user.flags().collect();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|password| reply.bulk(password.hex().as_bytes()));
    push_rights(reply, user.rights());
    if has_roles {
        reply.bulk(b"roles");
        reply.array(user.roles().len());
        user.roles().iter().for_each(|role| reply.bulk(role.name()));
    }
    Ok(Outcome::Done)
}

fn getrole(ctx: &mut UsersCtx<'_>, args: Args<'_>) -> Run {
    let users = ctx.users.users();
    let Some(role) = users.roles().get(args.at(2)) else {
        ctx.reply.null();
        return Ok(Outcome::Done);
    };
    ctx.reply.map(6);
    push_rights(&mut ctx.reply, role.rights());
    ctx.reply.bulk(b"users");
    let holders: Vec<&[u8]> = users.holders(role.name()).collect();
    ctx.reply.array(holders.len());
    holders.iter().for_each(|name| ctx.reply.bulk(name));
    Ok(Outcome::Done)
}

fn roles(ctx: &mut UsersCtx<'_>, _: Args<'_>) -> Run {
    let roles = ctx.users.users().roles();
    ctx.reply.array(roles.count());
    roles.iter().for_each(|role| ctx.reply.bulk(role.name()));
    Ok(Outcome::Done)
}

fn setrole(ctx: &mut UsersCtx<'_>, args: Args<'_>) -> Run {
    let changed = ctx.users.set_role(args.at(2), args.iter_from(3));
    changed.map_err(|error| CmdError::owned([b"ERR ", &error.text()[..]].concat()))?;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn delrole(ctx: &mut UsersCtx<'_>, args: Args<'_>) -> Run {
    let deleted = ctx.users.change().delete_roles(args.iter_from(2)).map_err(|held| {
        let text = b"' is assigned to one or more users. Remove it from them first.";
        CmdError::owned([b"ERR Role '", until_zero(held), text].concat())
    })?;
    ctx.reply.int(deleted as i64);
    Ok(Outcome::Done)
}

/// Writes five names with values: the rights of the root selector, and `selectors`.
fn push_rights(reply: &mut sluice_resp::Reply<'_>, rights: &Rights) {
    push_selector(reply, rights.root());
    reply.bulk(b"selectors");
    reply.array(rights.extra_selectors().len());
    for selector in rights.extra_selectors() {
        reply.map(4);
        push_selector(reply, selector);
    }
}

/// Writes the four names of a selector's rights with their values.
fn push_selector(reply: &mut sluice_resp::Reply<'_>, selector: &Selector) {
    let view = selector.view();
    let parts = [
        ("commands", view.commands),
        ("keys", view.keys),
        ("channels", view.channels),
        ("databases", view.databases),
    ];
    for (name, value) in parts {
        reply.bulk(name.as_bytes());
        reply.bulk(&value);
    }
}

fn setuser(ctx: &mut UsersCtx<'_>, args: Args<'_>) -> Run {
    let name = args.at(2);
    let revoked = ctx
        .users
        .change()
        .set_user(name, args.iter_from(3))
        .map_err(|error| CmdError::owned([b"ERR ", &error.text()[..]].concat()))?;
    if let Some(left) = revoked {
        ctx.users.note_revoked(name, left);
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}

fn deluser(ctx: &mut UsersCtx<'_>, args: Args<'_>) -> Run {
    if args.iter_from(2).any(|name| until_zero(name) == DEFAULT_USER) {
        return Err(CmdError::text("ERR The 'default' user cannot be removed"));
    }
    let deleted = args.iter_from(2).filter(|name| ctx.users.change().delete(name).is_some()).count();
    ctx.reply.int(deleted as i64);
    Ok(Outcome::Done)
}

fn cat(ctx: &mut UsersCtx<'_>, args: Args<'_>) -> Run {
    match args.len() {
        2 => {
            let names: Vec<&str> = Cat::all_names().collect();
            ctx.reply.array(names.len());
            names.iter().for_each(|name| ctx.reply.bulk(name.as_bytes()));
        }
        3 => {
            let name = until_zero(args.at(2));
            let asked = Cat::named(name).ok_or_else(|| {
                CmdError::owned([b"ERR Unknown category '", shown(name, CATEGORY_SHOWN_BYTES), b"'"].concat())
            })?;
            let members: Vec<&Spec> =
                table::ALL.iter().copied().filter(|spec| categories(spec).has(asked)).collect();
            ctx.reply.array(members.len());
            members.iter().for_each(|spec| ctx.reply.bulk(spec.full_name.as_bytes()));
        }
        _ => return Err(wrong_form(args)),
    }
    Ok(Outcome::Done)
}

/// The error shows at most this many bytes of an unknown category's name.
const CATEGORY_SHOWN_BYTES: usize = 128;

fn generate_password(ctx: &mut UsersCtx<'_>, args: Args<'_>) -> Run {
    let bits = match args.len() {
        2 => GENPASS_BITS_DEFAULT,
        3 => args.int(2)?,
        _ => return Err(wrong_form(args)),
    };
    let bytes = random_bytes_for(bits).map_err(|text| CmdError::owned(format!("ERR {text}")))?;
    let mut random = Vec::with_capacity(bytes + size_of::<[u8; 20]>());
    while random.len() < bytes {
        random.extend(ctx.process.entropy());
    }
    random.truncate(bytes);
    let password = genpass(bits, &random).map_err(|text| CmdError::owned(format!("ERR {text}")))?;
    ctx.reply.bulk(password.as_bytes());
    Ok(Outcome::Done)
}

fn dryrun(ctx: &mut UsersCtx<'_>, args: Args<'_>) -> Run {
    let name = args.at(2);
    let user = ctx
        .users
        .users()
        .get(name)
        .ok_or_else(|| CmdError::owned([b"ERR User '", until_zero(name), b"' not found"].concat()))?;
    let call: Vec<&[u8]> = args.iter_from(3).collect();
    let Named::Command(spec) = resolve_renamed(ctx.renames, &call) else {
        return Err(CmdError::owned([b"ERR Command '", until_zero(call[0]), b"' not found"].concat()));
    };
    if !spec.arity.accepts(call.len()) {
        return Err(CmdError::Arity(spec.full_name));
    }
    match user.check_args(spec, &call, ctx.session.caller.db, ctx.limits.databases) {
        Ok(()) => ctx.reply.ok(),
        Err(denial) => ctx.reply.bulk(&denial.dryrun_text(name, spec, &call)),
    }
    Ok(Outcome::Done)
}

fn log(ctx: &mut UsersCtx<'_>, args: Args<'_>) -> Run {
    let count = match args.len() {
        2 => LOG_SHOWN_BY_DEFAULT,
        3 if args.is(2, "RESET") => {
            ctx.users.log.reset();
            ctx.reply.ok();
            return Ok(Outcome::Done);
        }
        3 => usize::try_from(args.int(2)?.max(0)).unwrap_or(usize::MAX),
        _ => return Err(wrong_form(args)),
    };
    let entries = ctx.users.log.entries();
    let (shown, reply) = (count.min(entries.len()), &mut ctx.reply);
    reply.array(shown);
    for entry in entries.take(shown) {
        reply.map(10);
        reply.bulk(b"count");
        reply.int(entry.count as i64);
        let texts: [(&str, &[u8]); 4] = [
            ("reason", entry.refusal.text().as_bytes()),
            ("context", entry.context.text().as_bytes()),
            ("object", &entry.object),
            ("username", &entry.username),
        ];
        for (name, text) in texts {
            reply.bulk(name.as_bytes());
            reply.bulk(text);
        }
        reply.bulk(b"age-seconds");
        reply.double(entry.age_seconds(ctx.now.unix_ms()));
        reply.bulk(b"client-info");
        reply.bulk(&entry.client_info);
        let numbers = [
            ("entry-id", entry.id as i64),
            ("timestamp-created", entry.created_ms),
            ("timestamp-last-updated", entry.updated_ms),
        ];
        for (name, number) in numbers {
            reply.bulk(name.as_bytes());
            reply.int(number);
        }
    }
    Ok(Outcome::Done)
}

/// Number of entries that ACL LOG shows by default.
const LOG_SHOWN_BY_DEFAULT: usize = 10;

/// ACL LOAD. Usually another thread reads and checks the file while clients are served.
fn load(ctx: &mut UsersCtx<'_>, _: Args<'_>) -> Run {
    let path = file(ctx)?;
    let all_channels = ctx.users.users().all_channels();
    let load = UserLoad { path, all_channels };
    if ctx.may_wait && ctx.users.loading.is_under_way() {
        return Ok(Outcome::Wait(Box::new(WaitFor::UserLoads)));
    }
    if ctx.may_wait && !ctx.users.loading.must_run_at_once() {
        ctx.users.loading.begin(ctx.session.key);
        ctx.actions.push(Action::LoadUsers(Box::new(load)));
        return Ok(Outcome::Wait(Box::new(WaitFor::Users)));
    }
    let judged = load.run(ctx.process);
    put_in_force(ctx.users, judged, ctx.actions, ctx.process)?;
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// Installs the users of a file, or returns the file's faults and changes nothing.
pub fn put_in_force(
    users: &mut UsersState,
    judged: JudgedUsers,
    actions: &mut Vec<Action>,
    process: &mut dyn Process,
) -> Result<(), CmdError> {
    let loaded = judged.map_err(|faults| CmdError::owned([b"ERR ", &faults[..]].concat()))?;
    let count = loaded.count();
    let (gone, garbage) = users.replace(loaded);
    actions.push(Action::FreeUsers(garbage));
    let line = format!("ACL LOAD: {count} users are loaded, and {gone} former users are removed");
    process.log(LogLevel::Notice, &line);
    Ok(())
}

fn save(ctx: &mut UsersCtx<'_>, _: Args<'_>) -> Run {
    let path = file(ctx)?;
    let text = ctx.users.users().to_file();
    // A load in progress must read the file again, because it may have read the previous text.
    ctx.users.loading.note_change();
    if let Err(reason) = ctx.process.replace_user_file(&path, &text) {
        let path = String::from_utf8_lossy(&path).into_owned();
        ctx.process.log(LogLevel::Warning, &format!("Cannot write the ACL file {path}: {reason}"));
        return Err(CmdError::text(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        ));
    }
    ctx.reply.ok();
    Ok(Outcome::Done)
}

/// The path in `aclfile`; an error if it is empty.
fn file(ctx: &UsersCtx<'_>) -> Result<Vec<u8>, CmdError> {
    match ctx.config.bytes(param::ACLFILE) {
        [] => Err(CmdError::text(
            "ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL \
             SETUSER command and then issue a CONFIG REWRITE (assuming you have a configuration file set) in \
             order to store users in the configuration.",
        )),
        path => Ok(path.to_vec()),
    }
}

fn acl_help(ctx: &mut UsersCtx<'_>, _: Args<'_>) -> Run {
    let lines = help::lines(&specs::ACL);
    ctx.reply.array(lines.len());
    lines.iter().for_each(|line| ctx.reply.simple(line.as_bytes()));
    Ok(Outcome::Done)
}

/// The error for more arguments than any form of the subcommand has.
fn wrong_form(args: Args<'_>) -> CmdError {
    crate::unknown::wrong_form(&specs::ACL, args)
}
