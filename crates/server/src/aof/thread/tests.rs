//! Tests the work of the append-only file's thread step by step, without a thread and with files that fail.
//! The tests check the positions that are published as durable, and the contents on disk.
//!
//! The data of a [`Scene`] are the numbers from 1 on, each of them a record. After a crash the files must
//! hold 1, 2, 3 … without gaps and duplicates, at least up to the promised number.

use super::*;
use crate::aof::AofShared;
use sluice_config::Config;
use sluice_control::process::AofBacklog;
use sluice_evloop::{AnyLoop, Backend};
use sluice_persist::aof::{BaseFormat, LogItem, LogOptions, LogProgress, LogReader};
use sluice_storage::aof::Block;
use sluice_storage::faulty::{AfterCrash, Faulty, FileFault, Plan};
use sluice_storage::{Real, Storage};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64};

mod crashes;

/// Length of a record in bytes.
const RECORD: u64 = 25;

/// Milliseconds between two readings of the clock by the thread.
const TICK_MS: u64 = 50;

/// A process with an append-only file, as seen by the file's thread.
struct Scene {
    storage: Arc<Faulty>,
    dir: PathBuf,
    clock_ns: Arc<AtomicU64>,
    waker: Waker,
    policy: AppendFsync,
    /// `None` while the append-only file is off.
    worker: Option<AofWorker>,
    shared: Arc<AofShared>,
    /// The newest number that was appended.
    last: u64,
    /// For each number from 1 on, the time at which it was appended.
    given_ns: Vec<u64>,
    /// The last rewrite that began.
    rewrite: RewriteNumber,
    /// The newest number that was appended before the last rewrite began.
    cut: u64,
    /// Whether the files that are appended to are named in the manifest.
    is_in_force: bool,
    /// Numbers up to this one must survive, whatever happens.
    kept: u64,
    news: Vec<AofNews>,
}

/// The contents of a folder.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    numbers: Vec<u64>,
    end: FoundEnd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FoundEnd {
    Whole,
    /// The last file ends within a record. Holds the file's name, and the length of its valid part.
    Torn(PathBuf, u64),
    /// A file has an invalid record, or ends within a record while other files follow. A server does not
    /// start before the files are repaired.
    Broken,
}

