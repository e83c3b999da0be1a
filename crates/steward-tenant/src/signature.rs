//! Signatures over the cluster information, by which a joining node knows that it speaks to the right cluster.
//!
//! The form is a JSON Web Signature (RFC 7515) in compact serialization with the payload left out: the reader has the
//! payload beside it. Readers compute the signature themselves and compare texts, so the header is part of the contract:
//! its members, their order and the absence of spaces.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::token::BootstrapToken;

/// Prefix of the keys under which signatures stand in the cluster information; the token's identifier follows.
pub const KEY_PREFIX: &str = "jws-kubeconfig-";

/// Signs `content` with a token: HMAC with SHA-256 under the token's secret, the token's identifier in the header.
pub fn sign(content: &str, token: &BootstrapToken) -> String {
    // An identifier is six letters or digits, so that nothing in it needs escaping.
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{}"}}"#, token.id()));
    let payload = URL_SAFE_NO_PAD.encode(content);
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.expose_secret().as_bytes());
    let tag = hmac::sign(&key, format!("{header}.{payload}").as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(tag))
}

/// Whether `signature` is the token's over `content`.
pub fn verify(content: &str, token: &BootstrapToken, signature: &str) -> bool {
    let Some((header, tag)) = signature.split_once("..") else {
        return false;
    };
    let expected = sign(content, token);
    let Some((expected_header, _)) = expected.split_once("..") else {
        return false;
    };
    let Ok(tag) = URL_SAFE_NO_PAD.decode(tag) else {
        return false;
    };
    let payload = URL_SAFE_NO_PAD.encode(content);
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.expose_secret().as_bytes());
    header == expected_header
        && hmac::verify(&key, format!("{header}.{payload}").as_bytes(), &tag).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens() -> impl Strategy<Value = BootstrapToken> {
        r"[a-z0-9]{6}\.[a-z0-9]{16}".prop_map(|text| text.parse().unwrap())
    }

    #[test]
    fn the_signature_is_the_one_others_compute() {
        // Computed by hand: printf of the two parts, `openssl dgst -sha256 -hmac 0123456789abcdef`.
        let token = "abcdef.0123456789abcdef".parse().unwrap();
        assert_eq!(
            sign("kind: Config\n", &token),
            "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..3ZR7IfHD4V0NLYjj9trDyCFIZSwMzkyMpnxx9vCiSPI"
        );
    }

    proptest! {
        #[test]
        fn whoever_has_the_token_can_check(content in ".*", token in tokens()) {
            prop_assert!(verify(&content, &token, &sign(&content, &token)));
        }

        #[test]
        fn other_content_or_another_token_does_not_pass(
            content in ".*",
            other in ".*",
            token in tokens(),
            stranger in tokens(),
        ) {
            let signature = sign(&content, &token);
            prop_assert_eq!(verify(&other, &token, &signature), other == content);
            prop_assert_eq!(verify(&content, &stranger, &signature), stranger == token);
        }

        #[test]
        fn a_signature_shows_neither_content_nor_secret(content in "[a-zA-Z ]{24,64}", token in tokens()) {
            let signature = sign(&content, &token);
            prop_assert!(!signature.contains(token.expose_secret()));
            prop_assert!(!signature.contains(&URL_SAFE_NO_PAD.encode(&content)));
            prop_assert_eq!(signature.matches('.').count(), 2);
        }

        #[test]
        fn no_text_makes_checking_panic(content in ".*", token in tokens(), signature in ".*") {
            prop_assert!(!verify(&content, &token, &signature));
        }
    }
}
