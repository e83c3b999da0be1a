//! A cluster for somebody, with two workers: what one would script who has done it before and is asked for it again.
//!
//! Images are unpacked once, before any clock runs, and each machine gets its own copy of containerd's state, in which
//! everything but the databases is shared. It is what Butler's machines have, so that what is compared is the making of a
//! cluster and not the unpacking of images. All machines boot at the same time, and both workers join at the same time.

use std::{fmt, fs, path::PathBuf, time::Duration};

use anyhow::Context;

use super::{
    ByHand, Laps, machine,
    machine::{CONTROL_PLANE, SECOND_WORKER, WORKER},
    make_bridge,
};
use crate::local::{place::Place, shell, supplies::Supplies};

/// Where the unpacked images are kept.
const UNPACKED: &str = "images-by-hand";
/// Links every file of one directory into another, and gives that databases of its own: containerd writes into them.
const COPY: &str = r#"cd "$1" && cp --archive --link . "$2" && find . -name '*.db' -exec cp --archive --remove-destination {} "$2"/{} \;"#;

/// How long each step took.
pub(crate) struct TenantTimes {
    machines: Duration,
    init: Duration,
    join: Duration,
}

impl TenantTimes {
    /// From nothing to two workers that are Ready.
    pub(crate) fn whole(&self) -> Duration {
        self.machines + self.init + self.join
    }
}

impl fmt::Display for TenantTimes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "by hand: three machines {:.2?}, kubeadm init {:.2?}, kubeadm join → both Ready {:.2?}",
            self.machines, self.init, self.join
        )
    }
}

/// The state of a containerd that has all images.
pub(crate) struct Images(PathBuf);

impl Images {
    /// Unpacks them, in a machine that is gone afterwards.
    pub(crate) async fn unpack(place: &Place, supplies: &Supplies) -> anyhow::Result<Self> {
        let by_hand = ByHand::new(place, supplies)?;
        make_bridge().await?;
        by_hand.start(&WORKER, None).await?;
        by_hand.import(&WORKER).await?;
        let mut delete = by_hand.runc();
        delete.args(["delete", "--force", WORKER.name]);
        shell::run(delete).await?;
        let root = by_hand.machine_directory(&WORKER).join("rootfs");
        let unpacked = place.image_stores().join(UNPACKED);
        fs::rename(root.join(machine::CONTAINERD), &unpacked)
            .context("could not keep the unpacked images")?;
        by_hand.remove()?;
        Ok(Self(unpacked))
    }

    /// Gives a machine that has not begun its own copy.
    pub(super) async fn give(&self, root: &std::path::Path) -> anyhow::Result<()> {
        let mut copy = shell::program("sh", ["-c", COPY, "sh"]);
        copy.arg(&self.0).arg(root.join(machine::CONTAINERD));
        shell::run(copy).await.map(drop)
    }
}

impl ByHand<'_> {
    /// Makes a cluster with two workers, and tells how long it took.
    pub(crate) async fn make_tenant(&self, images: &Images) -> anyhow::Result<TenantTimes> {
        let mut laps = Laps::start();
        make_bridge().await?;
        let images = Some(images);
        tokio::try_join!(
            self.start(&CONTROL_PLANE, images),
            self.start(&WORKER, images),
            self.start(&SECOND_WORKER, images),
        )?;
        let machines = laps.lap();
        self.init().await?;
        let init = laps.lap();
        self.join(&[&WORKER, &SECOND_WORKER]).await?;
        Ok(TenantTimes {
            machines,
            init,
            join: laps.lap(),
        })
    }
}
