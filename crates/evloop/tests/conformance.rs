//! What every driver must do, by the ids of the conformance list.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use sluice_base::Bytes;
use sluice_clock::{Machine, System};
use sluice_evloop::{
    AnyLoop, Backend, Config, Deadline, Event, Interest, Loop, Received, SendBuf, Sending, Sent, Source,
    Token,
};

/// The drivers under test.
const BACKENDS: &[Backend] = &[Backend::Epoll, Backend::IoUring, Backend::Poll];

fn on_each(check: impl Fn(AnyLoop)) {
    on_each_with(&Config::default(), check);
}

fn on_each_with(config: &Config, check: impl Fn(AnyLoop)) {
    // One driver by name, for whoever looks into a failure.
    let only = std::env::var("EV_ONLY").unwrap_or_default();
    let wanted = |name: &str| only.is_empty() || only == name;
    for &backend in BACKENDS.iter().filter(|backend| wanted(backend.name())) {
        check(Loop::choose(backend, config).expect("the driver opens").event_loop);
    }
    for sim_seed in (1..=SIM_SEEDS).filter(|_| wanted("sim")) {
        check(AnyLoop::simulated(&Config { sim_seed, ..config.clone() }).expect("it needs nothing"));
    }
}

/// Scripts that each test is run under on the simulated ring.
const SIM_SEEDS: u64 = 12;

fn now_ns() -> u64 {
    System::without_counter().monotonic_ns()
}

/// Far enough that only a lost wake-up reaches it.
fn soon() -> Deadline {
    Deadline::at_ns(now_ns() + 5_000_000_000)
}

/// The next event, over as many turns as it takes; fails the test when none comes.
fn next(lp: &mut AnyLoop) -> Event {
    let until = soon();
    loop {
        if let Some(event) = lp.next_event(now_ns()) {
            return event;
        }
        assert!(now_ns() < u64::from(until), "an event comes");
        let _ = lp.wait(now_ns(), until).expect("wait");
    }
}

/// All that one look at the kernel brings.
fn look(lp: &mut AnyLoop) -> Vec<Event> {
    let mut events: Vec<Event> = std::iter::from_fn(|| lp.next_event(now_ns())).collect();
    let _ = lp.wait(now_ns(), Deadline::PAST).expect("wait");
    events.extend(std::iter::from_fn(|| lp.next_event(now_ns())));
    events
}

/// The loop has nothing more to say, and comes to rest within a few turns (cancelling takes a ring a turn or two).
fn assert_quiet(lp: &mut AnyLoop) {
    for _ in 0..3 {
        let turn = lp.wait(now_ns(), Deadline::PAST).expect("wait");
        assert!(lp.next_event(now_ns()).is_none());
        if turn.ready == 0 {
            return;
        }
    }
    panic!("a busy loop");
}

fn pair(lp: &mut AnyLoop, token: u64) -> (Source, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("pair");
    ours.set_nonblocking(true).expect("nonblocking");
    (lp.attach(OwnedFd::from(ours), Token(token)), theirs)
}

fn head(bytes: &[u8]) -> SendBuf {
    SendBuf { head: bytes.to_vec(), shared: Vec::new() }
}

fn sent(lp: &mut AnyLoop, sending: Sending) -> Sent {
    match sending {
        Sending::Done(sent) => sent,
        Sending::InFlight => match next(lp) {
            Event::Sent { sent, .. } => sent,
            other => panic!("{other:?}"),
        },
    }
}

/// The next `len` received bytes, in however many chunks.
fn data(lp: &mut AnyLoop, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        match next(lp) {
            Event::Received { received: Received::Data(chunk), .. } => {
                bytes.extend_from_slice(&chunk);
                lp.give_back(chunk);
            }
            other => panic!("{other:?}"),
        }
    }
    bytes
}

#[test]
fn ev_s1_a_look_returns_at_once() {
    on_each(|mut lp| {
        let turn = lp.wait(now_ns(), Deadline::PAST).expect("wait");
        assert_eq!((turn.woken, turn.ready), (false, 0));
        assert!(lp.next_event(now_ns()).is_none());
    });
}

#[test]
fn ev_s2_a_wait_ends_at_its_deadline_and_not_before() {
    on_each(|mut lp| {
        let until = now_ns() + 3_300_000;
        while now_ns() < until {
            let _ = lp.wait(now_ns(), Deadline::at_ns(until)).expect("wait");
        }
        assert!(now_ns() >= until);
        assert!(lp.metrics().turns <= 2, "one wait slept the whole time: {:?}", lp.metrics());
    });
}

