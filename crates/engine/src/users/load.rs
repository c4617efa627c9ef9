//! A file of users on its way: another thread reads and judges the file, then the users are put in force.

use crate::host::process::UserFile;
use sluice_acl::Users;
use sluice_base::SessionKey;

/// What ACL LOAD asks for.
#[derive(Clone, Debug)]
pub struct UserLoad {
    /// The client that waits for it.
    pub client: SessionKey,
    /// The directive `aclfile`.
    pub path: Vec<u8>,
    /// What new users may hear: `acl-pubsub-default allchannels`.
    pub all_channels: bool,
}

impl UserLoad {
    /// The users of the file; `read` gives the file's text, or the system's reason why not. Errors: the
    /// reply's text, without the code. Cost: the rules.
    pub fn judge(&self, read: Result<Vec<u8>, String>) -> Result<Users, Vec<u8>> {
        let text = read.map_err(|reason| {
            [b"Error loading ACLs, opening file '", &*self.path, b"': ", reason.as_bytes()].concat()
        })?;
        Users::parse_file(&text, &self.path, self.all_channels)
    }

    /// Reads and judges the file where it is called.
    pub fn run(&self, files: &mut (impl UserFile + ?Sized)) -> Result<Users, Vec<u8>> {
        let read = files.read_user_file(&self.path);
        self.judge(read)
    }
}
