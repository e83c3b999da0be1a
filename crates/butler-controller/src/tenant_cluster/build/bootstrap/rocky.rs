//! Rocky Linux 9 and its relatives: packages of the exact version, from the repositories of who makes them.
//!
//! What the image has already is left as it is, so that machines of a prepared image need no way to the internet.

use butler_api::version::KubernetesVersion;

use super::{
    ACCOUNT, Order, Recipe, file, hosts_file, kernel_files, prepare_command, prepare_file, time,
    users,
};

pub(super) fn recipe(order: &Order<'_>) -> Recipe {
    let mut files: Vec<_> = kernel_files().into();
    files.extend(hosts_file(order.blueprint));
    files.push(file(
        "/etc/yum.repos.d/kubernetes.repo",
        "0644",
        kubernetes_repository(order.version),
    ));
    files.push(file(
        "/etc/yum.repos.d/containerd.repo",
        "0644",
        CONTAINERD_REPOSITORY,
    ));
    files.push(prepare_file(order, &script(order.version)));
    Recipe {
        files,
        commands: vec![prepare_command()],
        users: users(order, ACCOUNT, true),
        time: time(order),
        ..Recipe::default()
    }
}

/// The packages are left out of updates: what a node runs is decided by its cluster.
fn kubernetes_repository(version: &KubernetesVersion) -> String {
    let base = format!(
        "https://pkgs.k8s.io/core:/stable:/{}/rpm/",
        version.series()
    );
    format!(
        "[kubernetes]\n\
         name=Kubernetes\n\
         baseurl={base}\n\
         enabled=1\n\
         gpgcheck=1\n\
         gpgkey={base}repodata/repomd.xml.key\n\
         exclude=kubelet kubeadm kubectl cri-tools kubernetes-cni\n"
    )
}

/// Rocky has no containerd of its own. The packages for the system it is made from fit it.
const CONTAINERD_REPOSITORY: &str = "\
[containerd]
name=containerd
baseurl=https://download.docker.com/linux/rhel/9/$basearch/stable
enabled=1
gpgcheck=1
gpgkey=https://download.docker.com/linux/rhel/gpg
includepkgs=containerd.io
";

fn script(version: &KubernetesVersion) -> String {
    SCRIPT.replace("VERSION", &version.bare())
}

/// `SELinux` warns only: there is no policy that lets pods of every kind use volumes. Node ports and pods have addresses that
/// firewalld knows nothing of.
const SCRIPT: &str = r#"
swapoff --all
sed --in-place --regexp-extended 's/^([^#].*[[:space:]]swap[[:space:]].*)$/# \1/' /etc/fstab
setenforce 0 || true
if [ -f /etc/selinux/config ]; then
  sed --in-place 's/^SELINUX=enforcing$/SELINUX=permissive/' /etc/selinux/config
fi
systemctl disable --now firewalld || true

install_missing() {
  for package in "$@"; do
    rpm --query --quiet "$package" || dnf install --assumeyes --disableexcludes=kubernetes "$package"
  done
}

command -v containerd > /dev/null || dnf install --assumeyes containerd.io
mkdir -p /etc/containerd
containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/' > /etc/containerd/config.toml
systemctl enable containerd
systemctl restart containerd

install_missing kubelet-VERSION kubeadm-VERSION
systemctl enable kubelet

# What volumes over iSCSI and NFS need on a node.
install_missing iscsi-initiator-utils nfs-utils
systemctl enable --now iscsid
"#;
