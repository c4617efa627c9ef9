//! The machine's clocks, behind a seam so that tests can be a machine.
#![allow(unsafe_code)]

/// A source of counter readings and of the kernel's two clocks.
pub trait Machine {
    /// The processor's counter, or `None` where there is none to trust.
    fn counter(&mut self) -> Option<u64>;
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    fn monotonic_ns(&mut self) -> u64;
    /// Nanoseconds of `CLOCK_REALTIME`.
    fn real_ns(&mut self) -> i64;
    /// What INFO calls the counter.
    fn counter_name(&self) -> &'static str;
}

/// This machine.
#[derive(Clone, Copy, Debug)]
pub struct System {
    trusted: bool,
}

impl System {
    /// Looks once whether the counter can be trusted.
    pub fn probe() -> System {
        System { trusted: trusted() }
    }

    /// This machine without its counter.
    pub const fn without_counter() -> System {
        System { trusted: false }
    }
}

impl Machine for System {
    #[inline]
    fn counter(&mut self) -> Option<u64> {
        self.trusted.then(read)
    }

    fn monotonic_ns(&mut self) -> u64 {
        kernel_ns(libc::CLOCK_MONOTONIC).cast_unsigned()
    }

    fn real_ns(&mut self) -> i64 {
        kernel_ns(libc::CLOCK_REALTIME)
    }

    fn counter_name(&self) -> &'static str {
        NAME
    }
}

/// One of the kernel's clocks, through the C library: it finds the vDSO where there is one, and works under valgrind.
fn kernel_ns(id: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to, for the duration of the call.
    // JUSTIFICATION: the safe wrappers either hide the value (std) or crash under valgrind (rustix 1.1).
    let failed = unsafe { libc::clock_gettime(id, &raw mut time) };
    assert!(failed == 0, "both clocks exist on every system this is built for");
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

#[cfg(target_arch = "x86_64")]
const NAME: &str = "X86 TSC";
#[cfg(target_arch = "aarch64")]
const NAME: &str = "ARM CNTVCT";
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NAME: &str = "none";

/// The counter must tick at one rate (`constant_tsc`) and in every sleep state (`nonstop_tsc`).
#[cfg(target_arch = "x86_64")]
fn trusted() -> bool {
    let Ok(info) = std::fs::read_to_string("/proc/cpuinfo") else { return false };
    let Some(flags) = info.lines().find(|line| line.starts_with("flags")) else { return false };
    let has = |flag| flags.split_ascii_whitespace().any(|word| word == flag);
    has("constant_tsc") && has("nonstop_tsc")
}

/// The architecture's generic timer has one rate and never stops.
#[cfg(target_arch = "aarch64")]
fn trusted() -> bool {
    true
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn trusted() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read() -> u64 {
    // SAFETY: the instruction exists on every x86-64 processor and touches no memory.
    // JUSTIFICATION: a third of the cost of `clock_gettime`, once or twice per command.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn read() -> u64 {
    let ticks: u64;
    // SAFETY: the virtual counter is readable from user space on Linux; the instruction touches no memory.
    // JUSTIFICATION: as above.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
    };
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn read() -> u64 {
    0
}
