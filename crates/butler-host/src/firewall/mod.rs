//! Packet filters: one table of `nft` for each place, replaced whole.
//!
//! Owns: what may pass from machines to the host and away from it, what is masqueraded, which ports of a service's address
//! are open, and the calls of `nft`. A table is replaced in one transaction, so there is no moment without rules.
//!
//! Must not: touch a table of others. What they let through or drop is theirs; what they drop before us is told.

mod host;
mod machine;

use serde::Deserialize;

pub(crate) use host::{host_table, host_table_name};
pub use machine::ServedPorts;
pub(crate) use machine::{pod_table, pod_table_name, service_table, service_table_name};

use crate::command::{Failure, Program};

/// Names of our tables begin with this.
const PREFIX: &str = "butler";

/// Name of a table of both generations of addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableName(String);

impl TableName {
    fn new(place: &str) -> Self {
        Self(format!("{PREFIX}-{place}"))
    }

    /// Removes the table, and also succeeds where there is none.
    fn removal(&self) -> String {
        let Self(name) = self;
        format!("add table inet {name}\ndelete table inet {name}\n")
    }
}

/// A table as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    name: TableName,
    chains: String,
}

impl Table {
    /// What `nft` is told: away with the old one and here is the new one, in one transaction.
    fn replacement(&self) -> String {
        let TableName(name) = &self.name;
        let removal = self.name.removal();
        format!("{removal}table inet {name} {{\n{}}}\n", self.chains)
    }
}

/// A chain of somebody else that drops what no rule of theirs accepts, among it what machines send.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignDrop {
    /// Family of its table: `ip`, `inet`.
    pub family: String,
    /// Its table.
    pub table: String,
    /// Its name.
    pub chain: String,
}

/// Performs the changes.
#[derive(Clone, Debug)]
pub(crate) struct Firewall {
    nft: Program,
    ip: Program,
}

#[derive(Deserialize)]
struct Answer {
    nftables: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    chain: Option<Chain>,
}

#[derive(Deserialize)]
struct Chain {
    family: String,
    table: String,
    name: String,
    hook: Option<String>,
    policy: Option<String>,
}

impl Firewall {
    pub(crate) fn new(nft: Program, ip: Program) -> Self {
        Self { nft, ip }
    }

    /// Puts a table in place: of the host, or of a namespace.
    pub(crate) async fn replace(
        &self,
        namespace: Option<&str>,
        table: &Table,
    ) -> Result<(), Failure> {
        self.tell(namespace, &table.replacement()).await
    }

    /// Removes a table; one that is not there is well.
    pub(crate) async fn remove(
        &self,
        namespace: Option<&str>,
        name: &TableName,
    ) -> Result<(), Failure> {
        self.tell(namespace, &name.removal()).await
    }

    /// Whether a namespace has a map of this name in somebody's table. What cannot be looked at has none.
    pub(crate) async fn has_map(&self, namespace: &str, table: &str, map: &str) -> bool {
        let nft = self.nft.path().as_os_str();
        let inside = ["netns", "exec", namespace].map(std::ffi::OsStr::new);
        // Without what is in it, which may be much.
        let look = ["-t", "list", "map", "ip", table, map].map(std::ffi::OsStr::new);
        let looked = self.ip.run(inside.into_iter().chain([nft]).chain(look));
        looked.await.is_ok()
    }

    async fn tell(&self, namespace: Option<&str>, script: &str) -> Result<(), Failure> {
        let told = match namespace {
            None => self.nft.run_with_input(["-f", "-"], script).await,
            Some(namespace) => {
                let nft = self.nft.path().as_os_str();
                let arguments = ["netns", "exec", namespace].map(std::ffi::OsStr::new);
                let script_from_input = [nft, "-f".as_ref(), "-".as_ref()];
                self.ip
                    .run_with_input(arguments.into_iter().chain(script_from_input), script)
                    .await
            }
        };
        told.map(drop)
    }

    /// Chains of others that stand in the way of machines.
    pub(crate) async fn foreign_drops(&self) -> Result<Vec<ForeignDrop>, Failure> {
        let text = self.nft.run(["-j", "list", "chains"]).await?;
        foreign_drops(&text).map_err(|error| Failure::Exit {
            command: "nft -j list chains".to_owned(),
            words: format!("its answer is not understood: {error}"),
        })
    }
}

fn foreign_drops(text: &str) -> Result<Vec<ForeignDrop>, serde_json::Error> {
    let answer: Answer = serde_json::from_str(text)?;
    Ok(answer
        .nftables
        .into_iter()
        .filter_map(|item| item.chain)
        .filter(|chain| {
            chain.hook.as_deref() == Some("forward")
                && chain.policy.as_deref() == Some("drop")
                && ["ip", "inet"].contains(&chain.family.as_str())
                && !chain.table.starts_with(PREFIX)
        })
        .map(|chain| ForeignDrop {
            family: chain.family,
            table: chain.table,
            chain: chain.name,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_table_is_replaced_in_one_transaction() {
        let table = Table {
            name: TableName::new("br7"),
            chains: "\tchain input {\n\t}\n".to_owned(),
        };
        assert_eq!(
            table.replacement(),
            "add table inet butler-br7\ndelete table inet butler-br7\ntable inet butler-br7 {\n\tchain input {\n\t}\n}\n"
        );
    }

    #[test]
    fn others_that_drop_what_machines_send_are_named() {
        let text = r#"{"nftables":[{"metainfo":{"version":"1.0.6"}},
            {"chain":{"family":"ip","table":"filter","name":"FORWARD","handle":1,"type":"filter","hook":"forward","prio":0,"policy":"drop"}},
            {"chain":{"family":"ip","table":"filter","name":"INPUT","handle":2,"type":"filter","hook":"input","prio":0,"policy":"drop"}},
            {"chain":{"family":"inet","table":"butler-br7","name":"forward","handle":3,"type":"filter","hook":"forward","prio":0,"policy":"drop"}},
            {"chain":{"family":"inet","table":"mine","name":"plain","handle":4}}]}"#;
        assert_eq!(
            foreign_drops(text).unwrap(),
            [ForeignDrop {
                family: "ip".to_owned(),
                table: "filter".to_owned(),
                chain: "FORWARD".to_owned(),
            }]
        );
    }
}
