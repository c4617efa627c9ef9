//! The end of a file that is cut off, kept in a separate file.
//!
//! Invariants: (1) a file is cut off only after its end is durable under another name; (2) where the end
//! cannot be kept, nothing is cut off; (3) the copy never takes the name of an existing file.

use super::replacement::folder_of;
use super::{FreeName, Replacement, Storage, StorageFile};
use crate::plain_error;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Cuts a file off after `size` bytes, durably, and keeps the removed bytes in a file beside it. Returns
/// the name of that file. `at_s`: the time for the name, in seconds since the epoch. Errors: the reason.
/// Cost: copies the removed bytes.
pub fn cut_off(storage: &Arc<dyn Storage>, path: &Path, size: u64, at_s: i64) -> Result<String, String> {
    let mut file = storage.append(path).map_err(|error| plain_error(&error))?;
    let kept = FreeName::beside(path, &format!("cut-{at_s}")).find(storage.as_ref());
    let kept = kept.map_err(|error| {
        format!(
            "the end to cut off cannot be kept beside the file: {}. The file is unchanged",
            plain_error(&error)
        )
    })?;
    let name = kept.file_name().unwrap_or_default().display().to_string();
    keep(storage, path, size, kept).map_err(|error| {
        format!("the end to cut off cannot be kept as {name}: {}. The file is unchanged", plain_error(&error))
    })?;
    file.truncate(size).and_then(|()| file.sync()).map_err(|error| plain_error(&error))?;
    Ok(name)
}

/// Copies the bytes of a file, from position `from` to the end, into the new file `kept`.
fn keep(storage: &Arc<dyn Storage>, path: &Path, from: u64, kept: PathBuf) -> io::Result<()> {
    let mut source = storage.open(path)?;
    let temporary = folder_of(path).join(format!("{TEMPORARY}{}.aof", std::process::id()));
    let begun = Replacement::begin(storage.clone(), temporary, kept, 0o600, None);
    let mut copy = begun.map_err(|failed| failed.error)?;
    copy.resemble(path);
    let (mut at, mut piece) = (from, vec![0; PIECE_BYTES]);
    loop {
        let len = match read_at(source.as_mut(), at, &mut piece)? {
            0 => break,
            len => len,
        };
        copy.write(&piece[..len]).map_err(|failed| failed.error)?;
        at += len as u64;
    }
    copy.finish().map_err(|failed| failed.error)
}

fn read_at(file: &mut dyn StorageFile, at: u64, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read_at(at, into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The first part of the name of a copy that is not complete yet.
pub(crate) const TEMPORARY: &str = "temp-cut-";
/// Bytes copied at a time.
const PIECE_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Real;
    use crate::faulty::{AfterCrash, Faulty, FileFault, Plan};

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("sluice-kept-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        path
    }

    #[test]
    fn a_second_end_of_the_same_second_has_another_name() {
        let folder = folder("twice");
        let path = folder.join("incr");
        let storage: Arc<dyn Storage> = Arc::new(Real);
        std::fs::write(&path, "whole torn again").expect("writable");
        assert_eq!(cut_off(&storage, &path, 10, 7).as_deref(), Ok("incr.cut-7"));
        assert_eq!(cut_off(&storage, &path, 5, 7).as_deref(), Ok("incr.cut-7-2"));
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("there");
        assert_eq!(
            ["incr", "incr.cut-7", "incr.cut-7-2"].map(read),
            ["whole", " again", " torn"].map(str::to_owned)
        );
        std::fs::remove_dir_all(&folder).expect("removable");
    }

    /// A file name of 250 bytes leaves no room for an ending with the time.
    #[test]
    fn the_end_of_a_file_with_a_long_name_is_kept_under_a_short_one() {
        let folder = folder("long");
        let path = folder.join("n".repeat(250));
        let storage: Arc<dyn Storage> = Arc::new(Real);
        std::fs::write(&path, "whole torn again").expect("writable");
        assert_eq!(cut_off(&storage, &path, 10, 7).as_deref(), Ok("cut-7-1"));
        assert_eq!(cut_off(&storage, &path, 5, 7).as_deref(), Ok("cut-7-2"));
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("there");
        assert_eq!(["cut-7-1", "cut-7-2"].map(read), [" again", " torn"].map(str::to_owned));
        std::fs::remove_dir_all(&folder).expect("removable");
    }

    /// Whichever step fails, the cut bytes must still be in the file, or in the file beside it.
    #[test]
    fn no_fault_loses_what_is_cut_off() {
        let whole: Vec<u8> = (0..3 * PIECE_BYTES + 17).map(|n| (n % 251) as u8).collect();
        let cut = 1000;
        let (mut failed, mut done) = (0, 0);
        for fault in [FileFault::Crash, FileFault::SyncError, FileFault::WriteError, FileFault::NoSpace] {
            for first in 1..=14 {
                for seed in 0..4 {
                    let folder = folder("faults");
                    let path = folder.join("incr");
                    std::fs::write(&path, &whole).expect("writable");
                    let plan = Plan { fault, first, count: 1, seed };
                    let faulty: Arc<dyn Storage> =
                        Arc::new(Faulty::new(Arc::new(Real), plan, AfterCrash::Fail));
                    let result = cut_off(&faulty, &path, cut, 7);
                    *if result.is_ok() { &mut done } else { &mut failed } += 1;
                    drop(faulty);
                    let left = std::fs::read(&path).expect("there");
                    let kept = std::fs::read(folder.join("incr.cut-7")).unwrap_or_default();
                    let what = format!("{fault:?} at {first}, seed {seed}: {result:?}");
                    assert!(left == whole || [&whole[..cut as usize], &kept].concat() == whole, "{what}");
                    assert!(result.is_err() || left.len() as u64 == cut, "{what}");
                    std::fs::remove_dir_all(&folder).expect("removable");
                }
            }
        }
        assert!(failed > 50 && done > 20, "{failed} failed, {done} done");
    }
}
