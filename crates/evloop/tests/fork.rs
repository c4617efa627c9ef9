//! Forking with operations in flight, by the ids of the conformance list: the child has a closed loop and harms nobody,
//! the parent goes on as if nothing had happened. And a process that another process traces. A program without the test harness, whose threads a fork would lose.
#![allow(unsafe_code, reason = "fork")]
#![allow(clippy::zombie_processes, reason = "the loop waits for them")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use sluice_evloop::{
    AnyLoop, Deadline, Event, Exit, FileId, FileOp, Interest, Received, SendBuf, Sending, Source, Token,
    WorkerPool,
};

mod common;
use common::{assert_quiet, data, look, next, now_ns, on_each, pair, soon};

fn main() {
    on_each(ev_l2_i5_a_fork_in_a_turn_closes_the_childs_loop_and_leaves_the_parents_alone);
    on_each(ev_i5_ten_forks_between_wakes_of_another_thread);
    on_each(a_child_may_let_go_although_the_threads_that_helped_are_not_there);
    on_each(a_traced_child_that_ended_neither_keeps_the_loop_busy_nor_is_lost);
    a_child_may_drop_a_pool_of_its_parents();
    println!("fork: 5 claims hold, 4 of them on each driver");
}

/// How the child parts from its copy.
#[derive(Clone, Copy)]
enum Parting {
    Drop,
    Release,
}

/// Runs `check` in a child, and fails unless it returns there.
fn in_a_child(check: impl FnOnce()) {
    // SAFETY: this thread is the only one, or the others hold no lock; the child runs `check` and exits.
    // JUSTIFICATION: the test's subject.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        // SAFETY: it only ends the process, without what the parent registered for its own end.
        // JUSTIFICATION: as above.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    let mut status = 0;
    // SAFETY: the status is ours to be written.
    // JUSTIFICATION: the child's own number, so the waits under test are not disturbed.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert_eq!(status, 0, "the child's checks");
}

/// What only a loop has open.
fn kernel_objects() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir("/proc/self/fd")
        .expect("procfs")
        .filter_map(|entry| std::fs::read_link(entry.expect("an entry").path()).ok())
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| ["eventpoll", "eventfd", "io_uring", "pidfd"].iter().any(|kind| name.contains(kind)))
        .collect();
    names.sort();
    names
}

/// The child's side: everything refuses, and letting go closes this process's descriptors.
fn the_copy_is_closed(mut lp: AnyLoop, source: Source, file: FileId, parting: Parting) {
    assert!(lp.closed());
    let refused = lp.wait(now_ns(), Deadline::PAST).expect_err("closed");
    assert_eq!(refused.raw_os_error(), Some(libc::EBADF));
    lp.recv_stop(source);
    lp.recv_start(source);
    lp.watch(source, Interest::WRITABLE);
    lp.recv_into(source, vec![0; 10], 10);
    lp.accept_start(source);
    lp.close(source);
    lp.detach(source);
    lp.file_start(file, FileOp::write(b"from the child".to_vec()), Token(9));
    lp.file_close(file);
    let wait = lp.process_wait(-1, Token(9));
    lp.process_cancel(wait);
    let (ours, _theirs) = UnixStream::pair().expect("pair");
    assert_eq!(lp.attach(OwnedFd::from(ours), Token(9)), Source::NONE);
    assert!(lp.wait(now_ns(), Deadline::NEVER).is_err(), "and never blocks");
    match parting {
        Parting::Drop => drop(lp),
        Parting::Release => {
            // SAFETY: a forked child, which has no waker in use.
            // JUSTIFICATION: the test's subject.
            unsafe { lp.after_fork_child() };
            assert_eq!(kernel_objects(), [""; 0], "all closed");
        }
    }
}

