//! A file of users on its way: another thread reads and judges the file, then the users are put in force.
//!
//! Invariants: (1) one load is under way at most, and the loads of others wait in the order of their coming,
//! so that the one that came last has the last word; (2) users are put in force between two units; (3) a file
//! that was read before users were changed, or written by ACL SAVE, is not put in force: the load is run
//! again.

use crate::process::UserFile;
use sluice_acl::Users;
use sluice_base::SessionKey;

/// What ACL LOAD asks for.
#[derive(Clone, Debug)]
pub struct UserLoad {
    /// The directive `aclfile`.
    pub path: Vec<u8>,
    /// What new users may hear: `acl-pubsub-default allchannels`.
    pub all_channels: bool,
}

/// The users of a file; or what is wrong with them, the reply's text without the code.
pub type JudgedUsers = Result<Users, Vec<u8>>;

impl UserLoad {
    /// The users of the file; `read` gives the file's text, or the system's reason why not. Errors: the
    /// reply's text, without the code. Cost: the rules.
    pub fn judge(&self, read: Result<Vec<u8>, String>) -> JudgedUsers {
        let text = read.map_err(|reason| {
            [b"Error loading ACLs, opening file '", &*self.path, b"': ", reason.as_bytes()].concat()
        })?;
        Users::parse_file(&text, &self.path, self.all_channels)
    }

    /// Reads and judges the file where it is called.
    pub fn run(&self, files: &mut (impl UserFile + ?Sized)) -> JudgedUsers {
        let read = files.read_user_file(&self.path);
        self.judge(read)
    }
}

/// The load that is under way, and how often the client's loads were overtaken.
#[derive(Debug, Default)]
pub struct UserLoading {
    under_way: Option<ReadUnderWay>,
    /// Advanced by whatever a file that is being read does not know of.
    changes: u64,
    /// How often the load of the client that runs it again was overtaken by a change.
    overtaken: u32,
}

#[derive(Debug)]
struct ReadUnderWay {
    client: SessionKey,
    /// [`UserLoading::changes`] when it began.
    changes: u64,
    /// What the other thread has made of the file.
    judged: Option<JudgedUsers>,
}

/// A load whose file was judged.
#[derive(Debug)]
pub struct EndedLoad {
    /// The client that waits for it, if it is still there.
    pub client: SessionKey,
    /// The users, or what is wrong with them.
    pub judged: JudgedUsers,
    /// Whether users were changed or saved since the load began.
    pub is_overtaken: bool,
}

/// How often a file is read again by another thread because users were changed meanwhile. Behind that it is
/// read where commands run, so that whoever changes users all the time cannot keep a load from its end.
const OVERTAKEN_MAX: u32 = 3;

impl UserLoading {
    /// Whether a load is under way.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// A client's load begins.
    pub(crate) fn begin(&mut self, client: SessionKey) {
        debug_assert!(!self.is_under_way(), "invariant 1");
        self.under_way = Some(ReadUnderWay { client, changes: self.changes, judged: None });
    }

    /// Users are changed, or the file is written.
    pub(crate) fn note_change(&mut self) {
        self.changes = self.changes.wrapping_add(1);
    }

    /// Another thread has judged the file.
    pub fn note_judged(&mut self, judged: JudgedUsers) {
        if let Some(under_way) = &mut self.under_way {
            under_way.judged = Some(judged);
        }
    }

    /// Whether a file was judged that is not put in force yet.
    #[inline]
    pub fn is_judged(&self) -> bool {
        self.under_way.as_ref().is_some_and(|under_way| under_way.judged.is_some())
    }

    /// Ends the load whose file was judged.
    pub fn take_judged(&mut self) -> Option<EndedLoad> {
        let ReadUnderWay { client, changes, judged } =
            self.under_way.take_if(|load| load.judged.is_some())?;
        Some(EndedLoad { client, judged: judged?, is_overtaken: changes != self.changes })
    }

    /// The load that has just ended is run again.
    pub fn note_overtaken(&mut self) {
        self.overtaken += 1;
    }

    /// No load is run again any more.
    pub fn forget_overtaken(&mut self) {
        self.overtaken = 0;
    }

    /// Whether a load was overtaken so often that everybody waits for it now.
    pub(crate) fn must_run_at_once(&self) -> bool {
        self.overtaken >= OVERTAKEN_MAX
    }

    /// Bytes that the allocator has given. Cost: the users of the file.
    pub(crate) fn footprint(&self) -> usize {
        match self.under_way.as_ref().and_then(|under_way| under_way.judged.as_ref()) {
            Some(Ok(users)) => users.footprint(),
            Some(Err(text)) => sluice_base::heap::vec(text),
            None => 0,
        }
    }
}
