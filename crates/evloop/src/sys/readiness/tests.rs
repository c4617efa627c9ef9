//! Tests of files on a driver whose poller refuses a second registration.

use std::os::unix::net::UnixStream;

use super::*;
use crate::event::FileDone;

/// Accepts every descriptor for one direction, and refuses to add the other direction for lack of room.
struct Full;

impl Poller for Full {
    const NAME: &'static str = "full";

    fn open(_: &Arc<WakeFd>, _: usize) -> io::Result<Full> {
        Ok(Full)
    }

    fn add(&mut self, _: BorrowedFd<'_>, _: u64, _: PollFlags) -> Result<(), Errno> {
        Ok(())
    }

    fn modify(&mut self, _: BorrowedFd<'_>, _: u64, _: PollFlags) -> Result<(), Errno> {
        Err(Errno::NOSPC)
    }

    fn delete(&mut self, _: BorrowedFd<'_>, _: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn forget(&mut self, _: u64) {}

    fn wait(&mut self, _: Option<u64>) -> Result<usize, Errno> {
        Ok(0)
    }

    fn ready(&self, _: usize) -> Option<(u64, PollFlags)> {
        None
    }
}

fn driver() -> Readiness<Full> {
    let wake = Arc::new(WakeFd::open().expect("a descriptor"));
    Readiness::open(&Config::default(), &wake).expect("it needs nothing")
}

fn done(driver: &mut Readiness<Full>) -> Option<(u64, FileDone)> {
    match driver.next_event(0)? {
        Event::FileDone { token, done } => Some((token.0, done)),
        other => panic!("{other:?}"),
    }
}

/// A stream with a waiting read, for which it is registered, so that it cannot be registered for writing.
fn reading(driver: &mut Readiness<Full>) -> (FileId, FileOpId, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("pair");
    ours.set_nonblocking(true).expect("nonblocking");
    let file = driver.file_open(Arc::new(OwnedFd::from(ours)));
    let read = driver.file_start(file, FileOp::read(vec![0; 1]), Token(u64::MAX));
    (file, read, theirs)
}

#[test]
fn however_many_operations_cannot_wait_each_fails_on_its_own() {
    let mut driver = driver();
    let (file, read, _theirs) = reading(&mut driver);
    driver.file_start(file, FileOp::write(vec![1; 8 << 20]), Token(0));
    // There are so many operations that a recursion over them would overflow any stack.
    let count = 100_000;
    for token in 1..count {
        driver.file_start(file, FileOp::write(vec![1; 64]), Token(token));
    }
    assert!(done(&mut driver).is_none(), "the read is first");
    driver.file_cancel(read);
    assert_eq!(done(&mut driver).expect("an end").0, u64::MAX);
    for expected in 0..count {
        let (token, done) = done(&mut driver).expect("an end");
        assert_eq!(token, expected);
        assert_eq!(done.error.and_then(|error| error.raw_os_error()), Some(Errno::NOSPC.raw_os_error()));
    }
    assert!(done(&mut driver).is_none());
}

#[test]
fn what_need_not_wait_is_done_although_nothing_can_wait() {
    let mut driver = driver();
    let (file, read, _theirs) = reading(&mut driver);
    for token in 0..100 {
        driver.file_start(file, FileOp::write(vec![1; 64]), Token(token));
    }
    driver.file_cancel(read);
    assert_eq!(done(&mut driver).expect("an end").0, u64::MAX);
    for expected in 0..100 {
        let (token, done) = done(&mut driver).expect("an end");
        assert_eq!((token, done.bytes, done.error.is_none()), (expected, 64, true));
    }
}

#[test]
fn it_names_the_interface_below_it() {
    let text = format!("{:?}", driver());
    assert!(text.contains("full") && !text.contains("Epoll"), "{text}");
}
