//! The containers of an example, read from its file and run as processes of this machine.
//!
//! The commands of a file are run unchanged, with these exceptions: a container's name with a port becomes
//! `localhost` with the port that its process has here, `/data` and each file's path become paths in a folder
//! of the test, each part gets ports of its own, a replica announces `localhost`, and a full sync begins at
//! once instead of five seconds later.

use super::yaml::{Yaml, documents};
use crate::common::guide::Bash;
use crate::common::{Client, free_port, until};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A container that a file describes.
#[derive(Clone)]
struct Part {
    /// The name by which other containers address it.
    name: String,
    image: String,
    words: Vec<String>,
    /// Whether the command replaces the image's entrypoint.
    replaces_entrypoint: bool,
    /// Files by their paths in the container.
    files: Vec<(String, String)>,
    /// The command of the health check.
    health: Vec<String>,
    /// Whether the part is a job that ends.
    is_job: bool,
}

const OURS: &str = "sluice";
const THEIRS: &str = "valkey/valkey:9";

/// The folder of one kind of examples.
fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(kind)
}

/// A file of the examples.
pub fn file(kind: &str, name: &str) -> String {
    std::fs::read_to_string(folder(kind).join(name)).unwrap()
}

/// The parts of a docker compose file that are servers, or set servers up.
fn composed(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for (name, service) in documents(text)[0].at("services").entries() {
        let image = service.at("image").text().to_owned();
        if image != OURS && image != THEIRS {
            continue;
        }
        let volumes = service.get("volumes").map(Yaml::texts).unwrap_or_default();
        let files = volumes.iter().filter_map(|volume| volume.strip_prefix("./")).map(|volume| {
            let (from, to) = volume.split_once(':').unwrap();
            (to.trim_end_matches(":ro").to_owned(), file("compose", from))
        });
        let health = service.get("healthcheck").map(|check| check.at("test").texts()[1..].to_vec());
        let part = Part {
            name: name.clone(),
            words: service.at("command").texts(),
            replaces_entrypoint: image == THEIRS,
            files: files.collect(),
            is_job: health.is_none(),
            health: health.unwrap_or_default(),
            image,
        };
        let copies = service.get("scale").map_or(1, |scale| scale.text().parse().unwrap());
        parts.extend(std::iter::repeat_n(part, copies));
    }
    parts
}

/// The parts that Kubernetes manifests describe.
fn deployed(text: &str) -> Vec<Part> {
    let documents = documents(text);
    let of_kind = |kind: &'static str| documents.iter().filter(move |it| it.at("kind").text() == kind);
    let mut parts = Vec::new();
    for set in of_kind("StatefulSet").chain(of_kind("Job")) {
        let pod = set.at("spec.template.spec");
        let container = &pod.at("containers").items()[0];
        let mut files = Vec::new();
        for mount in container.at("volumeMounts").items() {
            let volumes = pod.get("volumes").map(Yaml::items).unwrap_or_default();
            let Some(volume) = volumes.iter().find(|it| it.at("name").text() == mount.at("name").text())
            else {
                continue;
            };
            let map = volume.at("configMap.name").text();
            let map = of_kind("ConfigMap").find(|it| it.at("metadata.name").text() == map).unwrap();
            for (name, text) in map.at("data").entries() {
                files.push((format!("{}/{name}", mount.at("mountPath").text()), text.text().to_owned()));
            }
        }
        let words = container.get("command").or_else(|| container.get("args")).unwrap().texts();
        let name = set.at("metadata.name").text();
        let copies = set.at("spec").get("replicas").map_or(1, |count| count.text().parse().unwrap());
        let health = container.get("readinessProbe").map(|probe| probe.at("exec.command").texts());
        for number in 0..copies {
            let pod = format!("{name}-{number}");
            let of_pod = |word: &String| word.replace("$(POD_NAME)", &pod);
            let service = set.at("spec").get("serviceName").map_or("", Yaml::text);
            parts.push(Part {
                name: format!("{pod}.{service}"),
                image: container.at("image").text().to_owned(),
                words: words.iter().map(of_pod).collect(),
                replaces_entrypoint: container.get("command").is_some(),
                files: files.clone(),
                is_job: health.is_none(),
                health: health.clone().unwrap_or_default(),
            });
        }
    }
    parts
}

/// A part whose process has been started.
pub struct Running {
    pub name: String,
    pub port: u16,
    /// The port of the metrics endpoint.
    pub metrics: u16,
    child: Child,
}

/// A running example; its processes are killed on drop.
pub struct Example {
    pub parts: Vec<Running>,
    bash: Bash,
}

impl Example {
    /// Starts the parts of a file, and waits until all are healthy and the jobs have finished.
    pub fn start(kind: &str, name: &str) -> Example {
        let text = file(kind, name);
        let parts = if kind == "compose" { composed(&text) } else { deployed(&text) };
        let bash = Bash::new();
        bash.program("sluice-entrypoint", include_str!("../../../../../packaging/container/entrypoint"));
        bash.program("sluice-healthcheck", include_str!("../../../../../packaging/container/healthcheck"));
        // If root runs the entrypoint, it changes to a user that does not exist here. This `id` therefore
        // names another user than root.
        bash.program("id", "#!/bin/sh\necho 999\n");
        let ports: Vec<(u16, u16)> = parts.iter().map(|_| (free_port(), free_port())).collect();
        let mut example = Example { parts: Vec::new(), bash };
        let has_jobs = parts.iter().any(|part| part.is_job);
        for image in [OURS, THEIRS] {
            for (at, part) in parts.iter().enumerate().filter(|(_, part)| part.image == image && !part.is_job)
            {
                let child = example.spawn(at, &parts, &ports);
                let (port, metrics) = ports[at];
                example.parts.push(Running { name: part.name.clone(), port, metrics, child });
            }
            // If there are jobs, servers may become healthy only after a job has run, and each job waits for
            // what it needs.
            if !has_jobs {
                example.expect_all_well(image, &parts, &ports);
            }
        }
        for at in (0..parts.len()).filter(|at| parts[*at].is_job) {
            let mut job = example.spawn(at, &parts, &ports);
            let status = until(&parts[at].name, || job.try_wait().unwrap());
            assert!(status.success(), "{}: {}", parts[at].name, example.said(at));
        }
        if has_jobs {
            example.expect_all_well(OURS, &parts, &ports);
            example.expect_all_well(THEIRS, &parts, &ports);
        }
        example
    }

