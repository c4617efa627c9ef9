use super::*;
use crate::faulty::{AfterCrash, Faulty, FileFault, Plan};
use crate::{Real, Storage};
use std::path::PathBuf;
use std::sync::Arc;

struct Scene {
    storage: Faulty,
    path: PathBuf,
}

impl Scene {
    /// A file whose storage has `fault` at `count` steps (file operations) from step `first` on. Creating the
    /// file is step 1.
    fn new(name: &str, fault: FileFault, first: u64, count: u64) -> (Scene, Appender) {
        let path = std::env::temp_dir().join(format!("sluice-appender-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let plan = Plan { fault, first, count, seed: 0 };
        let storage = Faulty::new(Arc::new(Real), plan, AfterCrash::Fail);
        let file = storage.create(&path, 0o600).unwrap();
        (Scene { storage, path }, Appender::new(file, 100).unwrap())
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn push(appender: &mut Appender, text: &str, end: u64) {
    appender.push(Block { bytes: text.into(), end });
}

fn write(appender: &mut Appender) -> io::Result<()> {
    appender.write(&mut |_| {})
}

#[test]
fn blocks_are_written_together_and_synced_together() {
    let (scene, mut appender) = Scene::new("together", FileFault::Crash, u64::MAX, 1);
    push(&mut appender, "one ", 104);
    push(&mut appender, "two ", 108);
    let mut told = Vec::new();
    appender.write(&mut |bytes| told.push(bytes)).unwrap();
    assert_eq!(told, [8]);
    assert_eq!(scene.storage.steps(), 2, "creation and one write");
    assert_eq!((appender.written(), appender.synced(), appender.size()), (108, 100, 8));
    assert!(appender.wants_sync());
    appender.sync().unwrap();
    assert_eq!(appender.synced(), 108);
    assert!(!appender.wants_sync());
    assert_eq!(scene.text(), "one two ");
    assert_eq!(appender.take_spent().len(), 2);
}

#[test]
fn a_short_write_goes_on() {
    let (scene, mut appender) = Scene::new("short", FileFault::ShortWrite, 2, 2);
    push(&mut appender, "a longer text", 113);
    write(&mut appender).unwrap();
    assert_eq!(scene.text(), "a longer text");
    assert_eq!(appender.written(), 113);
}

#[test]
fn a_write_that_fails_leaves_whole_blocks_and_is_tried_again() {
    // Step 3, the write of the second block, writes half of the bytes and fails. The truncation after this
    // write succeeds.
    let (scene, mut appender) = Scene::new("fails", FileFault::WriteError, 3, 1);
    push(&mut appender, "one ", 104);
    write(&mut appender).unwrap();
    push(&mut appender, "two ", 108);
    write(&mut appender).unwrap_err();
    assert_eq!(appender.health(), &FileHealth::Waiting);
    assert_eq!(scene.text(), "one ");
    assert_eq!(appender.written(), 104);
    push(&mut appender, "three ", 114);
    write(&mut appender).unwrap();
    assert_eq!(appender.health(), &FileHealth::Fine);
    assert_eq!(scene.text(), "one two three ");
    assert_eq!(appender.written(), 114);
}

#[test]
fn a_full_disk_is_waited_for() {
    let (scene, mut appender) = Scene::new("full", FileFault::NoSpace, 2, 5);
    push(&mut appender, "one ", 104);
    for _ in 0..3 {
        let error = write(&mut appender).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(scene.text(), "");
    }
    write(&mut appender).unwrap();
    assert_eq!(scene.text(), "one ");
}

#[test]
fn a_sync_that_fails_loses_the_file_for_good() {
    let (scene, mut appender) = Scene::new("lost", FileFault::SyncError, 3, 1);
    push(&mut appender, "one ", 104);
    write(&mut appender).unwrap();
    appender.sync().unwrap_err();
    assert_eq!(appender.health(), &FileHealth::Lost);
    assert_eq!(appender.synced(), 100, "nothing is durable that was not");
    push(&mut appender, "two ", 108);
    write(&mut appender).unwrap();
    assert_eq!(appender.health(), &FileHealth::Lost, "a write does not mend it");
    assert!(!appender.wants_sync());
    assert_eq!(scene.text(), "one two ");
}

#[test]
#[should_panic(expected = "a sync that failed is not tried again")]
fn nobody_syncs_a_lost_file_again() {
    let (_scene, mut appender) = Scene::new("twice", FileFault::SyncError, 2, 1);
    let _ = appender.sync();
    let _ = appender.sync();
}

#[test]
fn a_sync_on_another_thread_makes_durable_what_was_written_before_it_began() {
    let (_scene, mut appender) = Scene::new("twin", FileFault::SyncError, 6, 1);
    push(&mut appender, "one ", 104);
    write(&mut appender).unwrap();
    let mut pending = appender.begin_sync().unwrap();
    push(&mut appender, "two ", 108);
    write(&mut appender).unwrap();
    let result = pending.file.sync_data();
    assert_eq!(appender.synced(), 100);
    appender.end_sync(pending.position, result).unwrap();
    assert_eq!((appender.written(), appender.synced()), (108, 104));
    assert!(appender.wants_sync());
    push(&mut appender, "three ", 114);
    write(&mut appender).unwrap();
    let mut pending = appender.begin_sync().unwrap();
    let result = pending.file.sync_data();
    appender.end_sync(pending.position, result).unwrap_err();
    assert_eq!(appender.health(), &FileHealth::Lost);
    assert_eq!(appender.synced(), 104);
}

#[test]
fn what_is_synced_survives_every_crash() {
    for step in 1..=9 {
        for seed in 0..8 {
            let path = std::env::temp_dir().join(format!("sluice-appender-crash-{}", std::process::id()));
            let _ = std::fs::remove_file(&path);
            let plan = Plan { fault: FileFault::Crash, first: step, count: 1, seed };
            let storage = Faulty::new(Arc::new(Real), plan, AfterCrash::Fail);
            let folder = path.parent().unwrap().to_owned();
            let mut synced = 0;
            let mut run = || -> io::Result<()> {
                let file = storage.create(&path, 0o600)?;
                storage.sync_folder(&folder)?;
                let mut appender = Appender::new(file, 0)?;
                for n in 1..=3 {
                    appender.push(Block { bytes: vec![b'0' + n; 700], end: u64::from(n) * 700 });
                    write(&mut appender)?;
                    appender.sync()?;
                    synced = appender.synced();
                }
                Ok(())
            };
            let _ = run();
            let left = std::fs::read(&path).unwrap_or_default();
            let wanted: Vec<u8> = (0..synced).map(|at| b'1' + (at / 700) as u8).collect();
            assert!(left.starts_with(&wanted), "step {step}, seed {seed}: {synced} bytes are durable");
            let _ = std::fs::remove_file(&path);
        }
    }
}
