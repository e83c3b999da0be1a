//! An admission server that runs for a test.

use std::net::SocketAddr;

use butler_runtime::admission::{
    Admission, AdmissionError, AdmissionSettings, Reach, Serving, Webhooks,
};
use butler_runtime::client::Component;
use butler_runtime::serve::{Listener, ReadyChecks};
use butler_runtime::task;
use butler_testkit::{ApiServer, TestNamespace};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::api::{Api, DeleteParams};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::http::{PATIENCE, any_port};

/// A running admission server.
pub(crate) struct Running {
    pub(crate) serving: watch::Receiver<Option<Serving>>,
    pub(crate) address: SocketAddr,
    pub(crate) checks: ReadyChecks,
    pub(crate) shutdown: CancellationToken,
    pub(crate) run: JoinHandle<Result<(), AdmissionError>>,
}

impl Running {
    /// Starts a server that the API server reaches by its address.
    pub(crate) async fn start(
        server: &ApiServer,
        namespace: &TestNamespace,
        component: &str,
        webhooks: Webhooks,
    ) -> Self {
        let listener = Listener::bind("admission", any_port()).await;
        let listener = listener.expect("a free port");
        let reach = Reach::Url(format!("https://{}", listener.address()));
        Self::start_at(listener, reach, server, namespace, component, webhooks)
    }

    pub(crate) fn start_at(
        listener: Listener,
        reach: Reach,
        server: &ApiServer,
        namespace: &TestNamespace,
        component: &str,
        webhooks: Webhooks,
    ) -> Self {
        let address = listener.address();
        let settings = AdmissionSettings {
            component: Component::new(component, "0.1.0").expect("valid"),
            namespace: namespace.name().to_owned(),
            reach,
        };
        let admission = Admission::new(server.client_as(component), settings, webhooks);
        let admission = admission.expect("a valid address");
        let checks = ReadyChecks::new();
        admission.add_ready_check(&checks);
        let (serving, shutdown) = (admission.serving(), CancellationToken::new());
        let run = task::spawn(component, admission.run(listener, shutdown.clone()));
        Self {
            serving,
            address,
            checks,
            shutdown,
            run,
        }
    }

    /// Waits until a leaf other than `previous` is shown and registered.
    pub(crate) async fn leaf_after(&mut self, previous: Option<&str>) -> String {
        let other = |serving: &Option<Serving>| {
            serving
                .as_ref()
                .is_some_and(|serving| Some(serving.leaf.as_str()) != previous)
        };
        let shown = timeout(PATIENCE, self.serving.wait_for(other))
            .await
            .expect("in time");
        shown.expect("runs").clone().expect("serves").leaf
    }

    /// Stops, and takes the registration away so that nothing calls us in vain.
    pub(crate) async fn stop(self, server: &ApiServer, component: &str) {
        self.shutdown.cancel();
        timeout(PATIENCE, self.run)
            .await
            .expect("stops")
            .expect("no panic")
            .expect("no error");
        let parameters = DeleteParams::default();
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(server.client());
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(server.client());
        // One of the two may never have been there.
        let _ = validating.delete(component, &parameters).await;
        let _ = mutating.delete(component, &parameters).await;
    }
}
