//! Flatcar Container Linux: its system cannot be changed, so kubelet and kubeadm are put beside it.

use butler_api::version::KubernetesVersion;

use super::{HOST_NAME, Order, Recipe, file, hosts_file, kernel_files, prepare_file, users};
use crate::tenant_cluster::blueprint::Infrastructure;

/// The account that Flatcar has, and that may do everything.
const ACCOUNT: &str = "core";

/// Below `/usr`, where kubelet would look, nothing can be written.
const PLUGINS: &str = "/opt/libexec/kubernetes/kubelet-plugins/volume/exec/";

pub(super) fn recipe(order: &Order<'_>) -> Recipe {
    let mut files: Vec<_> = kernel_files().into();
    files.extend(hosts_file(order.blueprint));
    // Without cloud-init nobody else tells the system its name. Other makers of machines have means of their own.
    if let Infrastructure::Butler { .. } = order.blueprint.infrastructure {
        files.push(file("/etc/hostname", "0644", format!("{HOST_NAME}\n")));
    }
    files.push(file(
        "/etc/systemd/system/kubelet.service",
        "0644",
        KUBELET_UNIT,
    ));
    files.push(file(
        "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
        "0644",
        KUBEADM_SETTINGS,
    ));
    let servers = &order.blueprint.time_servers;
    if !servers.is_empty() {
        files.push(file(
            "/etc/systemd/timesyncd.conf.d/10-butler.conf",
            "0644",
            format!("[Time]\nNTP={}\n", servers.join(" ")),
        ));
    }
    files.push(prepare_file(order, &script(order.version)));
    Recipe {
        format: Some("ignition"),
        files,
        commands: vec![
            "export PATH=/opt/bin:$PATH".to_owned(),
            super::PREPARE_FILE.to_owned(),
        ],
        arguments: vec![("volume-plugin-dir", PLUGINS.to_owned())],
        users: users(order, ACCOUNT, false),
        ..Recipe::default()
    }
}

fn script(version: &KubernetesVersion) -> String {
    SCRIPT.replace("VERSION", &version.to_string())
}

/// The checksum tells a broken download; who made it, the certificate of its host tells.
const SCRIPT: &str = r#"
case "$(uname -m)" in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) echo "there is no Kubernetes for $(uname -m)" >&2; exit 1 ;;
esac

programs=/opt/butler/kubernetes-VERSION
mkdir -p /opt/bin "$programs"
for program in kubeadm kubelet; do
  if [ ! -x "$programs/$program" ]; then
    source="https://dl.k8s.io/release/VERSION/bin/linux/$architecture/$program"
    curl --fail --silent --show-error --location --retry 5 --output "$programs/$program.new" "$source"
    expected=$(curl --fail --silent --show-error --location --retry 5 "$source.sha256")
    echo "$expected  $programs/$program.new" | sha256sum --check --quiet
    chmod 0755 "$programs/$program.new"
    mv "$programs/$program.new" "$programs/$program"
  fi
  ln --symbolic --force --no-dereference "$programs/$program" "/opt/bin/$program"
done

systemctl daemon-reload
if [ -f /etc/systemd/timesyncd.conf.d/10-butler.conf ]; then
  systemctl restart systemd-timesyncd
fi
systemctl enable --now containerd
systemctl enable kubelet
"#;

const KUBELET_UNIT: &str = "\
[Unit]
Description=The Kubernetes node agent
Wants=network-online.target containerd.service
After=network-online.target containerd.service

[Service]
ExecStart=/opt/bin/kubelet
Restart=always
RestartSec=10

[Install]
WantedBy=multi-user.target
";

const KUBEADM_SETTINGS: &str = r#"[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=
ExecStart=/opt/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS
"#;
