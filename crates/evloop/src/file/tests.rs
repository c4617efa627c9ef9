//! Tests the outcome of one system call of a file operation, which a driver or a thread makes.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::*;
use crate::event::Event;
use crate::handle::Token;

/// The state of an operation of ten bytes after a call, where `before` bytes had been moved before.
fn after(op: &FileOp, before: usize, result: Result<usize, Errno>) -> (usize, Option<Option<Errno>>) {
    let mut bytes = before;
    match op.account(&mut bytes, result) {
        ControlFlow::Continue(()) => (bytes, None),
        ControlFlow::Break(error) => (bytes, Some(error)),
    }
}

#[test]
fn an_operation_goes_on_until_it_has_enough_or_fails() {
    let (read, write) = (FileOp::read(vec![0; 10]), FileOp::write(vec![0; 10]));
    let some = FileOp { least: 4, ..FileOp::read(vec![0; 10]) };
    for op in [&read, &write] {
        assert_eq!(after(op, 0, Ok(4)), (4, None));
        assert_eq!(after(op, 4, Ok(6)), (10, Some(None)));
        assert_eq!(after(op, 4, Err(Errno::INTR)), (4, None));
        assert_eq!(after(op, 4, Err(Errno::AGAIN)), (4, None));
        assert_eq!(after(op, 4, Err(Errno::IO)), (4, Some(Some(Errno::IO))));
    }
    assert_eq!(after(&read, 4, Ok(0)), (4, Some(None)), "the end of the file");
    assert_eq!(after(&write, 4, Ok(0)), (4, Some(Some(Errno::NOSPC))), "no room");
    assert_eq!(after(&some, 0, Ok(3)), (3, None));
    assert_eq!(after(&some, 3, Ok(1)), (4, Some(None)));
    assert_eq!(after(&FileOp::sync(), 0, Ok(0)), (0, Some(None)));
}

#[test]
fn a_write_of_nothing_is_told_with_an_errno() {
    let mut files = FileTable::default();
    let null = Arc::new(OwnedFd::from(File::open("/dev/null").expect("opens")));
    let file = files.open(null, FileKind::Disk, IoPath::Pool);
    let (_, None) = files.submit(file, FileOp::write(vec![1; 10]), Token(1)) else { panic!("it waits") };
    assert!(files.begin(0));
    let Step::Ended(Some(Event::FileDone { done, .. })) = files.progressed(0, Ok(0)) else { panic!("over") };
    assert_eq!(done.error.and_then(|error| error.raw_os_error()), Some(Errno::NOSPC.raw_os_error()));
}
