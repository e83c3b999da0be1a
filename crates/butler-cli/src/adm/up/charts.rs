//! Butler's own charts: their releases, and what is different about them on one host.

use butler_assets::Component;
use butler_helm::{ChartSource, Helm, Release, ReleaseName, Upgrade, Values};
use kube::Client;
use serde_json::{Value, json};

use super::{
    Run,
    platform::NAMESPACE,
    prepare::{Images, Parts},
};
use crate::{
    adm::{apply::missing, error::Error, installation::write_private},
    output::progress::Outcome,
};

const DEFINITIONS: &str = "butler-crds";
const BUTLER: &str = "butler";
const STORE: &str = "steward-etcd";
/// What helm does around a release, and removes again.
const HOOK: &str = "helm.sh/hook";

/// Installs Butler's charts, or brings their releases to what is wished.
pub(super) async fn charts(
    run: &Run,
    client: &Client,
    parts: &Parts,
    images: &Images,
) -> anyhow::Result<Outcome> {
    let helm = helm(run, parts);
    let waiting = Upgrade::waiting(run.patience());
    let definitions = release(run, DEFINITIONS, json!({}))?;
    let butler = release(run, BUTLER, butler_values(images))?;
    // The DataStore is applied by us: see [`data_store`].
    let store = release(run, STORE, store_values(run, images, false)?)?;
    // Whether it can be used is waited for when Steward is told of it.
    let passing = Upgrade::without_waiting(run.patience());
    let definitions = install(run, client, &helm, &definitions, waiting).await?;
    // Kinds come first; then neither needs the other.
    let (butler, store) = tokio::try_join!(
        Box::pin(install(run, client, &helm, &butler, waiting)),
        Box::pin(install(run, client, &helm, &store, passing)),
    )?;
    let anything = [definitions, butler, store].contains(&Outcome::Done);
    Ok(if anything {
        Outcome::Done
    } else {
        Outcome::Unchanged
    })
}

/// The `DataStore` as the chart makes it. Helm would give up if Steward's webhook, which is installed at the same time, did not
/// answer yet.
pub(super) async fn data_store(run: &Run, parts: &Parts, images: &Images) -> anyhow::Result<Value> {
    let release = release(run, STORE, store_values(run, images, true)?)?;
    let objects = objects(&helm(run, parts).template(&release).await?)?;
    let found = objects
        .into_iter()
        .find(|object| object["kind"] == "DataStore");
    let mut store = found.ok_or_else(|| Error::Document {
        what: format!("the chart {STORE}"),
        problem: "it makes no DataStore".to_owned(),
    })?;
    // They would say that helm manages it.
    store["metadata"] = json!({ "name": store["metadata"]["name"] });
    Ok(store)
}

fn helm(run: &Run, parts: &Parts) -> Helm {
    Helm::new(
        parts.path(Component::Helm),
        run.places.helm(),
        run.places.kubeconfig(),
    )
}

fn release(run: &Run, chart: &str, values: Value) -> anyhow::Result<Release> {
    Ok(Release {
        name: ReleaseName::new(NAMESPACE.parse()?, chart.parse()?),
        chart: ChartSource::Path(run.charts.join(chart)),
        values: Values::from(values),
    })
}

/// Helm makes a new revision of a release each time it is asked: it is asked only when the objects would be others.
async fn install(
    run: &Run,
    client: &Client,
    helm: &Helm,
    release: &Release,
    upgrade: Upgrade,
) -> anyhow::Result<Outcome> {
    let chart = release.name.name.as_str();
    let step = run.progress.begin(format!("Chart {chart}"));
    let rendered = helm.template(release).await?;
    let path = run.places.helm().join(format!("{chart}.applied"));
    let deployed = helm
        .status(&release.name)
        .await?
        .is_some_and(|report| report.phase.is_deployed());
    let same = std::fs::read_to_string(&path).is_ok_and(|applied| applied == rendered);
    let outcome = if deployed && same && complete(client, &rendered).await? {
        Outcome::Unchanged
    } else {
        // Nobody else works on the releases of this host.
        helm.upgrade(release, &upgrade.taking_over()).await?;
        write_private(&path, rendered.as_bytes())?;
        Outcome::Done
    };
    step.end(outcome);
    Ok(outcome)
}

/// The objects of a rendered chart.
fn objects(rendered: &str) -> anyhow::Result<Vec<Value>> {
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(rendered)?;
    objects.retain(|object| object["kind"].is_string());
    Ok(objects)
}

/// Whether every object of a release is there. Those that name no namespace are in that of the release.
async fn complete(client: &Client, rendered: &str) -> anyhow::Result<bool> {
    let mut objects = objects(rendered)?;
    objects.retain(|object| object["metadata"]["annotations"][HOOK].is_null());
    for object in &mut objects {
        if object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
    }
    match missing(client, &objects).await {
        Ok(missing) => Ok(missing.is_empty()),
        // A definition that is gone takes its kind with it.
        Err(Error::UnknownKind { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// An image as charts take it.
fn image(reference: &str) -> Value {
    let (repository, tag) = reference.rsplit_once(':').unwrap_or((reference, "latest"));
    json!({ "repository": repository, "tag": tag })
}

/// What a program of ours asks for. kubeadm's own pods ask for 850 of the 1000 millicores that a small machine has.
fn resources() -> Value {
    json!({ "requests": { "cpu": "10m", "memory": "64Mi" } })
}

/// What differs from the defaults of Butler's chart on one host.
fn butler_values(images: &Images) -> Value {
    json!({
        "image": image(&images.butler),
        // A second replica on the same host guards against nothing.
        "controller": { "replicas": 1, "resources": resources() },
        // Machines of this host need not pull images of others to be reached.
        "steward": { "replicas": 1, "resources": resources(), "ownTunnel": true },
        "podDisruptionBudget": { "enabled": false },
        "local": { "enabled": true },
    })
}

/// What differs from the defaults of the store's chart on one host.
fn store_values(run: &Run, images: &Images, with_data_store: bool) -> anyhow::Result<Value> {
    let first = run.installation.first_machine()?;
    Ok(json!({
        "image": image(&images.etcd),
        "butler": { "image": image(&images.butler) },
        // Further members on the same host guard against nothing.
        "replicas": 1,
        "antiAffinity": "none",
        "podDisruptionBudget": { "enabled": false },
        // There is no storage class. A machine keeps its files as long as it is there, also when it or the host starts anew.
        "storage": { "type": "hostPath" },
        "nodeSelector": { "kubernetes.io/hostname": first.as_str() },
        "resources": resources(),
        "dataStore": { "enabled": with_data_store },
    }))
}
