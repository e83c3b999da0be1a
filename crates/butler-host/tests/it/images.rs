//! Images that machines have from their first second, and images that they pull from the host.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use butler_assets::{
    Asset, Component, Resolver, Settings, Silent,
    images::ImageRequest,
    oci::{EXECUTABLE, Image},
};
use butler_host::{
    images::{ContainerdPrograms, ImageStoreError, ImageStores, Library, Mirror},
    machine::MachineSpec,
    node::NodeProfile,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::scene::{Scene, needs_a_host, output};

/// Where the mirror listens.
pub(crate) const MIRROR_PORT: u16 = 5000;

/// What nodes are made of, from the cache of assets.
pub(crate) struct Assets {
    resolver: Resolver,
}

impl Assets {
    pub(crate) fn new() -> Self {
        Self {
            resolver: Resolver::new(Settings::from_env().expect("settings")),
        }
    }

    pub(crate) async fn paths<const N: usize>(&self, components: [Component; N]) -> [PathBuf; N] {
        let assets = components.map(Asset::default_of);
        let mut found = self
            .resolver
            .resolve_all(&assets, &Silent)
            .await
            .expect("assets");
        assets.map(|asset| found.remove(&asset).expect("an asset"))
    }

    pub(crate) async fn stores(&self, scene: &Scene) -> ImageStores {
        let [containerd, ctr] = self.paths([Component::Containerd, Component::Ctr]).await;
        let programs = ContainerdPrograms { containerd, ctr };
        ImageStores::new(&scene.config.state_directory, programs)
    }

    /// The archives of the default version, and the sandbox image.
    pub(crate) async fn kubernetes(&self) -> (Vec<PathBuf>, String) {
        let request = ImageRequest {
            kubernetes: Asset::default_of(Component::Kubeadm).version,
            cluster_api: false,
            own: Vec::new(),
        };
        let set = self
            .resolver
            .image_set(&request, &Silent)
            .await
            .expect("images");
        (set.archives(), set.sandbox)
    }

    /// A machine that can be a node.
    pub(crate) async fn node(
        &self,
        scene: &Scene,
        sandbox: &str,
        image_store: Option<PathBuf>,
    ) -> MachineSpec {
        let mut spec = scene.machine("node", 10, "");
        let butler = spec.binds.remove(0).source;
        let profile = NodeProfile {
            butler,
            programs: self
                .paths([
                    Component::Kubeadm,
                    Component::Kubelet,
                    Component::Kubectl,
                    Component::Containerd,
                    Component::ContainerdShimRuncV2,
                    Component::Ctr,
                ])
                .await
                .to_vec(),
            cni_plugins: self
                .paths([
                    Component::CniBridge,
                    Component::CniHostLocal,
                    Component::CniLoopback,
                    Component::CniPortmap,
                ])
                .await
                .to_vec(),
            sandbox_image: sandbox.to_owned(),
            mirror: Some((scene.config.network.address.addr(), MIRROR_PORT).into()),
            image_store,
        };
        profile.apply(&mut spec);
        spec
    }
}

/// Bytes that a directory has for itself: what is shared does not count.
pub(crate) fn own_bytes(path: &Path) -> u64 {
    let metadata = fs::symlink_metadata(path).unwrap();
    if !metadata.is_dir() {
        return if metadata.nlink() == 1 {
            metadata.blocks() * 512
        } else {
            0
        };
    }
    let children = fs::read_dir(path).unwrap();
    children
        .map(|child| own_bytes(&child.unwrap().path()))
        .sum::<u64>()
        + metadata.blocks() * 512
}

fn small_archive(path: &Path, reference: &str) -> PathBuf {
    let mut image = Image::new(reference);
    image.text("small", "/program", EXECUTABLE).unwrap();
    image.entrypoint(["/program"]);
    image.write_archive(path).unwrap();
    path.to_owned()
}

#[tokio::test]
async fn a_machine_has_its_images_at_once_and_pulls_others_from_the_host() {
    needs_a_host!();
    let scene = Scene::new().await;
    let host = &scene.host;
    let assets = Assets::new();
    let stores = assets.stores(&scene).await;
    let first = small_archive(
        &scene.directory().join("first.tar"),
        "registry.k8s.io/first:v1",
    );
    let store = stores.prepare(std::slice::from_ref(&first)).await.unwrap();
    assert_eq!(
        stores.prepare(std::slice::from_ref(&first)).await.unwrap(),
        store
    );

    let library_directory = scene.config.state_directory.join("images");
    let library = Arc::new(Library::open(&library_directory).unwrap());
    library.adopt(std::slice::from_ref(&first)).unwrap();
    let spec = assets
        .node(&scene, "registry.k8s.io/first:v1", Some(store.clone()))
        .await;
    host.create(spec.clone()).await.unwrap();
    host.start(&spec.name).await.unwrap();
    let address = (scene.config.network.address.addr(), MIRROR_PORT).into();
    let mirror = Mirror::bind(address, Arc::clone(&library)).await.unwrap();
    let stop = CancellationToken::new();
    let mut serving = JoinSet::new();
    serving.spawn(mirror.serve(stop.clone()));

    let answers = "timeout 30 sh -c 'until ctr version >/dev/null 2>&1; do sleep 0.02; done'";
    output(host, "node", answers).await;
    let list = "ctr -n k8s.io images ls -q";
    let listed = output(host, "node", list).await;
    assert!(
        listed
            .lines()
            .any(|line| line == "registry.k8s.io/first:v1"),
        "{listed}"
    );
    let containerd = scene
        .machine_directory("node")
        .join("disk/rootfs/var/lib/containerd");
    let size = own_bytes(&containerd);
    assert!(size < 4 * 1024 * 1024, "{size} bytes of its own");

    // What it writes is its own: the next machine finds the store as it was.
    let remove = "ctr -n k8s.io images rm --sync registry.k8s.io/first:v1";
    output(host, "node", remove).await;
    assert!(own_bytes(&store) > 0);
    let second = small_archive(
        &library_directory.join("second.tar"),
        "registry.example/of/second:v1",
    );
    for reference in ["registry.k8s.io/first:v1", "registry.example/of/second:v1"] {
        let pull = format!(
            "ctr -n k8s.io images pull --hosts-dir /etc/containerd/certs.d {reference} && ctr -n k8s.io images check name=={reference}"
        );
        let pulled = output(host, "node", &pull).await;
        assert!(pulled.contains("complete"), "{pulled}");
    }
    stop.cancel();
    serving.join_next().await.unwrap().unwrap().unwrap();

    // A store with one image more takes the others from the one that is there.
    let more = stores.prepare(&[first, second]).await.unwrap();
    let shared = "io.containerd.content.v1.content/blobs/sha256";
    // What the first import left over may be gone by now.
    let same = fs::read_dir(store.join(shared))
        .unwrap()
        .map(Result::unwrap)
        .filter(|blob| {
            fs::metadata(more.join(shared).join(blob.file_name()))
                .is_ok_and(|other| other.ino() == blob.metadata().unwrap().ino())
        });
    assert!(same.count() >= 3, "manifest, configuration and layer");
    stores.keep_only(std::slice::from_ref(&more)).await.unwrap();
    assert!(!store.exists() && more.exists());
    host.delete(&spec.name).await.unwrap();
    fs::remove_file(library_directory.join("second.tar")).unwrap();
    scene.finish().await;
}

#[tokio::test]
async fn images_that_cannot_be_unpacked_leave_nothing() {
    needs_a_host!();
    let scene = Scene::new().await;
    let stores = Assets::new().stores(&scene).await;
    let stores_directory = scene.config.state_directory.join("image-stores");
    let notes = scene.directory().join("notes.txt");
    fs::write(&notes, "notes").unwrap();
    let refused = stores.prepare(&[notes]).await.unwrap_err();
    assert!(
        matches!(refused, ImageStoreError::NoArchive { .. }),
        "{refused}"
    );

    // A layer that is not what its digest says is found out by containerd.
    let path = small_archive(&scene.directory().join("a.tar"), "a.example/a:1");
    let bytes = fs::read(&path).unwrap();
    let place = bytes
        .windows(5)
        .position(|bytes| bytes == b"small")
        .unwrap();
    let mut spoiled = bytes.clone();
    spoiled[place] = b'S';
    fs::write(&path, &spoiled).unwrap();
    let refused = stores
        .prepare(std::slice::from_ref(&path))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, ImageStoreError::Import { .. }),
        "{refused}"
    );
    let left: Vec<_> = fs::read_dir(&stores_directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["lock"]);
    fs::write(&path, bytes).unwrap();
    stores.prepare(&[path]).await.unwrap();
    scene.finish().await;
}

#[tokio::test]
async fn a_full_disk_while_unpacking_leaves_nothing_half() {
    needs_a_host!();
    let scene = Scene::new().await;
    let [containerd, ctr] = Assets::new()
        .paths([Component::Containerd, Component::Ctr])
        .await;
    let disk = scene.directory().join("small");
    fs::create_dir(&disk).unwrap();
    let mount = |arguments: &[&str]| {
        let mut command = std::process::Command::new(arguments[0]);
        command.args(&arguments[1..]).arg(&disk);
        assert!(command.status().unwrap().success(), "{arguments:?}");
    };
    mount(&["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs"]);
    let large = scene.directory().join("large.tar");
    let mut image = Image::new("a.example/large:1");
    image
        .text(vec![7; 16 * 1024 * 1024], "/large", EXECUTABLE)
        .unwrap();
    image.write_archive(&large).unwrap();
    let stores = ImageStores::new(&disk, ContainerdPrograms { containerd, ctr });
    let full = stores.prepare(&[large]).await.unwrap_err().to_string();
    let left: Vec<_> = fs::read_dir(disk.join("image-stores"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    mount(&["umount"]);
    assert!(full.contains("no space left on device"), "{full}");
    assert_eq!(left, ["lock"]);
    scene.finish().await;
}
