//! Requirements on every driver, by their ids in `CONFORMANCE.md`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use sluice_base::Bytes;
use sluice_evloop::{
    AnyLoop, Backend, Config, Deadline, Event, Interest, Loop, Received, SendBuf, Sending, Shared, Token,
};

use crate::common::{assert_quiet, data, head, look, next, now_ns, on_each, on_each_with, pair, sent, soon};

#[test]
fn ev_s1_a_look_returns_at_once() {
    on_each(|mut lp| {
        let iteration = lp.wait(now_ns(), Deadline::PAST).expect("wait");
        assert_eq!((iteration.woken, iteration.ready), (false, 0));
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
        assert!(lp.metrics().iterations <= 2, "one wait slept the whole time: {:?}", lp.metrics());
    });
}

#[test]
fn ev_s5_s6_a_wake_from_another_thread_ends_each_wait() {
    on_each(|mut lp| {
        for _ in 0..30 {
            let waker = lp.waker();
            let thread = thread::spawn(move || waker.wake());
            let until = soon();
            while !lp.wait(now_ns(), until).expect("wait").woken {
                assert!(now_ns() < u64::from(until), "the wake-up comes");
            }
            thread.join().expect("thread");
        }
        assert_eq!(lp.metrics().wakes_seen, 30);
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
fn a_wake_if_parked_ends_a_wait_and_leaves_nothing_to_a_loop_that_is_awake() {
    on_each(|mut lp| {
        let waker = lp.waker();
        assert!(!waker.wake_if_parked());
        assert!(!lp.wait(now_ns(), Deadline::PAST).expect("wait").woken);
        let thread = thread::spawn(move || {
            let until = u64::from(soon());
            while !waker.wake_if_parked() {
                assert!(now_ns() < until, "the loop goes to sleep");
                thread::yield_now();
            }
        });
        assert!(lp.wait(now_ns(), soon()).expect("wait").woken);
        thread.join().expect("thread");
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
            let iteration = lp.wait(before, Deadline::at_ns(before + 2_000_000_000)).expect("wait");
            assert!(iteration.woken || now_ns() - before < 1_000_000_000, "slept through a wake");
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

/// Starts a connection; returns the error if the kernel reports it at once.
fn dial(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("a socket");
    match net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

#[test]
fn a_connection_that_was_begun_has_room_when_it_is_made_or_refused() {
    on_each(|mut lp| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let source = lp.attach(dial(address).expect("begun"), Token(1));
        lp.watch(source, Interest::WRITABLE);
        match next(&mut lp) {
            Event::Ready { token: Token(1), ready } => assert!(ready.intersects(Interest::WRITABLE)),
            other => panic!("{other:?}"),
        }
        let fd = lp.fd(source).expect("open");
        assert_eq!(sockopt::socket_error(fd).expect("a socket"), Ok(()));
        // From now on, the connection is like any other.
        lp.recv_start(source);
        let (mut peer, _) = listener.accept().expect("connected");
        peer.write_all(b"hello").expect("written");
        assert_eq!(data(&mut lp, 5), b"hello");
        let sending = lp.send(source, head(b"back"));
        assert!(sent(&mut lp, sending).error.is_none());
        let mut got = [0; 4];
        peer.read_exact(&mut got).expect("sent");
        assert_eq!(&got, b"back");
        lp.close(source);
        drop(listener);
        // Some kernels report the failure at once.
        if let Ok(socket) = dial(address) {
            let source = lp.attach(socket, Token(2));
            lp.watch(source, Interest::WRITABLE);
            loop {
                if let Event::Ready { token: Token(2), .. } = next(&mut lp) {
                    break;
                }
            }
            let fd = lp.fd(source).expect("open");
            assert_eq!(sockopt::socket_error(fd).expect("a socket"), Err(Errno::CONNREFUSED));
            lp.close(source);
        }
    });
}

#[test]
fn a_half_closed_peer_does_not_keep_a_watch_for_room_busy() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 4);
        let ours = lp.fd(source).expect("open").try_clone_to_owned().expect("clone");
        while rustix::io::write(&ours, &[0; 4096]).is_ok() {}
        lp.watch(source, Interest::WRITABLE);
        peer.shutdown(std::net::Shutdown::Write).expect("shutdown");
        assert_quiet(&mut lp);
        peer.set_nonblocking(true).expect("nonblocking");
        while peer.read(&mut [0; 4096]).is_ok() {}
        for _ in 0..2 {
            match next(&mut lp) {
                Event::Ready { ready, .. } => assert_eq!(ready, Interest::WRITABLE),
                other => panic!("{other:?}"),
            }
            assert_quiet(&mut lp);
            lp.watch(source, Interest::WRITABLE);
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
fn ev_s18_a_source_closed_in_the_midst_of_an_iteration_says_nothing_more() {
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
        lp.recv_into(source, b"so ".to_vec(), 100);
        peer.write_all(b"far").expect("write");
        assert!(look(&mut lp).is_empty());
        lp.recv_into_end(source);
        let Event::Filled { mut buf, error: None, .. } = next(&mut lp) else { panic!("ended early") };
        // Bytes that arrived after the fill ended are there for the next receive.
        let missing = b"so far".len() - buf.len();
        if missing > 0 {
            lp.recv_start(source);
            buf.extend(data(&mut lp, missing));
            lp.recv_stop(source);
        }
        assert_eq!(buf, b"so far");
        lp.recv_into_end(source);
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
        buf.shared.push(Shared { at: buf.head.len(), bytes: Bytes::copy_from(b"BB") });
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
            buf.shared.push(Shared { at: buf.head.len(), bytes: Bytes::from_vec(vec![index as u8; 700]) });
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
fn a_send_that_the_socket_takes_has_gone_before_its_event_comes() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 1);
        assert!(lp.has_sent(source), "nothing was given");
        let sending = lp.send(source, head(b"reply"));
        if lp.name() == "sim" && !lp.has_sent(source) {
            // The simulated ring has sent a part, or reports later.
            assert_eq!(sent(&mut lp, sending).bytes, 5);
            return;
        }
        assert!(lp.has_sent(source));
        rustix::net::send(lp.fd(source).expect("open"), b"end", rustix::net::SendFlags::empty())
            .expect("send");
        let mut got = [0; 8];
        peer.read_exact(&mut got).expect("read");
        assert_eq!(&got, b"replyend");
        assert_eq!(sent(&mut lp, sending).bytes, 5);
        assert!(lp.has_sent(source));
        // Bytes that do not fit the socket are not sent, however often `has_sent` is called.
        let Sending::InFlight = lp.send(source, head(&vec![b'x'; 8_000_000])) else { panic!("large") };
        assert!(!lp.has_sent(source));
        assert!(!lp.has_sent(source));
        let reader = thread::spawn(move || {
            peer.read_exact(&mut vec![0; 8_000_000]).expect("read");
            peer
        });
        let Event::Sent { sent, .. } = next(&mut lp) else { panic!("sent") };
        assert_eq!((sent.bytes, sent.error.is_none()), (8_000_000, true));
        let _peer = reader.join().expect("thread");
        assert!(lp.has_sent(source));
        lp.close(source);
        assert!(!lp.has_sent(source));
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
    on_each_with(&Config { accepts_per_iteration: 3, ..Config::default() }, |mut lp| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        listener.set_nonblocking(true).expect("nonblocking");
        let address = listener.local_addr().expect("address");
        let source = lp.attach(OwnedFd::from(listener), Token(77));
        lp.accept_start(source);
        let peers: Vec<_> = (0..8).map(|_| TcpStream::connect(address).expect("connect")).collect();
        let mut sockets = Vec::new();
        let until = soon();
        while sockets.len() < peers.len() {
            assert!(now_ns() < u64::from(until), "all are accepted");
            let _ = lp.wait(now_ns(), until).expect("wait");
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
            // A ring closes in its next iteration, or the one after.
            (0..8).for_each(|_| drop(look(&mut lp)));
            let mut got = String::new();
            peer.read_to_string(&mut got).expect("bytes and then the end");
            assert_eq!(got, "hi");
        }
    });
}

#[test]
fn ev_s12_s13_input_and_a_blocked_send_of_one_source_both_complete() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 1);
        lp.recv_start(source);
        let big = vec![7; 1 << 20];
        let Sending::InFlight = lp.send(source, head(&big)) else { panic!("more than the socket holds") };
        peer.write_all(b"in").expect("write");
        assert_eq!(data(&mut lp, 2), b"in", "input is not behind the send");
        let reader = thread::spawn(move || {
            let mut got = vec![0; 1 << 20];
            peer.read_exact(&mut got).expect("read");
            (got, peer)
        });
        let Event::Sent { sent, .. } = next(&mut lp) else { panic!("sent") };
        assert_eq!(sent.bytes, 1 << 20);
        let (got, mut peer) = reader.join().expect("thread");
        assert!(got == big);
        peer.write_all(b"on").expect("write");
        assert_eq!(data(&mut lp, 2), b"on");
    });
}

