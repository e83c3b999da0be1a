//! Control planes on databases that are not etcd, up to the container of kine: their part of the database is really there,
//! and goes with them.

use butler_api::{
    conditions::types,
    keys::labels,
    steward::{
        data_store::{DataStore, DataStoreDriver},
        tenant_control_plane::TenantControlPlane,
    },
};
use butler_pki::SecretText;
use butler_runtime::conditions::holds;
use butler_testkit::{ApiServer, Controllers, Options, eventually, eventually_gone, skip};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        core::v1::{Namespace, Secret},
    },
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use steward::{names::SecretRole, settings::Settings};
use steward_datastore::{AnyStore, Connection, Store as _, Tenant};

use crate::{
    hosting::{PATIENCE, part, run_steward},
    kubelet::{container, pod},
    real::create,
    scene::{self, SYSTEM, TEAM, here},
    servers::{mariadb, nats::Nats, postgresql},
};

/// A database and what a control plane on it is called.
struct Place<'a> {
    name: &'a str,
    connection: Connection,
    client: &'a Client,
}

/// The `DataStore` of a database.
fn data_store(name: &str, connection: &Connection) -> Value {
    let inline = |text: &str| json!({ "content": ByteString(text.as_bytes().to_vec()) });
    let endpoints = connection.endpoints.iter();
    let endpoints = endpoints.map(|member| format!("{}:{}", member.host, member.port));
    let login = connection.administrator.as_ref().unwrap();
    let mut spec = json!({
        "driver": connection.driver,
        "endpoints": endpoints.collect::<Vec<_>>(),
        "basicAuth": {
            "username": inline(&login.user), "password": inline(login.password.expose()),
        },
    });
    if let Some(tls) = &connection.tls {
        let certificate = inline(&tls.authority_pem);
        spec["tlsConfig"] = json!({ "certificateAuthority": { "certificate": certificate } });
    }
    json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1", "kind": "DataStore",
        "metadata": { "name": name }, "spec": spec,
    })
}