#[test]
fn ev_s5_s6_a_wake_from_another_thread_ends_each_wait() {
    on_each(|mut lp| {
        for _ in 0..100 {
            let waker = lp.waker();
            let thread = thread::spawn(move || waker.wake());
            while !lp.wait(now_ns(), soon()).expect("wait").woken {}
            thread.join().expect("thread");
        }
        assert_eq!(lp.metrics().wakes_seen, 100);
    });
}

#[test]
fn ev_s7_a_wake_of_a_loop_that_is_awake_asks_no_kernel_and_is_not_lost() {
    on_each(|mut lp| {
        let waker = lp.waker();
        for _ in 0..1000 {
            assert!(!waker.wake());
        }
        assert!(lp.wait(now_ns(), soon()).expect("wait").woken);
        assert!(!lp.wait(now_ns(), Deadline::PAST).expect("wait").woken);
        assert_eq!(lp.metrics().wakes_sent, 0);
    });
}

#[test]
fn ev_s8_no_wake_is_lost_while_the_loop_goes_to_sleep() {
    on_each(|mut lp| {
        let count = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (waker, count, done) = (lp.waker(), count.clone(), done.clone());
                thread::spawn(move || {
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        count.fetch_add(1, std::sync::atomic::Ordering::Release);
                        waker.wake();
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        let mut seen = 0;
        for _ in 0..20_000 {
            let before = now_ns();
            let turn = lp.wait(before, Deadline::at_ns(before + 2_000_000_000)).expect("wait");
            assert!(turn.woken || now_ns() - before < 1_000_000_000, "slept through a wake");
            seen = seen.max(count.load(std::sync::atomic::Ordering::Acquire));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        producers.into_iter().for_each(|thread| thread.join().expect("thread"));
        assert!(seen > 0);
    });
}

#[test]
fn ev_s10_s11_watches_report_once_what_they_asked_for() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 4);
        lp.watch(source, Interest::READABLE);
        assert!(look(&mut lp).is_empty());
        peer.write_all(b"x").expect("write");
        match next(&mut lp) {
            Event::Ready { token, ready } => assert_eq!((token, ready), (Token(4), Interest::READABLE)),
            other => panic!("{other:?}"),
        }
        assert!(look(&mut lp).is_empty(), "a watch is over after its event");
        lp.watch(source, Interest::READABLE.or(Interest::WRITABLE));
        match next(&mut lp) {
            Event::Ready { ready, .. } => assert_eq!(ready, Interest::READABLE.or(Interest::WRITABLE)),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn ev_s14_events_never_cross_over_to_a_descriptor_with_the_same_number() {
    on_each(|mut lp| {
        for round in 0..50 {
            let (source, mut peer) = pair(&mut lp, round);
            lp.recv_start(source);
            peer.write_all(b"old").expect("write");
            let _ = lp.wait(now_ns(), soon()).expect("wait");
            lp.close(source);
            let (fresh, mut other) = pair(&mut lp, 1000 + round);
            lp.recv_start(fresh);
            assert!(look(&mut lp).is_empty());
            other.write_all(b"new").expect("write");
            assert_eq!(data(&mut lp, 3), b"new");
            lp.close(fresh);
        }
        assert!(lp.metrics().stale > 0);
    });
}

#[test]
fn ev_s18_a_source_closed_in_the_midst_of_a_turn_says_nothing_more() {
    on_each(|mut lp| {
        let (first, mut one) = pair(&mut lp, 1);
        let (second, mut two) = pair(&mut lp, 2);
        lp.recv_start(first);
        lp.recv_start(second);
        one.write_all(b"1").expect("write");
        two.write_all(b"2").expect("write");
        let Event::Received { token, .. } = next(&mut lp) else { panic!("bytes") };
        lp.close(if token == Token(1) { second } else { first });
        let rest = look(&mut lp);
        assert!(
            rest.iter().all(|event| matches!(event, Event::Received { token: other, .. } if *other == token))
        );
    });
}

#[test]
fn ev_r1_a_message_arrives_and_then_the_end() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 9);
        lp.recv_start(source);
        peer.write_all(b"hello").expect("write");
        assert_eq!(data(&mut lp, 5), b"hello");
        drop(peer);
        let Event::Received { token, received: Received::Eof } = next(&mut lp) else { panic!("end") };
        assert_eq!(token, Token(9));
        assert!(look(&mut lp).is_empty(), "the end comes once");
    });
}