#[test]
fn ev_s16_two_sources_on_one_descriptor_are_both_told() {
    on_each(|mut lp| {
        let (ours, mut peer) = UnixStream::pair().expect("pair");
        ours.set_nonblocking(true).expect("nonblocking");
        let copy = ours.try_clone().expect("dup");
        for (fd, token) in [(ours, 1), (copy, 2)] {
            let source = lp.attach(OwnedFd::from(fd), Token(token));
            lp.watch(source, Interest::READABLE);
        }
        peer.write_all(b"x").expect("write");
        let mut told = [0, 0].map(|_: i32| match next(&mut lp) {
            Event::Ready { token, .. } => token.0,
            other => panic!("{other:?}"),
        });
        told.sort_unstable();
        assert_eq!(told, [1, 2]);
    });
}

#[test]
fn sockets_that_get_room_together_go_on_in_turns_and_input_does_not_wait_for_them() {
    let config = Config { sent_on_per_iteration: 1, ..Config::default() };
    on_each_with(&config, |mut lp| {
        if ["io_uring", "sim"].contains(&lp.name()) {
            // A ring continues sends by itself.
            return;
        }
        let (small, mut asking) = pair(&mut lp, 99);
        lp.recv_start(small);
        let mut peers = Vec::new();
        for token in 0..40 {
            let (source, peer) = pair(&mut lp, token);
            peer.set_nonblocking(true).expect("nonblocking");
            let Sending::InFlight = lp.send(source, head(&vec![b'x'; 1_000_000])) else { panic!("large") };
            peers.push((peer, 0));
        }
        let mut buf = vec![0; 1_000_000];
        let until = soon();
        let mut turns = 0;
        while peers.iter().any(|(_, got)| *got < 1_000_000) {
            assert!(now_ns() < u64::from(until), "all is sent");
            // Every socket has room from here on.
            let mut gone_on = 0;
            for (peer, got) in &mut peers {
                let before = *got;
                while let Ok(read) = peer.read(&mut buf) {
                    *got += read;
                }
                gone_on += usize::from(*got > before);
            }
            assert!(turns == 0 || gone_on <= 1, "{gone_on} went on in one iteration");
            turns += 1;
            asking.write_all(b"?").expect("write");
            let _ = lp.wait(now_ns(), until).expect("wait");
            let mut asked = 0;
            while let Some(event) = lp.next_event(now_ns()) {
                if let Event::Received { token: Token(99), received: Received::Data(chunk) } = event {
                    asked += chunk.len();
                    lp.give_back(chunk);
                }
            }
            assert_eq!(asked, 1, "the question does not wait");
        }
        assert!(turns > 40);
    });
}

