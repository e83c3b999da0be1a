//! The one cryptography provider of the process.

use std::sync::Once;

static INSTALL: Once = Once::new();

/// Makes aws-lc-rs the provider of all TLS in this process, unless the test chose one before.
pub(crate) fn install_provider() {
    INSTALL.call_once(|| {
        // An error means that a provider is installed already, and there is only one in our tree.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
}
