//! Image sets: what kubeadm asks for becomes archives under exactly those names, once.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use butler_assets::images::{Error, ImageRequest, ImageSet, OwnImage};
use butler_assets::{Resolver, Settings, Silent};
use pretty_assertions::assert_eq;
use serde_json::Value;
use tempfile::TempDir;

/// Programs of a user, which are scripts here, and a kubeadm that answers as the real one.
struct Programs {
    directory: TempDir,
}

impl Programs {
    fn new(listed: &[&str]) -> Self {
        let programs = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        let answer = format!(
            "test \"$*\" = 'config images list --kubernetes-version v1.36.3' || exit 3\nprintf '%s\\n' {}",
            listed.join(" ")
        );
        programs.write("kubeadm", &answer);
        for name in [
            "kube-apiserver",
            "etcd",
            "coredns",
            "pause",
            "cluster-api-core",
            "cluster-api-kubeadm-bootstrap",
            "cluster-api-kubeadm-control-plane",
            "butler",
        ] {
            programs.write(name, name);
        }
        programs
    }

    fn write(&self, name: &str, script: &str) {
        let fresh = self.directory.path().join(".fresh");
        fs::write(&fresh, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(fresh, self.path(name)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn make(&self, cache: &Path) -> Result<ImageSet, Error> {
        let mut settings = Settings::with_cache(cache);
        settings.directory = Some(self.directory.path().to_owned());
        settings.offline = true;
        let request = ImageRequest {
            kubernetes: "1.36.3".parse().unwrap(),
            cluster_api: true,
            own: vec![OwnImage {
                reference: "registry.example/butler:v1".to_owned(),
                executable: self.path("butler"),
            }],
        };
        Resolver::new(settings).image_set(&request, &Silent).await
    }
}

const LISTED: [&str; 4] = [
    "registry.k8s.io/kube-apiserver:v1.36.3",
    "registry.k8s.io/coredns/coredns:v1.14.2",
    "registry.k8s.io/pause:3.10.2",
    "registry.k8s.io/etcd:3.6.8-0",
];

/// The small files of an archive, and the names in its layer.
fn open(archive: &Path) -> (BTreeMap<String, Value>, Vec<String>) {
    let (mut documents, mut places) = (BTreeMap::new(), Vec::new());
    for entry in tar::Archive::new(File::open(archive).unwrap())
        .entries()
        .unwrap()
    {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if let Ok(document) = serde_json::from_slice(&bytes) {
            documents.insert(name, document);
        } else {
            for inner in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
                places.push(inner.unwrap().path().unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    (documents, places)
}

/// What a container of the image gets.
fn run_configuration(documents: &BTreeMap<String, Value>) -> &Value {
    let configuration = documents.values().find(|value| value["rootfs"].is_object());
    &configuration.unwrap()["config"]
}

#[tokio::test]
async fn what_kubeadm_asks_for_is_made_under_exactly_that_name() {
    let cache = tempfile::tempdir().unwrap();
    let programs = Programs::new(&LISTED);
    let set = programs.make(cache.path()).await.unwrap();
    assert_eq!(set.sandbox, "registry.k8s.io/pause:3.10.2");
    let references: Vec<&str> = set
        .images
        .iter()
        .map(|image| image.reference.as_str())
        .collect();
    assert_eq!(references[..4], LISTED);
    assert_eq!(
        references[4..],
        [
            "registry.k8s.io/cluster-api/cluster-api-controller:v1.14.2",
            "registry.k8s.io/cluster-api/kubeadm-bootstrap-controller:v1.14.2",
            "registry.k8s.io/cluster-api/kubeadm-control-plane-controller:v1.14.2",
            "registry.example/butler:v1",
        ]
    );
    for (image, entrypoint) in set.images.iter().zip([
        "/usr/local/bin/kube-apiserver",
        "/coredns",
        "/pause",
        "/usr/local/bin/etcd",
        "/manager",
        "/manager",
        "/manager",
        "/usr/local/bin/butler",
    ]) {
        let (documents, places) = open(&image.path);
        assert_eq!(
            documents["index.json"]["manifests"][0]["annotations"]["io.containerd.image.name"],
            *image.reference
        );
        assert_eq!(
            run_configuration(&documents)["Entrypoint"][0],
            *entrypoint,
            "{}",
            image.reference
        );
        assert!(places.contains(&entrypoint[1..].to_owned()), "{places:?}");
    }
    let (documents, places) = open(&set.images[7].path);
    assert_eq!(run_configuration(&documents)["User"], *"65532:65532");
    for place in ["etc/passwd", "tmp/"] {
        assert!(places.contains(&place.to_owned()), "{places:?}");
    }

    // Nothing is made twice, and only what changed is made again.
    assert_eq!(programs.make(cache.path()).await.unwrap(), set);
    programs.write("etcd", "another");
    let changed = programs.make(cache.path()).await.unwrap();
    for (index, (before, after)) in set.images.iter().zip(&changed.images).enumerate() {
        assert_eq!(before.path != after.path, index == 3, "{}", after.reference);
    }
    assert!(!set.images[3].path.exists(), "the old one takes no room");
}

#[tokio::test]
async fn kube_proxy_has_what_it_calls_with_every_library() {
    butler_testkit::requires!(
        butler_testkit::skip::path("/usr/sbin/nft"),
        butler_testkit::skip::path("/usr/sbin/iptables"),
        butler_testkit::skip::path("/usr/sbin/conntrack"),
    );
    let cache = tempfile::tempdir().unwrap();
    let programs = Programs::new(&[LISTED[2], "registry.k8s.io/kube-proxy:v1.36.3"]);
    programs.write("kube-proxy", "kube-proxy");
    let set = programs.make(cache.path()).await.unwrap();
    let (documents, places) = open(&set.images[1].path);
    let path = run_configuration(&documents)["Env"][0].as_str().unwrap();
    assert!(path.contains("/usr/sbin"), "{path}");
    for wanted in [
        "usr/sbin/nft",
        "usr/sbin/iptables",
        "usr/sbin/ip6tables-restore",
        "usr/sbin/conntrack",
        // Of a plugin alone: a Service with two endpoints needs it.
        "libxt_statistic.so",
        "libm.so.6",
    ] {
        assert!(
            places.iter().any(|place| place.ends_with(wanted)),
            "{wanted} is not in {places:?}"
        );
    }
}

/// The files of an image, as a container sees them.
fn unpack(archive: &Path) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for entry in tar::Archive::new(File::open(archive).unwrap())
        .entries()
        .unwrap()
    {
        let mut bytes = Vec::new();
        entry.unwrap().read_to_end(&mut bytes).unwrap();
        if serde_json::from_slice::<Value>(&bytes).is_err() {
            let mut layer = tar::Archive::new(bytes.as_slice());
            layer.unpack(root.path()).unwrap();
        }
    }
    root
}

#[tokio::test]
async fn a_kube_proxy_that_is_started_again_knows_its_rules_again() {
    butler_testkit::requires!(
        butler_testkit::skip::root(),
        butler_testkit::skip::path("/usr/sbin/nft"),
        butler_testkit::skip::path("/usr/sbin/iptables"),
        butler_testkit::skip::path("/usr/sbin/conntrack"),
    );
    let cache = tempfile::tempdir().unwrap();
    let programs = Programs::new(&[LISTED[2], "registry.k8s.io/kube-proxy:v1.36.3"]);
    programs.write("kube-proxy", "kube-proxy");
    let set = programs.make(cache.path()).await.unwrap();
    let root = unpack(&set.images[1].path);
    // As it writes them, and as it asks for them when it starts.
    let rules = "table ip services {
    map addresses {
        type ipv4_addr . inet_proto . inet_service : verdict
        elements = { 10.0.0.1 . tcp . 80 : accept, 10.0.0.1 . udp . 53 : accept, 10.0.0.1 . sctp . 9 : accept }
    }
}";
    fs::write(root.path().join("rules"), rules).unwrap();
    let nft = "chroot \"$0\" /usr/sbin/nft";
    let ask = format!("{nft} --file /rules && {nft} --json list map ip services addresses");
    let answer = Command::new("unshare")
        .args(["--net", "sh", "-c", &ask])
        .arg(root.path())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&answer.stderr);
    assert!(answer.status.success(), "{words}");
    let read: Value = serde_json::from_slice(&answer.stdout).unwrap();
    let elements = read["nftables"][1]["map"]["elem"].as_array().unwrap();
    let mut protocols: Vec<String> = elements
        .iter()
        .map(|element| element[0]["concat"][1].to_string())
        .collect();
    protocols.sort();
    assert_eq!(protocols, ["\"sctp\"", "\"tcp\"", "\"udp\""]);
}

#[tokio::test]
async fn a_control_plane_of_pods_is_made_without_kubeadm() {
    butler_testkit::requires!(
        butler_testkit::skip::path("/usr/sbin/nft"),
        butler_testkit::skip::path("/usr/sbin/iptables"),
        butler_testkit::skip::path("/usr/sbin/conntrack"),
    );
    let cache = tempfile::tempdir().unwrap();
    let programs = Programs::new(&[]);
    programs.write("kubeadm", "exit 9");
    for name in ["kube-controller-manager", "kube-scheduler", "kube-proxy"] {
        programs.write(name, name);
    }
    let mut settings = Settings::with_cache(cache.path());
    settings.directory = Some(programs.directory.path().to_owned());
    settings.offline = true;
    let resolver = Resolver::new(settings);
    let version = "1.35.4".parse().unwrap();
    let images = resolver
        .hosted_images(&version, "v1.13.1", &Silent)
        .await
        .unwrap();
    let references: Vec<&str> = images
        .iter()
        .map(|image| image.reference.as_str())
        .collect();
    assert_eq!(
        references,
        [
            "registry.k8s.io/kube-apiserver:v1.35.4",
            "registry.k8s.io/kube-controller-manager:v1.35.4",
            "registry.k8s.io/kube-scheduler:v1.35.4",
            "registry.k8s.io/kube-proxy:v1.35.4",
            "registry.k8s.io/coredns/coredns:v1.13.1",
        ]
    );
    let again = resolver.hosted_images(&version, "v1.13.1", &Silent).await;
    assert_eq!(again.unwrap(), images);
}

#[tokio::test]
async fn image_that_nobody_knows_is_named() {
    let cache = tempfile::tempdir().unwrap();
    let programs = Programs::new(&["registry.k8s.io/kube-dns:1.0"]);
    let error = programs.make(cache.path()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Unknown { reference } if reference.ends_with("kube-dns:1.0")),
        "{error}"
    );
}

/// A file system with little room, gone afterwards.
struct SmallDisk {
    directory: TempDir,
}

impl SmallDisk {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
            .arg(directory.path())
            .status()
            .unwrap();
        assert!(mounted.success());
        Self { directory }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.directory.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[tokio::test]
async fn full_disk_leaves_no_half_archive_and_says_what_is_wrong() {
    butler_testkit::requires!(butler_testkit::skip::root());
    let disk = SmallDisk::new();
    let programs = Programs::new(&LISTED);
    let large = "x".repeat(4 * 1024 * 1024);
    programs.write("etcd", &format!("# {large}"));
    let error = programs.make(disk.directory.path()).await.unwrap_err();
    assert!(error.to_string().contains("its disk has room"), "{error}");
    let cause = match &error {
        Error::Assemble(error) => error.source().unwrap().to_string(),
        other => other.to_string(),
    };
    assert!(cause.contains("No space left"), "{cause}");
    let images = disk.directory.path().join("images");
    for entry in fs::read_dir(&images).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            assert!(path.extension().is_some_and(|extension| extension == "tar"));
            assert!(!path.to_str().unwrap().contains("etcd"), "{path:?}");
        }
    }

    // With room again, it goes on.
    programs.write("etcd", "small");
    programs.make(disk.directory.path()).await.unwrap();
}
