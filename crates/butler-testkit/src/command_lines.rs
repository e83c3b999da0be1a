//! The command lines of etcd, kube-apiserver and kube-controller-manager.
//!
//! They keep what tests are about (RBAC, default admission plugins, watch caches, garbage collection) and leave out what a
//! server of seconds does not need (durable writes, leader election, the endpoints of itself).

use std::path::{Path, PathBuf};

use crate::Controllers;

/// The range of service addresses; nothing routes them.
const SERVICE_RANGE: &str = "10.0.0.0/24";
/// Who issues service account tokens.
const SERVICE_ACCOUNT_ISSUER: &str = "https://kubernetes.default.svc";
/// Megabytes after which kube-apiserver would begin a new audit log: more than any test writes.
const AUDIT_LOG_MEGABYTES: u32 = 100_000;

/// Every request gets a line before it is handled, so that a client which has its answer finds its request in the log.
pub(crate) const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted]
rules:
- level: Metadata
";

/// The files of a server, all in its directory.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) authority: PathBuf,
    pub(crate) authority_key: PathBuf,
    pub(crate) serving_certificate: PathBuf,
    pub(crate) serving_key: PathBuf,
    pub(crate) service_account_private: PathBuf,
    pub(crate) service_account_public: PathBuf,
    pub(crate) audit_policy: PathBuf,
    pub(crate) admin_kubeconfig: PathBuf,
}

/// The log of requests.
pub(crate) fn audit_log(directory: &Path) -> PathBuf {
    directory.join("audit.log")
}

/// A socket instead of a port: it cannot collide with that of another test, and no other user can connect.
fn etcd_socket(directory: &Path) -> String {
    format!("unix://{}", directory.join("etcd.sock").display())
}

pub(crate) fn etcd(directory: &Path) -> Vec<String> {
    // Peers there are none; port 0 lets the kernel choose where nobody listens to them.
    let nowhere = "http://127.0.0.1:0";
    vec![
        format!("--data-dir={}", directory.join("etcd").display()),
        format!("--listen-client-urls={}", etcd_socket(directory)),
        format!("--advertise-client-urls={nowhere}"),
        format!("--listen-peer-urls={nowhere}"),
        format!("--initial-advertise-peer-urls={nowhere}"),
        format!("--initial-cluster=default={nowhere}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

pub(crate) fn apiserver(
    directory: &Path,
    port: u16,
    files: &Files,
    further: &[String],
) -> Vec<String> {
    let own = [
        format!("--etcd-servers={}", etcd_socket(directory)),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", files.serving_certificate.display()),
        format!("--tls-private-key-file={}", files.serving_key.display()),
        format!("--client-ca-file={}", files.authority.display()),
        format!("--service-account-issuer={SERVICE_ACCOUNT_ISSUER}"),
        format!(
            "--service-account-key-file={}",
            files.service_account_public.display()
        ),
        format!(
            "--service-account-signing-key-file={}",
            files.service_account_private.display()
        ),
        format!("--service-cluster-ip-range={SERVICE_RANGE}"),
        "--authorization-mode=RBAC".to_owned(),
        // A loopback address is no valid endpoint of the service "kubernetes".
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--audit-policy-file={}", files.audit_policy.display()),
        format!("--audit-log-path={}", audit_log(directory).display()),
        // Without buffering: what happened is in the file.
        "--audit-log-mode=blocking".to_owned(),
        format!("--audit-log-maxsize={AUDIT_LOG_MEGABYTES}"),
    ];
    own.into_iter().chain(further.iter().cloned()).collect()
}

pub(crate) fn controller_manager(files: &Files, controllers: &str) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", files.admin_kubeconfig.display()),
        format!("--controllers={controllers}"),
        format!("--root-ca-file={}", files.authority.display()),
        format!(
            "--service-account-private-key-file={}",
            files.service_account_private.display()
        ),
        format!("--cluster-signing-cert-file={}", files.authority.display()),
        format!(
            "--cluster-signing-key-file={}",
            files.authority_key.display()
        ),
        "--leader-elect=false".to_owned(),
        // Nobody asks it for its health, so it needs no port.
        "--secure-port=0".to_owned(),
    ]
}

/// The value of `--controllers`; none if kube-controller-manager is not wanted at all.
pub(crate) const fn controller_list(controllers: Controllers) -> Option<&'static str> {
    match controllers {
        Controllers::None => None,
        Controllers::Housekeeping => Some(
            "garbage-collector-controller,namespace-controller,serviceaccount-controller,\
             serviceaccount-token-controller,clusterrole-aggregation-controller,\
             root-ca-certificate-publisher-controller",
        ),
        Controllers::All => Some("*"),
    }
}
