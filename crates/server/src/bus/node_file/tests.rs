use super::*;
use sluice_evloop::{AnyLoop, Backend};
use sluice_storage::Real;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

/// The folder of a test, which is removed when this value is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sluice-node-file-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("nodes.conf")
    }

    fn claim(&self) -> Result<NodeFile, String> {
        let text = format!("cluster-config-file {}\n", self.file().display());
        let config =
            sluice_config::parse_file(text.as_bytes(), "test", b"", &mut |_: &[u8]| Err(String::new()));
        NodeFile::claim(&Real, &config.expect("in order"), &mut |text| panic!("{text}"))
    }

    fn writer(&self) -> FileWriter {
        let event_loop = AnyLoop::choose(Backend::Poll, &sluice_evloop::Config::default()).expect("it opens");
        let file = self.claim().expect("nobody has it");
        FileWriter::start(file, Arc::new(Real), event_loop.event_loop.waker()).expect("a thread")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until no write is in progress; returns all reports until then.
fn all_reports(writer: &mut FileWriter) -> Vec<FileReport> {
    let mut reports = Vec::new();
    for _ in 0..30_000 {
        match writer.take() {
            Some(report) => reports.push(report),
            None if writer.is_busy() => std::thread::sleep(Duration::from_millis(1)),
            None => return reports,
        }
    }
    panic!("the file is not written within 30 seconds: {reports:?}")
}

fn write(writer: &mut FileWriter, number: u64) {
    writer.write(Generation(number), format!("text {number}\n").into_bytes().into());
}

#[test]
fn the_newest_of_the_texts_that_wait_is_the_file() {
    let folder = Folder::new("newest");
    let mut writer = folder.writer();
    assert!(writer.take().is_none());
    (1..=50).for_each(|number| write(&mut writer, number));
    let reports = all_reports(&mut writer);
    assert!(reports.iter().all(|report| report.result.is_ok()), "{reports:?}");
    assert!(reports.is_sorted_by(|one, next| one.generation < next.generation), "{reports:?}");
    assert_eq!(reports.last().map(|report| report.generation), Some(Generation(50)));
    assert_eq!(std::fs::read(folder.file()).expect("there"), b"text 50\n");
    assert_eq!(writer.end(b"the last text\n".as_slice().into()), Vec::<String>::new());
    assert_eq!(std::fs::read(folder.file()).expect("there"), b"the last text\n", "N-21");
    let names = std::fs::read_dir(&folder.0).expect("a folder").count();
    assert_eq!(names, 1, "neither a temporary file nor a lock is left");
}

#[test]
fn the_file_is_another_processs_before_during_and_behind_no_write() {
    let folder = Folder::new("claim");
    let is_refused = || folder.claim().is_err_and(|text| text.contains("is already used by a different"));
    let mut writer = folder.writer();
    assert!(is_refused());
    for number in 1..=3 {
        write(&mut writer, number);
        all_reports(&mut writer);
        assert!(is_refused());
        // The reference, which checks only the lock of the file itself, finds the file locked.
        let opened = File::open(folder.file()).expect("there");
        assert!(opened.try_lock().is_err(), "the file has its lock under its name");
    }
    writer.end(b"the last text\n".as_slice().into());
    drop(folder.claim().expect("free again"));
    // A running reference holds a lock on the file itself.
    let theirs = File::open(folder.file()).expect("there");
    theirs.try_lock().expect("free");
    assert!(is_refused());
}

#[test]
fn a_step_that_fails_is_told_and_the_file_stays() {
    let folder = Folder::new("fails");
    let mut writer = folder.writer();
    write(&mut writer, 1);
    all_reports(&mut writer);
    let in_the_way = folder.0.join(format!("nodes.conf.tmp-{}", std::process::id()));
    std::fs::create_dir(&in_the_way).expect("made");
    write(&mut writer, 2);
    let reports = all_reports(&mut writer);
    let why = "Could not open temp cluster config file: File exists".to_owned();
    assert_eq!(reports, [FileReport { generation: Generation(2), texts: 1, result: Err(why) }]);
    assert_eq!(std::fs::read(folder.file()).expect("there"), b"text 1\n");
    std::fs::remove_dir(&in_the_way).expect("removed");
    write(&mut writer, 3);
    assert!(all_reports(&mut writer).iter().all(|report| report.result.is_ok()));
    assert_eq!(std::fs::read(folder.file()).expect("there"), b"text 3\n");
}
