//! How a Node and the machine it runs on recognise each other.
//!
//! Owns: the one form of a provider ID. Cluster API takes a Node for that of a Machine when both carry the same one, so the
//! kubelet must know it before the first boot. It is therefore made of what user data can name:
//! `butler-<provider>://{{ ds.meta_data.instance_id }}`, where the instance is the machine's identity at its provider.
//! For machines on this host that is the UID of the `MachineRequest`. Where user data is written for one machine, before its
//! provider knows of it, the instance is the UID of the `ButlerMachine`.

use crate::butler::provider_config::Provider;

/// What divides the scheme from the identity.
const SEPARATOR: &str = "://";

/// The provider ID of an instance: `butler-local://8f0c…`. The kubelet of a machine must be given the same.
pub fn of_instance(provider: Provider, instance: &str) -> String {
    format!("butler-{}{SEPARATOR}{instance}", provider.as_str())
}

/// The provider ID of the machine that a `MachineRequest` asked for. `reported` is what the provider says in the request's
/// status: a whole provider ID is taken as it is, else it names the instance; a provider that reports nothing knows the
/// machine by the request's UID. `None` if the provider would have to be known and is not.
pub fn of_request(
    provider: Option<Provider>,
    reported: Option<&str>,
    request_uid: &str,
) -> Option<String> {
    match reported.filter(|reported| !reported.is_empty()) {
        Some(whole) if whole.contains(SEPARATOR) => Some(whole.to_owned()),
        instance => provider.map(|provider| of_instance(provider, instance.unwrap_or(request_uid))),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_machine_of_this_host_is_known_by_the_uid_of_its_request() {
        let id = of_request(Some(Provider::Local), None, "8f0c");
        assert_eq!(id.as_deref(), Some("butler-local://8f0c"));
        assert_eq!(id, Some(of_instance(Provider::Local, "8f0c")));
    }

    #[test]
    fn a_whole_provider_id_is_taken_as_the_provider_reports_it() {
        let reported = Some("aws:///eu-central-1a/i-0abc");
        assert_eq!(of_request(None, reported, "8f0c").as_deref(), reported);
    }

    #[test]
    fn an_instance_is_told_apart_by_its_provider() {
        let id = of_request(Some(Provider::Harvester), Some("5f0e"), "8f0c");
        assert_eq!(id.as_deref(), Some("butler-harvester://5f0e"));
        assert_eq!(of_request(None, Some("5f0e"), "8f0c"), None);
        assert_eq!(
            of_request(Some(Provider::Local), Some(""), "8f0c").as_deref(),
            Some("butler-local://8f0c")
        );
    }
}
