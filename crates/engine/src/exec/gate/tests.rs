use super::check::Askers;
use super::*;
use crate::engine::Engine;
use sluice_base::{ClientId, HashSeed, Now, SessionKey};
use sluice_commands::{Args, CmdError};
use sluice_control::upkeep::evict::Headroom;
use sluice_session::identity::Identity;
use sluice_session::{ClientAddress, Medium};

fn names(gate: &Gate, order: impl Iterator<Item = usize>, asker: Asker) -> String {
    let asked = order.map(|at| gate.checks[at]).filter(|check| check.askers.has(asker));
    asked.map(|check| check.name).collect::<Vec<_>>().join(", ")
}

/// The table of checks: for each asker, the names of its checks in their order.
fn orders(gate: &Gate) -> String {
    let mut table = String::new();
    for asker in Asker::ALL {
        let names = match asker {
            Asker::Client | Asker::Primary | Asker::Queued | Asker::Import => {
                names(gate, 0..gate.checks.len(), asker)
            }
            Asker::Call | Asker::ObeyedCall => names(gate, gate.call_order.iter().copied(), asker),
        };
        table += &format!("{asker:?}: {names}\n");
    }
    table
}

#[test]
fn the_checks_are_asked_of_these_in_this_order() {
    let gate = Gate::new(&[]);
    assert_eq!(
        orders(&gate),
        "Client: open-unit, auth, protected, no-multi, rights, slots, replica-redirect, maxmemory, unsaved, entry-space, \
         aof-fault, min-replicas, read-only, pubsub, stale, loading, busy, replica, pause, migrating, exported, queue, aof-backlog\n\
         Primary: open-unit, loading, pause, migrating, queue, aof-backlog\n\
         Queued: rights\n\
         Call: maxmemory, rights, slots, read-only-script, entry-space, min-replicas, unsaved, aof-fault, read-only, stale\n\
         ObeyedCall: rights, read-only-script, entry-space, min-replicas, stale\n\
         Import: open-unit, rights, maxmemory, entry-space, min-replicas, loading, pause, migrating, aof-backlog, export-words, import-scope\n"
    );
    assert!(CHECKS.len() < NOTES_ASKING.trailing_zeros() as usize);
    assert_eq!(CHECKS[RIGHTS.trailing_zeros() as usize].name, "rights");
    assert_eq!(CHECKS[SLOTS.trailing_zeros() as usize].name, "slots");
    assert_eq!(CHECKS[READ_ONLY_SCRIPT.trailing_zeros() as usize].name, "read-only-script");
    for check in CHECKS {
        let has_position = check.askers.position_in_call > 0;
        let is_asked_of_calls = check.askers.has(Asker::Call) || check.askers.has(Asker::ObeyedCall);
        assert_eq!(has_position, is_asked_of_calls, "{}", check.name);
    }
}

/// The replies to ECHO from a client, in EXEC, and in a script, if `check` is the only check.
fn answers(check: Check) -> [&'static str; 3] {
    let config = sluice_config::Config::default();
    let limits = std::sync::Arc::new(sluice_commands::Limits::new(&config));
    let hasher = sluice_keyspace::KeyHasher::new(HashSeed { k0: 1, k1: 2 }, sluice_keyspace::Layout::One);
    let keyspace = sluice_keyspace::Keyspace::new(1, hasher);
    let engine = Engine::for_replay(config, limits, keyspace, Now::default());
    let mut gate = Gate::with_checks(Box::leak(Box::new([check])), &sluice_command::table::ALL);
    gate.rearm(&engine.core.control);
    let connection = ClientAddress {
        addr: String::new(),
        laddr: "".into(),
        fd: -1,
        medium: Medium::Tcp,
        has_priority: false,
    };
    let identity = Identity::of_newcomer(engine.core.control.clients.users.users());
    let key = SessionKey { slot: 0, generation: 0 };
    let session = gate.masked(Session::new(key, ClientId(1), connection, 0, identity));
    let mut arguments = sluice_resp::ArgumentList::default();
    arguments.push(b"ECHO");
    arguments.push(b"x");
    let (request, mut batch) = (arguments.request(), sluice_commands::PreparedBatch::default());
    engine.preparing.preparer.prepare(&request, &mut batch);
    let args = Args::new(&request, &batch.items()[0], &batch.hashing);
    let (spec, control, now) =
        (&sluice_command::specs::connection::ECHO, &engine.core.control, Now::default());
    let data = &engine.core.keyspace;
    let client = match gate.pass(spec, &session, Standing::Client) {
        Some(_) => "passes",
        None => match gate.ask(&Asked::new(spec, args, &session, control, data, None, now, Headroom::Enough))
        {
            Verdict::Run(_) => "runs",
            Verdict::Reject(_) | Verdict::Deny(_) => "rejected",
            Verdict::Queue | Verdict::Postpone => "waits",
        },
    };
    let inside = |passes: bool, asked: &Asked<'_>| match (passes, gate.ask_inside(asked)) {
        (true, _) => "passes",
        (false, Ok(_)) => "runs",
        (false, Err(_)) => "rejected",
    };
    let queued = gate.pass(spec, &session, Standing::Queued).is_some();
    let call = CallRights {
        is_read_only: false,
        is_full: false,
        has_written: false,
        is_replicated: false,
        is_replayed: false,
    };
    let called = gate.pass_called(spec, &session, call).is_some();
    assert!(gate.pass_called(spec, &session, CallRights { is_replayed: true, ..call }).is_some());
    [
        client,
        inside(queued, &Asked::queued(spec, args, &session, control, data, now)),
        inside(called, &Asked::called(spec, args, &session, control, data, call, now)),
    ]
}

/// A check is made only for its own askers, if the server or the session has armed it. A check that postpones
/// a client's command rejects a queued command or a script's call instead.
#[test]
fn each_asker_is_asked_what_concerns_it() {
    let all = Askers::CLIENT.and(Asker::Queued).and_calls(10);
    let queued = Askers { bits: 1 << Asker::Queued as u8, position_in_call: 0 };
    for (askers, wanted) in [
        (Askers::CLIENT, ["rejected", "passes", "passes"]),
        (queued, ["passes", "rejected", "passes"]),
        (Askers::calls(10), ["passes", "passes", "rejected"]),
        (all, ["rejected", "rejected", "rejected"]),
    ] {
        let row = Check {
            name: "row",
            concerns: |_| true,
            armed: |_| true,
            armed_for: |_| false,
            askers,
            ask: |_| Some(Verdict::reject(CmdError::text("ERR"))),
        };
        assert_eq!(answers(row), wanted, "{askers:?}");
        let by_session = Check { armed: |_| false, armed_for: |_| true, ..row };
        let by_session = answers(by_session).map(|answer| if answer == "runs" { "passes" } else { answer });
        assert_eq!(by_session, wanted, "{askers:?}");
        let waits = Check { ask: |_| Some(Verdict::Postpone), ..row };
        let of_client = if wanted[0] == "rejected" { "waits" } else { "passes" };
        assert_eq!(answers(waits), [of_client, wanted[1], wanted[2]], "{askers:?}");
    }
}
