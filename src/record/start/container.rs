//! Containers: by the paths of cgroups, which hold their ids, and by the files in which their engines keep names. No engine is
//! asked.

use crate::record::start::cgroup::Cgroup;
use crate::result::Container;
use crate::util::process_stat;
use crate::util::regular;
use crate::util::text::read_lossy;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Digits of the ids of docker, podman, containerd and CRI-O, and the fewest by which one is named.
const DIGITS: usize = 64;
const FEWEST: usize = 4;

/// The longest file of an engine that is read.
const LONGEST: u64 = 16 << 20;

/// Containers that an error names.
const NAMED: usize = 8;

/// A part of a path that belongs to a container, without what engines and systemd add: `docker-ID.scope`,
/// `cri-containerd:ID`, `lxc.payload.NAME`, `machine-NAME.scope`. What watches a container has a cgroup of its own.
fn id_of(part: &str) -> Option<&str> {
    let plain = part.strip_suffix(".scope").unwrap_or(part);
    let (before, last) = match plain.rfind(['-', ':']) {
        Some(at) => (&plain[..at], &plain[at + 1..]),
        None => ("", plain),
    };
    let is_id = last.len() == DIGITS && last.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id && !before.contains("conmon") {
        return Some(last);
    }
    let named = |prefix: &str| plain.strip_prefix(prefix).filter(|name| !name.is_empty());
    named("lxc.payload.").or_else(|| named("machine-").filter(|_| plain != part))
}

/// The paths of a text as /proc/PID/cgroup has it, each to the last part that `wanted` accepts, with what it says of it.
fn places<'a, T>(text: &'a str, wanted: impl Fn(&'a str) -> Option<T>) -> impl Iterator<Item = (T, &'a str)> {
    text.lines().filter_map(move |line| {
        let path = line.splitn(3, ':').nth(2)?;
        let parts = path.split('/').filter(|part| !part.is_empty());
        let (found, part) = parts.filter_map(|part| Some((wanted(part)?, part))).last()?;
        // Parts are within the path.
        let end = part.as_ptr().addr() - path.as_ptr().addr() + part.len();
        Some((found, &path[..end]))
    })
}

fn cgroups_of(pid: u32) -> String {
    read_lossy(&format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

/// The id of the innermost container in a text as /proc/PID/cgroup has it.
fn innermost(text: &str) -> Option<&str> {
    places(text, id_of).max_by_key(|(_, path)| path.len()).map(|(id, _)| id)
}

/// The container of a process; `None` if it is in none that is known by the path of its cgroup.
pub(crate) fn of_process(pid: u32) -> Option<Container> {
    let text = cgroups_of(pid);
    innermost(&text).map(|id| Container { id: id.to_owned(), name: names(id).into_iter().next() })
}

/// The id of the container of a process.
pub(crate) fn id_of_process(pid: u32) -> Option<String> {
    innermost(&cgroups_of(pid)).map(str::to_owned)
}

/// The container of this name, or of an id that begins so, and its cgroup.
///
/// # Errors
/// If no process is in such a container, or several containers could be meant.
pub(crate) fn find(wanted: &str) -> Result<(Container, Cgroup)> {
    let mut found: BTreeMap<Container, BTreeSet<String>> = BTreeMap::new();
    let mut others: BTreeMap<String, Option<String>> = BTreeMap::new();
    for pid in process_stat::ids() {
        let text = cgroups_of(pid);
        for (id, path) in places(&text, id_of) {
            if !others.contains_key(id) {
                let names = names(id);
                if is_meant(id, &names, wanted) {
                    let name = names.into_iter().next();
                    found.entry(Container { id: id.to_owned(), name }).or_default().insert(path.to_owned());
                } else {
                    others.insert(id.to_owned(), names.into_iter().next());
                }
            }
        }
    }
    // An id that is a name: runc and ctr have it as it is.
    if found.is_empty() {
        for pid in process_stat::ids() {
            let text = cgroups_of(pid);
            let is_wanted = |part: &str| (part.strip_suffix(".scope").unwrap_or(part) == wanted).then_some(());
            for ((), path) in places(&text, is_wanted) {
                found.entry(Container { id: wanted.to_owned(), name: None }).or_default().insert(path.to_owned());
            }
        }
    }
    let titles = |all: Vec<String>| {
        let more = all.len().saturating_sub(NAMED);
        let first = all.into_iter().take(NAMED);
        first.chain((more > 0).then(|| format!("{more} more"))).collect::<Vec<_>>().join(", ")
    };
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some((container, paths)), None) => {
            // Whoever may make cgroups can give them any name.
            let mut paths = paths.into_iter();
            let (Some(path), None) = (paths.next(), paths.next()) else {
                bail!(
                    "--container {wanted}: several cgroups have its id in their paths: give one of them with --cgroup"
                )
            };
            let cgroup = Cgroup::named(&path).with_context(|| format!("--container {wanted}"))?;
            Ok((container, cgroup))
        }
        (Some((first, _)), Some((second, _))) => {
            let rest = found.map(|(container, _)| container);
            let all = [first, second].into_iter().chain(rest).map(|of| format!("{} ({})", of.title(), of.id));
            bail!("--container {wanted}: several containers are called so: {}", titles(all.collect()))
        }
        (None, _) => {
            let known = others.into_iter().map(|(id, name)| Container { id, name }.title().to_owned());
            let known = titles(known.collect());
            let those =
                if known.is_empty() { "no process here is in one".to_owned() } else { format!("there are {known}") };
            bail!(
                "--container {wanted}: no process is in a container of this name or id; {those}. Names are read from files \
                 of docker, podman, containerd and CRI-O, which often only root may read"
            )
        }
    }
}

