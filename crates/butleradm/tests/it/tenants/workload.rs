//! What people run in a cluster: pods that find each other, and an address for the world.

use std::{
    io::{ErrorKind, Read as _},
    net::{IpAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

use super::cluster::Cluster;
use crate::{
    kit::{Installation, eventually, note},
    network::{ECHO, ECHO_IMAGE},
};

/// The port of the Service.
pub(super) const PORT: u16 = 80;
/// Longer than a connection within one host ever takes.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn works(installation: &Installation) {
    let shop = Cluster::shop(installation);
    serve(&shop, 2);
    for (namespace, workload) in [
        ("kube-system", "daemonset/kube-proxy"),
        ("kube-system", "deployment/coredns"),
        ("default", "deployment/echo"),
    ] {
        shop.rolled_out(namespace, workload);
    }
    let place = "echo.default.svc.cluster.local:80";
    let answer = eventually("an answer of the Service by its name", || {
        shop.kubectl(&["exec", "deployment/echo", "--", ECHO, "fetch", place])
    });
    assert!(answer.starts_with("echo-"), "{answer}");
    answers(&shop);
}

/// Has pods serve, at an address for the world. As somebody makes it who wants to be reached at all times: never without a pod, and
/// no pod goes before everybody knows.
pub(super) fn serve(cluster: &Cluster<'_>, replicas: usize) {
    cluster.apply(&format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{ name: echo }}
spec:
  replicas: {replicas}
  selector: {{ matchLabels: {{ app: echo }} }}
  strategy: {{ rollingUpdate: {{ maxUnavailable: 0 }} }}
  template:
    metadata: {{ labels: {{ app: echo }} }}
    spec:
      terminationGracePeriodSeconds: 5
      topologySpreadConstraints:
        - {{ maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway,
             labelSelector: {{ matchLabels: {{ app: echo }} }} }}
      containers:
        - name: echo
          image: {ECHO_IMAGE}
          args: [serve, "8080"]
          readinessProbe: {{ tcpSocket: {{ port: 8080 }}, periodSeconds: 1 }}
          lifecycle: {{ preStop: {{ sleep: {{ seconds: 3 }} }} }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{ name: echo }}
spec:
  minAvailable: 1
  selector: {{ matchLabels: {{ app: echo }} }}
---
apiVersion: v1
kind: Service
metadata: {{ name: echo }}
spec:
  type: LoadBalancer
  selector: {{ app: echo }}
  ports: [{{ port: {PORT}, targetPort: 8080 }}]
"#
    ));
}

/// Demands an answer at the address of the Service, which is one of the cluster's own.
pub(super) fn answers(cluster: &Cluster<'_>) -> IpAddr {
    let address = address(cluster, "echo");
    let ranges = ranges(cluster);
    note(&format!(
        "{}: echo has {address} of {ranges:?}",
        cluster.name
    ));
    assert!(
        ranges
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&address)),
        "{address} is not in {ranges:?} of {}",
        cluster.name
    );
    eventually("an answer at the address of the Service", || fetch(address));
    address
}

/// The address of a Service.
pub(super) fn address(cluster: &Cluster<'_>, service: &str) -> IpAddr {
    let what = format!("the Service {service} of {} has an address", cluster.name);
    eventually(&what, || {
        let service = cluster.get(&["service", service])?;
        let status = &service["status"]["loadBalancer"]["ingress"][0]["ip"];
        let address = status.as_str().and_then(|text| text.parse().ok());
        address.ok_or_else(|| format!("{}\n{}", service["status"], cluster.troubles()))
    })
}

/// One request from the host, as anybody would make it.
pub(super) fn fetch(address: IpAddr) -> Result<String, String> {
    match ask(address) {
        Answer::Given(answer) => Ok(answer),
        Answer::CutOff(words) | Answer::Refused(words) => Err(words),
    }
}

/// What comes of a request.
pub(super) enum Answer {
    /// An answer.
    Given(String),
    /// The connection was made, and ended before an answer had come.
    CutOff(String),
    /// Nothing of use.
    Refused(String),
}

/// The same, told apart.
pub(super) fn ask(address: IpAddr) -> Answer {
    let connected = TcpStream::connect_timeout(&(address, PORT).into(), PATIENCE);
    let mut stream = match connected {
        Ok(stream) => stream,
        Err(error) => return Answer::Refused(error.to_string()),
    };
    let mut answer = String::new();
    let read = stream.set_read_timeout(Some(PATIENCE));
    match read.and_then(|()| stream.read_to_string(&mut answer)) {
        Ok(_) if answer.starts_with("echo-") => Answer::Given(answer),
        Ok(_) => Answer::Refused(format!("it answered {answer:?}")),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {
            Answer::CutOff(error.to_string())
        }
        Err(error) => Answer::Refused(error.to_string()),
    }
}

/// The ranges of addresses that a cluster has for its Services.
pub(super) fn ranges(cluster: &Cluster<'_>) -> Vec<(IpAddr, IpAddr)> {
    let allocations = eventually("the addresses of clusters", || {
        let all = ["get", "ipallocations", "--all-namespaces", "-o", "json"];
        let text = cluster.installation.kubectl(&all)?;
        serde_json::from_str::<Value>(&text).map_err(|error| error.to_string())
    });
    let allocations = allocations["items"].as_array().unwrap().iter();
    let of_cluster = allocations.filter(|one| {
        let spec = &one["spec"];
        let owner = &spec["tenantClusterRef"];
        spec["type"] == "loadbalancer"
            && owner["name"] == cluster.name
            && owner["namespace"] == cluster.home
    });
    let range = |one: &Value| -> Option<(IpAddr, IpAddr)> {
        let end = |field: &str| one["status"][field].as_str()?.parse().ok();
        Some((end("startAddress")?, end("endAddress")?))
    };
    of_cluster.filter_map(range).collect()
}
