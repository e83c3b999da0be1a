//! What is said about machines: labels their kubelets may set, times that make sense.

use butler_api::{
    conditions::{reasons, types},
    name::{LABEL_LENGTH, LabelValue, ObjectName},
    normalize::tenant_cluster::{SHORTEST_ILLNESS, duration, read, set_by_kubelet},
};

use super::{Breach, Case};

const KIND: (&str, &str) = (types::WORKERS_READY, reasons::VALIDATION_FAILED);

/// Domains of Kubernetes' own labels that a kubelet may set all the same.
const FREE_DOMAINS: [&str; 2] = ["node.kubernetes.io", "kubelet.kubernetes.io"];

pub(super) fn breaches(case: &Case<'_>) -> Vec<Breach> {
    let reading = read(&case.cluster.spec);
    let mut found = Vec::new();
    for pool in &reading.pools {
        for (key, value) in &pool.labels {
            let field = format!("{}.labels[{key}]", pool.field);
            found.extend(label(key, value).map(|rule| Breach::new(KIND, field, rule)));
        }
    }
    let health = case.cluster.spec.machine_health.as_ref();
    let times = health.map(|health| {
        [
            ("nodeStartupTimeout", &health.node_startup_timeout),
            ("unhealthyTimeout", &health.unhealthy_timeout),
        ]
    });
    for (field, text) in times.into_iter().flatten() {
        if duration(text).is_none_or(|time| time < SHORTEST_ILLNESS) {
            let rule = format!(
                "{text:?} must be a time of at least 30s, such as 10m: less would cost healthy machines"
            );
            found.push(Breach::new(
                KIND,
                format!("spec.machineHealth.{field}"),
                rule,
            ));
        }
    }
    found
}

/// What is wrong with a label of nodes.
fn label(key: &str, value: &str) -> Option<String> {
    let (domain, name) = key.split_once('/').unwrap_or(("", key));
    let is_key = (1..=LABEL_LENGTH).contains(&name.len())
        && name.parse::<LabelValue>().is_ok()
        && (!key.contains('/') || domain.parse::<ObjectName>().is_ok());
    if !is_key {
        return Some("is no key of a label: write it like example.com/tier or tier".to_owned());
    }
    if let Err(error) = value.parse::<LabelValue>() {
        return Some(error.to_string());
    }
    let within = |parent: &str| {
        let rest = domain.strip_suffix(parent);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let theirs = within("kubernetes.io") || within("k8s.io");
    let free = FREE_DOMAINS.iter().any(|domain| within(domain));
    (theirs && !free && set_by_kubelet(key)).then(|| {
        "belongs to Kubernetes, and a kubelet that sets it does not start: use a domain of your own, or \
         node-role.kubernetes.io, node-restriction.kubernetes.io, node.kubernetes.io"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tenant_rules::testing::{Scene, cluster};

    #[test]
    fn labels_that_would_keep_a_kubelet_from_starting_are_refused() {
        let scene = Scene::new(cluster(
            &json!({"nodePools": [{"name": "gpu", "replicas": 1, "labels": {
                "example.com/tier": "general", "tier": "", "node-role.kubernetes.io/gpu": "", "node.kubernetes.io/instance-type": "large",
                "kubernetes.io/os": "linux", "team.k8s.io/gpu": "yes", "bad key": "x", "tier2": "a b",
            }}]}),
        ));
        insta::assert_snapshot!(scene.told(super::breaches), @r#"
        spec.nodePools[0].labels[bad key]: is no key of a label: write it like example.com/tier or tier
        spec.nodePools[0].labels[kubernetes.io/os]: belongs to Kubernetes, and a kubelet that sets it does not start: use a domain of your own, or node-role.kubernetes.io, node-restriction.kubernetes.io, node.kubernetes.io
        spec.nodePools[0].labels[team.k8s.io/gpu]: belongs to Kubernetes, and a kubelet that sets it does not start: use a domain of your own, or node-role.kubernetes.io, node-restriction.kubernetes.io, node.kubernetes.io
        spec.nodePools[0].labels[tier2]: label value "a b" is not valid: use at most 63 letters, digits, dashes, underscores and dots, with a letter or digit at both ends
        "#);
    }

    #[test]
    fn times_so_short_that_healthy_machines_would_go_are_refused() {
        let scene = Scene::new(cluster(
            &json!({"machineHealth": {"nodeStartupTimeout": "0", "unhealthyTimeout": "5s"}}),
        ));
        insta::assert_snapshot!(scene.told(super::breaches), @r#"
        spec.machineHealth.nodeStartupTimeout: "0" must be a time of at least 30s, such as 10m: less would cost healthy machines
        spec.machineHealth.unhealthyTimeout: "5s" must be a time of at least 30s, such as 10m: less would cost healthy machines
        "#);
        let scene = Scene::new(cluster(
            &json!({"machineHealth": {"unhealthyTimeout": "1m30s"}}),
        ));
        assert_eq!(scene.told(super::breaches), "");
    }
}