#[test]
fn ev_b1_b5_bytes_beyond_one_chunk_come_in_order() {
    on_each_with(&Config { chunk_bytes: 64, ..Config::default() }, |mut lp| {
        let (source, mut peer) = pair(&mut lp, 1);
        let sent: Vec<u8> = (0..1280).map(|index| (index % 251) as u8).collect();
        peer.write_all(&sent).expect("write");
        lp.recv_start(source);
        assert_eq!(data(&mut lp, sent.len()), sent);
        assert!(look(&mut lp).is_empty());
    });
}

#[test]
fn one_source_gets_one_chunk_in_an_iteration_however_much_it_sends() {
    on_each_with(&Config { chunk_bytes: 64, ..Config::default() }, |mut lp| {
        let (flooder, mut flood) = pair(&mut lp, 1);
        let (other, mut peer) = pair(&mut lp, 2);
        lp.recv_start(flooder);
        lp.recv_start(other);
        flood.write_all(&[1; 64 * 50]).expect("write");
        peer.write_all(b"me too").expect("write");
        let (mut flooded, mut polite) = (0, 0);
        let until = soon();
        while flooded < 64 * 50 || polite < 6 {
            assert!(now_ns() < u64::from(until), "all is received");
            let _ = lp.wait(now_ns(), until).expect("wait");
            let mut chunks = [0; 3];
            while let Some(event) = lp.next_event(now_ns()) {
                let Event::Received { token, received: Received::Data(chunk) } = event else {
                    panic!("{event:?}")
                };
                chunks[token.0 as usize] += 1;
                *if token == Token(1) { &mut flooded } else { &mut polite } += chunk.len();
                lp.give_back(chunk);
            }
            assert!(chunks[1] <= 1 && chunks[2] <= 1, "{chunks:?}");
        }
    });
}

