use super::check::Askers;
use super::*;
use sluice_commands::CmdError;

fn names(gate: &Gate, order: impl Iterator<Item = usize>, asker: Asker) -> String {
    let asked = order.map(|at| gate.checks[at]).filter(|check| check.askers.has(asker));
    asked.map(|check| check.name).collect::<Vec<_>>().join(", ")
}

/// A table: for each asker, the names of the checks in their order.
fn orders(gate: &Gate) -> String {
    let mut table = String::new();
    for asker in Asker::ALL {
        let names = match asker {
            Asker::Client | Asker::Primary | Asker::Queued => names(gate, 0..gate.checks.len(), asker),
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
        "Client: open-unit, auth, protected, no-multi, rights, replica-redirect, maxmemory, unsaved, entry-space, \
         aof-fault, min-replicas, read-only, pubsub, stale, loading, busy, replica, pause, migrating, queue, aof-backlog\n\
         Primary: open-unit, loading, pause, migrating, queue, aof-backlog\n\
         Queued: rights\n\
         Call: maxmemory, rights, read-only-script, entry-space, min-replicas, unsaved, aof-fault, read-only, stale\n\
         ObeyedCall: maxmemory, rights, read-only-script, entry-space, min-replicas, stale\n"
    );
    assert!(CHECKS.len() < 32);
    assert_eq!(CHECKS[RIGHTS.trailing_zeros() as usize].name, "rights");
    assert_eq!(CHECKS[READ_ONLY_SCRIPT.trailing_zeros() as usize].name, "read-only-script");
    for check in CHECKS {
        let has_position = check.askers.position_in_call > 0;
        let is_asked_of_calls = check.askers.has(Asker::Call) || check.askers.has(Asker::ObeyedCall);
        assert_eq!(has_position, is_asked_of_calls, "{}", check.name);
    }
}

/// A check such as one of hash slots is one row: requests are asked ahead of memory, calls after memory and
/// rights, and commands of EXEC too.
#[test]
fn a_row_in_one_place_is_asked_of_requests_queues_and_calls() {
    let slot = Check {
        name: "slot",
        concerns: |spec| shows_data(spec),
        armed: |_| true,
        armed_for: |_| false,
        askers: Askers::CLIENT.and(Asker::Queued).and_calls(25).and(Asker::ObeyedCall),
        ask: |_| Some(Verdict::reject(CmdError::text("MOVED"))),
    };
    let at = CHECKS.iter().position(|check| check.name == "replica-redirect").unwrap();
    let mut checks = CHECKS.to_vec();
    checks.insert(at, slot);
    let gate = Gate::with_checks(Box::leak(checks.into_boxed_slice()), &[]);
    let rows = orders(&gate);
    for row in [
        "rights, slot, replica-redirect, maxmemory",
        "Queued: rights, slot\n",
        "Call: maxmemory, rights, slot, read-only-script",
    ] {
        assert!(rows.contains(row), "{row} in {rows}");
    }
}
