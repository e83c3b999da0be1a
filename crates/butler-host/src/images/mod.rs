//! Images for machines that cannot reach a registry: kept as archives, served as a mirror, and prepared for containerd.
//!
//! Owns: the [`Library`] of archives, the read-only registry that serves it ([`Mirror`]), and containerd roots in which
//! images are unpacked already ([`ImageStores`]), so that a machine has them from its first second.
//!
//! Must not: make images, or change one. Archives come from elsewhere; their digests say what is in them.

mod archive;
mod containerd;
mod library;
mod mirror;

mod reference;
mod route;
mod stores;
mod tree;

pub use library::{Library, LibraryError, LibraryImage};
pub use mirror::{Mirror, MirrorError};
pub use stores::{ContainerdPrograms, ImageStoreError, ImageStores};
pub(crate) use tree::link_tree;

/// Where, below the state directory, archives are; users may add their own.
pub const LIBRARY_DIRECTORY: &str = "images";
/// Where, in the library, archives are that Butler put there.
pub(crate) const OWN_DIRECTORY: &str = "butler";
/// Where, below the state directory, prepared containerd roots are.
pub(crate) const STORES_DIRECTORY: &str = "image-stores";
