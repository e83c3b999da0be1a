//! Kairos: its system cannot be changed, so all that a node needs must be in the image, cloud-init among it: what Kairos reads
//! by itself knows no templates, and bootstrap data is one.

use butler_api::version::KubernetesVersion;

use super::{
    ACCOUNT, Order, Recipe, hosts_file, kernel_files, prepare_command, prepare_file, time, users,
};

pub(super) fn recipe(order: &Order<'_>) -> Recipe {
    let mut files: Vec<_> = kernel_files().into();
    files.extend(hosts_file(order.blueprint));
    files.push(prepare_file(order, &script(order.version)));
    Recipe {
        files,
        commands: vec![prepare_command()],
        users: users(order, ACCOUNT, true),
        time: time(order),
        ..Recipe::default()
    }
}

fn script(version: &KubernetesVersion) -> String {
    SCRIPT.replace("VERSION", &version.to_string())
}

const SCRIPT: &str = r#"
if [ "$(kubeadm version --output short)" != "VERSION" ] || [ "$(kubelet --version)" != "Kubernetes VERSION" ]; then
  echo "the image must have kubeadm and kubelet VERSION, for they cannot be installed here" >&2
  exit 1
fi
systemctl enable --now containerd
systemctl enable kubelet
"#;
