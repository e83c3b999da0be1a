//! A namespace for one test.

use std::fmt::Write as _;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::discovery::{Scope, verbs};
use kube::{Api, Client, Config, Discovery, Resource, ResourceExt as _};

use crate::show;

/// How long the end of a test may take.
const FAREWELL_WITHIN: Duration = Duration::from_mins(1);

/// A namespace of one test. Dropping it deletes it, and shows what was in it if the test failed.
pub struct TestNamespace {
    name: String,
    config: Config,
}

impl TestNamespace {
    pub(crate) async fn create(config: Config, client: Client, prefix: &str) -> Self {
        let namespace = Namespace {
            metadata: ObjectMeta {
                generate_name: Some(format!("{prefix}-")),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let made = Api::<Namespace>::all(client)
            .create(&PostParams::default(), &namespace)
            .await
            .expect("the API server makes a namespace");
        Self {
            name: made.name_any(),
            config,
        }
    }

    /// The name, unique on its server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The objects of a kind in this namespace, seen through `client`.
    pub fn api<K>(&self, client: Client) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(client, &self.name)
    }
}

impl std::fmt::Debug for TestNamespace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("TestNamespace")
            .field(&self.name)
            .finish()
    }
}

impl Drop for TestNamespace {
    #[expect(
        clippy::print_stderr,
        reason = "the report belongs to the captured output of the failed test"
    )]
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        let (name, config) = (self.name.clone(), self.config.clone());
        // A thread and a runtime of its own: the one of the test may be ending, and cannot be waited on from here.
        let farewell = std::thread::spawn(move || farewell(&name, config, failed));
        if let Ok(Some(report)) = farewell.join() {
            eprintln!("{report}");
        }
    }
}

/// Deletes the namespace as well as it can, and says what was in it if the test failed.
fn farewell(name: &str, config: Config, failed: bool) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    runtime.block_on(async {
        let work = async {
            let client = Client::try_from(config).ok()?;
            let report = if failed {
                Some(report(&client, name).await)
            } else {
                None
            };
            // The server may be gone already, and the namespace with it.
            let _ = Api::<Namespace>::all(client)
                .delete(name, &DeleteParams::background())
                .await;
            report
        };
        tokio::time::timeout(FAREWELL_WITHIN, work)
            .await
            .ok()
            .flatten()
    })
}

async fn report(client: &Client, namespace: &str) -> String {
    let mut text = format!("---- the objects of namespace {namespace} ----\n");
    let discovery = match Discovery::new(client.clone()).run().await {
        Ok(discovery) => discovery,
        Err(error) => return format!("{text}(cannot be listed: {error})"),
    };
    for group in discovery.groups_alphabetical() {
        for (resource, capabilities) in group.recommended_resources() {
            let listable = capabilities.scope == Scope::Namespaced
                && capabilities.supports_operation(verbs::LIST);
            if !listable {
                continue;
            }
            let api: Api<DynamicObject> =
                Api::namespaced_with(client.clone(), namespace, &resource);
            let Ok(objects) = api.list(&ListParams::default()).await else {
                continue;
            };
            for mut object in objects {
                // Items of a list do not repeat their type.
                object.types = Some(kube::core::TypeMeta {
                    api_version: resource.api_version.clone(),
                    kind: resource.kind.clone(),
                });
                // Writing into a String cannot fail.
                let _ = writeln!(text, "{}", show::object(&object));
            }
        }
    }
    text
}
