//! Images of the operating system that machines boot from, where an image factory makes them: each is brought to the provider by
//! an `ImageSync` of the cluster's own, one for all machines that ask for the same. The image itself stays at the provider, and
//! clusters share it there.
//!
//! Pure. What machines leave unsaid about their image is as for `spec.workers`, if they run the same system.

mod wish;

use std::collections::BTreeMap;

use butler_api::{
    butler::{
        butler_config::ImageFactory,
        image_sync::{ImageSyncPhase, ImageSyncStatus},
        provider_config::{Provider, ProviderConfig},
        tenant_cluster::{ControlPlaneMode, OperatingSystem, OperatingSystemType, TenantCluster},
    },
    conditions::{reasons, types},
    normalize::tenant_cluster::pools,
};
use butler_runtime::{conditions::Finding, object::Manifest};
use kube::ResourceExt;

use super::{
    blueprint::Blueprint,
    deployment_name,
    observe::World,
    related::Related,
    why::{Turn, Waiting},
};
use wish::{Request, names, sync};

/// Rocky Linux of clusters that name no version.
const USUAL_ROCKY: &str = "9.5";

/// Machines that are made alike.
#[derive(Clone, Debug, Default, PartialEq)]
struct Machines {
    /// The field with their template.
    field: String,
    /// Their pool; `None` for those of a control plane.
    pool: Option<String>,
    os: OperatingSystem,
    talos_version: Option<String>,
}

/// An image that is asked for.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    /// Who boots from it.
    by: Vec<Machines>,
    /// The wish; `None` if it cannot be put into words.
    manifest: Option<Manifest>,
    /// The image as the provider names it, once it is there.
    image: Option<String>,
    /// What is waited for.
    waiting: Option<Waiting>,
}

/// The images that are brought to the provider for a cluster; none, if the provider has what is needed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Images {
    wanted: Vec<Wanted>,
}

impl Images {
    /// Whether no image has to be brought.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The machines whose image is not there.
    fn awaiting(&self) -> impl Iterator<Item = &Machines> {
        let awaited = self.wanted.iter().filter(|wanted| wanted.image.is_none());
        awaited.flat_map(|wanted| &wanted.by)
    }

    /// Whether the machines of a pool wait for their image; `None` means those of the control plane.
    pub(super) fn are_awaited_by(&self, pool: Option<&str>) -> bool {
        let mut machines = self.awaiting();
        machines.any(|machines| machines.pool.as_deref() == pool)
    }

    /// Whether a pool is left out of a blueprint because its image is not there.
    pub(super) fn hold_up(&self, blueprint: &Blueprint) -> bool {
        let there = |name: &str| blueprint.pools.iter().any(|pool| pool.name == name);
        let mut pools = self
            .awaiting()
            .filter_map(|machines| machines.pool.as_ref());
        pools.any(|pool| !there(pool))
    }

    /// The images by the field with the template of the machines that boot from them; `None` where one is on its way.
    pub(super) fn by_field(&self) -> BTreeMap<String, Option<String>> {
        let wanted = self.wanted.iter();
        let found = wanted.flat_map(|wanted| {
            let by = wanted.by.iter();
            by.map(|machines| (machines.field.clone(), wanted.image.clone()))
        });
        found.collect()
    }

    /// The wishes; that of the workers first, if there is one.
    pub(super) fn manifests(&self) -> impl Iterator<Item = &Manifest> {
        let wanted = self.wanted.iter();
        wanted.filter_map(|wanted| wanted.manifest.as_ref())
    }

    /// What is waited for, all of it in one sentence.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        let waits = self.wanted.iter();
        let waits: Vec<_> = waits.filter_map(|wanted| wanted.waiting.as_ref()).collect();
        let mut worst = waits.iter().filter(|waiting| waiting.turn == Turn::Person);
        let told = worst.next().or_else(|| waits.first())?;
        let words: Vec<_> = waits.iter().map(|waiting| waiting.why.as_str()).collect();
        Some(Waiting {
            why: words.join(", "),
            ..(*told).clone()
        })
    }

    /// What is said of images that come by themselves, where nobody needs them to go on.
    pub(super) fn on_the_way(&self) -> Option<Finding> {
        let waiting = self.waiting()?;
        let reasons = [reasons::IMAGE_SYNC_PENDING, reasons::IMAGE_SYNC_IN_PROGRESS];
        let mut reasons = reasons.into_iter();
        let reason = reasons.find(|reason| *reason == waiting.reason)?;
        Some(Finding::new(false, reason, waiting.message()))
    }
}

