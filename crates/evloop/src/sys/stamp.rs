//! Which process a loop belongs to: after a fork the child has a copy of it, and what the copy names is the parent's.
//!
//! Asking for the process's number is a system call, too dear for every turn. So the kernel is asked once to give a
//! child a page of zeroes in place of ours; looking is a load then. Without that page (before Linux 4.14, elsewhere) the
//! number is compared.
#![allow(unsafe_code)]

use rustix::process::{Pid, getpid};

/// Made when the loop is opened.
#[derive(Debug)]
pub(crate) struct Stamp {
    pid: Pid,
    page: Option<page::Page>,
}

impl Stamp {
    pub(crate) fn new() -> Stamp {
        Stamp { pid: getpid(), page: page::Page::new() }
    }

    /// Whether this is a forked child's copy.
    #[inline]
    pub(crate) fn is_childs(&self) -> bool {
        match &self.page {
            Some(page) => page.is_wiped(),
            None => getpid() != self.pid,
        }
    }
}

#[cfg(target_os = "linux")]
mod page {
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU8, Ordering};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// A page that holds 1 in the process that mapped it, and 0 in its children.
    #[derive(Debug)]
    pub(super) struct Page(NonNull<AtomicU8>);

    // SAFETY: the page belongs to no thread, and is only read after it was made.
    // JUSTIFICATION: a loop over readiness may move to another thread before it is used.
    unsafe impl Send for Page {}

    impl Page {
        pub(super) fn new() -> Option<Page> {
            let flags = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new mapping at an address of the kernel's choice.
            // JUSTIFICATION: what is wiped is whole pages, so no other allocation may be in it.
            let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), BYTES, flags, MapFlags::PRIVATE) };
            // From here on its drop unmaps it.
            let page = Page(NonNull::new(memory.ok()?.cast::<AtomicU8>())?);
            // SAFETY: the mapping is ours alone, and nobody relies on what it holds in a child.
            // JUSTIFICATION: as above.
            unsafe { madvise(page.0.as_ptr().cast(), BYTES, Advice::LinuxWipeOnFork) }.ok()?;
            page.byte().store(1, Ordering::Relaxed);
            Some(page)
        }

        #[inline]
        pub(super) fn is_wiped(&self) -> bool {
            // Relaxed: only the kernel changes it, before the child runs.
            self.byte().load(Ordering::Relaxed) == 0
        }

        #[inline]
        fn byte(&self) -> &AtomicU8 {
            // SAFETY: mapped, zeroed at first, and only accessed atomically, until the drop.
            // JUSTIFICATION: as above.
            unsafe { self.0.as_ref() }
        }
    }

    impl Drop for Page {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours alone, and no reference to it is left.
            // JUSTIFICATION: as above.
            let _ = unsafe { munmap(self.0.as_ptr().cast(), BYTES) };
        }
    }

    /// The kernel rounds it up where its pages are larger.
    const BYTES: usize = 4096;
}

#[cfg(not(target_os = "linux"))]
mod page {
    /// There is none.
    #[derive(Debug)]
    pub(super) enum Page {}

    impl Page {
        pub(super) fn new() -> Option<Page> {
            None
        }

        pub(super) fn is_wiped(&self) -> bool {
            match *self {}
        }
    }
}
