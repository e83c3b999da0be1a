//! What a user of the resolver sees: with a mirror on this machine, a real Go toolchain, and real files.

#[cfg(test)]
mod build;
#[cfg(test)]
mod download;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod image;
#[cfg(test)]
mod image_set;
#[cfg(test)]
mod mirror;
#[cfg(test)]
mod sources;
