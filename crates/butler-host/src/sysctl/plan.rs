//! Which settings are written, and who holds them from then on. Nothing is read or written here.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// A setting of the kernel, by its path below `/proc/sys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) path: &'static str,
    pub(super) wish: Wish,
}

/// What machines need of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Raised if it is lower.
    AtLeast(u64),
    /// This and nothing else.
    Exactly(&'static str),
    /// Nothing; but programs in machines change it, so what it was is kept.
    Remembered,
}

/// What is kept of a setting while somebody holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Holding {
    pub(super) path: String,
    /// The network namespace, for settings of which each has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    /// What it was before anybody held it.
    pub(super) original: String,
    /// State directories of those for whom it is as it is.
    pub(super) holders: BTreeSet<PathBuf>,
}

/// What is kept, of all settings and all installations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Holdings(pub(super) Vec<Holding>);

/// A value to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) path: String,
    pub(super) value: String,
}

/// The kernel as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kernel {
    /// Of settings that it has, by path.
    pub(super) values: BTreeMap<String, String>,
    /// The network namespace we are in.
    pub(super) namespace: String,
}

impl Kernel {
    /// In which namespace a setting is, if each has its own.
    fn namespace_of(&self, path: &str) -> Option<String> {
        path.starts_with("net/").then(|| self.namespace.clone())
    }
}

/// What has to be kept and written so that `holder` has what it wishes and nothing more. Holders that are gone, without
/// having let go, hold no longer; what was there before them is still known.
pub(super) fn plan(
    holdings: &Holdings,
    holder: &Path,
    wishes: &[Setting],
    kernel: &Kernel,
    is_alive: impl Fn(&Path) -> bool,
) -> (Holdings, Vec<Write>) {
    let mut kept = Vec::new();
    let mut writes = Vec::new();
    for holding in &holdings.0 {
        let here = kernel.namespace_of(&holding.path) == holding.namespace;
        let is_wanted = here && wishes.iter().any(|setting| setting.path == holding.path);
        let mut holding = holding.clone();
        holding
            .holders
            .retain(|other| other != holder && is_alive(other));
        if is_wanted {
            holding.holders.insert(holder.to_owned());
        }
        if !holding.holders.is_empty() {
            kept.push(holding);
        } else if here && kernel.values.get(&holding.path) != Some(&holding.original) {
            writes.push(Write {
                path: holding.path,
                value: holding.original,
            });
        }
    }
    for setting in wishes {
        let Some(current) = kernel.values.get(setting.path) else {
            continue;
        };
        let namespace = kernel.namespace_of(setting.path);
        let wanted = wanted(setting.wish, current);
        let is_held = kept
            .iter()
            .any(|holding| holding.path == setting.path && holding.namespace == namespace);
        if !is_held && (wanted.is_some() || setting.wish == Wish::Remembered) {
            kept.push(Holding {
                path: setting.path.to_owned(),
                namespace,
                original: current.clone(),
                holders: BTreeSet::from([holder.to_owned()]),
            });
        }
        writes.extend(wanted.map(|value| Write {
            path: setting.path.to_owned(),
            value,
        }));
    }
    (Holdings(kept), writes)
}

