//! The part of a MIGRATE that remains after its handler has finished: the keys to send, and the destination.

use crate::payload::dumped;
use sluice_persist::rdb;
use sluice_resp::command::push_command;
use sluice_value::Value;

/// Keys to be sent to another server.
#[derive(Debug)]
pub struct Migration {
    /// Number of the migration, for `Engine::end_migration`.
    pub id: u64,
    /// Name or address of the other server.
    pub host: String,
    /// Port of the other server; 0 if the client's text is not a port.
    pub port: u16,
    /// Number of the database on the other server.
    pub db: i64,
    /// Timeout for connecting, for a write and for a reply, in ms.
    pub timeout_ms: u64,
    /// Credentials for an AUTH to the other server. With `None`, no AUTH is sent.
    pub credentials: Option<MigrationCredentials>,
    /// REPLACE: existing keys on the other server are overwritten.
    pub replaces: bool,
    /// COPY: the keys stay on this server.
    pub copies: bool,
    /// `list-max-listpack-size`, which decides the form of lists in payloads.
    pub list_fill: i32,
    /// Whether the other server is a node of this cluster, which must accept keys of a slot that it does
    /// not own yet.
    pub is_between_nodes: bool,
    /// Whether payloads contain compressed strings.
    pub compress: bool,
    /// The keys to be sent, with their values.
    pub keys: Vec<MigratedKey>,
}

/// User and password of the option AUTH or AUTH2; the user is `None` for AUTH.
#[derive(Debug)]
pub struct MigrationCredentials {
    pub user: Option<Vec<u8>>,
    pub password: Vec<u8>,
}

/// A key as it was when MIGRATE ran.
#[derive(Debug)]
pub struct MigratedKey {
    pub name: Vec<u8>,
    /// Hash of the name on this server.
    pub hash: u64,
    /// Remaining life in ms; 0 if the key does not expire.
    pub ttl_ms: u64,
    pub root: Value,
}

/// Result of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationOutcome {
    /// Positions in [`Migration::keys`] of the keys that the other server has acknowledged, ascending.
    pub taken: Vec<usize>,
    /// The error for the client, with its code; `None` if the reply is `OK`.
    pub error: Option<Vec<u8>>,
}

impl Migration {
    /// Number of keys to be sent.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Appends the AUTH request, if there are credentials; returns whether there are any.
    pub fn push_auth(&self, out: &mut Vec<u8>) -> bool {
        let Some(MigrationCredentials { user, password }) = &self.credentials else { return false };
        let words = [Some(&b"AUTH"[..]), user.as_deref(), Some(password)];
        let words: Vec<&[u8]> = words.into_iter().flatten().collect();
        push_command(out, words.into_iter());
        true
    }

    /// Appends the SELECT request for the database.
    pub fn push_select(&self, out: &mut Vec<u8>) {
        let db = self.db.to_string();
        push_command(out, [&b"SELECT"[..], db.as_bytes()].into_iter());
    }

    /// Appends the request that restores key number `number`. Cost: that of DUMP.
    pub fn push_restore(&self, number: usize, out: &mut Vec<u8>) {
        let Some(key) = self.keys.get(number) else { return };
        let payload = rdb::dump(dumped(&key.root, self.list_fill), self.compress);
        let ttl = key.ttl_ms.to_string();
        let command = if self.is_between_nodes { &b"RESTORE-ASKING"[..] } else { b"RESTORE" };
        let words = [command, &key.name, ttl.as_bytes(), &payload, b"REPLACE"];
        let count = if self.replaces { 5 } else { 4 };
        push_command(out, words[..count].iter().copied());
    }

    /// The keys that may be deleted at the end, with their hashes; none with COPY.
    pub fn held(&self) -> Vec<(u64, Box<[u8]>)> {
        if self.copies {
            return Vec::new();
        }
        self.keys.iter().map(|key| (key.hash, key.name.as_slice().into())).collect()
    }
}