impl Scene {
    fn new(policy: AppendFsync, fault: FileFault, first: u64, count: u64, seed: u64) -> Scene {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("sluice-aof-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        // The state after a crash is computed, so no disk is needed, and memory is faster.
        let memory = Some(PathBuf::from("/dev/shm")).filter(|memory| memory.is_dir());
        let dir = memory.unwrap_or_else(std::env::temp_dir).join(name);
        std::fs::create_dir_all(&dir).expect("a temporary folder");
        let plan = Plan { fault, first, count, seed };
        let opened = AnyLoop::choose(Backend::Poll, &sluice_evloop::Config::default()).expect("a loop");
        Scene {
            storage: Arc::new(Faulty::new(Arc::new(Real), plan, AfterCrash::Fail)),
            dir,
            clock_ns: Arc::new(AtomicU64::new(SECOND_NS)),
            waker: opened.event_loop.waker(),
            policy,
            worker: None,
            shared: Arc::default(),
            last: 0,
            given_ns: Vec::new(),
            rewrite: RewriteNumber::default(),
            cut: 0,
            is_in_force: false,
            kept: 0,
            news: Vec::new(),
        }
    }

    /// A started scene in which no operation fails.
    fn well(policy: AppendFsync) -> Scene {
        let mut scene = Scene::new(policy, FileFault::Crash, u64::MAX, 1, 0);
        scene.start().expect("nothing fails");
        scene
    }

    fn storage(&self) -> Arc<dyn Storage> {
        self.storage.clone()
    }

    fn folder(&self) -> Folder {
        Folder::read_in(self.storage(), &self.dir, &Config::default()).expect("a manifest in order")
    }

    fn path(&self) -> PathBuf {
        self.dir.join("appendonlydir")
    }

    fn now_ns(&self) -> u64 {
        self.clock_ns.load(Relaxed)
    }

    /// Starts a process: loads the files, and appends after their last number.
    fn start(&mut self) -> Result<(), String> {
        let found = self.found();
        let mut folder = self.folder();
        folder.remove_left_over(&mut |_| {});
        match &found.end {
            FoundEnd::Whole => {}
            FoundEnd::Torn(path, valid) => {
                let cut = self.storage.append(path).and_then(|mut file| {
                    file.truncate(*valid)?;
                    file.sync()
                });
                cut.map_err(|error| error.to_string())?;
            }
            FoundEnd::Broken => return Err("broken".to_owned()),
        }
        folder.create()?;
        if folder.manifest().files().next().is_none() {
            let base = NewBase::begin(self.storage(), folder.path(), BaseFormat::Commands, false, 0)?;
            folder.finish_base(base, 0, Named::Now).map_err(|lines| lines.join("; "))?;
        }
        let (file, _) = folder.open_to_append()?;
        self.last = found.numbers.len() as u64;
        self.given_ns.truncate(self.last as usize);
        self.open(folder, file, Named::Now, None)?;
        self.is_in_force = true;
        // A server would serve clients from here on, so clients may have seen these numbers.
        self.kept = self.last;
        Ok(())
    }

    fn open(
        &mut self,
        folder: Folder,
        file: Box<dyn sluice_storage::StorageFile>,
        named: Named,
        cut: Option<RewriteNumber>,
    ) -> Result<(), String> {
        let appender = Appender::new(file, self.last * RECORD).map_err(|error| error.to_string())?;
        self.shared = Arc::default();
        let clock_ns = self.clock_ns.clone();
        let clock = Box::new(move || clock_ns.load(Relaxed));
        let (shared, waker) = (self.shared.clone(), self.waker.clone());
        let mut worker = AofWorker::new(shared, waker, folder, appender, self.policy, (named, cut), clock);
        worker.remove_history();
        self.worker = Some(worker);
        Ok(())
    }

    /// Makes the thread do the work that was given to it, and what is due.
    fn work(&mut self) {
        let Some(worker) = &mut self.worker else { return };
        let mut items = VecDeque::new();
        self.shared.take(&mut items);
        if worker.ending.is_none() {
            worker.work(&mut items);
        }
        let news = self.shared.take_news();
        self.is_in_force |= news.contains(&AofNews::BaseFinished(self.rewrite, true));
        self.kept = self.kept.max(self.promised());
        self.news.extend(news);
    }

    /// The newest number that was published as durable or, while the files are not in force, the newest
    /// number that must survive.
    fn promised(&self) -> u64 {
        if self.is_in_force { self.shared.durable() / RECORD } else { self.kept }
    }

    fn order(&mut self, order: AofCommand) {
        self.shared.give(AofItem::Command(order));
        self.work();
    }

    /// Appends the next numbers, one block each.
    fn write(&mut self, count: u64) {
        for _ in 0..count {
            self.last += 1;
            self.given_ns.push(self.now_ns());
            if self.worker.is_some() {
                let block = Block { bytes: record(self.last), end: self.last * RECORD };
                self.shared.give(AofItem::Block(block));
            }
        }
        self.work();
    }

    /// Lets time pass; the thread works every [`TICK_MS`].
    fn pass_ms(&mut self, ms: u64) {
        for _ in 0..ms / TICK_MS {
            if !self.storage.has_crashed() {
                self.clock_ns.fetch_add(TICK_MS * 1_000_000, Relaxed);
                self.work();
            }
        }
    }

    fn set_policy(&mut self, policy: AppendFsync) {
        self.policy = policy;
        self.order(AofCommand::Policy(policy));
    }

    /// Begins a rewrite, with the cut after the newest number.
    fn begin_rewrite(&mut self) {
        self.rewrite = self.rewrite.next();
        self.cut = self.last;
        self.order(AofCommand::BeginIncr(self.rewrite));
    }

    /// Writes a base of the data at the cut. `None` if that fails.
    fn write_base(&self) -> Option<NewBase> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let mut base =
            NewBase::begin(self.storage(), &self.path(), BaseFormat::Commands, false, number).ok()?;
        let records: Vec<u8> = (1..=self.cut).flat_map(record).collect();
        for piece in records.chunks(700) {
            base.write(piece).ok()?;
        }
        base.sync().ok()?;
        Some(base)
    }

    /// Writes the base of the last rewrite that began, and puts it in force.
    fn finish_rewrite(&mut self) {
        if let Some(base) = self.write_base() {
            self.order(AofCommand::FinishBase(self.rewrite, Box::new(base)));
        }
    }

    /// Does what CONFIG SET appendonly no does.
    fn turn_off(&mut self) {
        if self.worker.is_none() {
            return;
        }
        self.order(AofCommand::End);
        let ending = self.worker.take().and_then(|worker| worker.ending);
        if ending == Some(AofEnding::Durable) && self.is_in_force {
            self.kept = self.last;
        }
        self.is_in_force = false;
    }