    /// Waits until the health check of each server of an image passes.
    fn expect_all_well(&self, image: &str, parts: &[Part], ports: &[(u16, u16)]) {
        for (at, part) in parts.iter().enumerate().filter(|(_, part)| part.image == image && !part.is_job) {
            let health: Vec<String> =
                part.health.iter().map(|word| self.here(word, at, parts, ports)).collect();
            until(&format!("{} to be well", part.name), || {
                let mut check = self.command(&health, ports[at].0);
                let status = check.stdout(Stdio::null()).stderr(Stdio::null()).status();
                status.unwrap().success().then_some(())
            });
        }
    }

    pub fn part(&self, name: &str) -> &Running {
        self.parts.iter().find(|part| part.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    pub fn client(&self, name: &str) -> Client {
        Client::to("127.0.0.1", self.part(name).port)
    }

    /// The folder of a part, which is created if it is missing.
    fn folder(&self, at: usize) -> String {
        let folder = self.bash.dir.join(&format!("part-{at}"));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A text of a part, with addresses and paths of this machine.
    fn here(&self, text: &str, at: usize, parts: &[Part], ports: &[(u16, u16)]) -> String {
        let mut text = text.to_owned();
        for (part, (port, _)) in parts.iter().zip(ports) {
            for inside in [6379, 26379] {
                for between in [':', ' '] {
                    let there = format!("{}{between}{inside}", part.name);
                    text = text.replace(&there, &format!("localhost{between}{port}"));
                }
            }
        }
        let own = ports[at].0.to_string();
        for inside in ["6379", "26379"] {
            text = text.replace(&format!("port {inside}\n"), &format!("port {own}\n"));
            text = text.replace(&format!("port {inside}\""), &format!("port {own}\""));
            if text == inside {
                text.clone_from(&own);
            }
        }
        for (place, _) in &parts[at].files {
            text = text.replace(place.as_str(), &self.place(at, place));
        }
        text = text.replace("/data/", &format!("{}/", self.folder(at)));
        text = text.replace("replica-announce-ip $1", "replica-announce-ip localhost");
        text.replace(
            "echo \"appendonly yes\"",
            "echo \"appendonly yes\"; echo \"repl-diskless-sync-delay 0\"",
        )
    }

    /// The path on this machine of a file of a part.
    fn place(&self, at: usize, place: &str) -> String {
        format!("{}/file-{}", self.folder(at), place.rsplit('/').next().unwrap())
    }

    fn command(&self, words: &[String], port: u16) -> Command {
        let mut command = Command::new("env");
        command
            .arg(&words[0])
            .args(&words[1..])
            .env("PATH", self.bash.path())
            .env("SLUICE_PORT", port.to_string());
        command
    }

    fn spawn(&self, at: usize, parts: &[Part], ports: &[(u16, u16)]) -> Child {
        let part = &parts[at];
        for (place, text) in &part.files {
            std::fs::write(self.place(at, place), self.here(text, at, parts, ports)).unwrap();
        }
        let mut words: Vec<String> =
            part.words.iter().map(|word| self.here(word, at, parts, ports)).collect();
        // Each part needs ports of its own, but its options and files name no ports, or the same ports as
        // other parts.
        if part.image == OURS && words[0] != "sh" {
            let (port, metrics) = ports[at];
            let bus = free_port();
            let has_metrics = part.files.iter().any(|(_, text)| text.contains("metrics-port"));
            words.extend([
                "--port".to_owned(),
                port.to_string(),
                "--cluster-port".to_owned(),
                bus.to_string(),
            ]);
            words.extend(["--repl-diskless-sync-delay".to_owned(), "0".to_owned()]);
            if has_metrics {
                words.extend(["--metrics-port".to_owned(), metrics.to_string()]);
            }
        }
        if !part.replaces_entrypoint {
            words.insert(0, "sluice-entrypoint".to_owned());
        }
        let log = std::fs::File::create(self.log(at)).unwrap();
        let mut command = self.command(&words, ports[at].0);
        command.current_dir(self.folder(at)).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log).process_group(0).spawn().unwrap()
    }

    fn log(&self, at: usize) -> String {
        self.bash.dir.join(&format!("part-{at}.log"))
    }

    fn said(&self, at: usize) -> String {
        std::fs::read_to_string(self.log(at)).unwrap_or_default()
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        for part in &mut self.parts {
            let _ = part.child.kill();
            let _ = part.child.wait();
        }
        if std::thread::panicking() {
            let said = (0..self.parts.len() + 1).map(|at| self.said(at));
            println!("{}", said.collect::<Vec<_>>().join("\n---\n"));
        }
    }
}
