//! Tests of the users that a configuration defines, and of the contents of a users' file after faults.

use super::*;
use sluice_storage::Real;
use sluice_storage::faulty::{AfterCrash, Faulty, FileFault, Plan};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A temporary folder, which is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("sluice-users-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    fn file(&self, text: &str) -> String {
        let path = self.0.join("users.acl");
        std::fs::write(&path, text).expect("writable");
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config(text: &str) -> Config {
    let mut loader = |_: &[u8]| Ok(vec![("inner.conf".to_owned(), b"user inner on".to_vec())]);
    sluice_config::parse_file(text.as_bytes(), "test.conf", b"", &mut loader).expect("valid lines")
}

fn started(text: &str) -> Result<StartUsers, Vec<String>> {
    let mut config = config(text);
    let lines = take_lines(&mut config).expect("valid users");
    assert!(config.user_lines().is_empty(), "passwords stay");
    at_start(&config, &lines, &Real)
}

fn listed(users: &Users) -> Vec<String> {
    users.iter().map(|user| String::from_utf8(user.line()).expect("text")).collect()
}

/// Starts with a configuration; returns the lines of its users, and the notes of the start.
fn users_of(text: &str) -> (Vec<String>, Vec<String>) {
    let StartUsers { users, notes, .. } = started(text).unwrap_or_else(|lines| panic!("{lines:?}"));
    (listed(&users), notes.into_iter().map(|(_, text)| text).collect())
}

/// The canonical rule of the password `secret`.
const SECRET: &str = "#2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

#[test]
fn lines_and_the_password_make_the_users() {
    assert_eq!(users_of(""), (vec!["user default on nopass ~* &* +@all".into()], vec![]));
    let guarded = format!("user default on {SECRET} ~* &* +@all");
    assert_eq!(users_of("requirepass secret"), (vec![guarded.clone()], vec![]));
    let (users, notes) = users_of("requirepass secret\nuser alice on ~a* +get\nuser bob nopass");
    let others = ["user alice on ~a* resetchannels -@all +get", "user bob off nopass resetchannels -@all"];
    assert_eq!(users, [others[0].to_owned(), others[1].to_owned(), guarded]);
    assert_eq!(notes.len(), 1);
    assert!(notes[0].starts_with("The user 'bob' is disabled (there is no 'on' modifier"), "{notes:?}");
    // A `user` line describes the default user from scratch.
    let (users, _) = users_of("requirepass other\nuser default on >secret +get");
    assert_eq!(users, [format!("user default on {SECRET} resetchannels -@all +get")]);
    // The last `acl-pubsub-default` line determines the channels of all new users.
    let (users, _) = users_of("user a on\nacl-pubsub-default allchannels\nuser b on");
    assert_eq!(users[..2], ["user a on &* -@all".to_owned(), "user b on &* -@all".to_owned()]);
}

#[test]
fn faults_of_lines_are_told_as_the_reference_does() {
    let fault = |text: &str| take_lines(&mut config(text)).expect_err("a fault").to_string();
    assert_eq!(
        fault("user a on\nuser b on\nuser a off"),
        "test.conf:3: Error in user declaration 'a': Duplicate user found. A user can only be defined once in config files: \
         'user a off'"
    );
    assert_eq!(
        fault("user a on zzz"),
        "test.conf:1: Error in user declaration 'a': Syntax error: 'user a on zzz'"
    );
    assert!(fault("user a on (+get").contains("Error in user declaration 'a': Wrong format"));
    let critical = "Critical error while loading ACLs. Exiting.";
    for (text, line) in [
        (
            "user a on +nope",
            "Error loading ACL rule '+nope' for the user named 'a': Unknown command or category name in ACL",
        ),
        ("user 'a b' on", "Spaces not allowed in ACL usernames"),
    ] {
        assert_eq!(started(text).expect_err("a fault"), [line.to_owned(), critical.to_owned()]);
    }
}

#[test]
fn users_of_included_files_are_remembered() {
    let StartUsers { outside, .. } = started("user a on\ninclude x\nuser b on").expect("valid");
    assert_eq!(outside.len(), 1);
    assert_eq!(outside[0].line, b"user inner on resetchannels -@all");
    assert_eq!(outside[0].source, "inner.conf");
}

#[test]
fn a_file_has_all_users_and_its_default_user_wins() {
    let folder = Folder::new();
    let path = folder.file("user alice on +get\nuser default on >secret ~* +@all\n");
    let (users, notes) = users_of(&format!("aclfile {path}"));
    let lines = [
        "user alice on resetchannels -@all +get".to_owned(),
        format!("user default on {SECRET} ~* resetchannels +@all"),
    ];
    assert_eq!((users, notes), (lines.to_vec(), vec![]));
    assert_eq!(users_of(&format!("aclfile {path}\nrequirepass secret")).1, Vec::<String>::new());
    let told = |what: &str| {
        vec![format!("WARNING: requirepass has no effect: the default user of the ACL file '{path}' {what}")]
    };
    assert_eq!(users_of(&format!("aclfile {path}\nrequirepass x")).1, told("has other passwords"));
    folder.file("user alice on");
    assert_eq!(users_of(&format!("aclfile {path}\nrequirepass x")).1, told("has no password"));
    let beside = started(&format!("aclfile {path}\nuser b on")).expect_err("not both");
    assert!(
        beside[0].starts_with("Configuring Valkey with users defined in valkey.conf and at the same"),
        "{beside:?}"
    );
}

#[test]
fn faults_of_a_file_are_told_as_the_reference_does() {
    let folder = Folder::new();
    let path = folder.file("user a on zzz\nuser b on +nope\nuser a on\n");
    let aborting = "Aborting Valkey startup because of ACL errors: ";
    let fault = |name: &str| {
        let told = started(&format!("aclfile {name}")).expect_err("a fault");
        assert_eq!(told.len(), 1, "{told:?}");
        told[0].strip_prefix(aborting).unwrap_or_else(|| panic!("{told:?}")).to_owned()
    };
    assert_eq!(
        fault(&path),
        format!(
            "{path}:1: Syntax error. {path}:2: Error in applying operation '+nope': Unknown command or category name in ACL. \
             WARNING: Duplicate user 'a' found on line 3. WARNING: ACL errors detected, no change to the previously active ACL \
             rules was performed"
        )
    );
    let missing = format!("{path}.missing");
    assert_eq!(
        fault(&missing),
        format!("Error loading ACLs, opening file '{missing}': No such file or directory")
    );
    let folder_path = folder.0.display().to_string();
    assert_eq!(
        fault(&folder_path),
        format!("Error loading ACLs, opening file '{folder_path}': Is a directory")
    );
}

#[test]
fn a_check_names_each_faulty_user() {
    let folder = Folder::new();
    let path = folder.file("nonsense");
    let text = format!("user a on zzz\nuser b off +nope\nuser b on\nuser b on\nuser c off\naclfile {path}\n");
    let found = check(&config(&text), &Real);
    let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 4, "{errors:?}");
    assert!(errors[0].starts_with("test.conf:1: Error in user declaration 'a': Syntax error"), "{errors:?}");
    assert!(
        errors[1].starts_with("test.conf:2: Error loading ACL rule '+nope' for the user named 'b'"),
        "{errors:?}"
    );
    assert!(
        errors[2].starts_with("test.conf:3: Error in user declaration 'b': Duplicate user"),
        "{errors:?}"
    );
    assert!(
        errors[3].starts_with("test.conf:4: Error in user declaration 'b': Duplicate user"),
        "{errors:?}"
    );
    assert_eq!(found.notes.len(), 1);
    assert_eq!(found.file_errors.len(), 2, "{:?}", found.file_errors);
    assert!(found.file_errors[1].contains(":1 should start with user keyword"), "{:?}", found.file_errors);
    let fine = check(&config("user a on >x ~* +@all\nrequirepass y"), &Real);
    assert!(fine.errors.is_empty() && fine.notes.is_empty() && fine.file_errors.is_empty());
}