    /// Does what CONFIG SET appendonly yes does. If the increment cannot be made, the file stays off.
    fn turn_on(&mut self) {
        self.rewrite = self.rewrite.next();
        self.cut = self.last;
        let mut folder = self.folder();
        if let Ok((file, _)) = folder.open_after_cut(Named::WithBase, &mut |_| {}) {
            let _ = self.open(folder, file, Named::WithBase, Some(self.rewrite));
        }
    }

    /// Kills the process and starts another one.
    fn kill(&mut self) -> Result<(), String> {
        self.worker = None;
        self.start()
    }

    /// The numbers that a start would load.
    fn found(&self) -> Found {
        let real: Arc<dyn Storage> = Arc::new(Real);
        let folder = Folder::read_in(real, &self.dir, &Config::default()).expect("a manifest in order");
        let files: Vec<PathBuf> =
            folder.manifest().loaded().map(|(file, _)| folder.path_of(&file.name)).collect();
        let mut numbers = Vec::new();
        for (at, path) in files.iter().enumerate() {
            let bytes = std::fs::read(path).expect("what the manifest names is there");
            let is_last = at + 1 == files.len();
            let end = match read_numbers(&bytes, &mut numbers) {
                None => FoundEnd::Broken,
                Some(valid) if valid == bytes.len() as u64 => continue,
                Some(_) if !is_last => FoundEnd::Broken,
                Some(valid) => FoundEnd::Torn(path.clone(), valid),
            };
            return Found { numbers, end };
        }
        Found { numbers, end: FoundEnd::Whole }
    }

    /// Checks the files that a crash has left.
    #[track_caller]
    fn check(&self, what: &str) -> FoundEnd {
        let Found { numbers, end } = self.found();
        let wanted: Vec<u64> = (1..=numbers.len() as u64).collect();
        assert_eq!(numbers, wanted, "{what}: a gap, or a record twice");
        let found = numbers.len() as u64;
        assert!(found >= self.kept, "{what}: {} was promised, {found} is there", self.kept);
        assert!(found <= self.last, "{what}: {found} of {}", self.last);
        end
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).expect("there");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("a name").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn has_said(&self, part: &str) -> bool {
        self.news.iter().any(|news| matches!(news, AofNews::Log(_, line) if line.contains(part)))
    }