#[test]
fn ev_r2_recv_into_gathers_until_enough_has_come() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 9);
        let mut buf = Vec::with_capacity(12);
        buf.extend_from_slice(b"ab");
        lp.recv_into(source, buf, 10);
        for piece in [b"01234", b"56789"] {
            peer.write_all(piece).expect("write");
            if piece == b"01234" {
                assert!(look(&mut lp).is_empty());
            }
        }
        let Event::Filled { buf, error: None, .. } = next(&mut lp) else { panic!("filled") };
        assert_eq!(buf, b"ab0123456789");
        lp.recv_start(source);
        peer.write_all(b"on").expect("write");
        assert_eq!(data(&mut lp, 2), b"on");
        lp.recv_stop(source);
        lp.recv_into(source, Vec::new(), 3);
        peer.write_all(b"x").expect("write");
        drop(peer);
        let Event::Filled { buf, error: Some(error), .. } = next(&mut lp) else { panic!("ended") };
        assert_eq!((buf, error.kind()), (b"x".to_vec(), std::io::ErrorKind::UnexpectedEof));
    });
}

#[test]
fn ev_r3_bytes_that_nobody_receives_cause_no_busy_loop() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 1);
        lp.recv_start(source);
        lp.recv_stop(source);
        peer.write_all(b"kept").expect("write");
        assert_quiet(&mut lp);
        peer.shutdown(std::net::Shutdown::Both).expect("shutdown");
        assert_quiet(&mut lp);
        lp.recv_start(source);
        assert_eq!(data(&mut lp, 4), b"kept");
    });
}

#[test]
fn ev_w1_what_is_sent_is_what_the_peer_reads() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 1);
        let mut buf = head(b"a");
        buf.push_shared(Bytes::copy_from(b"BB"));
        buf.head.extend_from_slice(b"c");
        let sending = lp.send(source, buf);
        let sent = sent(&mut lp, sending);
        assert!(sent.error.is_none());
        assert_eq!((sent.bytes, sent.buf.len()), (4, 4));
        let mut got = [0; 4];
        peer.read_exact(&mut got).expect("read");
        assert_eq!(&got, b"aBBc");
    });
}

#[test]
fn ev_b2_an_empty_send_is_done_at_once() {
    on_each(|mut lp| {
        let (source, _peer) = pair(&mut lp, 1);
        let Sending::Done(sent) = lp.send(source, SendBuf::new()) else { panic!("done") };
        assert!(sent.error.is_none());
    });
}

#[test]
fn ev_wd1_a_send_that_fills_the_socket_goes_on_when_it_drains() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 1);
        let mut buf = SendBuf::new();
        for index in 0..3000_u32 {
            buf.head.extend_from_slice(&index.to_le_bytes());
            buf.push_shared(Bytes::from_vec(vec![index as u8; 700]));
        }
        let mut want = Vec::new();
        for index in 0..3000_u32 {
            want.extend_from_slice(&index.to_le_bytes());
            want.extend_from_slice(&[index as u8; 700]);
        }
        let Sending::InFlight = lp.send(source, buf) else { panic!("more than the socket holds") };
        let Sending::Done(second) = lp.send(source, head(b"no")) else { panic!("one at a time") };
        assert!(second.error.is_some());
        let reader = thread::spawn(move || {
            let mut got = vec![0; want.len()];
            peer.read_exact(&mut got).expect("read");
            assert!(got == want);
            peer
        });
        let Event::Sent { sent, .. } = next(&mut lp) else { panic!("sent") };
        assert!(sent.error.is_none());
        assert_eq!(sent.bytes, 3000 * 704);
        let _peer = reader.join().expect("thread");
        assert_quiet(&mut lp);
    });
}

#[test]
fn a_send_to_a_peer_that_went_away_fails_and_brings_the_buffer_home() {
    on_each(|mut lp| {
        let (source, peer) = pair(&mut lp, 1);
        drop(peer);
        let sending = lp.send(source, head(b"lost"));
        let sent = sent(&mut lp, sending);
        assert!(sent.error.is_some());
        assert_eq!(sent.buf.head, b"lost");
        lp.close(source);
        let Sending::Done(sent) = lp.send(source, sent.buf) else { panic!("done") };
        assert_eq!(
            sent.error.and_then(|error| error.raw_os_error()),
            Some(rustix::io::Errno::BADF.raw_os_error())
        );
    });
}