#[test]
fn ev_c1_c2_a_receive_that_was_stopped_delivers_nothing_and_loses_nothing() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 1);
        for round in 0..10_u8 {
            lp.recv_start(source);
            assert!(look(&mut lp).is_empty());
            lp.recv_stop(source);
            peer.write_all(&[round; 3]).expect("write");
            assert_quiet(&mut lp);
            peer.write_all(&[round; 3]).expect("write");
            assert_quiet(&mut lp);
            lp.recv_start(source);
            assert_eq!(data(&mut lp, 6), [round; 6]);
        }
    });
}

#[test]
fn what_came_before_a_fill_was_asked_for_is_at_its_beginning() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 1);
        lp.recv_start(source);
        assert!(look(&mut lp).is_empty());
        peer.write_all(b"early ").expect("write");
        lp.recv_stop(source);
        assert_quiet(&mut lp);
        lp.recv_into(source, Vec::with_capacity(9), 9);
        peer.write_all(b"bird").expect("write");
        let Event::Filled { buf, error: None, .. } = next(&mut lp) else { panic!("filled") };
        assert_eq!(&buf[..9], b"early bir");
        lp.recv_start(source);
        let rest = 10 - buf.len();
        assert_eq!(data(&mut lp, rest), &b"early bird"[buf.len()..]);
    });
}

/// The bytes are held in many chunks, of which a fill takes the first few; the others must follow it.
#[test]
fn fills_and_receives_in_turn_lose_no_byte() {
    on_each_with(&Config { chunk_bytes: 64, ring_buffers: 8, ..Config::default() }, |mut lp| {
        let (source, mut peer) = pair(&mut lp, 1);
        let sent: Vec<u8> = (0..6000_u32).map(|index| (index % 251) as u8).collect();
        lp.recv_start(source);
        assert!(look(&mut lp).is_empty());
        peer.write_all(&sent).expect("write");
        let mut got = data(&mut lp, 1);
        for round in 1..12 {
            lp.recv_into(source, Vec::with_capacity(round * 50), round * 50);
            let Event::Filled { buf, error: None, .. } = next(&mut lp) else { panic!("filled") };
            got.extend_from_slice(&buf);
            lp.recv_start(source);
            got.extend_from_slice(&data(&mut lp, 1));
        }
        let rest = sent.len() - got.len();
        got.extend_from_slice(&data(&mut lp, rest));
        assert!(got == sent);
    });
}

/// If a chunk is full, readiness drivers also read the rest of a large value, and a chunk after it, in the
/// same iteration.
#[test]
fn the_rest_of_a_value_follows_a_full_chunk_in_one_iteration_and_then_others_have_their_turn() {
    for backend in [Backend::Epoll, Backend::Poll] {
        let config = Config { chunk_bytes: 64, ..Config::default() };
        let mut lp = Loop::choose(backend, &config).expect("the driver opens").event_loop;
        let (source, mut peer) = pair(&mut lp, 1);
        lp.recv_start(source);
        peer.write_all(&[7; 64 + 200 + 500]).expect("write");
        let _ = lp.wait(now_ns(), soon()).expect("wait");
        let chunk = |lp: &mut AnyLoop| match lp.next_event(now_ns()) {
            Some(Event::Received { received: Received::Data(chunk), .. }) => {
                assert_eq!(chunk.len(), 64);
                lp.give_back(chunk);
            }
            other => panic!("{other:?}"),
        };
        chunk(&mut lp);
        lp.recv_stop(source);
        lp.recv_into(source, Vec::with_capacity(200), 200);
        let Some(Event::Filled { buf, error: None, .. }) = lp.next_event(now_ns()) else { panic!("filled") };
        assert_eq!(buf, [7; 200]);
        lp.recv_start(source);
        chunk(&mut lp);
        lp.recv_stop(source);
        lp.recv_into(source, Vec::with_capacity(100), 100);
        assert!(lp.next_event(now_ns()).is_none(), "others have their turn");
        assert_eq!(lp.metrics().iterations, 1);
        assert!(matches!(next(&mut lp), Event::Filled { error: None, .. }));
    }
}