    /// The fault that was reported last; `None` if its end has been reported since then.
    fn fault(&self) -> Option<&str> {
        let last = self.news.iter().rev().find_map(|news| match news {
            AofNews::Fault(fault) => Some(fault.as_deref()),
            _ => None,
        });
        last.flatten()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn record(number: u64) -> Vec<u8> {
    let bytes = format!("*2\r\n$3\r\nADD\r\n$6\r\n{number:06}\r\n").into_bytes();
    assert_eq!(bytes.len() as u64, RECORD);
    bytes
}

/// Appends the numbers of a file. Returns the length of the file's valid part; `None` if it has
/// an invalid record.
fn read_numbers(bytes: &[u8], numbers: &mut Vec<u64>) -> Option<u64> {
    let mut reader = LogReader::new(LogOptions::default());
    reader.feed(bytes);
    loop {
        match reader.next().ok()? {
            LogProgress::Item(LogItem::Command(request)) => {
                let text = std::str::from_utf8(request.arg(1)).ok()?;
                numbers.push(text.parse().ok()?);
            }
            LogProgress::Item(_) => {}
            LogProgress::More => return Some(reader.tail().valid_up_to),
        }
    }
}

/// Number of disk operations of the first start: a sync of the parent folder; the base (create, sync, rename,
/// sync of the folder); the manifest (the same four, and a write); the syncs of the base, of the folder and
/// of the parent folder; the increment (create, sync of the folder); and the manifest again.
const FIRST_STEPS: u64 = 1 + 4 + 5 + 3 + 2 + 5;

/// A scene in which only the next sync fails. A record is written; under `everysec` it would be synced after
/// a second.
fn with_failing_sync(policy: AppendFsync) -> Scene {
    let mut scene = Scene::new(policy, FileFault::SyncError, FIRST_STEPS + 2, 1, 0);
    scene.start().expect("the fault comes later");
    assert_eq!(scene.storage.steps(), FIRST_STEPS);
    scene.write(1);
    scene
}

#[test]
fn no_position_is_durable_behind_a_lost_sync_before_a_rewrite_is_whatever_appendfsync_says() {
    let mut scene = with_failing_sync(AppendFsync::EverySecond);
    scene.pass_ms(1000);
    assert_eq!(scene.fault(), Some("I/O error"));
    scene.set_policy(AppendFsync::Always);
    scene.write(1);
    assert_eq!(scene.promised(), 0);
    // The increment that begins at the cut is undamaged, and its syncs succeed.
    scene.begin_rewrite();
    scene.write(1);
    assert_eq!(scene.promised(), 0, "what is before the cut is in no file that was synced");
    assert_eq!(scene.fault(), Some("I/O error"), "nor does the fault end before the base is in force");
    scene.finish_rewrite();
    assert_eq!(scene.promised(), 3);
    assert_eq!(scene.fault(), None);
    scene.storage.crash_now(1).expect("crashed");
    assert_eq!(scene.check("behind the rewrite"), FoundEnd::Whole);
}

#[test]
fn a_rewrite_that_fails_does_not_make_good_a_lost_sync() {
    let mut scene = with_failing_sync(AppendFsync::EverySecond);
    scene.pass_ms(1000);
    for _ in 0..3 {
        scene.begin_rewrite();
        scene.write(1);
        scene.pass_ms(1000);
        assert_eq!(scene.promised(), 0);
        assert_eq!(scene.fault(), Some("I/O error"));
    }
    scene.finish_rewrite();
    assert_eq!(scene.promised(), 4);
}

#[test]
fn the_end_reports_what_is_not_on_disk() {
    let ended = |mut scene: Scene| {
        scene.order(AofCommand::End);
        let ending = scene.worker.as_ref().and_then(|worker| worker.ending);
        (ending, scene.news.contains(&AofNews::Fatal), scene.promised(), scene.has_said(LOST_AT_END))
    };
    let mut well = Scene::well(AppendFsync::EverySecond);
    well.write(1);
    assert_eq!(ended(well), (Some(AofEnding::Durable), false, 1, false));
    // Here the sync at the end fails.
    let now = with_failing_sync(AppendFsync::No);
    assert_eq!(ended(now), (Some(AofEnding::Failed), false, 0, false));
    // Here a sync fails, and `always` is set afterwards.
    let mut before = with_failing_sync(AppendFsync::EverySecond);
    before.pass_ms(1000);
    before.set_policy(AppendFsync::Always);
    assert_eq!(ended(before), (Some(AofEnding::Lost), false, 0, true));
    // Here a sync has failed, and an undamaged increment was begun afterwards.
    let mut rewriting = with_failing_sync(AppendFsync::EverySecond);
    rewriting.pass_ms(1000);
    rewriting.begin_rewrite();
    rewriting.write(1);
    assert_eq!(ended(rewriting), (Some(AofEnding::Lost), false, 0, true));
}

#[test]
fn always_ends_with_the_first_sync_that_fails() {
    let scene = with_failing_sync(AppendFsync::Always);
    assert!(scene.news.contains(&AofNews::Fatal));
    assert_eq!(scene.worker.as_ref().and_then(|worker| worker.ending), Some(AofEnding::Failed));
    assert_eq!(scene.promised(), 0);
}

#[test]
fn what_a_killed_process_has_written_is_forced_to_disk_before_anybody_sees_it() {
    let mut found_all = 0;
    for seed in 0..20 {
        let mut scene = Scene::well(AppendFsync::No);
        scene.write(100);
        assert_eq!(scene.promised(), 0);
        scene.policy = AppendFsync::Always;
        scene.kill().expect("it starts");
        assert_eq!(scene.promised(), 100, "the start has read it, and nobody waits for it");
        scene.storage.crash_now(seed).expect("crashed");
        assert_eq!(scene.check("behind the start"), FoundEnd::Whole);
        found_all += 1;
    }
    assert_eq!(found_all, 20);
}

#[test]
fn a_start_whose_syncs_fail_is_refused() {
    for step in 1..=4 {
        let mut scene = Scene::new(AppendFsync::No, FileFault::SyncError, FIRST_STEPS + 1 + step, 1, 0);
        scene.start().expect("the fault comes later");
        scene.write(1);
        let refused = scene.kill().expect_err("a sync has failed");
        assert!(refused.starts_with("Fail to fsync "), "{refused}");
    }
}

#[test]
fn a_base_of_another_rewrite_is_not_put_in_force() {
    let mut scene = Scene::well(AppendFsync::No);
    scene.write(10);
    scene.begin_rewrite();
    let (stale_number, stale) = (scene.rewrite, scene.write_base().expect("written"));
    let temporary = stale.temporary().to_owned();
    // The first rewrite is given up, because another one begins. The numbers between the two cuts are neither
    // in the stale base nor in the newest increment.
    scene.write(10);
    scene.begin_rewrite();
    scene.write(10);
    let before = scene.names();
    assert!(before.contains(&temporary));
    scene.order(AofCommand::FinishBase(stale_number, Box::new(stale)));
    assert!(scene.news.contains(&AofNews::BaseFinished(stale_number, false)));
    assert!(!scene.names().contains(&temporary), "its file is removed");
    assert_eq!(scene.found().numbers.len(), 30);
    // The later rewrite continues undisturbed.
    scene.finish_rewrite();
    assert!(scene.news.contains(&AofNews::BaseFinished(scene.rewrite, true)));
    assert_eq!(scene.found().numbers.len(), 30);
    assert_eq!(
        scene.names(),
        ["appendonly.aof.2.base.aof", "appendonly.aof.3.incr.aof", "appendonly.aof.manifest"]
    );
}

#[test]
fn a_base_without_an_increment_behind_its_cut_is_not_put_in_force() {
    // The creation of the increment fails.
    let mut scene = Scene::new(AppendFsync::No, FileFault::NoSpace, FIRST_STEPS + 3, 1, 0);
    scene.start().expect("the fault comes later");
    scene.write(5);
    assert_eq!(scene.storage.steps(), FIRST_STEPS + 1);
    scene.begin_rewrite();
    scene.write(5);
    scene.finish_rewrite();
    assert!(scene.news.contains(&AofNews::BaseFinished(scene.rewrite, false)));
    assert_eq!(scene.found().numbers.len(), 10);
}

#[test]
fn the_thread_removes_what_a_rewrite_has_replaced() {
    let mut scene = Scene::well(AppendFsync::EverySecond);
    scene.write(3);
    scene.begin_rewrite();
    scene.finish_rewrite();
    assert_eq!(
        scene.names(),
        ["appendonly.aof.2.base.aof", "appendonly.aof.2.incr.aof", "appendonly.aof.manifest"]
    );
    for name in ["appendonly.aof.1.base.aof", "appendonly.aof.1.incr.aof"] {
        assert!(scene.has_said(&format!("Removing the history file {name} in the background")));
    }
    let folder = scene.folder();
    assert!(folder.history().is_empty(), "and the manifest names it no more");
}

#[test]
fn a_start_removes_what_a_process_had_no_time_to_remove() {
    let mut scene = Scene::well(AppendFsync::EverySecond);
    scene.write(3);
    scene.worker = None;
    let manifest = "file appendonly.aof.1.base.aof seq 1 type b\nfile appendonly.aof.8.incr.aof seq 8 type h\n\
                    file appendonly.aof.1.incr.aof seq 1 type i\n";
    std::fs::write(scene.path().join("appendonly.aof.manifest"), manifest).expect("writable");
    std::fs::write(scene.path().join("appendonly.aof.8.incr.aof"), "old").expect("writable");
    scene.kill().expect("it starts");
    assert_eq!(
        scene.names(),
        ["appendonly.aof.1.base.aof", "appendonly.aof.1.incr.aof", "appendonly.aof.manifest"]
    );
    assert!(scene.folder().history().is_empty());
}

#[test]
fn a_start_goes_on_with_the_growth_since_the_base() {
    let mut scene = Scene::well(AppendFsync::EverySecond);
    scene.write(3);
    scene.begin_rewrite();
    scene.finish_rewrite();
    scene.write(40);
    scene.pass_ms(1000);
    let size = |scene: &Scene, name: &str| {
        std::fs::metadata(scene.path().join(name)).expect("a file of the manifest").len()
    };
    let base = size(&scene, "appendonly.aof.2.base.aof");
    scene.kill().expect("it starts");
    scene.write(1);
    scene.pass_ms(1000);
    let facts = scene.shared.facts();
    assert_eq!(facts.base_bytes, base);
    assert_eq!(facts.current_bytes, base + size(&scene, "appendonly.aof.2.incr.aof"));
    assert!(facts.current_bytes > 10 * base);
}

#[test]
fn a_start_removes_the_base_of_a_rewrite_that_a_killed_process_did_not_complete() {
    let scene_with = |manifest: &[u8]| {
        let mut scene = Scene::well(AppendFsync::No);
        scene.write(3);
        scene.worker = None;
        std::fs::write(scene.path().join("appendonly.aof.2.base.aof"), record(1)).expect("writable");
        std::fs::write(scene.path().join("temp-appendonly.aof.manifest"), manifest).expect("writable");
        scene
    };
    let unfinished =
        b"file appendonly.aof.2.base.aof seq 2 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n";
    let mut scene = scene_with(unfinished);
    let mut said = Vec::new();
    scene.folder().remove_left_over(&mut |line| said.push(line));
    assert!(
        said[0].starts_with("Removed appendonly.aof.2.base.aof, the base file of an incomplete rewrite"),
        "{said:?}"
    );
    let left = ["appendonly.aof.1.base.aof", "appendonly.aof.1.incr.aof", "appendonly.aof.manifest"];
    assert_eq!(scene.names(), left);
    scene.kill().expect("it starts");
    assert_eq!(scene.found().numbers, [1, 2, 3]);
    // No manifest shows that a server has written the file, so it stays.
    for manifest in [&b"file appendonly.aof.1.base.aof seq 1 type b\n"[..], b"nonsense"] {
        let scene = scene_with(manifest);
        scene.folder().remove_left_over(&mut |_| {});
        assert!(scene.names().contains(&"appendonly.aof.2.base.aof".to_owned()));
    }
    // Without a manifest in force the file may be the only copy of the data, so it stays.
    let scene = scene_with(unfinished);
    std::fs::remove_file(scene.path().join("appendonly.aof.manifest")).expect("there");
    scene.folder().remove_left_over(&mut |_| {});
    assert!(scene.names().contains(&"appendonly.aof.2.base.aof".to_owned()));
}

#[test]
fn the_backlog_is_full_at_its_bound_and_fine_again_at_half_of_it() {
    let shared = AofShared::with_backlog(100);
    let give = |bytes: usize| shared.give(AofItem::Block(Block { bytes: vec![0; bytes], end: 0 }));
    give(99);
    assert_eq!(shared.backlog(AofBacklog::Fine), AofBacklog::Fine);
    give(1);
    assert_eq!(shared.backlog(AofBacklog::Fine), AofBacklog::Full);
    assert_eq!(shared.facts().buffer_bytes, 100);
    assert!(!shared.note_written(49));
    assert_eq!(shared.backlog(AofBacklog::Full), AofBacklog::Full);
    assert_eq!(shared.backlog(AofBacklog::Fine), AofBacklog::Fine);
    assert!(!shared.note_written(1));
    assert!(shared.note_written(1), "the main thread is woken once");
    assert_eq!(shared.backlog(AofBacklog::Full), AofBacklog::Fine);
    assert!(!shared.note_written(1));
}

#[test]
fn commands_that_write_wait_while_another_increment_begins() {
    let shared = AofShared::with_backlog(100);
    shared.numbers.is_changing.store(true, Relaxed);
    assert_eq!(shared.backlog(AofBacklog::Fine), AofBacklog::Changing);
    assert_eq!(shared.backlog(AofBacklog::Changing), AofBacklog::Changing);
    shared.numbers.is_changing.store(false, Relaxed);
    assert_eq!(shared.backlog(AofBacklog::Changing), AofBacklog::Fine);
    // Blocks that were given in the meantime have filled the backlog.
    shared.give(AofItem::Block(Block { bytes: vec![0; 100], end: 0 }));
    assert_eq!(shared.backlog(AofBacklog::Changing), AofBacklog::Full);
    shared.numbers.is_changing.store(true, Relaxed);
    assert_eq!(shared.backlog(AofBacklog::Full), AofBacklog::Full);
}

#[test]
fn the_cut_of_a_rewrite_is_over_when_its_increment_is_there() {
    let mut scene = Scene::well(AppendFsync::EverySecond);
    scene.shared.numbers.is_changing.store(true, Relaxed);
    scene.begin_rewrite();
    assert_eq!(scene.shared.backlog(AofBacklog::Changing), AofBacklog::Fine);
}

#[test]
fn blocks_count_as_backlog_until_they_are_written() {
    let mut scene = Scene::new(AppendFsync::EverySecond, FileFault::NoSpace, FIRST_STEPS + 1, 1, 0);
    scene.start().expect("the fault comes later");
    scene.write(3);
    assert_eq!(scene.shared.facts().buffer_bytes, 3 * RECORD, "the disk is full");
    scene.pass_ms(1000);
    assert_eq!(scene.shared.facts().buffer_bytes, 0);
}
