//! ACL LOAD: another thread reads and checks the file, and then the users are installed.
//!
//! Invariants: (1) at most one load is in progress, and further loads wait in order of arrival, so the last
//! one determines the users; (2) users are installed between two commands or transactions; (3) a file that
//! was read before a change of the users or before ACL SAVE is not installed: the load is run again.

use crate::process::UserFile;
use sluice_acl::Users;
use sluice_base::SessionKey;

/// The input of ACL LOAD.
#[derive(Clone, Debug)]
pub struct UserLoad {
    /// The path in `aclfile`.
    pub path: Vec<u8>,
    /// Whether new users have every channel: `acl-pubsub-default allchannels`.
    pub all_channels: bool,
}

/// The users of a file, or its faults as the reply's text without the error code.
pub type JudgedUsers = Result<Users, Vec<u8>>;

impl UserLoad {
    /// Parses the users of the file; `read` is the file's text or the system's error. `Err` is the reply's
    /// text without the error code. Cost: applying the rules.
    pub fn judge(&self, read: Result<Vec<u8>, String>) -> JudgedUsers {
        let text = read.map_err(|reason| {
            [b"Error loading ACLs, opening file '", &*self.path, b"': ", reason.as_bytes()].concat()
        })?;
        Users::parse_file(&text, &self.path, self.all_channels)
    }

    /// Reads and parses the file on the calling thread.
    pub fn run(&self, files: &mut (impl UserFile + ?Sized)) -> JudgedUsers {
        let read = files.read_user_file(&self.path);
        self.judge(read)
    }
}

/// The load in progress, and how often it was overtaken by changes.
#[derive(Debug, Default)]
pub struct UserLoading {
    under_way: Option<ReadUnderWay>,
    /// Advanced by every change that a file being read does not contain.
    changes: u64,
    /// Number of times that a change has overtaken the present client's load.
    overtaken: u32,
}

#[derive(Debug)]
struct ReadUnderWay {
    client: SessionKey,
    /// Value of [`UserLoading::changes`] at the start.
    changes: u64,
    /// The result of the other thread; `None` until it is done.
    judged: Option<JudgedUsers>,
}

/// A load whose file was parsed.
#[derive(Debug)]
pub struct EndedLoad {
    /// The client that waits for the load; may no longer exist.
    pub client: SessionKey,
    /// The users, or the faults of the file.
    pub judged: JudgedUsers,
    /// Whether users were changed or saved since the load began.
    pub is_overtaken: bool,
}

/// Number of times that the file is read again on another thread because users were changed during the load.
/// After that the file is read on the main thread, so that constant changes cannot delay a load forever.
const OVERTAKEN_MAX: u32 = 3;

impl UserLoading {
    /// Whether a load is in progress.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Begins a client's load.
    pub(crate) fn begin(&mut self, client: SessionKey) {
        debug_assert!(!self.is_under_way(), "invariant 1");
        self.under_way = Some(ReadUnderWay { client, changes: self.changes, judged: None });
    }

    /// Records a change of the users, or of the file.
    pub(crate) fn note_change(&mut self) {
        self.changes = self.changes.wrapping_add(1);
    }

    /// Stores the result of the other thread.
    pub fn note_judged(&mut self, judged: JudgedUsers) {
        if let Some(under_way) = &mut self.under_way {
            under_way.judged = Some(judged);
        }
    }

    /// Whether a parsed file waits to be installed.
    #[inline]
    pub fn is_judged(&self) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.judged.is_some())
    }

    /// Ends the load if its file was parsed, and returns it.
    pub fn take_judged(&mut self) -> Option<EndedLoad> {
        let ReadUnderWay { client, changes, judged } =
            self.under_way.take_if(|load| load.judged.is_some())?;
        Some(EndedLoad { client, judged: judged?, is_overtaken: changes != self.changes })
    }

    /// Records that the load that just ended has to run again.
    pub fn note_overtaken(&mut self) {
        self.overtaken += 1;
    }

    /// Records that no load has to run again.
    pub fn forget_overtaken(&mut self) {
        self.overtaken = 0;
    }

    /// Whether a load was overtaken so often that it must run on the main thread.
    pub(crate) fn must_run_at_once(&self) -> bool {
        self.overtaken >= OVERTAKEN_MAX
    }

    /// Bytes of heap memory that the result of a finished load takes. Cost: O(users of the file).
    pub(crate) fn footprint(&self) -> usize {
        match self.under_way.as_ref().and_then(|under_way| under_way.judged.as_ref()) {
            Some(Ok(users)) => users.footprint(),
            Some(Err(text)) => sluice_base::heap::vec(text),
            None => 0,
        }
    }
}