fn ev_l2_i5_a_fork_in_a_turn_closes_the_childs_loop_and_leaves_the_parents_alone(mut lp: AnyLoop) {
    let (receiving, mut receiving_peer) = pair(&mut lp, 1);
    lp.recv_start(receiving);
    let (sending, mut sending_peer) = pair(&mut lp, 2);
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    listener.set_nonblocking(true).expect("nonblocking");
    let accepting = lp.attach(OwnedFd::from(listener), Token(3));
    lp.accept_start(accepting);
    let (watched, mut watched_peer) = pair(&mut lp, 4);
    lp.watch(watched, Interest::READABLE);
    let (filled, mut filled_peer) = pair(&mut lp, 5);
    lp.recv_into(filled, Vec::new(), 6);
    let (pipe, mut pipe_peer) = pipe(&mut lp);
    lp.file_start(pipe, FileOp::read(vec![0; 4]), Token(6));
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("a child");
    lp.process_wait(child.id() as i32, Token(7));
    let mut out = vec![7; 2 << 20];
    let Sending::InFlight = lp.send(sending, SendBuf { head: out.clone(), shared: Vec::new() }) else {
        panic!("it does not fit")
    };
    (0..3).for_each(|_| assert!(look(&mut lp).is_empty()));

    for parting in [Parting::Drop, Parting::Release, Parting::Drop] {
        // Bytes are at hand, so a copy that went on would take them.
        receiving_peer.write_all(b"x").expect("write");
        let mut held = Some(lp);
        in_a_child(|| the_copy_is_closed(held.take().expect("the loop"), receiving, pipe, parting));
        lp = held.take().expect("the parent's");
        assert!(!lp.closed());
        assert_eq!(data(&mut lp, 1), b"x");
    }

    watched_peer.write_all(b"w").expect("write");
    assert!(matches!(next(&mut lp), Event::Ready { token: Token(4), .. }));
    filled_peer.write_all(b"filled").expect("write");
    assert!(matches!(next(&mut lp), Event::Filled { token: Token(5), buf, error: None } if buf == b"filled"));
    pipe_peer.write_all(b"pipe").expect("write");
    assert!(matches!(next(&mut lp), Event::FileDone { token: Token(6), done } if done.buf == b"pipe"));
    let _connection = TcpStream::connect(address).expect("connect");
    assert!(matches!(next(&mut lp), Event::Accepted { token: Token(3), .. }));
    drop(child.stdin.take());
    assert!(matches!(
        next(&mut lp),
        Event::ProcessEnded { token: Token(7), exit: Exit::Exited { code: 0, .. }, .. }
    ));
    let len = out.len();
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; len];
        sending_peer.read_exact(&mut got).expect("reads");
        got
    });
    assert!(matches!(next(&mut lp), Event::Sent { token: Token(2), sent } if sent.error.is_none()));
    assert!(reader.join().expect("thread") == out);
    drop(receiving_peer);
    assert!(matches!(next(&mut lp), Event::Received { token: Token(1), received: Received::Eof }));
    out.clear();
}

fn ev_i5_ten_forks_between_wakes_of_another_thread(mut lp: AnyLoop) {
    for round in 0..10 {
        let waker = lp.waker();
        let thread = std::thread::spawn(move || waker.wake());
        let mut held = Some(lp);
        in_a_child(|| {
            let mut copy = held.take().expect("the loop");
            assert!(copy.closed());
            assert!(copy.wait(now_ns(), soon()).is_err());
        });
        lp = held.take().expect("the parent's");
        let until = soon();
        while !lp.wait(now_ns(), until).expect("wait").woken {
            assert!(now_ns() < u64::from(until), "the wake-up comes");
        }
        thread.join().expect("thread");
        assert_eq!(lp.metrics().wakes_seen, round + 1);
    }
}

