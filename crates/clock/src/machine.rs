//! The machine's clocks, read through the trait [`Machine`] so that tests can fake a machine.
#![allow(unsafe_code)]

/// A source of counter readings and of the kernel's two clocks.
pub trait Machine {
    /// The processor's counter, or `None` where there is none to trust.
    fn counter(&mut self) -> Option<u64>;
    /// The time of `CLOCK_MONOTONIC`, in nanoseconds.
    fn monotonic_ns(&mut self) -> u64;
    /// The time of `CLOCK_REALTIME`, in nanoseconds since the Unix epoch.
    fn real_ns(&mut self) -> i64;
    /// The name of the counter in INFO.
    fn counter_name(&self) -> &'static str;
}

/// The machine that the process runs on.
#[derive(Clone, Copy, Debug)]
pub struct System {
    source: ThreadTimeSource,
}

/// The source of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadTimeSource {
    /// The processor's counter between anchors, and the kernel's clocks through the C library for anchors.
    Counter,
    /// The kernel's clocks through the C library.
    Library,
    /// The kernel's clocks by system call: reading the counter is forbidden, and the vDSO reads it too.
    SystemCall,
}

impl System {
    /// Looks once whether the counter can be trusted, and whether the calling thread may read it. Threads
    /// that the calling thread starts later may do what the calling thread may.
    pub fn probe() -> System {
        let source = match counter_permission() {
            Permission::Forbidden => ThreadTimeSource::SystemCall,
            Permission::Allowed if trusted() => ThreadTimeSource::Counter,
            Permission::Allowed => ThreadTimeSource::Library,
        };
        System { source }
    }

    /// This machine without its counter.
    pub const fn without_counter() -> System {
        System { source: ThreadTimeSource::Library }
    }
}

impl Machine for System {
    #[inline]
    fn counter(&mut self) -> Option<u64> {
        (self.source == ThreadTimeSource::Counter).then(read)
    }

    fn monotonic_ns(&mut self) -> u64 {
        kernel_ns(self.source, libc::CLOCK_MONOTONIC).cast_unsigned()
    }

    fn real_ns(&mut self) -> i64 {
        kernel_ns(self.source, libc::CLOCK_REALTIME)
    }

    fn counter_name(&self) -> &'static str {
        NAME
    }
}

/// One of the kernel's clocks. The C library finds the vDSO where there is one, and works under valgrind.
fn kernel_ns(source: ThreadTimeSource, id: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let failed = match source {
        // SAFETY: `time` is a valid timespec to write to, for the duration of the call.
        // JUSTIFICATION: the safe wrappers either hide the value (std) or crash under valgrind (rustix 1.1).
        ThreadTimeSource::Counter | ThreadTimeSource::Library => unsafe {
            libc::clock_gettime(id, &raw mut time)
        },
        ThreadTimeSource::SystemCall => system_call(id, &mut time),
    };
    assert!(failed == 0, "both clocks exist on every system this is built for");
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// `clock_gettime` as a system call, without the vDSO.
#[cfg(target_os = "linux")]
fn system_call(id: libc::clockid_t, time: &mut libc::timespec) -> libc::c_int {
    // SAFETY: `time` is a valid timespec to write to, for the duration of the call; 64-bit kernels know no
    // other form.
    // JUSTIFICATION: no safe wrapper avoids the vDSO.
    let failed = unsafe { libc::syscall(libc::SYS_clock_gettime, id, &raw mut *time) };
    libc::c_int::from(failed != 0)
}

/// `clock_gettime` of the C library, because only Linux can forbid the counter.
#[cfg(not(target_os = "linux"))]
fn system_call(id: libc::clockid_t, time: &mut libc::timespec) -> libc::c_int {
    // SAFETY: `time` is a valid timespec to write to, for the duration of the call.
    // JUSTIFICATION: as in `kernel_ns`.
    unsafe { libc::clock_gettime(id, &raw mut *time) }
}

/// Whether the calling thread may read the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Permission {
    Allowed,
    /// Reading the counter raises SIGSEGV.
    Forbidden,
}

/// Asks the kernel, because the parent process may have called `prctl(PR_SET_TSC)`.
#[cfg(target_os = "linux")]
fn counter_permission() -> Permission {
    let mut mode: libc::c_int = 0;
    // SAFETY: `mode` is a valid int to write to, for the duration of the call.
    // JUSTIFICATION: there is no safe wrapper of this option.
    let failed = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) } != 0;
    // A kernel that does not know the option cannot forbid the counter. After any other error the counter
    // counts as forbidden.
    let unknown = failed && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
    if unknown || (!failed && mode == libc::PR_TSC_ENABLE) {
        Permission::Allowed
    } else {
        Permission::Forbidden
    }
}

#[cfg(not(target_os = "linux"))]
fn counter_permission() -> Permission {
    Permission::Allowed
}

#[cfg(target_arch = "x86_64")]
const NAME: &str = "X86 TSC";
#[cfg(target_arch = "aarch64")]
const NAME: &str = "ARM CNTVCT";
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NAME: &str = "none";

/// Whether the processor's description and the kernel's choice of clock let the counter be trusted.
#[cfg(target_arch = "x86_64")]
fn trusted() -> bool {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    is_steady(&read("/proc/cpuinfo"))
        && is_synchronised(&read("/sys/devices/system/clocksource/clocksource0/current_clocksource"))
}

/// The counter must tick at one rate (`constant_tsc`) and in every sleep state (`nonstop_tsc`).
#[cfg(target_arch = "x86_64")]
fn is_steady(cpuinfo: &str) -> bool {
    let Some(flags) = cpuinfo.lines().find(|line| line.starts_with("flags")) else { return false };
    let has = |flag| flags.split_ascii_whitespace().any(|word| word == flag);
    has("constant_tsc") && has("nonstop_tsc")
}

/// The counters of all processors must be in step, which the flags do not say. The kernel watches that for
/// `tsc`, and Hyper-V promises it for its page, which has one offset for all processors. `kvm-clock` and
/// `xen` have an offset for each processor, and the kernel prefers them only if it does not trust the
/// counter.
#[cfg(target_arch = "x86_64")]
fn is_synchronised(clocksource: &str) -> bool {
    matches!(clocksource.trim_end(), "tsc" | "hyperv_clocksource_tsc_page")
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

#[cfg(test)]
mod tests;