#[test]
fn ev_k1_a_source_closed_before_the_wait_is_silent() {
    on_each(|mut lp| {
        let (source, mut peer) = pair(&mut lp, 1);
        lp.recv_start(source);
        lp.watch(source, Interest::READABLE);
        lp.close(source);
        (0..8).for_each(|_| assert!(look(&mut lp).is_empty()));
        assert!(peer.write_all(b"x").is_err(), "the descriptor is closed");
        assert!(lp.fd(source).is_none());
    });
}

#[test]
fn ev_f3_a_regular_file_is_ready_at_once() {
    on_each(|mut lp| {
        let file = std::fs::File::open(std::env::current_exe().expect("path")).expect("open");
        let source = lp.attach(OwnedFd::from(file), Token(8));
        lp.watch(source, Interest::WRITABLE);
        let Event::Ready { token, ready } = next(&mut lp) else { panic!("ready") };
        assert_eq!((token, ready), (Token(8), Interest::WRITABLE));
    });
}

#[test]
fn ev_pri1_urgent_data_is_a_priority() {
    on_each(|mut lp| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let peer = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (ours, _) = listener.accept().expect("accept");
        ours.set_nonblocking(true).expect("nonblocking");
        let source = lp.attach(OwnedFd::from(ours), Token(5));
        lp.watch(source, Interest::PRIORITY);
        rustix::net::send(&peer, b"!", rustix::net::SendFlags::OOB).expect("send");
        let Event::Ready { ready, .. } = next(&mut lp) else { panic!("ready") };
        assert!(ready.intersects(Interest::PRIORITY));
    });
}

#[test]
fn ev_tcp1_two_long_sends_against_slow_readers_arrive_whole() {
    on_each(|mut lp| {
        let mut readers = Vec::new();
        for token in 0..2_u8 {
            let (source, mut peer) = pair(&mut lp, u64::from(token));
            let body = vec![token; 128 * 6 * 1024];
            let Sending::InFlight = lp.send(source, head(&body)) else { panic!("large") };
            readers.push(thread::spawn(move || {
                let mut got = vec![9; body.len()];
                for piece in got.chunks_mut(5000) {
                    peer.read_exact(piece).expect("read");
                }
                assert!(got == body);
                peer
            }));
        }
        for _ in 0..2 {
            let Event::Sent { sent, .. } = next(&mut lp) else { panic!("sent") };
            assert!(sent.error.is_none());
        }
        readers.into_iter().for_each(|reader| drop(reader.join().expect("thread")));
    });
}

#[test]
fn ev_l1_eight_loops_live_side_by_side() {
    let mut loops = Vec::new();
    on_each(drop);
    for _ in 0..8 {
        loops.push(AnyLoop::choose(Backend::IoUring, &Config::default()).expect("opens").event_loop);
        loops.push(AnyLoop::choose(Backend::Epoll, &Config::default()).expect("opens").event_loop);
    }
    for lp in &mut loops {
        lp.waker().wake();
    }
    assert!(loops.iter_mut().all(|lp| lp.wait(now_ns(), soon()).expect("wait").woken));
}

#[test]
fn ev_l3_names_are_parsed_and_others_refused() {
    for name in ["auto", "io_uring", "epoll", "poll"] {
        assert_eq!(name.parse::<Backend>().expect("a name").name(), name);
    }
    assert!("iocp".parse::<Backend>().is_err());
}

#[test]
fn a_month_is_not_too_long_and_not_at_once() {
    on_each(|mut lp| {
        lp.timer_at(Deadline::at_ns(now_ns() + 30 * 86_400 * 1_000_000_000), Token(1));
        let iteration = lp.wait(now_ns(), Deadline::at_ns(now_ns() + 2_000_000)).expect("wait");
        assert_eq!((iteration.woken, lp.next_event(now_ns()).is_none()), (false, true));
        let waker = lp.waker();
        let thread = thread::spawn(move || waker.wake());
        assert!((0..10).any(|_| lp.wait(now_ns(), Deadline::NEVER).expect("wait").woken));
        thread.join().expect("thread");
    });
}

