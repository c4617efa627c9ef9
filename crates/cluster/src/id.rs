//! Ids of nodes and of shards, and epochs.

use std::fmt;

/// Bytes of a [`NodeId`] and of a [`ShardId`].
pub const ID_LEN: usize = 40;

macro_rules! ids {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; ID_LEN]);

        impl $name {
            /// Parses an id of 40 bytes of `a` to `z` and `0` to `9`. `None` for any other bytes.
            pub fn parse(bytes: &[u8]) -> Option<Self> {
                let id: [u8; ID_LEN] = bytes.try_into().ok()?;
                // The check does not branch on each byte, so the compiler can check several bytes with one
                // instruction. This pays because a PING of a large cluster has many ids.
                let is_fit = |byte: &u8| byte.is_ascii_lowercase() | byte.is_ascii_digit();
                id.iter().fold(true, |all, byte| all & is_fit(byte)).then_some(Self(id))
            }

            /// A new id: 40 hexadecimal digits, drawn from `rng`.
            pub fn random(rng: &mut sluice_base::Rng) -> Self {
                let mut id = [0; ID_LEN];
                for byte in &mut id {
                    *byte = b"0123456789abcdef"[rng.below(16) as usize];
                }
                Self(id)
            }

            /// The id as it is written in messages, files and replies.
            pub fn as_bytes(&self) -> &[u8; ID_LEN] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // The id is written with one call, not character by character. CLUSTER NODES and nodes.conf
                // write ids with `as_bytes`, except those of open slots.
                f.write_str(std::str::from_utf8(&self.0).unwrap_or_default())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

ids!(
    /// The name of a node, until its `nodes.conf` is lost or CLUSTER RESET HARD renames it. Ids are ordered
    /// by their bytes.
    NodeId
);
ids!(
    /// The name of a shard: a primary and its replicas.
    ShardId
);

/// An epoch: the version of a primary's claim to its slots (*configEpoch*), or the number of the cluster's
/// latest election (*currentEpoch*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterEpoch(pub u64);

impl ClusterEpoch {
    /// The first epoch that no message may contain. With larger epochs, `+ 1` could overflow.
    pub const END: ClusterEpoch = ClusterEpoch(1 << 63);

    /// The next epoch. Epochs from outside are below [`ClusterEpoch::END`].
    #[must_use]
    pub fn next(self) -> ClusterEpoch {
        ClusterEpoch(self.0.saturating_add(1))
    }
}

impl fmt::Display for ClusterEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