#[test]
fn accepts_in_batches_of_the_budget_and_loses_none() {
    on_each_with(&Config { accepts_per_turn: 3, ..Config::default() }, |mut lp| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        listener.set_nonblocking(true).expect("nonblocking");
        let address = listener.local_addr().expect("address");
        let source = lp.attach(OwnedFd::from(listener), Token(77));
        lp.accept_start(source);
        let peers: Vec<_> = (0..8).map(|_| TcpStream::connect(address).expect("connect")).collect();
        let mut sockets = Vec::new();
        while sockets.len() < peers.len() {
            let _ = lp.wait(now_ns(), soon()).expect("wait");
            let events: Vec<_> = std::iter::from_fn(|| lp.next_event(now_ns())).collect();
            assert!(events.len() <= 3);
            for event in events {
                let Event::Accepted { token, socket } = event else { panic!("{event:?}") };
                assert_eq!(token, Token(77));
                sockets.push(socket);
            }
        }
        assert!(look(&mut lp).is_empty());
        for (mut peer, socket) in peers.into_iter().zip(sockets) {
            let source = lp.attach(socket, Token(1));
            let sending = lp.send(source, head(b"hi"));
            assert!(sent(&mut lp, sending).error.is_none());
            lp.close(source);
            // A ring closes in its next turn, or the one after.
            (0..8).for_each(|_| drop(look(&mut lp)));
            let mut got = String::new();
            peer.read_to_string(&mut got).expect("bytes and then the end");
            assert_eq!(got, "hi");
        }
    });
}

/// TCP's end of stream counts as a readable byte, which a ring reports as "more to come".
#[test]
fn the_end_of_a_tcp_stream_comes_once_and_leaves_the_loop_at_rest() {
    on_each(|mut lp| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let peer = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (ours, _) = listener.accept().expect("accept");
        ours.set_nonblocking(true).expect("nonblocking");
        let source = lp.attach(OwnedFd::from(ours), Token(5));
        lp.recv_start(source);
        assert!(look(&mut lp).is_empty());
        drop(peer);
        let Event::Received { token: Token(5), received: Received::Eof } = next(&mut lp) else {
            panic!("end")
        };
        assert_quiet(&mut lp);
        let calls = lp.metrics().system_calls;
        let _ = lp.wait(now_ns(), Deadline::at_ns(now_ns() + 3_000_000)).expect("wait");
        assert!(lp.metrics().system_calls - calls <= 2, "it sleeps: {:?}", lp.metrics());
        lp.close(source);
    });
}

#[test]
fn ev_t1_t2_timers_fire_once_in_order_and_never_early() {
    on_each(|mut lp| {
        let base = now_ns();
        for offset in [5_u64, 1, 4, 2, 3] {
            lp.timer_at(Deadline::at_ns(base + offset * 500_000), Token(offset));
        }
        for want in 1..=5 {
            let Event::Timer { token, .. } = next(&mut lp) else { panic!("timer") };
            assert_eq!(token, Token(want));
            assert!(now_ns() >= base + want * 500_000);
        }
        assert_eq!(lp.timers_len(), 0);
    });
}

#[test]
fn a_detached_descriptor_comes_back_open_and_silent() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 6);
        lp.recv_start(source);
        lp.detach(source);
        let Event::Detached { token, fd } = next(&mut lp) else { panic!("detached") };
        assert_eq!(token, Token(6));
        peer.write_all(b"later").expect("write");
        assert!(look(&mut lp).is_empty());
        let again = lp.attach(fd, Token(7));
        lp.recv_start(again);
        assert_eq!(data(&mut lp, 5), b"later");
    });
}

#[test]
fn a_shared_descriptor_is_watched_here_and_stays_open_elsewhere() {
    on_each(|mut lp| {
        let (ours, mut peer) = UnixStream::pair().expect("pair");
        ours.set_nonblocking(true).expect("nonblocking");
        let shared = Arc::new(OwnedFd::from(ours));
        let source = lp.attach(shared.clone(), Token(3));
        lp.watch(source, Interest::READABLE);
        lp.close(source);
        peer.write_all(b"x").expect("write");
        assert_quiet(&mut lp);
        let mut byte = [0];
        assert_eq!(rustix::io::read(&*shared, &mut byte).expect("open still"), 1);
    });
}