/// There are more completions than the queue holds, and more receives than buffers.
#[test]
fn a_small_ring_with_few_buffers_loses_nothing() {
    let config = Config { ring_entries: 2, ring_buffers: 2, events_per_iteration: 7, ..Config::default() };
    on_each_with(&config, |mut lp| {
        let mut peers: Vec<UnixStream> = (0..40)
            .map(|token| {
                let (source, peer) = pair(&mut lp, token);
                lp.recv_start(source);
                peer
            })
            .collect();
        assert!(look(&mut lp).is_empty());
        for round in 0..5_u8 {
            peers.iter_mut().for_each(|peer| peer.write_all(&[round; 4]).expect("write"));
            let mut got = [0; 40];
            while got.iter().sum::<usize>() < 160 {
                let Event::Received { token, received: Received::Data(chunk) } = next(&mut lp) else {
                    panic!("bytes")
                };
                assert!(chunk.iter().all(|byte| *byte == round));
                got[token.0 as usize] += chunk.len();
                lp.give_back(chunk);
            }
            assert_eq!(got, [4; 40]);
        }
    });
}

/// All ready sources are reported at once, although the kernel does the deferred work of a ring in portions
/// of twenty.
#[test]
fn a_hundred_ready_sources_come_in_one_iteration() {
    for backend in [Backend::Epoll, Backend::IoUring, Backend::Poll] {
        let mut lp = AnyLoop::choose(backend, &Config::default()).expect("opens").event_loop;
        let mut peers: Vec<UnixStream> = (0..100)
            .map(|token| {
                let (source, peer) = pair(&mut lp, token);
                lp.watch(source, Interest::READABLE);
                peer
            })
            .collect();
        assert!(look(&mut lp).is_empty());
        peers.iter_mut().for_each(|peer| peer.write_all(b"x").expect("write"));
        let _ = lp.wait(now_ns(), soon()).expect("wait");
        assert_eq!(std::iter::from_fn(|| lp.next_event(now_ns())).count(), 100, "{}", lp.name());
    }
}

#[test]
fn a_kept_chunk_stays_as_it_was_and_may_travel() {
    on_each_with(&Config { ring_buffers: 2, ..Config::default() }, |mut lp| {
        let (source, mut peer) = pair(&mut lp, 1);
        lp.recv_start(source);
        let mut kept = Vec::new();
        for round in 0..20_u8 {
            peer.write_all(&[round]).expect("write");
            let Event::Received { received: Received::Data(chunk), .. } = next(&mut lp) else {
                panic!("bytes")
            };
            kept.push(chunk);
        }
        thread::spawn(move || {
            for (round, chunk) in kept.iter().enumerate() {
                assert_eq!(&chunk[..], [round as u8]);
            }
        })
        .join()
        .expect("thread");
    });
}

#[test]
fn an_empty_iteration_of_a_ring_makes_no_system_call() {
    let mut lp = AnyLoop::choose(Backend::IoUring, &Config::default()).expect("opens").event_loop;
    (0..3).for_each(|_| drop(lp.wait(now_ns(), Deadline::PAST)));
    let calls = lp.metrics().system_calls;
    (0..100).for_each(|_| drop(lp.wait(now_ns(), Deadline::PAST)));
    assert_eq!(lp.metrics().system_calls, calls);
}

/// If the next request arrives soon, sending a reply and receiving that request takes a ring one system call.
#[test]
fn a_ring_receives_and_sends_with_one_call_per_iteration() {
    let mut lp = AnyLoop::choose(Backend::IoUring, &Config::default()).expect("opens").event_loop;
    let (source, mut peer) = pair(&mut lp, 1);
    lp.recv_start(source);
    assert!(look(&mut lp).is_empty());
    peer.write_all(b"a").expect("write");
    assert_eq!(data(&mut lp, 1), b"a");
    let calls = lp.metrics().system_calls;
    for _ in 0..50 {
        let Sending::InFlight = lp.send(source, head(b"b")) else { panic!("queued") };
        peer.write_all(b"a").expect("write");
        let _ = lp.wait(now_ns(), soon()).expect("wait");
        let events: Vec<Event> = std::iter::from_fn(|| lp.next_event(now_ns())).collect();
        assert!(matches!(events[..], [Event::Sent { .. }, Event::Received { .. }]), "{events:?}");
    }
    assert_eq!(lp.metrics().system_calls - calls, 50);
}

/// The end of a TCP stream counts as a readable byte, so the completion of a ring says that the socket holds
/// more bytes.
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
