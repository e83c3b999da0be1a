//! What a machine reads at its first boot, where it cannot read what Cluster API's kubeadm provider writes.
//!
//! Owns: the translation of bootstrap data into the user data of one machine ([`translate`], pure), and the Secret that holds it
//! ([`secret`]).
//!
//! | `userDataFormat` | made from | is |
//! |---|---|---|
//! | `ignition` | Ignition | the same, with the machine's name and identity filled in |
//! | `bottlerocket` | cloud-config, and the authority of the cluster | settings: whatever has none is an obstacle, not left out |
//!
//! The identity is the UID of the `ButlerMachine`: it is known before the machine is asked for, and it is the same whoever makes
//! the machine and however often it is asked for.
//!
//! Must not: show what is in bootstrap data, nor in what it becomes. Obstacles name fields, paths and keys, never their values.

mod bottlerocket;
pub(super) mod secret;
#[cfg(test)]
mod tests;

use butler_api::{
    butler::machine_request::SensitiveText, cluster_api::butler_machine::UserDataFormat,
};
use serde_json::Value;

/// What the kubeadm provider calls the formats that it writes.
const CLOUD_CONFIG: &str = "cloud-config";
const IGNITION: &str = "ignition";

/// Where cloud-init keeps what it knows of its machine.
const META_DATA: &str = "ds.meta_data.";

/// How a variable is written: plainly, and in the URLs that hold the content of files in Ignition.
const BRACES: [(&str, &str); 2] = [("{{ ", " }}"), ("%7B%7B%20", "%20%7D%7D")];

/// Cluster API takes a node for that of a machine by this alone.
const UNRECOGNISED: &str = "its node would not be recognised; add provider-id with butler-<provider>://{{ ds.meta_data.instance_id }} to \
    nodeRegistration.kubeletExtraArgs";

/// What user data is made from.
#[derive(Debug)]
pub(super) struct BootstrapData {
    /// Its format, as its Secret has it.
    format: String,
    /// Itself.
    value: SensitiveText,
    /// The certificate of the cluster's authority, where it is needed.
    authority: Option<String>,
}

/// Who a machine is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'a> {
    /// Name of its host, and of its node.
    pub(super) host_name: &'a str,
    /// What its provider ID ends with.
    pub(super) instance: &'a str,
    /// The cluster that it joins.
    pub(super) cluster: &'a str,
}

/// User data of a machine, or why there is none: words that follow those which say what could not be done.
pub(super) fn translate(
    format: UserDataFormat,
    data: &BootstrapData,
    identity: Identity<'_>,
) -> Result<SensitiveText, String> {
    let wanted = match format {
        UserDataFormat::Ignition => IGNITION,
        UserDataFormat::Bottlerocket => CLOUD_CONFIG,
    };
    if data.format != wanted {
        // Any other text may be something that got there by mistake.
        let known = [CLOUD_CONFIG, IGNITION].into_iter();
        let mut known = known.filter(|known| data.format == *known);
        let found = known.next().unwrap_or("unknown");
        return Err(format!(
            "its format is {found}; set spec.template.spec.format of the KubeadmConfigTemplate to {wanted}"
        ));
    }
    let filled = fill(&data.value.0, identity)?;
    match format {
        UserDataFormat::Ignition => {
            is_ignition(&filled)?;
            Ok(SensitiveText(filled))
        }
        UserDataFormat::Bottlerocket => {
            let authority = data.authority.as_deref();
            bottlerocket::settings(&filled, authority, identity).map(SensitiveText)
        }
    }
}

/// Fills in what cloud-init would, as far as it is known before there is a machine.
fn fill(text: &str, identity: Identity<'_>) -> Result<String, String> {
    let variables = [
        ("local_hostname", identity.host_name),
        ("instance_id", identity.instance),
    ];
    let mut filled = text.to_owned();
    for (name, value) in variables {
        for (open, close) in BRACES {
            filled = filled.replace(&format!("{open}{META_DATA}{name}{close}"), value);
        }
    }
    if filled.contains(META_DATA) {
        return Err(
            "it asks for more than {{ ds.meta_data.local_hostname }} and {{ ds.meta_data.instance_id }}, which is all that is \
             known of a machine before it is made; take the rest out"
                .to_owned(),
        );
    }
    if !filled.contains(identity.instance) {
        return Err(UNRECOGNISED.to_owned());
    }
    Ok(filled)
}

fn is_ignition(text: &str) -> Result<(), String> {
    let document: Option<Value> = serde_json::from_str(text).ok();
    let version = document
        .as_ref()
        .map(|document| &document["ignition"]["version"]);
    if version.is_some_and(Value::is_string) {
        Ok(())
    } else {
        Err("it is no Ignition: it must be JSON with ignition.version; let its provider make it again".to_owned())
    }
}