fn a_child_may_let_go_although_the_threads_that_helped_are_not_there(mut lp: AnyLoop) {
    let path = std::env::temp_dir().join(format!("evloop-fork-{}", std::process::id()));
    let file = lp.file_open(OwnedFd::from(File::create(&path).expect("a file")));
    // A wait for a group starts the thread that looks; a write those of the pool.
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("a child");
    lp.process_wait(0, Token(2));
    lp.file_start(file, FileOp::write(b"before".to_vec()), Token(1));
    assert!(matches!(next(&mut lp), Event::FileDone { token: Token(1), .. }));
    lp.wait(now_ns(), Deadline::at_ns(now_ns() + 50_000_000)).map(drop).expect("wait");
    for parting in [Parting::Drop, Parting::Release] {
        let mut held = Some(lp);
        // Not waited for by its number alone: the thread that looks may take it first, and tell it.
        let copy = &mut held;
        fork_and_let_the_loop_wait(|| {
            the_copy_is_closed(copy.take().expect("the loop"), Source::NONE, file, parting)
        });
        lp = held.take().expect("the parent's");
        let Event::ProcessEnded { token: Token(2), exit: Exit::Exited { code: 0, .. }, .. } = next(&mut lp)
        else {
            panic!("the forked child ends well")
        };
        lp.process_wait(0, Token(2));
    }
    lp.file_start(file, FileOp::write(b" and after".to_vec()), Token(1));
    assert!(matches!(next(&mut lp), Event::FileDone { token: Token(1), .. }));
    assert_eq!(std::fs::read(&path).expect("there"), b"before and after");
    drop(child.stdin.take());
    assert!(matches!(next(&mut lp), Event::ProcessEnded { token: Token(2), .. }));
    let _ = std::fs::remove_file(&path);
}

/// The threads that would be joined are the parent's.
fn a_child_may_drop_a_pool_of_its_parents() {
    let mut held = Some(WorkerPool::open(2, 8).expect("threads"));
    in_a_child(|| {
        // SAFETY: the child's own alarm, which ends it should it hang.
        // JUSTIFICATION: its parent waits for it.
        unsafe { libc::alarm(5) };
        drop(held.take());
    });
    held.take().expect("the parent's").close();
}

/// While it is traced it is a zombie whose parent cannot reap it, and whose descriptor is readable.
fn a_traced_child_that_ended_neither_keeps_the_loop_busy_nor_is_lost(mut lp: AnyLoop) {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("a child");
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a pid");
    let Some(tracer) = Tracer::of(pid.as_raw_nonzero().get()) else {
        println!("skipped: no process may trace another here");
        child.kill().and_then(|()| child.wait()).expect("ours");
        return;
    };
    lp.process_wait(pid.as_raw_nonzero().get(), Token(1));
    assert!(look(&mut lp).is_empty());
    // The tracer has a copy of its input's other end, so that does not end.
    child.kill().expect("ours");
    let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).expect("a descriptor");
    let mut ended = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut ended, Some(&limit)), Ok(1), "it ends");
    assert_quiet(&mut lp);
    drop(tracer);
    let Event::ProcessEnded { token: Token(1), exit, .. } = next(&mut lp) else { panic!("its end") };
    assert!(matches!(exit, Exit::Killed { signal: libc::SIGKILL, .. }), "{exit:?}");
    assert_quiet(&mut lp);
}

/// A process that traces another, until it is dropped.
struct Tracer(i32);

impl Tracer {
    fn of(pid: i32) -> Option<Tracer> {
        let (reader, writer) = rustix::pipe::pipe().expect("pipe");
        // SAFETY: this thread is the only one that matters to the child, which makes system calls and nothing else.
        // JUSTIFICATION: a tracer must be a process of its own, since all threads of the parent's reap.
        let tracer = unsafe { libc::fork() };
        assert!(tracer >= 0, "fork");
        if tracer == 0 {
            // SAFETY: plain system calls; the process ends when it is killed.
            // JUSTIFICATION: as above.
            unsafe {
                let done = libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) == 0;
                let _ = rustix::io::write(&writer, &[u8::from(done)]);
                loop {
                    libc::pause();
                }
            }
        }
        let mut answer = [0];
        rustix::io::read(&reader, &mut answer).expect("an answer");
        let tracer = Tracer(tracer);
        (answer == [1]).then_some(tracer)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: a child of ours, and a status to be written.
        // JUSTIFICATION: as above.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, &raw mut status, 0);
        }
    }
}

/// The same as [`in_a_child`] without waiting.
fn fork_and_let_the_loop_wait(check: impl FnOnce()) {
    // SAFETY: the other threads wait, and hold no lock of the allocator; the child runs `check` and exits.
    // JUSTIFICATION: the test's subject.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
        // SAFETY: as above.
        // JUSTIFICATION: as above.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
}

/// A pipe whose read end the loop has.
fn pipe(lp: &mut AnyLoop) -> (FileId, File) {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).expect("pipe");
    (lp.file_open(reader), File::from(writer))
}