/// Decides what images the machines of a cluster need beside what their provider has, or says why one cannot be asked for.
pub(super) fn plan(
    cluster: &TenantCluster,
    world: &World,
    provider: &ProviderConfig,
) -> Result<Images, Box<Waiting>> {
    if provider.spec.provider == Provider::Local {
        return Ok(Images::default());
    }
    let config = world.config.as_ref();
    let factory = config.and_then(|config| config.spec.image_factory.as_ref());
    let all = machines(cluster);
    let workers = all.first().cloned().unwrap_or_default();
    let mut requests: Vec<(Request, Vec<Machines>)> = Vec::new();
    let mut refused = Vec::new();
    for machines in all {
        let request = match asked(&machines, &workers, factory) {
            Ok(Some(request)) => request,
            Ok(None) => continue,
            // They work on with the image that they have.
            Err(waiting) if are_there(cluster, &world.related, &machines) => {
                refused.push(Wanted {
                    by: vec![machines],
                    manifest: None,
                    image: None,
                    waiting: Some(*waiting),
                });
                continue;
            }
            Err(waiting) => return Err(waiting),
        };
        match requests.iter_mut().find(|(known, _)| *known == request) {
            Some((_, by)) => by.push(machines),
            None => requests.push((request, vec![machines])),
        }
    }
    let names = names(cluster, requests.iter().map(|(request, _)| request));
    let wanted = names.into_iter().zip(requests);
    let wanted = wanted.map(|(name, (request, by))| {
        let found = world.images.get(&name);
        let status = found.map(|found| &found.status);
        Wanted {
            by,
            manifest: Some(Manifest::of(&sync(cluster, provider, &name, &request))),
            image: status.and_then(image),
            waiting: waiting(&name, status),
        }
    });
    Ok(Images {
        wanted: wanted.chain(refused).collect(),
    })
}

/// Whether machines are there, and the image that they are made from is known.
fn are_there(cluster: &TenantCluster, related: &Related, machines: &Machines) -> bool {
    let image = match &machines.pool {
        Some(pool) => related.image_of(&deployment_name(&cluster.name_any(), pool)),
        None => related.image_of_control_plane(),
    };
    image.is_some()
}

/// All machines of a cluster by their templates, those of `spec.workers` first.
fn machines(cluster: &TenantCluster) -> Vec<Machines> {
    let pools = pools(&cluster.spec).into_iter();
    let mut found: Vec<_> = pools
        .map(|pool| Machines {
            field: format!("{}.machineTemplate", pool.field),
            pool: Some(pool.name),
            os: pool.os.unwrap_or_default(),
            talos_version: pool.talos_version,
        })
        .collect();
    let control_plane = cluster.spec.control_plane.as_ref();
    let own = control_plane.filter(|wish| wish.mode == ControlPlaneMode::Standalone);
    found.extend(own.map(|wish| {
        let template = wish.machine_template.as_ref();
        Machines {
            field: "spec.controlPlane.machineTemplate".to_owned(),
            os: template
                .and_then(|template| template.os.clone())
                .unwrap_or_default(),
            ..Machines::default()
        }
    }));
    found
}

/// The image that machines ask a factory for, if they do.
fn asked(
    machines: &Machines,
    workers: &Machines,
    factory: Option<&ImageFactory>,
) -> Result<Option<Request>, Box<Waiting>> {
    let Some(schematic) = schematic(&machines.os, &workers.os, factory) else {
        return Ok(None);
    };
    let field = &machines.field;
    let Some(factory) = factory else {
        let why = format!("{field}.os.schematicID: the platform has no image factory");
        let waiting = refused(why, "set spec.imageFactory of the ButlerConfig");
        return Err(Box::new(waiting));
    };
    if !factory.auto_sync {
        return Ok(None);
    }
    let Some(version) = version(machines, workers) else {
        let why = format!("{field}.os.version: an image of a schematic needs a version");
        let waiting = refused(why, "name the version of the operating system");
        return Err(Box::new(waiting));
    };
    Ok(Some(Request { schematic, version }))
}

