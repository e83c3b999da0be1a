//! Names that were checked once, where they came in.
//!
//! Owns: one type for each kind of name, made by one macro: text becomes a name by parsing or not at all, and the error
//! says the value and the rule.
//!
//! Must not: look anything up. That a name is well formed does not mean that the object exists.

use thiserror::Error;

/// Longest DNS label, and so the longest namespace, Service or label value.
pub const LABEL_LENGTH: usize = 63;
/// Longest DNS subdomain, and so the longest object name.
pub const SUBDOMAIN_LENGTH: usize = 253;
/// Longest cluster name: the tenant namespace is the name, a dash and eight characters, and must fit a DNS label.
pub const CLUSTER_NAME_LENGTH: usize = LABEL_LENGTH - 9;

/// RFC 1123 label: lower case letters, digits and dashes, with a letter or digit at both ends.
pub const LABEL_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// RFC 1035 label: as RFC 1123, but the first character is a letter.
pub const LETTER_LABEL_PATTERN: &str = "^[a-z]([-a-z0-9]*[a-z0-9])?$";
/// RFC 1123 subdomain: labels joined by dots.
pub const SUBDOMAIN_PATTERN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// What Kubernetes accepts as the value of a label; empty is allowed.
pub const LABEL_VALUE_PATTERN: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";

/// Every namespace that starts with this belongs to Kubernetes.
pub const RESERVED_PREFIX: &str = "kube-";
/// Namespaces of the platform, which no team may take as its own.
pub const RESERVED_NAMESPACES: &[&str] = &[
    "butler-system",
    "butler-tenants",
    "capi-kubeadm-bootstrap-system",
    "capi-kubeadm-control-plane-system",
    "capi-system",
    "cert-manager",
    "default",
    "flux-system",
    "kamaji-system",
    "longhorn-system",
    "metallb-system",
    "steward-system",
];

/// Says which text is no name, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what} {value:?} is not valid: {rule}")]
pub struct NameError {
    /// What the text should have been, in words: `cluster name`.
    pub what: &'static str,
    /// The text.
    pub value: String,
    /// The rule it breaks.
    pub rule: &'static str,
}

/// Whether a namespace of this name belongs to the platform.
pub fn is_reserved_namespace(name: &str) -> bool {
    name.starts_with(RESERVED_PREFIX) || RESERVED_NAMESPACES.contains(&name)
}

/// The rule, in the API server's expression language, that `metadata.name` of an object is a DNS label that no
/// namespace of the platform has. Said here, beside the lists it is made of.
pub fn unreserved_label_expression() -> String {
    let reserved = RESERVED_NAMESPACES
        .iter()
        .map(|name| format!("'{name}'"))
        .collect::<Vec<_>>()
        .join(", ");
    format!(
        "self.metadata.name.size() <= {LABEL_LENGTH} && self.metadata.name.matches('{LABEL_PATTERN}') \
         && !self.metadata.name.startsWith('{RESERVED_PREFIX}') && !(self.metadata.name in [{reserved}])"
    )
}

fn is_label_end(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(&first), Some(&last))
        if is_label_end(first) && is_label_end(last))
        && bytes.iter().all(|&byte| is_label_end(byte) || byte == b'-')
}

/// Whether the text is one label of a DNS name, in lower case and of a length that DNS allows.
pub(crate) fn is_dns_label(text: &str) -> bool {
    label_rule(text).is_none()
}

fn label_rule(text: &str) -> Option<&'static str> {
    (text.len() > LABEL_LENGTH || !is_label(text)).then_some(
        "use 1 to 63 lower case letters, digits and dashes, with a letter or digit at both ends",
    )
}

fn cluster_rule(text: &str) -> Option<&'static str> {
    (text.len() > CLUSTER_NAME_LENGTH
        || !is_label(text)
        || !text.starts_with(|first: char| first.is_ascii_lowercase()))
    .then_some(
        "use 1 to 54 lower case letters, digits and dashes, with a letter first and no dash at the end",
    )
}

fn team_rule(text: &str) -> Option<&'static str> {
    label_rule(text).or_else(|| {
        is_reserved_namespace(text).then_some(
            "a team's name is its namespace, and this namespace belongs to the platform; choose another",
        )
    })
}

fn subdomain_rule(text: &str) -> Option<&'static str> {
    (text.len() > SUBDOMAIN_LENGTH || !text.split('.').all(is_label)).then_some(
        "use at most 253 lower case letters, digits, dashes and dots, with a letter or digit at both ends of each part",
    )
}