impl Place<'_> {
    fn control_planes(&self) -> Api<TenantControlPlane> {
        Api::namespaced(self.client.clone(), TEAM)
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), TEAM)
    }

    fn settings_name(&self) -> String {
        format!("{}-{}", self.name, SecretRole::StoreConfig)
    }

    /// The settings by which kine connects.
    async fn setting(&self, key: &str) -> String {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), TEAM);
        let secret = secrets.get(&self.settings_name()).await.unwrap();
        String::from_utf8(secret.data.unwrap()[key].0.clone()).unwrap()
    }

    fn store(&self) -> AnyStore {
        AnyStore::new(self.connection.clone()).unwrap()
    }

    /// Asks for a control plane, and waits until its pods are asked for: then its part of the database is there.
    async fn host(&self) -> (Deployment, Tenant) {
        let stores = Api::<DataStore>::all(self.client.clone());
        create(&stores, data_store(self.name, &self.connection)).await;
        Box::pin(eventually(
            &stores,
            self.name,
            "is ready",
            PATIENCE,
            |found| {
                let status = found.and_then(|found| found.status.as_ref());
                status.is_some_and(|status| holds(&status.conditions, types::READY))
            },
        ))
        .await;
        let parts = json!({
            "controlPlane": { "service": { "serviceType": "ClusterIP" } }, "dataStore": self.name,
        });
        let body = scene::control_plane(&here(self.name), parts);
        create(&self.control_planes(), body).await;
        let (deployments, what) = (self.deployments(), "exists");
        let deployment = Box::pin(eventually(
            &deployments,
            self.name,
            what,
            PATIENCE,
            |found| found.is_some(),
        ))
        .await;
        let control_plane = self.control_planes().get(self.name).await.unwrap();
        let password = SecretText::new(self.setting("DB_PASSWORD").await);
        let tenant = Tenant {
            password: Some(password),
            ..part(&control_plane)
        };
        let state = Box::pin(self.store().tenant_state(&tenant)).await.unwrap();
        assert!(state.is_complete(), "{}: {state:?}", self.name);
        (deployment, tenant)
    }

    /// How kine stands beside the API server, and where it is told to connect to.
    async fn assert_kine(&self, deployment: &Deployment, tenant: &Tenant) {
        let pod = pod(deployment);
        let kine = container(&pod, "kine");
        let mut expected = vec![
            "--endpoint=$(DB_ENDPOINT)",
            "--listen-address=unix:///uds/kine",
        ];
        if self.connection.tls.is_some() {
            expected.insert(0, "--ca-file=/certs/ca.crt");
        }
        assert_eq!(kine.args.clone().unwrap(), expected, "{}", self.name);
        let sources = kine.env_from.as_ref().unwrap();
        let source = sources[0].secret_ref.as_ref().unwrap();
        assert_eq!(source.name, self.settings_name());
        let (schema, user) = (&tenant.schema, &tenant.user);
        let password = tenant.password.as_ref().unwrap().expose();
        let port = self.connection.endpoints[0].port;
        let login = self.connection.administrator.as_ref().unwrap();
        let expected = match self.connection.driver {
            DataStoreDriver::PostgreSql => {
                format!("postgres://{user}:{password}@127.0.0.1:{port}/{schema}")
            }
            DataStoreDriver::MySql => {
                format!("mysql://{user}:{password}@tcp(127.0.0.1:{port})/{schema}")
            }
            DataStoreDriver::Nats => format!(
                "nats://{}:{}@127.0.0.1:{port}?bucket={schema}&noEmbed",
                login.user,
                login.password.expose()
            ),
            DataStoreDriver::Etcd => panic!("etcd needs no kine"),
        };
        assert_eq!(self.setting("DB_ENDPOINT").await, expected, "{}", self.name);
    }

    /// With the control plane goes its part of the database.
    async fn assert_goes(&self, tenant: &Tenant) {
        let control_planes = self.control_planes();
        control_planes
            .delete(self.name, &DeleteParams::default())
            .await
            .unwrap();
        eventually_gone(&control_planes, self.name, PATIENCE).await;
        let state = Box::pin(self.store().tenant_state(tenant)).await.unwrap();
        assert!(state.is_gone(), "{}: {state:?}", self.name);
    }

    async fn assert_lives_and_goes(&self) {
        let (deployment, tenant) = Box::pin(self.host()).await;
        self.assert_kine(&deployment, &tenant).await;
        self.assert_goes(&tenant).await;
    }

    /// Somebody overwrites the password: another one takes its place, in the database and in new pods.
    async fn corrupt_password(&self, deployment: &Deployment, tenant: &Tenant) -> Tenant {
        let label = format!(
            "{}{}",
            labels::STEWARD_COMPONENT_CHECKSUM_PREFIX,
            SecretRole::StoreConfig.checksum_label()
        );
        let checksum = |deployment: &Deployment| {
            let template = deployment.spec.as_ref().unwrap().template.clone();
            template.metadata.unwrap().labels.unwrap()[&label].clone()
        };
        let before = checksum(deployment);
        let corrupt = json!({ "data": { "DB_PASSWORD": ByteString(b"guessed".to_vec()) } });
        let secrets = Api::<Secret>::namespaced(self.client.clone(), TEAM);
        secrets
            .patch(
                &self.settings_name(),
                &PatchParams::default(),
                &Patch::Merge(corrupt),
            )
            .await
            .unwrap();
        let (deployments, what) = (self.deployments(), "has new pods");
        eventually(&deployments, self.name, what, PATIENCE, |found| {
            found.is_some_and(|found| checksum(found) != before)
        })
        .await;
        let password = self.setting("DB_PASSWORD").await;
        assert_ne!(password, "guessed");
        let renewed = Tenant {
            password: Some(SecretText::new(password)),
            ..tenant.clone()
        };
        let store = self.store();
        let state = store.tenant_state(&renewed).await.unwrap();
        assert!(state.is_complete(), "{state:?}");
        let state = store.tenant_state(tenant).await.unwrap();
        assert!(!state.password, "the old one is good for nothing");
        renewed
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_on_every_kind_of_database_has_its_part_until_it_goes() {
    let options = Options {
        controllers: Controllers::Housekeeping,
        ..Options::default()
    };
    let server = ApiServer::start(options).await.unwrap();
    let client = &server.client_as("story");
    let namespaces = Api::<Namespace>::all(client.clone());
    for name in [SYSTEM, TEAM] {
        create(&namespaces, scene::namespace(name)).await;
    }
    let steward = run_steward(&server, &Settings::default());
    let place = |name, connection| Place {
        name,
        connection,
        client,
    };

    let encrypted = Nats::start().await;
    let on_nats = place("nats", encrypted.connection(None));
    Box::pin(on_nats.assert_lives_and_goes()).await;
    drop(encrypted);

    let open = Nats::start_unencrypted().await;
    let on_open_nats = place("open-nats", open.connection(None));
    Box::pin(on_open_nats.assert_lives_and_goes()).await;
    drop(open);

    if skip::unless("drivers::on_mariadb", mariadb::installed()).is_ok() {
        let database = mariadb::MariaDb::start().await;
        let on_mariadb = place("mariadb", database.connection());
        Box::pin(on_mariadb.assert_lives_and_goes()).await;
    }

    if skip::unless("drivers::on_postgresql", postgresql::installed()).is_ok() {
        let database = postgresql::PostgreSql::start().await;
        let on_postgresql = place("postgresql", database.connection());
        let (deployment, tenant) = Box::pin(on_postgresql.host()).await;
        on_postgresql.assert_kine(&deployment, &tenant).await;
        let tenant = on_postgresql.corrupt_password(&deployment, &tenant).await;
        on_postgresql.assert_goes(&tenant).await;
    }
    steward.begin();
}
