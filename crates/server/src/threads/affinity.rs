//! The processors on which a thread may run.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Binds the calling thread to the processors of a list like `0,2,4-9:2`; an empty list changes nothing.
/// Errors: the list is malformed, or the system refuses it.
pub fn bind_thread(list: &str) -> Result<(), String> {
    if list.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in processors(list).ok_or("this is not a list of processors")? {
        set.set(cpu).map_err(|errno| errno.desc().to_owned())?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).map_err(|errno| errno.desc().to_owned())
}

/// The processors of a list; `None` if the list is malformed.
fn processors(list: &str) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for part in list.split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        let step = step.trim().parse::<usize>().ok().filter(|step| *step > 0)?;
        if last < first || last >= CpuSet::count() {
            return None;
        }
        found.extend((first..=last).step_by(step));
    }
    Some(found)
}

/// The processors on which the calling thread may run.
#[cfg(test)]
pub(super) fn allowed() -> Vec<usize> {
    let set = nix::sched::sched_getaffinity(Pid::from_raw(0)).expect("readable");
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_processors_ranges_and_steps() {
        assert_eq!(processors("3"), Some(vec![3]));
        assert_eq!(processors("0,2-4,10-20:5"), Some(vec![0, 2, 3, 4, 10, 15, 20]));
        for wrong in ["", "x", "3-1", "1-", "-1", "1-5:0", "99999999", "1,,2"] {
            assert_eq!(processors(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_thread_is_bound_where_the_list_says() {
        let bound = std::thread::spawn(|| {
            bind_thread("0").expect("the first processor");
            allowed()
        });
        assert_eq!(bound.join().expect("no panic"), [0]);
        assert!(bind_thread("").is_ok());
        assert!(bind_thread("x").is_err());
    }
}
