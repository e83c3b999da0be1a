//! What an operator decides for all control planes at once.

use std::time::Duration;

use butler_api::keys::names;
use butler_runtime::controller::ControllerSettings;
use jiff::SignedDuration;

/// The image of kine, unless the operator chose another.
pub const KINE_IMAGE: &str = "rancher/kine:v0.11.10-amd64";

/// How long before its end a certificate is made anew at the latest, unless the operator chose otherwise.
pub const CERTIFICATE_DEADLINE: SignedDuration = SignedDuration::from_hours(24);

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
    /// How long before its end a certificate is made anew at the latest. Usually that was long before.
    pub certificate_deadline: SignedDuration,
    /// How long a pass over an object may take.
    pub pass_deadline: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_data_store: Some(names::DEFAULT_DATA_STORE.to_owned()),
            kine_image: KINE_IMAGE.to_owned(),
            tunnel_image: None,
            namespace: names::STEWARD_NAMESPACE.to_owned(),
            certificate_deadline: CERTIFICATE_DEADLINE,
            pass_deadline: ControllerSettings::default().deadline,
        }
    }
}
