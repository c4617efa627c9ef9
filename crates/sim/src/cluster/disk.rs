//! The file of a host: a write takes time and may fail, and a crash leaves the old file or the new one
//! (the steps of N-20: a temporary file, its fsync, the rename, the folder's fsync).

use crate::cluster::act::File;
use sluice_base::Rng;

struct Write {
    generation: u64,
    file: File,
    begun_ns: u64,
    ends_ns: u64,
    fails: bool,
}

#[derive(Default)]
pub(super) struct HostDisk {
    pub(super) file: Option<File>,
    write: Option<Write>,
    /// Whether writes fail.
    pub(super) is_full: bool,
}

impl HostDisk {
    /// Begins a write. Errors: another write is under way (S-7).
    pub(super) fn begin(
        &mut self,
        generation: u64,
        file: File,
        begun_ns: u64,
        takes_ns: u64,
    ) -> Result<(), String> {
        if self.write.is_some() {
            return Err("S-7: two writes of nodes.conf at once".to_owned());
        }
        let ends_ns = begun_ns + takes_ns;
        self.write = Some(Write { generation, file, begun_ns, ends_ns, fails: self.is_full });
        Ok(())
    }

    /// Ends the write of this generation; returns its file, and whether the file is durable. `None` if no
    /// such write is in progress.
    pub(super) fn end(&mut self, generation: u64) -> Option<(File, bool)> {
        let write = self.write.take_if(|write| write.generation == generation)?;
        if !write.fails {
            self.file = Some(write.file.clone());
        }
        Some((write.file, !write.fails))
    }

    /// Ends the process or the machine. A write that has reached its rename may then be durable or not.
    pub(super) fn crash(&mut self, now_ns: u64, rng: &mut Rng) {
        let Some(write) = self.write.take() else { return };
        let is_renamed = (now_ns - write.begun_ns) * 4 >= (write.ends_ns - write.begun_ns) * 3;
        if is_renamed && !write.fails && rng.below(2) == 0 {
            self.file = Some(write.file);
        }
    }

    pub(super) fn is_writing(&self) -> bool {
        self.write.is_some()
    }
}
