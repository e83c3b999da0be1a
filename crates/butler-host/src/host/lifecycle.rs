//! The life of one machine, step by step.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    time::Duration,
};

use butler_api::name::MachineName;

use super::{
    Error, Host, Machine, MachineState, Wanted, control_group, disk,
    error::FileContext as _,
    process::Watched,
    store::{self, Lock, Record},
};
use crate::{
    command::Failure,
    machine::{MachineSpec, Places, disk_layout, runtime_config},
    network::{Endpoint, machine_interface, machine_namespace},
    runc::{Container, Status},
};

/// Where `ip netns` keeps namespaces as files.
const NAMESPACES: &str = "/run/netns";
/// A process that was killed ends at once, unless the kernel waits for a disk on its behalf.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

impl Host {
    /// Makes a machine that is not started. One that is there already, and is the same, is completed.
    pub async fn create(&self, spec: MachineSpec) -> Result<Machine, Error> {
        spec.validate(&self.facts, self.network.spec())?;
        let name = spec.name.clone();
        let _lock = self.lock(&name).await?;
        let record = self.record_new(spec).await?;
        self.make_disk(&record.spec).await?;
        self.get(&name).await?.ok_or(Error::NotFound { name })
    }

    /// The record of a machine that is asked for: the one that is there, if it is the same machine, or a new one.
    async fn record_new(&self, spec: MachineSpec) -> Result<Record, Error> {
        self.on_disk(move |store| {
            if let Some(found) = store.record(&spec.name)? {
                return accept(found, &spec);
            }
            let _lock = store.lock_addresses()?;
            let address = spec.address.addr();
            for other in store.names()? {
                // A record that cannot be read holds no address that could be known.
                let is_machine = store
                    .record(&other)
                    .is_ok_and(|record| record.is_some_and(|it| it.spec.address.addr() == address));
                let is_service = store
                    .service_addresses(&other)
                    .is_ok_and(|services| services.contains_key(&address));
                if is_machine || is_service {
                    return Err(Error::AddressTaken {
                        name: spec.name.clone(),
                        address,
                        holder: other,
                    });
                }
            }
            let record = Record {
                wanted: Wanted::Stopped,
                spec,
            };
            store.write_record(&record)?;
            Ok(record)
        })
        .await
    }

    async fn make_disk(&self, spec: &MachineSpec) -> Result<(), Error> {
        let layout = disk_layout(spec, &self.facts, self.network.spec().host());
        let directory = self.store.machine(&spec.name);
        self.on_disk(move |_| {
            for part in [directory.seed(), directory.bundle()] {
                fs::create_dir_all(&part).file("make the directory", part)?;
            }
            disk::prepare(&directory.disk(), &layout)
        })
        .await
    }

    /// Starts a machine; one that runs is left alone. From now on it is to run.
    pub async fn start(&self, name: &MachineName) -> Result<Machine, Error> {
        let lock = self.lock(name).await?;
        let record = self.existing(name).await?;
        let spec = record.spec.clone();
        self.want(record, Wanted::Running).await?;
        let container = self.state(name).await?;
        let is_new = match container.map(|container| container.status) {
            Some(Status::Running | Status::Paused | Status::Pausing) => false,
            // Somebody was killed between the two steps.
            Some(Status::Created) => {
                self.runc("start", name, self.runc.start(name.as_str()))
                    .await?;
                true
            }
            Some(Status::Creating | Status::Stopped) | None => {
                self.boot(&spec, &lock).await?;
                true
            }
        };
        let machine = self
            .get(name)
            .await?
            .ok_or_else(|| Error::NotFound { name: name.clone() })?;
        if is_new {
            drop(lock);
            self.tell_started(&machine);
            self.restore_service_addresses(name).await?;
        }
        Ok(machine)
    }

