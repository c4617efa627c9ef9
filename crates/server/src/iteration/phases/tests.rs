//! Tests of the table of phases, with a server in this process whose iterations are run one by one.

use super::*;
use crate::allocator::NoAllocator;
use crate::connection::transport::Transport;
use crate::connection::{Connection, ConnectionHost};
use crate::host::Host;
use sluice_base::HashSeed;
use sluice_config::Config;
use sluice_daemon::restart::Restart;
use sluice_daemon::signals::Signals;
use sluice_engine::{Engine, Seeds};
use sluice_evloop::{AnyLoop, Backend};
use sluice_session::{ClientAddress, Medium};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// A server without listeners, and its only client.
struct Rig {
    server: Server,
    client: UnixStream,
    now_ns: u64,
}

impl Rig {
    fn new() -> Rig {
        let mut host = Host::new(&NoAllocator, Restart::of_process(Vec::new()));
        let seeds = Seeds { hash: HashSeed { k0: 1, k1: 2 }, rng: 3 };
        let engine = Engine::new(Config::default(), seeds, &mut host);
        let opened = AnyLoop::choose(Backend::Poll, &sluice_evloop::Config::default());
        let event_loop = opened.expect("poll is everywhere").event_loop;
        let mut server = Server::new(engine, host, event_loop, Signals::install().expect("handlers"));
        let (client, own) = UnixStream::pair().expect("a pair of sockets");
        client.set_nonblocking(true).expect("a socket takes that");
        let (addr, laddr) = (String::from("test"), "test".into());
        let address = ClientAddress { addr, laddr, fd: 0, medium: Medium::Unix, has_priority: false };
        let key = server.engine.connect(address, &mut server.host);
        server.sockets.clients.add(key);
        let transport = Transport::attach(&mut server.sockets.event_loop, own.into(), key);
        let mut connection = Connection::new(key, transport);
        connection.authentication = server.engine.authentication(key);
        connection.receive(&mut server.sockets.event_loop);
        server.put(connection);
        Rig { server, client, now_ns: 0 }
    }

    /// Sends a command and runs iterations until the reply arrives. Returns the reply, and the reasons of
    /// the iteration that sent it.
    fn ask(&mut self, command: &str) -> (String, Reasons) {
        self.client.write_all(format!("{command}\r\n").as_bytes()).expect("there is room for a command");
        let mut reply = [0; 1000];
        loop {
            self.now_ns = iterate(&mut self.server, self.now_ns).expect("the event loop works");
            if let Ok(bytes) = self.client.read(&mut reply) {
                let text = String::from_utf8_lossy(&reply[..bytes]).into_owned();
                return (text, self.server.agenda.reasons);
            }
        }
    }

    /// Sends a command a hundred times; returns how many of the iterations that replied have no reason other
    /// than `EACH`.
    fn plain_of_a_hundred(&mut self, command: &str) -> usize {
        (0..100).filter(|_| self.ask(command).1 == Reasons::EACH).count()
    }
}

#[test]
fn an_iteration_of_plain_commands_has_no_other_reason() {
    let mut rig = Rig::new();
    rig.ask("SET k v");
    for command in ["GET k", "SET k w", "PING", "INCR n", "LPUSH l e", "EXISTS k"] {
        // Deadlines are due ten times a second, so on a busy machine more of the hundred iterations have one.
        let plain = rig.plain_of_a_hundred(command);
        assert!(plain > 50, "{command}: {plain}");
    }
}

#[test]
fn what_changes_the_control_plane_is_news_and_what_stands_is_seen() {
    let mut rig = Rig::new();
    rig.ask("PING");
    for command in ["CONFIG SET maxmemory-samples 6", "WATCH k", "CLIENT PAUSE 0"] {
        let (reply, reasons) = rig.ask(command);
        assert_eq!(reply, "+OK\r\n", "{command}");
        assert!(reasons.meets(Reasons::NEWS), "{command}");
    }
    // The server follows a primary that does not answer.
    let (_, reasons) = rig.ask("REPLICAOF 127.0.0.1 1");
    assert!(reasons.meets(Reasons::NEWS));
    let (_, reasons) = rig.ask("PING");
    assert!(reasons.meets(Reasons::PRIMARY));
    rig.ask("REPLICAOF NO ONE");
    rig.ask("PING");
    assert!(!rig.ask("PING").1.meets(Reasons::PRIMARY));
    assert!(rig.plain_of_a_hundred("GET k") > 50);
}

#[test]
fn these_phases_follow_one_another_for_these_reasons() {
    let names = [
        ("news", Reasons::NEWS),
        ("time", Reasons::TIME),
        ("under-way", Reasons::UNDER_WAY),
        ("primary", Reasons::PRIMARY),
        ("cluster", Reasons::CLUSTER),
    ];
    let reasons = |phase: &IterationPhase| match phase.waits_for {
        Reasons::EACH => "each".to_owned(),
        Reasons::MORE => "more".to_owned(),
        some => {
            let named = names.iter().filter(|(_, reason)| some.meets(*reason));
            named.map(|(name, _)| *name).collect::<Vec<_>>().join("+")
        }
    };
    let table: Vec<String> =
        PHASES.iter().map(|phase| format!("{}: {}", phase.name, reasons(phase))).collect();
    assert_eq!(
        table.join("\n"),
        "collect and execute: each\n\
         see what else is: each\n\
         go on with an open unit: news+under-way\n\
         take what was loaded: news+under-way\n\
         follow the primary: news+primary\n\
         take pieces of slow reads: news+under-way\n\
         end migrations: news+time+under-way\n\
         end loads of users: news+under-way\n\
         take up connections of TLS: news+under-way\n\
         take up connections: news+under-way\n\
         cron: news+time\n\
         expire: news+time+under-way\n\
         act: more\n\
         move connections: more\n\
         close: each\n\
         write: each\n\
         close who failed: each\n\
         drive the bus: cluster\n\
         flush to I/O threads: more\n\
         walk slots that leave: cluster\n\
         save: each\n\
         sample: more"
    );
}

#[test]
fn a_phase_that_no_iteration_of_plain_commands_runs_waits_for_something_else() {
    for phase in PHASES {
        let is_of_each = phase.waits_for == Reasons::EACH;
        assert_ne!(is_of_each, Reasons::MORE.meets(phase.waits_for), "{}", phase.name);
    }
}
