//! Calls of the process about users.

use crate::engine::Engine;
use crate::users::UserUpdates;
use sluice_acl::Users;
use sluice_base::SessionKey;
use sluice_control::process::Process;
use sluice_control::users::load::JudgedUsers;

impl Engine {
    /// Takes over the users of the configuration: at the start, before the first client.
    pub fn install_users(&mut self, users: Users) {
        UserUpdates::of(&mut self.core).install_users(users)
    }

    /// Puts the users of a file, which another thread has checked, in force, or replies to the client with
    /// the errors found. If a transaction or script is in progress, this is done after its end. If users were
    /// changed or the file was written during the load, the client's request is run again. Cost: the users,
    /// and a look at each session.
    pub fn end_user_load(&mut self, judged: JudgedUsers, process: &mut dyn Process) {
        self.core.control.clients.users.loading.note_judged(judged);
        self.apply_user_load(process);
        self.serve_waiting(process);
    }

    /// Whether the default user requires no password, enabled or not: `protected-mode` depends on it.
    pub fn default_user_has_no_password(&self) -> bool {
        self.core.control.clients.users.users().default_user().is_nopass()
    }

    /// Makes a client the user that its certificate names: the first of the names that an enabled user has.
    /// If no user has any of the names, the client keeps its user, and the refusal of the first name, or the
    /// lack of a name, is counted and logged. To be called before the client's first request. Cost: the
    /// names.
    pub fn log_in_by_certificate(&mut self, key: SessionKey, names: &[Vec<u8>], process: &mut dyn Process) {
        UserUpdates::of(&mut self.core).log_in_by_certificate(key, names, process)
    }
}
