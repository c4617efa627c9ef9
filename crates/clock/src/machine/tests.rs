//! Tests the conditions under which the counter is trusted, and the clock of a thread that may not read the
//! counter.

use super::*;
use crate::{Clock, TimeSource};

#[cfg(target_arch = "x86_64")]
#[test]
fn a_counter_is_steady_with_both_flags() {
    let described =
        |flags: &str| is_steady(&format!("processor\t: 0\nflags\t\t: fpu {flags} sse\nbugs\t\t:\n"));
    assert!(described("constant_tsc nonstop_tsc"));
    assert!(!described("constant_tsc"));
    assert!(!described("nonstop_tsc"));
    assert!(!described("constant_tsc_known nonstop_tsc"));
    assert!(!is_steady(""));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn counters_are_in_step_where_the_kernel_says_so() {
    for (clocksource, wanted) in [
        ("tsc\n", true),
        ("hyperv_clocksource_tsc_page\n", true),
        ("kvm-clock\n", false),
        ("xen\n", false),
        ("hpet\n", false),
        ("acpi_pm\n", false),
        ("tsc-early\n", false),
        ("", false),
    ] {
        assert_eq!(is_synchronised(clocksource), wanted, "{clocksource:?}");
    }
}

/// The kernel forbids the counter only to the thread that this test starts, so the other tests of this
/// process are not disturbed.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn a_thread_that_may_not_read_the_counter_still_has_a_clock() {
    let thread = std::thread::spawn(|| {
        // SAFETY: the option takes one number; this thread reads no counter but through the code under test.
        // JUSTIFICATION: there is no safe wrapper of this option.
        let failed = unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) } != 0;
        assert!(!failed, "the option exists on every x86-64 kernel");
        let mut clock = Clock::new(System::probe());
        let before = clock.now();
        let after = clock.now();
        let kind = clock.kind();
        // SAFETY: as above. The thread may read the time again before it ends.
        // JUSTIFICATION: as above.
        let failed = unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE) } != 0;
        assert!(!failed);
        (before, after, kind)
    });
    let (before, after, kind) = thread.join().expect("no signal, no panic");
    assert_eq!(kind, TimeSource::Posix);
    assert!(after.mono_ns >= before.mono_ns && before.mono_ns > 0);
    let mut machine = System::without_counter();
    assert!(machine.real_ns() / 1000 - after.unix_us < 60_000_000, "a minute is more than a test takes");
}
