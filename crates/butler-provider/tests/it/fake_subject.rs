//! The infrastructure in memory under examination.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use butler_api::{
    butler::provider_config::ProviderConfig, keys::secret_keys,
    normalize::machine_size::MachineSize,
};
use butler_provider::{
    Access, Capabilities, Credentials, MachineIdentity, UserData,
    conformance::{FoundMachine, Inventory, Subject},
    fake::{CAPABILITIES, Cloud, Defect, FakeMachine, FakeProvider, PASSWORD},
};
use serde_json::json;

pub(crate) struct FakeSubject {
    cloud: Arc<Cloud>,
    capabilities: Capabilities,
}

impl FakeSubject {
    pub(crate) fn new(defects: impl IntoIterator<Item = Defect>) -> Self {
        Self {
            cloud: Arc::new(Cloud::with_defects(defects)),
            capabilities: CAPABILITIES,
        }
    }

    pub(crate) fn with(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            ..Self::new([])
        }
    }
}

pub(crate) fn access(password: &str) -> Access {
    let config = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "ProviderConfig",
        "metadata": { "name": "cloud", "namespace": "butler-system", "uid": "c", "generation": 1 },
        "spec": { "provider": "nutanix", "credentialsRef": { "name": "cloud" } },
    });
    let config: ProviderConfig = serde_json::from_value(config).unwrap();
    let values = BTreeMap::from([(
        secret_keys::PASSWORD.to_owned(),
        password.as_bytes().to_vec(),
    )]);
    Access {
        config,
        credentials: Credentials::new(values),
    }
}

impl Subject for FakeSubject {
    type Provider = FakeProvider;

    async fn start(&self) -> Arc<FakeProvider> {
        let cloud = Arc::clone(&self.cloud);
        Arc::new(FakeProvider::new(cloud, self.capabilities))
    }

    fn access(&self) -> Access {
        access(PASSWORD)
    }

    fn refused_access(&self) -> Option<Access> {
        Some(access("wrong"))
    }

    fn sizes(&self) -> [MachineSize; 2] {
        [1, 2].map(|cpu| MachineSize {
            cpu,
            memory_mib: 1024 * cpu,
            disk_gib: 10,
        })
    }

    fn too_large(&self) -> MachineSize {
        MachineSize {
            cpu: 128,
            memory_mib: 1024,
            disk_gib: 10,
        }
    }

    fn address(&self, number: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 213, 73, number + 2]))
    }

    fn user_data(&self) -> UserData {
        UserData::new("#cloud-config\n")
    }

    async fn has_trace(&self, identity: &MachineIdentity) -> bool {
        let machines = self.cloud.machines();
        let machine = machines.iter().find(|machine| machine.uid == identity.uid);
        machine.and_then(|machine| machine.user_data.clone()) == Some(self.user_data())
    }

    async fn inventory(&self) -> Inventory {
        let machines = self.cloud.machines().into_iter();
        let load_balancers = self.cloud.load_balancers().into_iter();
        Inventory {
            machines: machines
                .map(|machine| FoundMachine {
                    name: machine.name,
                    cpu: machine.size.cpu,
                    memory_mib: machine.size.memory_mib,
                })
                .collect(),
            load_balancers: load_balancers
                .map(|load_balancer| load_balancer.address.to_string())
                .collect(),
        }
    }

    async fn plant(&self, name: &str, address: Option<IpAddr>) -> Option<String> {
        let id = format!("planted-{name}");
        self.cloud.plant(FakeMachine {
            id: id.clone(),
            uid: String::new(),
            name: name.to_owned(),
            size: self.sizes()[0],
            address: address.unwrap_or_else(|| IpAddr::from([192, 0, 2, 250])),
            user_data: None,
            running: true,
        });
        Some(id)
    }
}
