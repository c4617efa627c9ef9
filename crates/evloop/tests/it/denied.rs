//! If a seccomp filter denies io_uring, as in containers, another driver runs and reports why io_uring does
//! not.
//!
//! A filter cannot be removed, so the test installs it in a child process, which is this test program started
//! again with an environment variable set.
#![allow(unsafe_code, reason = "installing a seccomp filter")]

use std::process::Command;

use sluice_evloop::{AnyLoop, Backend, Config};

/// Makes `io_uring_setup` fail with `EPERM`, and allows all other system calls.
fn deny_io_uring() {
    let deny = libc::SYS_io_uring_setup as u32;
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, deny),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the arguments are what the option takes.
    // JUSTIFICATION: a filter needs it.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the program outlives the call, which copies it.
    // JUSTIFICATION: the test's subject.
    let done = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    assert_eq!(done, 0);
}

#[test]
fn without_io_uring_epoll_runs_and_says_why() {
    if std::env::var_os(CHILD).is_some() {
        deny_io_uring();
        let opened =
            AnyLoop::first_of(&[Backend::IoUring, Backend::Epoll], &Config::default()).expect("epoll opens");
        assert_eq!(opened.event_loop.name(), "epoll");
        assert!(
            opened.reason.starts_with("epoll: no io_uring: io_uring_setup: denied by seccomp"),
            "{}",
            opened.reason
        );
        assert!(!opened.reason.contains('\n'));
        let refused = AnyLoop::choose(Backend::IoUring, &Config::default()).expect_err("asked for by name");
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        assert_eq!(
            AnyLoop::choose(Backend::Auto, &Config::default()).expect("epoll").event_loop.name(),
            "epoll"
        );
        return;
    }
    let opened =
        AnyLoop::first_of(&[Backend::IoUring, Backend::Epoll], &Config::default()).expect("one opens");
    let name = opened.event_loop.name();
    if name == "io_uring" {
        assert_eq!(opened.reason, "io_uring: the default");
    } else {
        assert!(opened.reason.starts_with("epoll: no io_uring: "), "{}", opened.reason);
    }
    let opened = AnyLoop::choose(Backend::Auto, &Config::default()).expect("epoll opens");
    assert_eq!(opened.reason, "epoll: the default; io_uring runs only where it is configured");
    let opened = AnyLoop::choose(Backend::Poll, &Config::default()).expect("poll opens");
    assert_eq!(opened.reason, "poll: configured");
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", "denied::without_io_uring_epoll_runs_and_says_why", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("the child runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

const CHILD: &str = "SLUICE_EVLOOP_DENIED_CHILD";