/// Whether a container with this id and these names is meant.
fn is_meant(id: &str, names: &[String], wanted: &str) -> bool {
    let is_prefix = wanted.len() >= FEWEST && id.len() == DIGITS && id.starts_with(wanted);
    id == wanted || is_prefix || names.iter().any(|name| name == wanted)
}

/// Where engines keep what they know of a container.
struct EngineFiles {
    root: PathBuf,
    /// Of the user, for containers without root.
    home: Option<PathBuf>,
}

/// The names of a container, as far as the files of its engine may be read; the usual one first.
fn names(id: &str) -> Vec<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let mut names = EngineFiles { root: PathBuf::from("/"), home }.names(id);
    names.retain(|name| !name.is_empty());
    names.dedup();
    names
}

impl EngineFiles {
    fn names(&self, id: &str) -> Vec<String> {
        // It becomes a part of paths.
        if id.len() != DIGITS || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Vec::new();
        }
        let docker = self.read(&format!("var/lib/docker/containers/{id}/config.v2.json"));
        let docker = docker.as_ref().and_then(|config| config.get("Name")?.as_str());
        let mut names: Vec<String> = docker.map(|name| name.trim_start_matches('/').to_owned()).into_iter().collect();
        for folder in folders(&self.root.join("run/containerd/io.containerd.runtime.v2.task")) {
            names.extend(annotated(self.read_at(&folder.join(id).join("config.json")).as_ref()));
        }
        let own = self.home.iter().map(|home| home.join(".local/share/containers/storage"));
        let all = ["var/lib/containers/storage", "run/containers/storage"].map(|storage| self.root.join(storage));
        for storage in all.into_iter().chain(own) {
            let stores = folders(&storage).into_iter();
            let is_store = |folder: &PathBuf| folder.to_str().is_some_and(|name| name.ends_with("-containers"));
            for store in stores.filter(is_store) {
                names.extend(annotated(self.read_at(&store.join(id).join("userdata/config.json")).as_ref()));
                for list in ["containers.json", "volatile-containers.json"] {
                    names.extend(listed(self.read_at(&store.join(list)).as_ref(), id));
                }
            }
        }
        names
    }

    fn read(&self, path: &str) -> Option<Value> {
        self.read_at(&self.root.join(path))
    }

    fn read_at(&self, path: &Path) -> Option<Value> {
        serde_json::from_slice(&regular::read(path, LONGEST).ok()?).ok()
    }
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort_unstable();
    found
}

