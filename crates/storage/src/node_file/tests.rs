use super::*;
use crate::Real;

/// A temporary folder of a test, removed on drop.
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
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_that_is_empty_or_not_there_is_a_new_node_s() {
    let folder = Folder::new("read");
    let file = folder.claim().expect("free");
    assert_eq!(file.read(&Real), Ok(None));
    std::fs::write(folder.file(), "").expect("written");
    assert_eq!(file.read(&Real), Ok(None));
    std::fs::write(folder.file(), "text").expect("written");
    assert_eq!(file.read(&Real), Ok(Some(b"text".to_vec())));
    std::fs::remove_file(folder.file()).expect("removed");
    std::fs::create_dir(folder.file()).expect("made");
    assert!(file.read(&Real).is_err_and(|text| text.contains("Is a directory")));
}
