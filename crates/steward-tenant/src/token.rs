//! Bootstrap tokens: what a machine shows before it has a certificate.
//!
//! Owns: their form, what may be done with one, and for how long. A token's secret part is never printed.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use rand::{CryptoRng, RngExt as _};
use thiserror::Error;

/// The group that tokens of joining nodes belong to, and that the rights of joining nodes are bound to.
pub const DEFAULT_NODE_TOKEN_GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";

const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;
const LETTERS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const GROUP_PREFIX: &str = "system:bootstrappers:";
/// What may follow the prefix of a group, at most.
const GROUP_REST_LENGTH: usize = 256;

/// Says what a token or group must look like. It never repeats the text: that may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// The text is no token.
    #[error(
        "this is no bootstrap token: write six lower case letters or digits, a dot, and sixteen more"
    )]
    Form,
    /// The text is no group of bootstrap tokens.
    #[error(
        "this is no group of bootstrap tokens: begin with {GROUP_PREFIX}, go on with lower case letters, digits, colons and dashes, and end with a letter or digit"
    )]
    Group,
}

/// A bootstrap token: a public identifier and a secret. Written `<identifier>.<secret>`.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapToken {
    id: String,
    secret: String,
}

impl BootstrapToken {
    /// A new token, out of randomness that nobody can guess.
    pub fn generate(random: &mut impl CryptoRng) -> Self {
        let mut text = |length: usize| -> String {
            (0..length)
                .map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())]))
                .collect()
        };
        Self {
            id: text(ID_LENGTH),
            secret: text(SECRET_LENGTH),
        }
    }

    /// The identifier, which is no secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The secret part alone, for the one place that stores it or signs with it.
    pub fn expose_secret(&self) -> &str {
        &self.secret
    }

    /// The whole token, for the one who shall join with it.
    pub fn expose(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }
}

impl FromStr for BootstrapToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (id, secret) = text.split_once('.').ok_or(TokenError::Form)?;
        let consists_of = |part: &str, length| {
            part.len() == length && part.bytes().all(|byte| LETTERS.contains(&byte))
        };
        if consists_of(id, ID_LENGTH) && consists_of(secret, SECRET_LENGTH) {
            Ok(Self {
                id: id.to_owned(),
                secret: secret.to_owned(),
            })
        } else {
            Err(TokenError::Form)
        }
    }
}

impl fmt::Debug for BootstrapToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BootstrapToken({}.redacted)", self.id)
    }
}

/// A group that whoever shows a token belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootstrapGroup(String);

impl BootstrapGroup {
    /// The group of joining nodes.
    pub fn default_node_token() -> Self {
        Self(DEFAULT_NODE_TOKEN_GROUP.to_owned())
    }

    /// The group as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BootstrapGroup {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.strip_prefix(GROUP_PREFIX).ok_or(TokenError::Group)?;
        let ends_well = rest
            .bytes()
            .last()
            .is_some_and(|byte| LETTERS.contains(&byte));
        let allowed = |byte: u8| LETTERS.contains(&byte) || byte == b':' || byte == b'-';
        if ends_well && rest.len() <= GROUP_REST_LENGTH && rest.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(TokenError::Group)
        }
    }
}

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenUsage {
    /// To prove who one is to the API server.
    pub authentication: bool,
    /// To sign the cluster information, by which joining nodes recognise the cluster.
    pub signing: bool,
}

impl TokenUsage {
    /// Both, as joining needs.
    pub const JOINING: Self = Self {
        authentication: true,
        signing: true,
    };
}

/// A token, and what it grants until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenGrant {
    /// The token.
    pub token: BootstrapToken,
    /// When it ends; never if absent.
    pub expiry: Option<Timestamp>,
    /// What it may be used for.
    pub usage: TokenUsage,
    /// The groups its bearer belongs to, beside that of all bootstrap tokens.
    pub groups: Vec<BootstrapGroup>,
    /// What it is for, in words.
    pub description: Option<String>,
}

impl TokenGrant {
    /// A token to join nodes with, until a moment.
    pub fn for_nodes(token: BootstrapToken, expiry: Timestamp) -> Self {
        Self {
            token,
            expiry: Some(expiry),
            usage: TokenUsage::JOINING,
            groups: vec![BootstrapGroup::default_node_token()],
            description: None,
        }
    }

    /// Whether it still grants something.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.expiry.is_none_or(|expiry| expiry > now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{SeedableRng as _, rngs::StdRng};

    use super::*;

    #[test]
    fn neither_debug_nor_an_error_shows_the_secret() {
        let token: BootstrapToken = "abcdef.0123456789abcdef".parse().unwrap();
        let grant = TokenGrant::for_nodes(token, Timestamp::UNIX_EPOCH);
        assert!(!format!("{grant:?}").contains("0123456789abcdef"));
        let error = "abcdef.0123456789abcdeF"
            .parse::<BootstrapToken>()
            .unwrap_err();
        assert!(!error.to_string().contains("0123456789"), "{error}");
    }

    #[test]
    fn groups_are_those_that_kubernetes_accepts() {
        for good in ["system:bootstrappers:a", DEFAULT_NODE_TOKEN_GROUP] {
            assert!(good.parse::<BootstrapGroup>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "system:masters",
            "system:bootstrappers:",
            "system:bootstrappers:A",
            "system:bootstrappers:a:",
            "system:bootstrappers:a,system:masters",
        ] {
            assert!(bad.parse::<BootstrapGroup>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_token_ends_at_its_expiry() {
        let token: BootstrapToken = "abcdef.0123456789abcdef".parse().unwrap();
        let end = Timestamp::from_second(100).unwrap();
        let grant = TokenGrant::for_nodes(token, end);
        assert!(grant.is_valid_at(Timestamp::from_second(99).unwrap()));
        assert!(!grant.is_valid_at(end));
    }

    proptest! {
        #[test]
        fn generated_tokens_are_tokens(seed in any::<u64>()) {
            let token = BootstrapToken::generate(&mut StdRng::seed_from_u64(seed));
            prop_assert_eq!(token.expose().parse::<BootstrapToken>().unwrap(), token);
        }

        #[test]
        fn what_has_the_form_parses_and_prints_the_same(text in r"[a-z0-9]{6}\.[a-z0-9]{16}") {
            prop_assert_eq!(text.parse::<BootstrapToken>().unwrap().expose(), text);
        }

        #[test]
        fn no_other_text_parses(text in ".*") {
            if let Ok(token) = text.parse::<BootstrapToken>() {
                prop_assert_eq!(token.expose(), text);
            }
        }

        #[test]
        fn one_wrong_letter_is_refused(
            text in r"[a-z0-9]{6}\.[a-z0-9]{16}",
            position in 0_usize..23,
            wrong in "[^a-z0-9.]",
        ) {
            let spoiled: String = text
                .chars()
                .enumerate()
                .map(|(index, letter)| if index == position { wrong.clone() } else { letter.to_string() })
                .collect();
            prop_assert_eq!(spoiled.parse::<BootstrapToken>(), Err(TokenError::Form));
        }
    }
}
