//! As much of a kubelet as it takes to run the containers of a Deployment: their files, their command lines, their processes.

use std::{fs, path::Path, time::Duration};

use butler_assets::Component;
use butler_testkit::{Process, Supervisor, process::until};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Container, KeyToPath, PodSpec, Secret, Volume},
};
use kube::{Api, Client};
use tokio::net::TcpStream;

use crate::etcd::{free_port, program};

/// How long an API server may take to listen on a busy machine.
const LISTENS_WITHIN: Duration = Duration::from_mins(2);
const API_SERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// Runs the containers of one control plane. They go when this is dropped.
pub(crate) struct Kubelet {
    /// The port for the control plane.
    pub(crate) port: u16,
    supervisor: Supervisor,
    process: Option<Process>,
}

/// The files of a map, all of them or those that are picked.
fn files(data: Vec<(String, Vec<u8>)>, items: Option<&Vec<KeyToPath>>) -> Vec<(String, Vec<u8>)> {
    let Some(items) = items else {
        return data;
    };
    let picked = items.iter().map(|item| {
        let found = data.iter().find(|(key, _)| *key == item.key);
        let (_, bytes) = found.unwrap_or_else(|| panic!("{} is not there", item.key));
        (item.path.clone(), bytes.clone())
    });
    picked.collect()
}

async fn secret(client: &Client, namespace: &str, name: &str) -> Vec<(String, Vec<u8>)> {
    let found = Api::<Secret>::namespaced(client.clone(), namespace)
        .get(name)
        .await
        .unwrap();
    found
        .data
        .unwrap()
        .into_iter()
        .map(|(key, value)| (key, value.0))
        .collect()
}

/// What a volume holds.
async fn content(client: &Client, namespace: &str, volume: &Volume) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    if let Some(source) = &volume.secret {
        let data = secret(client, namespace, source.secret_name.as_ref().unwrap()).await;
        all.extend(files(data, source.items.as_ref()));
    }
    if let Some(source) = &volume.config_map {
        let found = Api::<ConfigMap>::namespaced(client.clone(), namespace)
            .get(&source.name)
            .await
            .unwrap();
        let data = found
            .data
            .unwrap()
            .into_iter()
            .map(|(key, text)| (key, text.into_bytes()));
        all.extend(files(data.collect(), source.items.as_ref()));
    }
    let projected = volume
        .projected
        .iter()
        .flat_map(|projected| projected.sources.iter().flatten());
    for source in projected.filter_map(|source| source.secret.as_ref()) {
        let data = secret(client, namespace, &source.name).await;
        all.extend(files(data, source.items.as_ref()));
    }
    all
}

/// The pod of a Deployment.
pub(crate) fn pod(deployment: &Deployment) -> PodSpec {
    let template = deployment.spec.as_ref().unwrap().template.clone();
    template.spec.unwrap()
}

/// A container of a pod.
pub(crate) fn container<'a>(pod: &'a PodSpec, name: &str) -> &'a Container {
    let mut containers = pod.containers.iter();
    let found = containers.find(|container| container.name == name);
    found.unwrap_or_else(|| panic!("there is a container {name}"))
}

/// The value of a flag, the last where it is given more than once.
pub(crate) fn flag<'a>(arguments: &'a [String], name: &str) -> &'a str {
    let mut values = arguments.iter().rev().filter_map(|argument| {
        let (flag, value) = argument.split_once('=')?;
        (flag == name).then_some(value)
    });
    let value = values.next();
    value.unwrap_or_else(|| panic!("there is a flag {name}: {arguments:?}"))
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

impl Kubelet {
    pub(crate) fn new() -> Self {
        Self::on(free_port())
    }

    /// One that runs the control plane on a given port.
    pub(crate) fn on(port: u16) -> Self {
        Self {
            port,
            supervisor: Supervisor::start().unwrap(),
            process: None,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_running)
    }

    /// Starts the API server of a Deployment with the files and flags it has there, and waits until it listens.
    pub(crate) async fn run_api_server(
        &mut self,
        client: &Client,
        namespace: &str,
        deployment: &Deployment,
    ) {
        let mut arguments = self
            .arguments(client, namespace, deployment, API_SERVER)
            .await;
        // A pod has all its addresses to itself; here there is but the one that the control plane is reached at.
        let address = flag(&arguments, "--advertise-address").to_owned();
        let port: u16 = flag(&arguments, "--secure-port").parse().unwrap();
        arguments.push(format!("--bind-address={address}"));
        let path = program(Component::KubeApiserver).await;
        let process = self.supervisor.run(API_SERVER, &path, &arguments).unwrap();
        let listens = until(LISTENS_WITHIN, async || {
            let connected = TcpStream::connect((address.as_str(), port)).await.is_ok();
            (connected || !process.is_running()).then_some(connected)
        });
        assert_eq!(
            listens.await,
            Some(true),
            "the API server does not run:\n{}",
            process.log_end()
        );
        self.process = Some(process);
    }

    /// Starts the controller manager of a Deployment beside the API server, with the files and flags it has there.
    pub(crate) async fn run_controller_manager(
        &mut self,
        client: &Client,
        namespace: &str,
        deployment: &Deployment,
    ) {
        let mut arguments = self
            .arguments(client, namespace, deployment, CONTROLLER_MANAGER)
            .await;
        // Nobody asks it for its health, and other tests have one too.
        arguments.push("--secure-port=0".to_owned());
        let path = program(Component::KubeControllerManager).await;
        self.supervisor
            .run(CONTROLLER_MANAGER, &path, &arguments)
            .unwrap();
    }

    /// The flags of a container, with its mounts where this test has them.
    async fn arguments(
        &self,
        client: &Client,
        namespace: &str,
        deployment: &Deployment,
        name: &str,
    ) -> Vec<String> {
        let pod = pod(deployment);
        let container = container(&pod, name);
        assert_eq!(container.command.as_deref(), Some(&[name.to_owned()][..]));
        let mut mounts = container.volume_mounts.clone().unwrap();
        // What is mounted within another mount is replaced first.
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.mount_path.len()));
        let mut places = Vec::new();
        for mount in &mounts {
            let mut volumes = pod.volumes.iter().flatten();
            let volume = volumes.find(|volume| volume.name == mount.name).unwrap();
            let place = self
                .supervisor
                .directory()
                .join("volumes")
                .join(&mount.name);
            fs::create_dir_all(&place).unwrap();
            for (name, bytes) in content(client, namespace, volume).await {
                write(&place.join(name), &bytes);
            }
            // Of some volumes a single file is mounted.
            let place = mount
                .sub_path
                .as_ref()
                .map_or_else(|| place.clone(), |file| place.join(file));
            places.push((mount.mount_path.clone(), place.display().to_string()));
        }
        let arguments = container.args.iter().flatten().map(|argument| {
            let (flag, value) = argument.split_once('=').unwrap();
            let inside = places
                .iter()
                .find(|(path, _)| value.starts_with(path.as_str()));
            let value = inside.map_or_else(
                || value.to_owned(),
                |(path, place)| value.replacen(path, place, 1),
            );
            format!("{flag}={value}")
        });
        arguments.collect()
    }
}
