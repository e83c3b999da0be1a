//! How kubelet is started: as kubeadm's unit for systemd would.

use std::{fs, path::Path};

use super::{InitConfig, service::Service};

const CONFIG: &str = "/var/lib/kubelet/config.yaml";
const KUBEADM_FLAGS: &str = "/var/lib/kubelet/kubeadm-flags.env";
const EXTRA_FLAGS: &str = "/etc/default/kubelet";
const BOOTSTRAP_KUBECONFIG: &str = "/etc/kubernetes/bootstrap-kubelet.conf";
const KUBECONFIG: &str = "/etc/kubernetes/kubelet.conf";

/// Kubelet can start when kubeadm has written both of its files; when it joins, the flags come second.
pub(super) fn service(config: &InitConfig) -> Service {
    Service::new("kubelet", config, || {
        if !Path::new(CONFIG).exists() {
            return None;
        }
        let kubeadm = fs::read_to_string(KUBEADM_FLAGS).ok()?;
        let kubeadm = flags(&kubeadm, "KUBELET_KUBEADM_ARGS")?;
        let extra = fs::read_to_string(EXTRA_FLAGS).unwrap_or_default();
        let extra = flags(&extra, "KUBELET_EXTRA_ARGS").unwrap_or_default();
        Some(arguments(kubeadm, extra))
    })
}

fn arguments(kubeadm: Vec<String>, extra: Vec<String>) -> Vec<String> {
    let mut arguments = vec![
        "kubelet".to_owned(),
        format!("--bootstrap-kubeconfig={BOOTSTRAP_KUBECONFIG}"),
        format!("--kubeconfig={KUBECONFIG}"),
        format!("--config={CONFIG}"),
    ];
    arguments.extend(kubeadm);
    // The last one of a flag counts.
    arguments.extend(extra);
    arguments
}

/// The flags in a file of environment variables, split at spaces as systemd does; nothing if the variable is not there, or
/// is not written to its end.
fn flags(text: &str, variable: &str) -> Option<Vec<String>> {
    let value = text
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix(variable)?.strip_prefix('='))?
        .trim();
    let value = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => value.strip_prefix(quote)?.strip_suffix(quote)?,
        _ => value,
    };
    Some(value.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn flags_are_read_as_kubeadm_writes_them() {
        let text = "KUBELET_KUBEADM_ARGS=\"--node-ip=10.213.7.10 --provider-id=butler://a/b\"\n";
        assert_eq!(
            flags(text, "KUBELET_KUBEADM_ARGS").unwrap(),
            ["--node-ip=10.213.7.10", "--provider-id=butler://a/b"]
        );
        assert_eq!(
            flags("# none\nKUBELET_EXTRA_ARGS=\n", "KUBELET_EXTRA_ARGS").unwrap(),
            Vec::<String>::new()
        );
        assert_eq!(
            flags("KUBELET_EXTRA_ARGS=--v=2", "KUBELET_EXTRA_ARGS").unwrap(),
            ["--v=2"]
        );
    }

    #[test]
    fn a_file_that_is_being_written_is_not_read_yet() {
        for text in [
            "",
            "KUBELET_KUBEADM",
            "KUBELET_KUBEADM_ARGS=\"--node-ip=10.2",
            "KUBELET_KUBEADM_ARGS=\"",
        ] {
            assert_eq!(flags(text, "KUBELET_KUBEADM_ARGS"), None, "{text}");
        }
    }

    #[test]
    fn what_the_administrator_says_comes_last() {
        assert_eq!(
            arguments(vec!["--v=1".to_owned()], vec!["--v=2".to_owned()]),
            [
                "kubelet",
                "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
                "--kubeconfig=/etc/kubernetes/kubelet.conf",
                "--config=/var/lib/kubelet/config.yaml",
                "--v=1",
                "--v=2",
            ]
        );
    }
}
