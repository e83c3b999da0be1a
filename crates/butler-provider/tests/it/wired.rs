//! The infrastructure in memory at the end of a simulated wire: calls can get lost, before or after they took effect.

use std::sync::Arc;

use butler_api::butler::provider_config::Provider as ProviderKind;
use butler_provider::{
    Access, Capabilities, Deletion, LoadBalancerIdentity, LoadBalancerObservation,
    LoadBalancerOrder, MachineIdentity, MachineObservation, MachineOrder, Provider, ProviderError,
    UserData, fake::Cloud,
};
use butler_testkit::simulator::{Fault, Handling, Wire};

/// A process' view of the infrastructure: of the provider on this host, or of one with credentials.
#[derive(Clone)]
pub(crate) struct WiredProvider<const ON_THIS_HOST: bool = false> {
    pub(crate) wire: Wire,
    pub(crate) cloud: Arc<Cloud>,
    pub(crate) capabilities: Capabilities,
}

impl<const ON_THIS_HOST: bool> WiredProvider<ON_THIS_HOST> {
    async fn call<T: Send + 'static>(
        &self,
        what: String,
        effect: impl FnOnce(&Cloud) -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let cloud = Arc::clone(&self.cloud);
        let handle = move |handling: &mut Handling<'_>| {
            let unheard = || Err(ProviderError::retry("the infrastructure does not answer"));
            match handling.fault() {
                Some(Fault::BeforeEffect) => (unheard(), format!("{what}: lost on the way")),
                Some(Fault::AfterEffect) => {
                    let _ = effect(&cloud);
                    (unheard(), format!("{what}: done, the answer is lost"))
                }
                None => {
                    let answer = effect(&cloud);
                    let words = match &answer {
                        Ok(_) => format!("{what}: done"),
                        Err(error) => format!("{what}: {error}"),
                    };
                    (answer, words)
                }
            }
        };
        self.wire.call("cloud", handle).await
    }
}

impl<const ON_THIS_HOST: bool> Provider for WiredProvider<ON_THIS_HOST> {
    const KIND: ProviderKind = if ON_THIS_HOST {
        ProviderKind::Local
    } else {
        ProviderKind::Nutanix
    };

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    async fn validate(&self, access: &Access) -> Result<(), ProviderError> {
        let access = access.clone();
        self.call("validate".to_owned(), move |cloud| cloud.validate(&access))
            .await
    }

    async fn observe_machine(
        &self,
        access: &Access,
        identity: &MachineIdentity,
    ) -> Result<Option<MachineObservation>, ProviderError> {
        let (access, identity) = (access.clone(), identity.clone());
        self.call(format!("observe {}", identity.machine_name), move |cloud| {
            cloud.observe_machine(&access, &identity)
        })
        .await
    }

    async fn create_machine(
        &self,
        access: &Access,
        order: &MachineOrder,
    ) -> Result<(), ProviderError> {
        let (access, order) = (access.clone(), order.clone());
        let what = format!("create {}", order.identity.machine_name);
        self.call(what, move |cloud| cloud.create_machine(&access, &order))
            .await
    }

    async fn deliver_user_data(
        &self,
        access: &Access,
        identity: &MachineIdentity,
        user_data: &UserData,
    ) -> Result<(), ProviderError> {
        let (access, identity) = (access.clone(), identity.clone());
        let user_data = user_data.clone();
        self.call(format!("tell {}", identity.machine_name), move |cloud| {
            cloud.deliver_user_data(&access, &identity, &user_data)
        })
        .await
    }

    async fn delete_machine(
        &self,
        access: &Access,
        identity: &MachineIdentity,
    ) -> Result<Deletion, ProviderError> {
        let (access, identity) = (access.clone(), identity.clone());
        self.call(format!("delete {}", identity.machine_name), move |cloud| {
            cloud.delete_machine(&access, &identity)
        })
        .await
    }

    async fn observe_load_balancer(
        &self,
        access: &Access,
        order: &LoadBalancerOrder,
    ) -> Result<Option<LoadBalancerObservation>, ProviderError> {
        let (access, order) = (access.clone(), order.clone());
        self.call("observe a load balancer".to_owned(), move |cloud| {
            cloud.observe_load_balancer(&access, &order)
        })
        .await
    }

    async fn ensure_load_balancer(
        &self,
        access: &Access,
        order: &LoadBalancerOrder,
    ) -> Result<(), ProviderError> {
        let (access, order) = (access.clone(), order.clone());
        self.call("ensure a load balancer".to_owned(), move |cloud| {
            cloud.ensure_load_balancer(&access, &order)
        })
        .await
    }

    async fn delete_load_balancer(
        &self,
        access: &Access,
        identity: &LoadBalancerIdentity,
    ) -> Result<Deletion, ProviderError> {
        let (access, identity) = (access.clone(), identity.clone());
        self.call("delete a load balancer".to_owned(), move |cloud| {
            cloud.delete_load_balancer(&access, &identity)
        })
        .await
    }
}
