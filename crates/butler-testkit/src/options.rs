//! What kind of server a test wants.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::crds;

/// How a server of a test's own is made. The default is what [`crate::ApiServer::shared`] gives.
///
/// Admission webhooks need no option: the API server shares the test's network, so a webhook configuration whose
/// `clientConfig.url` names `https://127.0.0.1:<port>` is reached. A `clientConfig.service` is not, as nothing routes
/// cluster addresses.
#[derive(Clone, Debug)]
pub struct Options {
    /// The version of Kubernetes, such as `1.35.4`; none is the version Butler is built for.
    pub kubernetes: Option<String>,
    /// Which controllers of Kubernetes run beside the API server.
    pub controllers: Controllers,
    /// Custom resource definitions that are served from the start.
    pub custom_resources: Vec<CustomResourceDefinition>,
    /// Further flags of kube-apiserver; they come last, so they win.
    pub apiserver_flags: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kubernetes: None,
            controllers: Controllers::None,
            custom_resources: crds::of_butler(),
            apiserver_flags: Vec::new(),
        }
    }
}

/// The controllers of Kubernetes that run beside the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Controllers {
    /// None: objects change only by the hands of the test and of what it tests. Deleted namespaces stay, dependents are not
    /// collected, and pods are refused for want of a service account.
    #[default]
    None,
    /// Those that keep the house: garbage collection, deletion of namespaces, service accounts, role aggregation.
    Housekeeping,
    /// All that kube-controller-manager runs by default: Deployments get pods (which no kubelet runs), and so on.
    All,
}