/// The system that machines run.
fn type_of(os: &OperatingSystem) -> OperatingSystemType {
    os.os_type.unwrap_or(OperatingSystemType::Rocky)
}

/// The version that is written, if one is.
fn stated(os: &OperatingSystem) -> Option<String> {
    os.version.clone().filter(|version| !version.is_empty())
}

/// What an image is made by, if a factory makes it. An image that is named needs no factory, unless one is asked for as well; nor
/// do machines that leave all of it to workers whose image is named.
fn schematic(
    os: &OperatingSystem,
    workers: &OperatingSystem,
    factory: Option<&ImageFactory>,
) -> Option<String> {
    if os.schematic_id.is_some() || os.image_ref.is_some() {
        return os.schematic_id.clone();
    }
    let usual = factory.and_then(|factory| factory.default_schematic_id.clone());
    if type_of(os) != type_of(workers) {
        return usual;
    }
    let usual = usual.filter(|_| workers.image_ref.is_none() || stated(os).is_some());
    workers.schematic_id.clone().or(usual)
}

fn refused(why: String, what_to_do: &str) -> Waiting {
    let waiting = Waiting::new(types::IMAGE_READY, reasons::VALIDATION_FAILED, why);
    waiting.advise(what_to_do).needs_somebody()
}

/// The version of a system; `None` if it has no usual one.
fn version(machines: &Machines, workers: &Machines) -> Option<String> {
    let system = type_of(&machines.os);
    let workers = Some(workers).filter(|workers| type_of(&workers.os) == system);
    let talos = || {
        let own = machines.talos_version.clone();
        own.or_else(|| workers?.talos_version.clone())
    };
    let usual = || match system {
        OperatingSystemType::Rocky => Some(USUAL_ROCKY.to_owned()),
        OperatingSystemType::Talos => talos(),
        OperatingSystemType::Flatcar
        | OperatingSystemType::Kairos
        | OperatingSystemType::Bottlerocket => None,
    };
    stated(&machines.os)
        .or_else(|| workers.and_then(|workers| stated(&workers.os)))
        .or_else(usual)
}

/// The image as the provider names it, once it is there.
fn image(found: &ImageSyncStatus) -> Option<String> {
    let is_ready = found.phase == Some(ImageSyncPhase::Ready);
    found.provider_image_ref.clone().filter(|_| is_ready)
}

fn waiting(name: &str, found: Option<&ImageSyncStatus>) -> Option<Waiting> {
    let said = |reason: &str, why: String| Waiting::new(types::IMAGE_READY, reason, why);
    let Some(found) = found else {
        let why = format!("the ImageSync {name} is being made");
        return Some(said(reasons::IMAGE_SYNC_PENDING, why));
    };
    if *found == ImageSyncStatus::default() {
        let why = format!("no component has taken up the ImageSync {name}");
        let advice = "the image controller of the provider must be installed, which is no part of this release, or name an image \
                      that the provider has by machineTemplate.os.imageRef";
        return Some(said(reasons::IMAGE_SYNC_PENDING, why).advise(advice));
    }
    match found.phase {
        Some(ImageSyncPhase::Ready) if image(found).is_some() => None,
        Some(ImageSyncPhase::Ready) => {
            let why =
                format!("the ImageSync {name} does not say what the provider calls the image");
            Some(said(reasons::IMAGE_SYNC_IN_PROGRESS, why))
        }
        Some(ImageSyncPhase::Failed) => {
            let words = found.failure_message.as_deref();
            let words = words.unwrap_or("the image did not arrive");
            let waiting = said(
                reasons::IMAGE_SYNC_FAILED,
                format!("the ImageSync {name}: {words}"),
            );
            let advice = "correct what it says and delete the ImageSync, so that it is tried again";
            Some(waiting.advise(advice).needs_somebody())
        }
        None | Some(ImageSyncPhase::Pending) => {
            let why = format!("the ImageSync {name} has not begun");
            Some(said(reasons::IMAGE_SYNC_PENDING, why))
        }
        Some(
            ImageSyncPhase::Building | ImageSyncPhase::Downloading | ImageSyncPhase::Uploading,
        ) => {
            let why = format!("the ImageSync {name} brings the image to the provider");
            Some(said(reasons::IMAGE_SYNC_IN_PROGRESS, why))
        }
    }
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
