use super::*;
use crate::connection::input::QueryBufUsage;
use crate::connection::transport::Transport;
use crate::host::Host;
use sluice_base::HashSeed;
use sluice_config::Config;
use sluice_daemon::restart::Restart;
use sluice_engine::{Engine, Seeds};
use sluice_evloop::Backend;
use sluice_queue::Capacity;
use sluice_queue::lanes::{Collector, collector};
use sluice_resp::AuthState;
use std::os::unix::net::UnixStream;

/// Number of messages that the ring to the main thread holds.
const LANE: usize = 2;

/// An I/O thread that runs on the test's thread, with the main thread's ends of its channels.
struct Rig {
    io_thread: IoThread,
    collector: Collector<ToMain>,
    _inbox: spsc::Producer<ToIoThread>,
    clients: Vec<UnixStream>,
}

impl Rig {
    fn new() -> Rig {
        let seeds = Seeds { hash: HashSeed { k0: 1, k1: 2 }, rng: 3 };
        let restart = Restart::of_process(Vec::new());
        let mut host = Host::new(&crate::allocator::NoAllocator, restart);
        let engine = Engine::new(Config::default(), seeds, &mut host);
        let open = || {
            let opened = AnyLoop::choose(Backend::Poll, &sluice_evloop::Config::default());
            opened.expect("poll is everywhere").event_loop
        };
        let (inbox, consumer) = spsc::channel(Capacity::at_least(LANE));
        let mut collector = collector(1);
        let channels = Channels {
            id: IoThreadId(0),
            inbox: consumer,
            lane: collector.open(Capacity::at_least(LANE)).expect("the first"),
            main: open().waker(),
            published: Arc::new(Published::default()),
            settings: Arc::new(Settings {
                preparer: engine.preparer(),
                limits: engine.limits().clone(),
                gather_depth: u64::MAX,
                spin_ns: 0,
            }),
        };
        Rig { io_thread: IoThread::new(channels, open()), collector, _inbox: inbox, clients: Vec::new() }
    }

    /// Gives the I/O thread a connection.
    fn connect(&mut self) -> SessionKey {
        let (client, server) = UnixStream::pair().expect("a pair of sockets");
        let key = SessionKey { slot: self.clients.len() as u32, generation: 1 };
        let mut connection = Connection::new(key, Transport::detached());
        connection.authentication = AuthState::Authenticated;
        self.io_thread.adopt(Moving { connection, stream: server.into() });
        self.clients.push(client);
        key
    }

    /// Makes a connection receive bytes.
    fn receive(&mut self, key: SessionKey, bytes: &[u8]) {
        let mut connection = self.io_thread.take(key).expect("it is open");
        match connection.input.is_open() {
            true => self.io_thread.process(&mut connection, bytes),
            false => connection.input.keep(bytes),
        }
        connection::go_on_receiving(&mut self.io_thread, connection);
    }

    /// Flushes, and takes as many messages as the main thread takes in an iteration.
    fn collect(&mut self) -> Vec<ToMain> {
        let mut messages = Vec::new();
        self.io_thread.flush();
        self.collector.collect(LANE, &mut |message| messages.push(message));
        messages
    }
}

#[test]
fn what_waits_for_the_main_thread_does_not_grow_with_every_byte() {
    let mut rig = Rig::new();
    let keys: Vec<SessionKey> = (0..10).map(|_| rig.connect()).collect();
    for key in &keys {
        rig.receive(*key, b"*2\r\n$4\r\nECHO\r\n$20000\r\n");
    }
    for _ in 0..1000 {
        keys.iter().for_each(|key| rig.receive(*key, b"x"));
        rig.io_thread.flush();
    }
    assert!(rig.io_thread.overflow.len() <= keys.len(), "{} messages", rig.io_thread.overflow.len());
    // In the end, the last reported usage of every connection is its present usage.
    let mut reported = vec![QueryBufUsage::default(); keys.len()];
    let mut note = |message: &ToMain| match message {
        ToMain::Usage(key, usage) => reported[key.slot as usize] = *usage,
        other => panic!("{other:?}"),
    };
    loop {
        let messages = rig.collect();
        messages.iter().for_each(&mut note);
        if messages.is_empty() {
            break;
        }
    }
    for key in &keys {
        let usage = rig.io_thread.connection(*key).expect("it is open").input.usage();
        assert_eq!(reported[key.slot as usize], usage);
    }
    // The usage is reported again after the next byte.
    rig.receive(keys[3], b"x");
    let last = rig.collect();
    assert!(matches!(last[..], [ToMain::Usage(key, _)] if key == keys[3]), "{last:?}");
}

