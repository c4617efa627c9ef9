//! Tests of the reports of the append-only file's thread about its disk: latencies, and the free space. The
//! clock advances by two milliseconds with each reading.

use super::*;
use crate::aof::AofShared;
use sluice_config::Config;
use sluice_evloop::{AnyLoop, Backend};
use sluice_storage::aof::Block;
use sluice_storage::{Real, Storage};

/// Makes a thread write a block; returns the latency events and the free space that the thread reports.
fn events_of(policy: AppendFsync, has_job: bool) -> (Vec<&'static str>, Option<u64>) {
    let opened = AnyLoop::choose(Backend::Poll, &sluice_evloop::Config::default()).expect("a loop");
    let path =
        std::env::temp_dir().join(format!("sluice-events-{}-{policy:?}-{has_job}", std::process::id()));
    let file = Real.create(&path, 0o600).expect("a temporary file");
    let folder = Folder::read(Arc::new(Real), &Config::default()).expect("a folder without a manifest");
    let shared = Arc::new(AofShared::default());
    shared.numbers.has_job.store(has_job, Relaxed);
    let appender = Appender::new(file, 0).expect("an empty file");
    let mut now_ns = 0;
    let clock = Box::new(move || {
        now_ns += 2_000_000;
        now_ns
    });
    let mut worker = AofWorker::new(
        shared.clone(),
        opened.event_loop.waker(),
        folder,
        appender,
        policy,
        (Named::Now, None),
        clock,
    );
    assert_eq!(shared.facts().free_bytes, None, "it is not known before it was asked for");
    shared.give(AofItem::Block(Block { bytes: b"x".to_vec(), end: 1 }));
    let mut items = VecDeque::new();
    shared.take(&mut items);
    worker.work(&mut items);
    let _ = std::fs::remove_file(path);
    let events = shared.take_news().into_iter().filter_map(|news| match news {
        AofNews::Latency(event, _) => Some(event),
        _ => None,
    });
    (events.collect(), shared.facts().free_bytes)
}

#[test]
fn writes_and_syncs_are_told_by_what_went_on_beside_them() {
    let (events, free) = events_of(AppendFsync::EverySecond, false);
    assert_eq!(events, ["aof-write-alone", "aof-write"]);
    // The free space is not known, because the folder does not exist.
    assert_eq!(free, None);
    let (events, _) = events_of(AppendFsync::Always, true);
    assert_eq!(events, ["aof-write-active-child", "aof-write", "aof-fsync-always"]);
}
