//! What an operator decides for all control planes at once.

use butler_api::keys::names;

/// The image of kine, unless the operator chose another.
pub const KINE_IMAGE: &str = "rancher/kine:v0.11.10-amd64";

/// What an operator decides for all control planes at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The `DataStore` of control planes that name none; without one they wait.
    pub default_data_store: Option<String>,
    /// The image of kine.
    pub kine_image: String,
    /// The image of our own reverse tunnel; without one, tunnels are konnectivity's.
    pub tunnel_image: Option<String>,
    /// The namespace of Secrets that a `DataStore` names without one.
    pub namespace: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_data_store: Some(names::DEFAULT_DATA_STORE.to_owned()),
            kine_image: KINE_IMAGE.to_owned(),
            tunnel_image: None,
            namespace: names::STEWARD_NAMESPACE.to_owned(),
        }
    }
}
