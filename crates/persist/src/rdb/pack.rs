//! Writing compressed files: an envelope and one frame.

use super::frame::{CompressionMethod, PackedContents, envelope};
use super::lz4::Lz4Packer;
use super::zstd::ZstdPacker;

/// Compresses a file while it is written. Memory: the compressed bytes that were not taken yet; for LZ4 also
/// a block of 64 KiB, for Zstd also less than 2 MiB for window and tables.
pub struct Packer {
    frame: PackedFrame,
    out: Vec<u8>,
}

enum PackedFrame {
    Lz4(Lz4Packer),
    Zstd(ZstdPacker),
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").field("pending", &self.out.len()).finish_non_exhaustive()
    }
}

impl Packer {
    /// Begins a file. `checksum` is the setting `rdbchecksum`, and decides whether the frame has
    /// checksums. The file inside the frame never has a checksum.
    pub fn of_file(codec: CompressionMethod, checksum: bool) -> Packer {
        let mut out = envelope(codec, PackedContents::File).to_vec();
        let frame = match codec {
            CompressionMethod::Lz4 => PackedFrame::Lz4(Lz4Packer::begin(checksum, &mut out)),
            CompressionMethod::Zstd => PackedFrame::Zstd(ZstdPacker::begin(checksum)),
        };
        Packer { frame, out }
    }

    /// Compresses the next bytes of the file.
    pub fn feed(&mut self, plain: &[u8]) {
        match &mut self.frame {
            PackedFrame::Lz4(frame) => frame.feed(plain, &mut self.out),
            PackedFrame::Zstd(frame) => frame.feed(plain, &mut self.out),
        }
    }

    /// Takes the bytes compressed since the last call; empty if too few were fed to end a block.
    pub fn take(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.out);
        // Unused memory is freed, because pieces wait for slow replicas and are counted by their bytes.
        out.shrink_to_fit();
        out
    }

    /// Ends the file and returns the bytes not taken yet.
    pub fn finish(mut self) -> Vec<u8> {
        match self.frame {
            PackedFrame::Lz4(frame) => frame.finish(&mut self.out),
            PackedFrame::Zstd(frame) => frame.finish(&mut self.out),
        }
        self.out
    }
}