fn label_value_rule(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    let ends_well = match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric(),
        _ => true,
    };
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (text.len() > LABEL_LENGTH || !ends_well || !bytes.iter().all(inner)).then_some(
        "use at most 63 letters, digits, dashes, underscores and dots, with a letter or digit at both ends",
    )
}

/// Makes a type for one kind of name. The rule function answers the rule that a text breaks, if any.
macro_rules! name_type {
    ($(#[$attribute:meta])* $name:ident, $what:literal, $rule:path, min $minimum:expr, max $maximum:expr, $pattern:expr) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::try_from(text.to_owned())
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(value: String) -> Result<Self, Self::Error> {
                match $rule(&value) {
                    None => Ok(Self(value)),
                    Some(rule) => Err(NameError { what: $what, value, rule }),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.try_into().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "minLength": $minimum,
                    "maxLength": $maximum,
                    "pattern": $pattern,
                })
            }
        }
    };
}

name_type!(
    /// Name of a tenant cluster, short enough that every name derived from it fits.
    ClusterName, "cluster name", cluster_rule, min 1, max CLUSTER_NAME_LENGTH, LETTER_LABEL_PATTERN
);
name_type!(
    /// Name of a team, which is also the name of its namespace; refuses the platform's namespaces.
    TeamName, "team name", team_rule, min 1, max LABEL_LENGTH, LABEL_PATTERN
);
name_type!(
    /// Name of a namespace.
    NamespaceName, "namespace", label_rule, min 1, max LABEL_LENGTH, LABEL_PATTERN
);
name_type!(
    /// Name of a machine, which is also its host name.
    MachineName, "machine name", label_rule, min 1, max LABEL_LENGTH, LABEL_PATTERN
);
name_type!(
    /// Name of any object.
    ObjectName, "object name", subdomain_rule, min 1, max SUBDOMAIN_LENGTH, SUBDOMAIN_PATTERN
);
name_type!(
    /// Value of a label; may be empty.
    LabelValue, "label value", label_value_rule, min 0, max LABEL_LENGTH, LABEL_VALUE_PATTERN
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_team_cannot_take_a_namespace_of_the_platform() {
        for name in [
            "kube-system",
            "kube-anything",
            "default",
            "butler-system",
            "butler-tenants",
        ] {
            let error = name.parse::<TeamName>().expect_err(name);
            assert_eq!(error.value, name);
            assert!(
                error.to_string().contains("belongs to the platform"),
                "{error}"
            );
        }
        assert!("platform-engineering".parse::<TeamName>().is_ok());
    }

    #[test]
    fn the_error_says_value_and_rule() {
        let error = "Prod_1".parse::<ClusterName>().expect_err("upper case");
        assert_eq!(
            error.to_string(),
            "cluster name \"Prod_1\" is not valid: use 1 to 54 lower case letters, digits and dashes, \
             with a letter first and no dash at the end"
        );
    }

    #[test]
    fn a_cluster_name_leaves_room_for_its_namespace() {
        let longest = "a".repeat(CLUSTER_NAME_LENGTH);
        let name: ClusterName = longest.parse().expect("longest name");
        assert!(format!("{name}-0123abcd").parse::<NamespaceName>().is_ok());
        assert!(format!("{longest}a").parse::<ClusterName>().is_err());
        assert!("1st".parse::<ClusterName>().is_err());
    }

    #[test]
    fn names_read_from_json_are_checked() {
        assert!(serde_json::from_str::<NamespaceName>("\"team-a\"").is_ok());
        assert!(serde_json::from_str::<NamespaceName>("\"team_a\"").is_err());
        assert!("".parse::<LabelValue>().is_ok());
        assert!("".parse::<ObjectName>().is_err());
        assert!("a..b".parse::<ObjectName>().is_err());
    }

    proptest! {
        #[test]
        fn what_matches_the_pattern_parses_and_prints_the_same(
            object in r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?){0,3}",
            cluster in "[a-z]([-a-z0-9]{0,52}[a-z0-9])?",
            value in "([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?",
        ) {
            prop_assert_eq!(object.parse::<ObjectName>().unwrap().to_string(), object);
            prop_assert_eq!(cluster.parse::<ClusterName>().unwrap().to_string(), cluster);
            prop_assert_eq!(value.parse::<LabelValue>().unwrap().to_string(), value);
        }

        #[test]
        fn no_text_makes_parsing_panic_or_change(text in any::<String>()) {
            if let Ok(name) = text.parse::<ObjectName>() {
                prop_assert_eq!(name.as_str(), text.as_str());
            }
            if let Ok(name) = text.parse::<LabelValue>() {
                prop_assert_eq!(name.as_str(), text.as_str());
            }
        }
    }
}
