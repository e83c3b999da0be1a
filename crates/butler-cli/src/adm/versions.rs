//! Which versions of Kubernetes machines of this host can have, told to the platform: what nobody has is refused when a cluster is
//! asked for, not when its first machine fails.
//!
//! Owns: the annotation on every `ProviderConfig` of the provider `local`.

use butler_api::{
    butler::provider_config::{Provider, ProviderConfig},
    keys::annotations,
    version::KubernetesVersion,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::{error::Error, installation::Places};

/// All versions, the installation's own included, in the order in which they were released.
fn known(own: &KubernetesVersion, further: Vec<KubernetesVersion>) -> String {
    let mut versions = further;
    versions.push(own.clone());
    versions.sort();
    versions.dedup();
    let versions: Vec<_> = versions.iter().map(ToString::to_string).collect();
    versions.join(",")
}

/// Writes them down where rules look. Done already, it changes nothing.
pub(crate) async fn tell(
    client: &Client,
    places: &Places,
    own: &KubernetesVersion,
) -> anyhow::Result<()> {
    let text = known(own, places.further_nodes().list()?);
    let all = Api::<ProviderConfig>::all(client.clone());
    let found = all
        .list(&ListParams::default())
        .await
        .map_err(Error::api("list the ProviderConfigs"))?;
    let on_this_host = found.into_iter().filter(|provider| {
        let told = provider.annotations().get(annotations::KUBERNETES_VERSIONS);
        provider.spec.provider == Provider::Local && told != Some(&text)
    });
    for provider in on_this_host {
        let namespace = provider.namespace().unwrap_or_default();
        let api = Api::<ProviderConfig>::namespaced(client.clone(), &namespace);
        let note =
            json!({ "metadata": { "annotations": { annotations::KUBERNETES_VERSIONS: text } } });
        let name = provider.name_any();
        api.patch(&name, &PatchParams::default(), &Patch::Merge(note))
            .await
            .map_err(Error::api(format!(
                "write versions on the ProviderConfig {name}"
            )))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn versions_are_told_once_each_and_in_their_order() {
        let version = |text: &str| text.parse::<KubernetesVersion>().unwrap();
        let further = vec![version("v1.36.3"), version("v1.36.10"), version("v1.35.4")];
        assert_eq!(
            known(&version("v1.36.3"), further),
            "v1.35.4,v1.36.3,v1.36.10"
        );
    }
}
