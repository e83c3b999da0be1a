//! Cluster API's manifests as documents.

use butler_assets::Resolver;
use serde_json::Value;

use crate::adm::error::Error;

/// The documents of Cluster API's core, kubeadm bootstrap and kubeadm control plane.
pub(crate) async fn manifests(resolver: &Resolver) -> anyhow::Result<Vec<Value>> {
    let text = resolver.cluster_api_manifests().await?;
    let documents =
        serde_saphyr::from_multiple::<Value>(&text).map_err(|error| Error::Document {
            what: "the manifests of Cluster API".to_owned(),
            problem: error.to_string(),
        })?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}
