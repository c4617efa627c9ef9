use super::*;
use sluice_persist::aof::BaseFormat;
use sluice_storage::{Real, Storage};

#[test]
fn a_base_of_an_earlier_rewrite_never_takes_the_place_of_a_later_one() {
    let dir = std::env::temp_dir().join(format!("sluice-written-base-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a temporary folder");
    let storage: Arc<dyn Storage> = Arc::new(Real);
    let sink = |number, at: u64, written: &WrittenBase| {
        let base = NewBase::begin(storage.clone(), &dir, BaseFormat::Commands, false, at).expect("made");
        (base.temporary().to_owned(), Box::new(BaseSink::new(number, base, written.clone())))
    };
    let finish = |sink: Box<BaseSink>| sink.finish_through(&mut |step| step()).expect("finished");
    let first = RewriteNumber::default().next();
    let second = first.next();
    let written = WrittenBase::default();

    // The thread of the first rewrite hangs, and finishes after the thread of the second rewrite.
    let (late_name, late) = sink(first, 1, &written);
    let (name, newer) = sink(second, 2, &written);
    finish(newer);
    finish(late);
    assert!(!dir.join(&late_name).exists(), "the file of the late one is removed");
    let base = written.take(second).expect("the second one is there");
    assert_eq!(base.temporary(), name);

    // Now the late base of the first rewrite is stored before that of the second. It is never taken as the
    // base of the second rewrite, and its file is removed.
    let (late_name, late) = sink(first, 3, &written);
    let (name, newer) = sink(second, 4, &written);
    finish(late);
    assert!(written.take(second).is_none());
    assert!(!dir.join(&late_name).exists());
    let (late_name, late) = sink(first, 5, &written);
    finish(late);
    finish(newer);
    assert!(!dir.join(&late_name).exists());
    assert_eq!(written.take(second).expect("the second one is there").temporary(), name);
    drop(base);
    std::fs::remove_dir_all(&dir).expect("removable");
}
