//! Kubeconfigs made of an authority and a client certificate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::{Error, Leaf, SecretText};

/// A kubeconfig of one cluster, one user and one context.
#[derive(Clone, Copy, Debug)]
pub struct Kubeconfig<'a> {
    /// The name of the cluster in the file.
    pub cluster: &'a str,
    /// The name of the user in the file.
    pub user: &'a str,
    /// The URL of the API server.
    pub server: &'a str,
    /// The authority, or bundle of authorities, that the server's certificate comes from.
    pub authority_pem: &'a str,
    /// The client certificate and its key.
    pub client: &'a Leaf,
}

impl Kubeconfig<'_> {
    /// The file as YAML. It holds the client's private key.
    pub fn render(&self) -> Result<SecretText, Error> {
        let context = format!("{}@{}", self.user, self.cluster);
        let file = File {
            api_version: "v1",
            kind: "Config",
            clusters: [Named {
                name: self.cluster,
                content: ClusterEntry {
                    cluster: Cluster {
                        server: self.server,
                        certificate_authority_data: STANDARD.encode(self.authority_pem),
                    },
                },
            }],
            users: [Named {
                name: self.user,
                content: UserEntry {
                    user: User {
                        client_certificate_data: STANDARD.encode(&self.client.certificate_pem),
                        client_key_data: STANDARD.encode(self.client.key_pem.expose()),
                    },
                },
            }],
            contexts: [Named {
                name: &context,
                content: ContextEntry {
                    context: Context {
                        cluster: self.cluster,
                        user: self.user,
                    },
                },
            }],
            current_context: &context,
        };
        serde_saphyr::to_string(&file)
            .map(SecretText::new)
            .map_err(|problem| Error::RenderKubeconfig {
                server: self.server.to_owned(),
                problem: problem.to_string(),
            })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    api_version: &'static str,
    kind: &'static str,
    clusters: [Named<'a, ClusterEntry<'a>>; 1],
    users: [Named<'a, UserEntry>; 1],
    contexts: [Named<'a, ContextEntry<'a>>; 1],
    #[serde(rename = "current-context")]
    current_context: &'a str,
}

#[derive(Serialize)]
struct Named<'a, T> {
    name: &'a str,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize)]
struct ClusterEntry<'a> {
    cluster: Cluster<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster<'a> {
    server: &'a str,
    certificate_authority_data: String,
}

#[derive(Serialize)]
struct UserEntry {
    user: User,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate_data: String,
    client_key_data: String,
}

#[derive(Serialize)]
struct ContextEntry<'a> {
    context: Context<'a>,
}

#[derive(Serialize)]
struct Context<'a> {
    cluster: &'a str,
    user: &'a str,
}
