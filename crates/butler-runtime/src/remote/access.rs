//! Kubeconfigs of remote clusters. They come from Secrets that tenants may write, so they may name
//! a server and carry credentials, but not make this process run a program or read its files.

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// A kubeconfig that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// It is not a kubeconfig. The parser's words are left out: they may quote credentials.
    #[error("it is not a kubeconfig; write valid YAML with clusters, users and contexts")]
    Malformed,
    /// It asks for something of this process that a remote cluster must not ask for.
    #[error("it uses {field}, which is not allowed for remote clusters; {instead}")]
    Forbidden {
        /// The field.
        field: &'static str,
        /// What to write instead.
        instead: &'static str,
    },
    /// It is a kubeconfig, but not a complete one.
    #[error("it is not complete")]
    Incomplete(#[source] KubeconfigError),
}

/// The bytes of a kubeconfig.
pub struct RemoteKubeconfig(Vec<u8>);

impl std::fmt::Debug for RemoteKubeconfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RemoteKubeconfig({} bytes)", self.0.len())
    }
}

impl From<Vec<u8>> for RemoteKubeconfig {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl RemoteKubeconfig {
    /// Reads and checks the kubeconfig.
    pub(super) async fn into_config(self) -> Result<kube::Config, AccessError> {
        let text = String::from_utf8(self.0).map_err(|_| AccessError::Malformed)?;
        let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|_| AccessError::Malformed)?;
        check(&kubeconfig)?;
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(AccessError::Incomplete)
    }
}

fn check(kubeconfig: &Kubeconfig) -> Result<(), AccessError> {
    const EMBED: &str = "embed the data (the field that ends in -data)";
    const TOKEN: &str = "write a token or a client certificate";
    let clusters = kubeconfig
        .clusters
        .iter()
        .filter_map(|named| named.cluster.as_ref());
    let users = kubeconfig
        .auth_infos
        .iter()
        .filter_map(|named| named.auth_info.as_ref());
    let of_clusters = clusters.map(|cluster| {
        (
            cluster.certificate_authority.is_some(),
            "certificate-authority",
            EMBED,
        )
    });
    let of_users = users.flat_map(|user| {
        [
            (user.exec.is_some(), "exec", TOKEN),
            (user.auth_provider.is_some(), "auth-provider", TOKEN),
            (user.token_file.is_some(), "tokenFile", TOKEN),
            (
                user.client_certificate.is_some(),
                "client-certificate",
                EMBED,
            ),
            (user.client_key.is_some(), "client-key", EMBED),
        ]
    });
    match of_clusters.chain(of_users).find(|(used, ..)| *used) {
        Some((_, field, instead)) => Err(AccessError::Forbidden { field, instead }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(user: &str) -> Result<kube::Config, AccessError> {
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, \
             clusters: [{{name: c, cluster: {{server: 'https://10.0.0.1:6443'}}}}], \
             users: [{{name: c, user: {user}}}], \
             contexts: [{{name: c, context: {{cluster: c, user: c}}}}]}}"
        );
        RemoteKubeconfig::from(text.into_bytes())
            .into_config()
            .await
    }

    #[tokio::test]
    async fn a_token_is_enough() {
        let config = read("{token: abc}").await.expect("valid");
        assert_eq!(config.cluster_url, "https://10.0.0.1:6443/");
    }

    #[tokio::test]
    async fn a_tenant_cannot_make_us_run_a_program_or_read_a_file() {
        for (user, field) in [
            (
                "{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}}",
                "exec",
            ),
            (
                "{tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}",
                "tokenFile",
            ),
            ("{client-certificate: /etc/passwd}", "client-certificate"),
            ("{client-key: /etc/shadow}", "client-key"),
            (
                "{auth-provider: {name: gcp, config: {cmd-path: sh}}}",
                "auth-provider",
            ),
        ] {
            let error = read(user).await.expect_err("must be refused");
            assert!(
                matches!(error, AccessError::Forbidden { field: found, .. } if found == field),
                "{user} gave {error}"
            );
        }
    }

    #[tokio::test]
    async fn a_broken_kubeconfig_is_not_quoted() {
        let broken = RemoteKubeconfig::from(b"users: [token: {sesame".to_vec());
        let error = broken.into_config().await.expect_err("not YAML");
        assert!(!format!("{error:?} {error}").contains("sesame"));
    }
}