#[test]
fn a_check_knows_the_roles_of_all_lines() {
    let found = check(&config("user a on role=r\nuser b on role=s\nrole r +get\nrole r\nrole q on\n"), &Real);
    let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(
        errors[0].starts_with("test.conf:4: Error in role declaration 'r': Duplicate role"),
        "{errors:?}"
    );
    assert!(errors[1].starts_with("test.conf:5: Error in role declaration 'q': Syntax error"), "{errors:?}");
    assert!(
        errors[2].starts_with("test.conf:2: Error loading ACL rule 'role=s' for the user named 'b'"),
        "{errors:?}"
    );
}

const OLD: &str = "user old on\n";
const NEW: &str = "user new on\nuser default on nopass ~* &* +@all\n";

#[test]
fn a_fault_or_a_crash_at_any_step_leaves_the_old_users_or_the_new_ones() {
    // The operations are create, mode, write, sync, rename, sync of the folder, and some more.
    const STEPS: u64 = 8;
    let (mut old, mut new) = (0, 0);
    let faults = [
        FileFault::NoSpace,
        FileFault::FillsUp,
        FileFault::WriteError,
        FileFault::SyncError,
        FileFault::TornRename,
        FileFault::Crash,
    ];
    for fault in faults {
        for first in 1..=STEPS {
            for seed in 0..8 {
                let folder = Folder::new();
                let path = folder.file(OLD);
                let plan = Plan { fault, first, count: 1, seed };
                let storage: Arc<dyn Storage> = Arc::new(Faulty::new(Arc::new(Real), plan, AfterCrash::Fail));
                let done = replace_user_file(&storage, path.as_bytes(), NEW.as_bytes());
                let left = std::fs::read_to_string(&path).expect("one of the two is there");
                assert!(left == NEW || left == OLD, "{fault:?} at {first}, seed {seed}: {left:?}");
                match done {
                    Ok(()) => assert_eq!(left, NEW, "{fault:?} at {first}, seed {seed}"),
                    Err(reason) => assert!(!reason.is_empty() && !reason.contains("os error"), "{reason}"),
                }
                *if left == NEW { &mut new } else { &mut old } += 1;
            }
        }
    }
    assert!(old > 50 && new > 50, "both happen: {old}, {new}");
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_gives_no_users() {
    let folder = Folder::new();
    let path = folder.file(OLD);
    let read = |fault, first| {
        let plan = Plan { fault, first, count: 1, seed: 0 };
        read_user_file(&Faulty::new(Arc::new(Real), plan, AfterCrash::Fail), path.as_bytes())
    };
    assert_eq!(read(FileFault::ShortRead, 1), Ok(OLD.as_bytes().to_vec()), "the rest is read after it");
    for first in 1..=2 {
        assert_eq!(read(FileFault::ReadError, first), Err("I/O error".to_owned()), "{first}");
    }
    let missing = read_user_file(&Real, format!("{path}.missing").as_bytes());
    assert_eq!(missing, Err("No such file or directory".to_owned()));
}

#[test]
fn a_new_file_of_users_is_for_nobody_else_and_an_old_one_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let storage: Arc<dyn Storage> = Arc::new(Real);
    let path = folder.0.join("users.acl");
    let name = path.as_os_str().as_bytes();
    let mode = || std::fs::metadata(&path).expect("there").permissions().mode() & 0o777;
    replace_user_file(&storage, name, NEW.as_bytes()).expect("written");
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("ours");
    replace_user_file(&storage, name, OLD.as_bytes()).expect("written");
    assert_eq!(mode(), 0o640);
    assert_eq!(read_user_file(&Real, name), Ok(OLD.as_bytes().to_vec()));
}