/// The names in the annotations of a bundle: nerdctl's, and those of a pod with its container, the container alone last.
fn annotated(bundle: Option<&Value>) -> Vec<String> {
    let text = |key: &str| bundle?.get("annotations")?.get(key)?.as_str().map(str::to_owned);
    let mut names: Vec<String> = text("nerdctl/name").into_iter().collect();
    let kinds = [
        ["io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.container-name"],
        ["io.kubernetes.pod.name", "io.kubernetes.container.name"],
    ];
    for [pod, container] in kinds.map(|keys| keys.map(text)) {
        names.extend(pod.as_ref().zip(container.as_ref()).map(|(pod, container)| format!("{pod}/{container}")));
        names.extend([pod, container].into_iter().flatten());
    }
    names
}

/// The names in the list of containers of podman and its relatives.
fn listed(list: Option<&Value>, id: &str) -> Vec<String> {
    let of = |entry: &&Value| entry.get("id").and_then(Value::as_str) == Some(id);
    let entry = list.and_then(Value::as_array).into_iter().flatten().find(of);
    let names = entry.and_then(|entry| entry.get("names")?.as_array()).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn ids_are_found_in_the_paths_of_all_engines() {
        let of = |path: &str| innermost(&path.replace("ID", ID)).map(|id| id.replace(ID, "ID"));
        for path in [
            "0::/system.slice/docker-ID.scope",
            "12:memory:/docker/ID\n0::/",
            "0::/machine.slice/libpod-ID.scope/container",
            "0::/libpod_parent/libpod-ID/",
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-ID.scope",
            "0::/kubepods/besteffort/pod0a-1/ID",
            "0::/kubelet.slice:cri-containerd:ID",
            "0::/kubepods.slice/crio-ID.scope",
            // From another cgroup namespace.
            "0::/../../docker-ID.scope",
        ] {
            assert_eq!(of(path).as_deref(), Some("ID"), "{path}");
        }
        for path in ["0::/user.slice", "0::/machine.slice/libpod-conmon-ID.scope", "0::/crio-conmon-ID.scope", "x", ""]
        {
            assert_eq!(of(path), None, "{path}");
        }
        assert_eq!(of("0::/lxc.payload.web/system.slice").as_deref(), Some("web"));
        assert_eq!(of("0::/machine.slice/machine-web.scope").as_deref(), Some("web"));
        // A container in a container.
        let other = ID.replace('0', "f");
        let nested = format!("0::/docker/{ID}/docker/{other}/init");
        assert_eq!(innermost(&nested), Some(&*other));
        let both: Vec<(&str, &str)> = places(&nested, id_of).collect();
        assert_eq!(both, [(&*other, &nested[3..nested.len() - 5])]);
    }

    #[test]
    fn a_container_is_meant_by_its_name_or_the_begin_of_its_id() {
        let names = ["web".to_owned()];
        let is = |wanted| is_meant(ID, &names, wanted);
        assert!(is("web") && is("0123") && is(ID));
        assert!(!is("we") && !is("012") && !is("1234") && !is(""));
    }

    #[test]
    fn names_are_read_from_the_files_of_engines() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path.replace("ID", ID));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text.replace("ID", ID)).unwrap();
        };
        let places = EngineFiles { root: root.path().to_owned(), home: Some(root.path().join("home")) };
        assert!(places.names(ID).is_empty());
        write("var/lib/docker/containers/ID/config.v2.json", r#"{"Name": "/web\u001b[31m"}"#);
        write(
            "var/lib/containers/storage/overlay-containers/containers.json",
            r#"[1, {"id": "ID", "names": ["db", 7]}]"#,
        );
        let pod =
            r#"{"annotations": {"io.kubernetes.cri.sandbox-name": "p", "io.kubernetes.cri.container-name": "c"}}"#;
        write("run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json", pod);
        assert_eq!(places.names(ID), ["web\u{1b}[31m", "p/c", "p", "c", "db"]);
        write(
            "home/.local/share/containers/storage/vfs-containers/containers.json",
            r#"[{"id": "ID", "names": ["own"]}]"#,
        );
        assert_eq!(places.names(ID).last().map(String::as_str), Some("own"));
        // Files that make no sense, and an id that would lead elsewhere.
        write("var/lib/docker/containers/ID/config.v2.json", "[");
        assert_eq!(places.names(ID)[0], "p/c");
        assert!(places.names("../../etc").is_empty());
    }
}
