//! Writes what is compressed as a whole: an envelope and one frame.

use super::frame::{CompressionMethod, PackedContents, envelope};
use super::lz4::Lz4Packer;
use super::zstd::ZstdPacker;

/// A file that is compressed while it is written. Memory: what was made and not taken; for Zstd less than
/// 2 MiB for window and tables.
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
    /// Begins a file. `checksum` is the setting `rdbchecksum`: the frame has checksums, and the file inside
    /// has none.
    pub fn of_file(codec: CompressionMethod, checksum: bool) -> Packer {
        let mut out = envelope(codec, PackedContents::File).to_vec();
        let frame = match codec {
            CompressionMethod::Lz4 => PackedFrame::Lz4(Lz4Packer::begin(checksum, &mut out)),
            CompressionMethod::Zstd => PackedFrame::Zstd(ZstdPacker::begin(checksum)),
        };
        Packer { frame, out }
    }

    /// Takes the next bytes of the file.
    pub fn feed(&mut self, plain: &[u8]) {
        match &mut self.frame {
            PackedFrame::Lz4(frame) => frame.feed(plain, &mut self.out),
            PackedFrame::Zstd(frame) => frame.feed(plain, &mut self.out),
        }
    }

    /// Takes what was made so far; nothing, as long as too little was fed.
    pub fn take(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.out);
        // Pieces wait for slow receivers, and are counted by their bytes.
        out.shrink_to_fit();
        out
    }

    /// Ends the file: the bytes that were not taken.
    pub fn finish(mut self) -> Vec<u8> {
        match self.frame {
            PackedFrame::Lz4(frame) => frame.finish(&mut self.out),
            PackedFrame::Zstd(frame) => frame.finish(&mut self.out),
        }
        self.out
    }
}
