//! Resources of this process, as the operating system reports them: its times, its memory and
//! the memory limit.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, gettid, sysconf};
use sluice_numbers::facts::ProcessNumbers;

/// The processor time of one thread, which any thread of the process can read.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock(ClockId);

impl ThreadClock {
    /// The clock of the calling thread.
    pub fn of_this_thread() -> ThreadClock {
        // The kernel encodes the id of a thread's CPU clock as the complement of the thread id, shifted left
        // by 3, plus the flags CPUCLOCK_PERTHREAD (4) and CPUCLOCK_SCHED (2).
        ThreadClock(ClockId::from_raw((!gettid().as_raw() << 3) | 0b110))
    }

    /// Nanoseconds on a processor so far; `None` when the thread has ended. Cost: a system call.
    pub fn spent_ns(self) -> Option<u64> {
        let spent = clock_gettime(self.0).ok()?;
        let (seconds, nanoseconds) =
            (u64::try_from(spent.tv_sec()).ok()?, u64::try_from(spent.tv_nsec()).ok()?);
        seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
    }
}

/// The lowest memory limit in bytes of this process's control group and the groups around it; `None` if
/// there is no limit.
pub fn memory_limit() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    memory_limit_of(&groups, &mut |path| std::fs::read_to_string(path).ok())
}

/// The memory limit of a process whose control groups are listed in `groups`, one in each line.
fn memory_limit_of(groups: &str, read: &mut dyn FnMut(&str) -> Option<String>) -> Option<u64> {
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // Within a container the group's own path may be missing, because the mounted root is that group.
        let mut path = path.trim_end_matches('/');
        loop {
            let limit =
                read(&format!("{root}{path}/{file}")).and_then(|text| text.trim().parse::<u64>().ok());
            limits.extend(limit.filter(|limit| *limit < NO_LIMIT));
            let Some((parent, _)) = path.rsplit_once('/') else { break };
            path = parent;
        }
    }
    limits.into_iter().min()
}

/// Resource figures of the process. Any thread may call this. Cost: some system calls, about 20 microseconds.
pub fn process_numbers() -> ProcessNumbers {
    process_numbers_with(resident_bytes())
}

/// Resource figures of the process, for a caller that knows its resident bytes. Cost: two system calls.
pub fn process_numbers_with(resident: usize) -> ProcessNumbers {
    let (sys, user) = times_of(UsageWho::RUSAGE_SELF);
    let (sys_children, user_children) = times_of(UsageWho::RUSAGE_CHILDREN);
    ProcessNumbers { resident, sys, user, sys_children, user_children }
}

/// Processor times in microseconds: the time in the kernel, and the time in user space.
pub fn times_of(who: UsageWho) -> (u64, u64) {
    let micros = |time: TimeVal| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
    getrusage(who).map(|usage| (micros(usage.system_time()), micros(usage.user_time()))).unwrap_or_default()
}

/// Resident bytes of the process. Cost: some system calls.
pub fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()));
    pages.map_or(0, |pages| pages * page_bytes())
}

fn page_bytes() -> usize {
    sysconf(SysconfVar::PAGE_SIZE).ok().flatten().map_or(4096, |bytes| bytes as usize)
}

/// A limit of at least this many bytes counts as none: a version 1 control group without a limit reports a
/// number above it.
const NO_LIMIT: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_the_control_groups_around_counts() {
        let files = [
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "2000\n"),
            ("/sys/fs/cgroup/memory.max", "3000\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/old/memory.limit_in_bytes", "4000\n"),
        ];
        let limit = |groups: &str| {
            memory_limit_of(groups, &mut |path| {
                files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned())
            })
        };
        assert_eq!(limit("0::/a/b\n"), Some(2000));
        assert_eq!(limit("0::/\n"), Some(3000));
        assert_eq!(limit("3:cpu,memory:/old\n2:cpu:/x\n"), Some(4000));
        assert_eq!(limit("3:memory:/other\n"), None);
        assert_eq!(limit("nonsense\n"), None);
    }
}