    async fn boot(&self, spec: &MachineSpec, lock: &Lock) -> Result<(), Error> {
        let name = &spec.name;
        let id = name.as_str();
        // Completes what an interrupted create has left undone.
        self.make_disk(spec).await?;
        self.runc("forget the last life of", name, self.runc.delete(id))
            .await?;
        self.attach(spec).await?;
        self.restore_pod_network(name).await?;
        let directory = self.store.machine(name);
        let config = runtime_config(spec, &self.facts, &self.places(name));
        let config_path = directory.bundle().join("config.json");
        let bytes = serde_json::to_vec_pretty(&config).map_err(|source| Error::Record {
            path: config_path.clone(),
            source,
        })?;
        let console_path = directory.console();
        let console = self
            .on_disk(move |_| {
                store::write_atomically(&config_path, &bytes)?;
                OpenOptions::new()
                    .create(true)
                    .append(true)
                    .mode(0o600)
                    .open(&console_path)
                    .file("open", console_path)
            })
            .await?;
        let bundle = directory.bundle();
        let log = bundle.join("runc.log");
        let lock = lock.share().file("share the lock of", &directory.path)?;
        let created = self.runc.create(id, &bundle, console, &log, lock).await;
        if created.is_err() {
            // What runc leaves of a failed attempt would be in the way of the next; its words matter more.
            let _ = self.runc.delete(id).await;
        }
        self.runc("create", name, async { created }).await?;
        self.runc("start", name, self.runc.start(id)).await
    }

    async fn attach(&self, spec: &MachineSpec) -> Result<(), Error> {
        let endpoint = Endpoint {
            namespace: machine_namespace(&self.cluster, &spec.name),
            interface: machine_interface(&self.cluster, &spec.name),
            address: spec.address,
            gateway: spec.gateway,
        };
        let _lock = self.on_disk(store::Store::lock_network).await?;
        self.ensure_bridge().await?;
        self.network
            .attach(&endpoint)
            .await
            .map_err(|source| Error::Network {
                doing: format!("join machine {} to the bridge", spec.name),
                source,
            })
    }

    /// Stops a machine: asks its first process to end, and ends it when the time is over. Its disk stays. From now on it
    /// is not to run.
    pub async fn stop(&self, name: &MachineName, grace: Duration) -> Result<(), Error> {
        let _lock = self.lock(name).await?;
        let record = self.existing(name).await?;
        self.want(record, Wanted::Stopped).await?;
        self.end(name, grace).await
    }

    /// Deletes a machine and all that belongs to it, whatever state it is in. One that is not there is well.
    pub async fn delete(&self, name: &MachineName) -> Result<(), Error> {
        self.delete_if(name, |_| true).await.map(drop)
    }

    /// Deletes a machine of that name if it is the one that is meant; nobody can replace it in between. Of a machine that
    /// is half made or half deleted there is no record to judge by. Gives whether it is gone.
    pub async fn delete_if(
        &self,
        name: &MachineName,
        is_meant: impl FnOnce(Option<&MachineSpec>) -> bool + Send,
    ) -> Result<bool, Error> {
        let _lock = self.lock(name).await?;
        if let Some(found) = self.get(name).await?
            && !is_meant(found.spec.as_ref())
        {
            return Ok(false);
        }
        self.end(name, Duration::ZERO).await?;
        let detached = {
            let _lock = self.on_disk(store::Store::lock_network).await?;
            self.network
                .detach(
                    &machine_namespace(&self.cluster, name),
                    &machine_interface(&self.cluster, name),
                )
                .await
        };
        detached.map_err(|source| Error::Network {
            doing: format!("take machine {name} off the bridge"),
            source,
        })?;
        control_group::remove(&self.control_group(Some(name))).await?;
        let directory = self.store.machine(name);
        self.on_disk(move |_| directory.remove()).await?;
        Ok(true)
    }