/// The value to write, if the current one will not do.
fn wanted(wish: Wish, current: &str) -> Option<String> {
    match wish {
        Wish::AtLeast(least) => {
            let enough = current.parse::<u64>().is_ok_and(|current| current >= least);
            (!enough).then(|| least.to_string())
        }
        Wish::Exactly(value) => (current != value).then(|| value.to_owned()),
        Wish::Remembered => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const WATCHES: &str = "fs/inotify/max_user_watches";
    const PANIC: &str = "kernel/panic";
    const FORWARDING: &str = "net/ipv4/ip_forward";
    const WISHES: [Setting; 3] = [
        Setting {
            path: WATCHES,
            wish: Wish::AtLeast(100),
        },
        Setting {
            path: PANIC,
            wish: Wish::Remembered,
        },
        Setting {
            path: FORWARDING,
            wish: Wish::Exactly("1"),
        },
    ];

    fn kernel(watches: &str, panic: &str, forwarding: &str) -> Kernel {
        Kernel {
            values: [(WATCHES, watches), (PANIC, panic), (FORWARDING, forwarding)]
                .map(|(path, value)| (path.to_owned(), value.to_owned()))
                .into(),
            namespace: "net:[1]".to_owned(),
        }
    }

    /// A host that does what plans say.
    struct Simulated {
        holdings: Holdings,
        kernel: Kernel,
        gone: BTreeSet<PathBuf>,
    }

    impl Simulated {
        fn new(kernel: Kernel) -> Self {
            Self {
                holdings: Holdings::default(),
                kernel,
                gone: BTreeSet::new(),
            }
        }

        fn hold(&mut self, holder: &str, wishes: &[Setting]) -> usize {
            let (holdings, writes) = plan(
                &self.holdings,
                Path::new(holder),
                wishes,
                &self.kernel,
                |other| !self.gone.contains(other),
            );
            self.holdings = holdings;
            for write in &writes {
                self.kernel
                    .values
                    .insert(write.path.clone(), write.value.clone());
            }
            writes.len()
        }

        fn kubelet_runs(&mut self) {
            self.kernel.values.insert(PANIC.to_owned(), "10".to_owned());
        }
    }

    #[test]
    fn what_was_changed_is_as_before_after_down() {
        let before = kernel("8", "0", "0");
        let mut host = Simulated::new(before.clone());
        assert_eq!(host.hold("/a", &WISHES), 2);
        host.kubelet_runs();
        assert_eq!(host.kernel, kernel("100", "10", "1"));
        assert_eq!(
            host.hold("/a", &WISHES),
            0,
            "a second up keeps the first's originals"
        );
        host.hold("/a", &[]);
        assert_eq!(host.kernel, before);
        assert_eq!(host.holdings, Holdings::default());
        assert_eq!(host.hold("/a", &[]), 0, "down twice");
    }

    #[test]
    fn the_last_of_two_installations_restores() {
        let before = kernel("8", "0", "0");
        let mut host = Simulated::new(before.clone());
        host.hold("/a", &WISHES);
        host.kubelet_runs();
        host.hold("/b", &WISHES[..2]);
        host.hold("/a", &[]);
        assert_eq!(
            host.kernel,
            kernel("100", "10", "0"),
            "nobody else forwards, but the other watches files"
        );
        host.hold("/b", &[]);
        assert_eq!(host.kernel, before);
    }

    #[test]
    fn what_is_enough_is_nobodys_business() {
        let mut host = Simulated::new(kernel("500", "0", "1"));
        host.hold("/a", &WISHES);
        assert_eq!(host.kernel, kernel("500", "0", "1"));
        let paths: Vec<&str> = host
            .holdings
            .0
            .iter()
            .map(|one| one.path.as_str())
            .collect();
        assert_eq!(paths, [PANIC], "it may be changed by others meanwhile");
    }

    #[test]
    fn who_vanished_without_a_word_holds_nothing() {
        let before = kernel("8", "0", "0");
        let mut host = Simulated::new(before.clone());
        host.hold("/a", &WISHES);
        host.gone.insert("/a".into());
        host.hold("/b", &WISHES);
        host.hold("/b", &[]);
        assert_eq!(host.kernel, before);
    }

    #[test]
    fn a_network_namespace_has_a_value_of_its_own() {
        let mut host = Simulated::new(kernel("8", "0", "0"));
        host.hold("/a", &WISHES);
        host.kernel = Kernel {
            namespace: "net:[2]".to_owned(),
            ..kernel("100", "0", "0")
        };
        host.hold("/b", &WISHES);
        assert_eq!(host.kernel.values[FORWARDING], "1");
        host.hold("/b", &[]);
        assert_eq!(host.kernel.values[FORWARDING], "0");
        assert_eq!(host.kernel.values[WATCHES], "100");
    }

    #[test]
    fn a_kernel_without_a_setting_is_left_without_it() {
        let (holdings, writes) = plan(
            &Holdings::default(),
            Path::new("/a"),
            &WISHES,
            &Kernel::default(),
            |_| true,
        );
        assert_eq!((holdings, writes), (Holdings::default(), Vec::new()));
    }
}
