//! The kernel's counts for a process: processor time and resident memory.

use std::path::PathBuf;

use crate::error::Result;

/// Clock ticks in a second, as `/proc/PID/stat` counts on every Linux.
const TICKS: f64 = 100.0;

/// Processor time of a process so far.
#[derive(Clone, Copy)]
pub(crate) struct Time {
    /// Seconds of the threads that still live, exact.
    live: f64,
    /// Seconds of all threads, including those that ended, in steps of ten milliseconds.
    all: f64,
}

impl Time {
    /// Reads the counts of process `pid`.
    pub(crate) fn of(pid: u32) -> Result<Time> {
        let mut nanoseconds = 0_u64;
        for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end between the listing and the reading of its file.
            let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
            nanoseconds += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Ok(Time { live: nanoseconds as f64 / 1e9, all: ticks(&stat).ok_or("/proc/PID/stat is too short")? })
    }

    /// Seconds since `before`. The exact count is used unless threads have ended meanwhile,
    /// whose time it lacks.
    pub(crate) fn since(self, before: Time) -> f64 {
        let (live, all) = (self.live - before.live, self.all - before.all);
        if all > live * 1.03 + 0.05 { all } else { live }
    }
}

/// Seconds of processor time that the main thread of a process has had.
pub(crate) fn main_thread(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat"))?;
    Ok(text.split(' ').next().unwrap_or_default().parse::<u64>()? as f64 / 1e9)
}

/// Seconds that a process spent in user space and in the kernel. The program's name in `stat`, in
/// parentheses, may contain anything.
fn ticks(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let user: f64 = fields.get(11)?.parse().ok()?;
    let system: f64 = fields.get(12)?.parse().ok()?;
    Some((user + system) / TICKS)
}

/// Resident bytes of a process; a shared page counts by the process's share of it.
pub(crate) fn memory(pid: u32) -> Result<f64> {
    let path = PathBuf::from(format!("/proc/{pid}/smaps_rollup"));
    let text = std::fs::read_to_string(&path)?;
    let kib = text.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB"));
    let kib: f64 = kib.ok_or_else(|| format!("{}: no Pss", path.display()))?.trim().parse()?;
    Ok(kib * 1024.0)
}

/// Processors that this process may use; empty where the kernel does not report them.
pub(crate) fn processors() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    expand(list.unwrap_or_default().trim()).unwrap_or_default()
}

/// The numbers of a list such as `0-2,5`.
fn expand(list: &str) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        found.extend(from.parse::<usize>().ok()?..=to.parse::<usize>().ok()?);
    }
    Some(found)
}

/// Maximum number of open files of this process: the soft limit, or 1024 if the kernel does not report it as
/// a number.
pub(crate) fn open_files_max() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(1024)
}

/// A short description of the machine.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
    let load = read("/proc/loadavg");
    format!(
        "{}, {} processors, kernel {}, load average {} before the run",
        model.unwrap_or("unknown processor"),
        processors().len(),
        read("/proc/sys/kernel/osrelease").trim(),
        load.split(' ').next().unwrap_or("unknown"),
    )
}

#[cfg(test)]
mod tests {
    use super::{Time, expand, ticks};

    #[test]
    fn a_name_with_parentheses_does_not_move_the_fields() {
        let stat = "7 (a) b) S 1 1 1 0 -1 4194304 1 2 3 4 150 50 0 0 20 0 1 0 1";
        assert_eq!(ticks(stat), Some(2.0));
        assert_eq!(ticks("7 (short) S 1"), None);
    }

    #[test]
    fn lists_of_processors_are_expanded() {
        assert_eq!(expand("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(expand(""), Some(Vec::new()));
        assert_eq!(expand("x"), None);
    }

    #[test]
    fn the_time_of_ended_threads_is_not_lost() {
        let at = |live, all| Time { live, all };
        assert_eq!(at(3.0, 3.01).since(at(1.0, 1.0)), 2.0);
        assert_eq!(at(1.5, 4.0).since(at(1.0, 1.0)), 3.0);
    }
}