    /// Ends all processes of a machine and lets `runc` forget it.
    async fn end(&self, name: &MachineName, grace: Duration) -> Result<(), Error> {
        let id = name.as_str();
        if let Some(container) = self.state(name).await?
            && let Some(process) = watch(&container).file("watch the machine", "/proc")?
            // The number was read before it was watched: it may have ended and been given away in between.
            && self.state(name).await?.as_ref() == Some(&container)
        {
            if !grace.is_zero() {
                self.runc("stop", name, self.runc.kill(id, "TERM")).await?;
            }
            let watched = |ended: std::io::Result<bool>| ended.file("watch the machine", "/proc");
            if !watched(process.ends_within(grace).await)? {
                self.runc("stop", name, self.runc.kill(id, "KILL")).await?;
                if !watched(process.ends_within(KILL_PATIENCE).await)? {
                    return Err(Error::WillNotEnd {
                        name: name.clone(),
                        pid: container.pid,
                    });
                }
            }
        }
        self.runc("forget", name, self.runc.delete(id)).await
    }

    /// What is there of a machine, from its record and its container.
    pub(super) fn observed(&self, name: MachineName, container: Option<&Container>) -> Machine {
        let (record, broken) = match self.store.record(&name) {
            Ok(Some(record)) => (Some(record), None),
            Ok(None) => (None, Some("it was half made".to_owned())),
            Err(error) => (None, Some(error.to_string())),
        };
        let running = container.filter(|container| match container.status {
            Status::Running | Status::Pausing | Status::Paused => true,
            Status::Creating | Status::Created | Status::Stopped => false,
        });
        let state = match (broken, running) {
            (Some(reason), _) => MachineState::Broken { reason },
            (None, Some(container)) => MachineState::Running { pid: container.pid },
            (None, None) => MachineState::Stopped,
        };
        Machine {
            name,
            state,
            wanted: record.as_ref().map(|record| record.wanted),
            spec: record.map(|record| record.spec),
        }
    }

    /// Waits until nobody else works on the machine.
    pub(super) async fn lock(&self, name: &MachineName) -> Result<Lock, Error> {
        let name = name.clone();
        self.on_disk(move |store| store.lock_machine(&name)).await
    }

    pub(super) async fn existing(&self, name: &MachineName) -> Result<Record, Error> {
        let name = name.clone();
        self.on_disk(move |store| {
            store
                .record(&name)?
                .ok_or_else(|| Error::NotFound { name: name.clone() })
        })
        .await
    }

    async fn want(&self, mut record: Record, wanted: Wanted) -> Result<(), Error> {
        if record.wanted == wanted {
            return Ok(());
        }
        record.wanted = wanted;
        self.on_disk(move |store| store.write_record(&record)).await
    }

    async fn state(&self, name: &MachineName) -> Result<Option<Container>, Error> {
        self.runc("look at", name, self.runc.state(name.as_str()))
            .await
    }

    async fn runc<T>(
        &self,
        doing: &'static str,
        name: &MachineName,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Error> {
        call.await.map_err(|source| Error::Runc {
            doing,
            name: name.clone(),
            source,
        })
    }

    fn places(&self, name: &MachineName) -> Places {
        let directory = self.store.machine(name);
        let disk = directory.disk();
        Places {
            root: disk.join(crate::machine::ROOT),
            usr_upper: disk.join(crate::machine::USR_UPPER),
            usr_work: disk.join(crate::machine::USR_WORK),
            reported: disk.join(crate::machine::REPORTED),
            seed: directory.seed(),
            network_namespace: PathBuf::from(NAMESPACES)
                .join(machine_namespace(&self.cluster, name)),
            control_group: self.control_group(Some(name)),
        }
    }
}

fn accept(found: Record, asked: &MachineSpec) -> Result<Record, Error> {
    let name = asked.name.clone();
    if found.spec.id != asked.id {
        return Err(Error::AnotherMachine {
            name,
            found: found.spec.id,
        });
    }
    if found.spec != *asked {
        return Err(Error::Differs { name });
    }
    Ok(found)
}

fn watch(container: &Container) -> std::io::Result<Option<Watched>> {
    if container.status == Status::Stopped {
        return Ok(None);
    }
    Watched::open(container.pid)
}
