//! Command lines: what we say, and what the user says instead or beside.

/// Flags that exclude each other: if the user gives the first, ours of the second name is left out.
const EXCLUSIVE: [(&str, &str); 1] = [("authorization-config", "authorization-mode")];

/// Our flags, sorted, then the user's as they are written. A flag that the user gives, once or several times, takes the place
/// of ours.
pub(crate) fn merge(ours: Vec<(&str, String)>, theirs: &[String]) -> Vec<String> {
    let given: Vec<_> = theirs.iter().map(|argument| flag(argument)).collect();
    let is_replaced = |name: &str| {
        let excluded = EXCLUSIVE
            .iter()
            .any(|(theirs, ours)| *ours == name && given.contains(theirs));
        excluded || given.contains(&name)
    };
    let mut arguments: Vec<_> = ours
        .into_iter()
        .filter(|(name, _)| !is_replaced(name))
        .map(|(name, value)| format!("--{name}={value}"))
        .collect();
    arguments.sort();
    arguments.extend(theirs.iter().cloned());
    arguments
}

/// The name of the flag in an argument.
fn flag(argument: &str) -> &str {
    let bare = argument.trim_start_matches('-');
    bare.split_once('=').map_or(bare, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn ours() -> Vec<(&'static str, String)> {
        vec![
            ("secure-port", "6443".to_owned()),
            ("authorization-mode", "Node,RBAC".to_owned()),
            ("allow-privileged", "true".to_owned()),
        ]
    }

    fn texts(arguments: &[&str]) -> Vec<String> {
        arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect()
    }

    #[test]
    fn a_flag_given_several_times_is_kept_each_time() {
        let theirs = texts(&[
            "--secure-port=1",
            "--tls-sni-cert-key=a,b",
            "--tls-sni-cert-key=c,d",
        ]);
        let merged = merge(ours(), &theirs);
        assert_eq!(
            merged,
            [
                "--allow-privileged=true",
                "--authorization-mode=Node,RBAC",
                "--secure-port=1",
                "--tls-sni-cert-key=a,b",
                "--tls-sni-cert-key=c,d",
            ]
        );
    }

    #[test]
    fn an_authorization_configuration_takes_the_place_of_the_mode() {
        let merged = merge(
            ours(),
            &texts(&["--authorization-config=/etc/authorization.yaml"]),
        );
        assert!(
            !merged
                .iter()
                .any(|argument| argument.starts_with("--authorization-mode"))
        );
    }

    proptest! {
        #[test]
        fn what_the_user_writes_is_there_in_order_and_no_flag_of_ours_contradicts_it(
            theirs in proptest::collection::vec("--(secure-port|audit-log-path|v)=[a-z0-9]{0,4}", 0..5),
        ) {
            let merged = merge(ours(), &theirs);
            prop_assert!(merged.ends_with(&theirs));
            for argument in &merged[..merged.len() - theirs.len()] {
                prop_assert!(!theirs.iter().any(|their| flag(their) == flag(argument)));
            }
        }
    }
}