#[test]
fn a_batch_behind_a_message_that_waits_is_sent_after_it() {
    let mut rig = Rig::new();
    let (first, second) = (rig.connect(), rig.connect());
    rig.receive(first, b"PING\r\n");
    rig.receive(first, b"");
    rig.receive(second, b"PI");
    // The lane is full, so the usage message waits. Later input updates it, and no later message overtakes
    // it.
    let third = rig.connect();
    rig.receive(third, b"PI");
    rig.receive(third, b"NG\r\nPI");
    let mut kinds = Vec::new();
    for _ in 0..4 {
        for message in rig.collect() {
            kinds.push(match message {
                ToMain::Usage(key, usage) => (key.slot, "usage", usage.used),
                ToMain::Batch(batch) => (batch.key.slot, "batch", batch.usage.used),
                other => panic!("{other:?}"),
            });
        }
    }
    assert_eq!(kinds, [(0, "batch", 0), (1, "usage", 2), (2, "usage", 2), (2, "batch", 2)]);
}

#[test]
fn an_io_thread_looks_for_work_for_some_time_before_it_sleeps() {
    let mut rig = Rig::new();
    let io_thread = &mut rig.io_thread;
    let parks = |io_thread: &IoThread| io_thread.channels.published.parks.load(Relaxed);
    let settings = |spin_ns| {
        let Settings { preparer, limits, gather_depth, .. } = &*io_thread.channels.settings;
        Arc::new(Settings {
            preparer: preparer.clone(),
            limits: limits.clone(),
            gather_depth: *gather_depth,
            spin_ns,
        })
    };
    let (spinning, still) = (settings(50_000), settings(0));
    io_thread.worked_ns = 1_000_000;
    io_thread.channels.settings = still;
    assert_eq!(io_thread.wait_deadline(1_000_001), Deadline::NEVER);
    assert_eq!((io_thread.spins, parks(io_thread)), (false, 1));
    io_thread.channels.settings = spinning;
    for now_ns in [1_000_001, 1_049_999] {
        assert_eq!(io_thread.wait_deadline(now_ns), Deadline::PAST);
        assert_eq!((io_thread.spins, parks(io_thread)), (true, 1));
    }
    assert_eq!(io_thread.wait_deadline(1_050_000), Deadline::NEVER);
    assert_eq!((io_thread.spins, parks(io_thread)), (false, 2));
}

#[test]
fn a_batch_that_is_kept_gives_a_large_input_back() {
    let mut rig = Rig::new();
    let key = rig.connect();
    let text = "x".repeat(2000);
    let request = format!("*2\r\n$4\r\nECHO\r\n$2000\r\n{text}\r\n");
    rig.receive(key, request.repeat(100).as_bytes());
    let mut batches = rig.collect();
    let Some(ToMain::Batch(mut batch)) = batches.pop() else { panic!("a batch is due") };
    assert!(batch.input.capacity() > 190_000, "{}", batch.input.capacity());
    batch.done = batch.input.len();
    rig.io_thread.replied(batch);
    let kept: Vec<usize> = rig.io_thread.spare_batches.iter().map(|batch| batch.input.capacity()).collect();
    assert!(kept.len() == 1 && kept[0] <= 64 * 1024, "{kept:?}");
}
