//! What is in each image: a program at its place, and beside it what that program calls.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::table::place;
use super::{Error, OwnImage};
use crate::component::Component;
use crate::error::Error as AssetError;
use crate::oci::{self, EXECUTABLE, Image, READABLE, libraries_with_plugins};

/// The user of programs that need no rights: the number that images without a distribution mostly use.
const NOBODY: &str = "65532:65532";
const PASSWD: &str =
    "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nnonroot:x:65532:\n";
/// Authorities that this machine trusts; a program that calls clouds needs them.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
const OWN_PROGRAMS: &str = "/usr/local/bin";

/// Where programs of administrators are, which are not on everybody's path.
const PROGRAM_DIRECTORIES: [&str; 5] =
    ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"];
/// Where the plugins of iptables may be; one level down, since distributions name the processor in between.
const PLUGIN_PARENTS: [&str; 3] = ["/usr/lib", "/usr/lib64", "/lib"];
const PLUGINS: &str = "xtables";
/// How nft names protocols. kube-proxy writes its rules by name and reads them back when it is started again: numbers it does not
/// know again, and would remove as somebody's leftovers what it has just written.
const PROTOCOLS: &str =
    "icmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\nipv6-icmp 58 IPv6-ICMP\nsctp 132 SCTP\n";
/// Names under which the one program of iptables is called.
const IPTABLES_NAMES: [&str; 6] = [
    "iptables",
    "iptables-save",
    "iptables-restore",
    "ip6tables",
    "ip6tables-save",
    "ip6tables-restore",
];

/// The image of a component whose program is here.
pub(super) fn image(reference: &str, component: Component, program: &Path) -> Result<Image, Error> {
    let place = place(component).ok_or(AssetError::NotInCatalog { component })?;
    let mut image = Image::new(reference);
    image.program(program, place)?;
    image.entrypoint([place]);
    match component {
        Component::KubeProxy => packet_filters(&mut image)?,
        Component::ClusterApiCore
        | Component::ClusterApiKubeadmBootstrap
        | Component::ClusterApiKubeadmControlPlane => {
            image.user(NOBODY);
            image.directory("/tmp", 0o1777)?;
        }
        Component::Pause => {
            image.user(NOBODY);
        }
        _ => {}
    }
    Ok(image)
}

/// The image of a program of the caller's.
pub(super) fn own_image(own: &OwnImage) -> Result<Image, Error> {
    let name = own.executable.file_name().unwrap_or_default();
    let place = format!("{OWN_PROGRAMS}/{}", name.to_string_lossy());
    let mut image = Image::new(&own.reference);
    image.program(&own.executable, &place)?;
    image.text(PASSWD, "/etc/passwd", READABLE)?;
    image.text(GROUP, "/etc/group", READABLE)?;
    image.directory("/tmp", 0o1777)?;
    if Path::new(CERTIFICATES).is_file() {
        image.file(CERTIFICATES, CERTIFICATES, READABLE)?;
    }
    image.entrypoint([place]).user(NOBODY);
    Ok(image)
}

/// What kube-proxy calls, in every mode it has.
fn packet_filters(image: &mut Image) -> Result<(), Error> {
    for (program, package) in [("nft", "nftables"), ("conntrack", "conntrack")] {
        let path = program_of_this_machine(image, program, package)?;
        image.program(path, &format!("/usr/sbin/{program}"))?;
    }
    // One program with many names; which of them it does is decided by how it is called.
    let iptables = program_of_this_machine(image, "iptables", "iptables")?;
    let iptables = fs::canonicalize(&iptables).map_err(|source| oci::Error::Read {
        reference: image.reference().to_owned(),
        path: iptables,
        source,
    })?;
    let target = "/usr/sbin/xtables-multi";
    // Some plugins need libraries that the program itself does not.
    for library in libraries_with_plugins(&iptables, &plugins())? {
        let place = library.to_string_lossy().into_owned();
        image.file(library, &place, EXECUTABLE)?;
    }
    image.file(iptables, target, EXECUTABLE)?;
    for name in IPTABLES_NAMES {
        image.link(target, &format!("/usr/sbin/{name}"))?;
    }
    image.text(PROTOCOLS, "/etc/protocols", READABLE)?;
    // Written while rules change; without it, two writers are not kept apart.
    image.directory("/run", EXECUTABLE)?;
    Ok(())
}

fn program_of_this_machine(
    image: &Image,
    program: &'static str,
    package: &'static str,
) -> Result<PathBuf, Error> {
    PROGRAM_DIRECTORIES
        .into_iter()
        .map(|directory| Path::new(directory).join(program))
        .find(|path| path.is_file())
        .ok_or_else(|| Error::Missing {
            reference: image.reference().to_owned(),
            program,
            package,
        })
}

/// The plugins of iptables. The same directory may be reached by two ways: one is enough.
fn plugins() -> BTreeSet<PathBuf> {
    let directories = PLUGIN_PARENTS.into_iter().flat_map(|parent| {
        let parent = PathBuf::from(parent);
        let below = files(&parent).into_iter().map(|child| child.join(PLUGINS));
        [parent.join(PLUGINS)].into_iter().chain(below)
    });
    directories
        .filter_map(|directory| fs::canonicalize(directory).ok())
        .collect::<BTreeSet<_>>()
        .iter()
        .flat_map(|directory| files(directory))
        .filter(|path| path.extension().is_some_and(|extension| extension == "so"))
        .collect()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}
