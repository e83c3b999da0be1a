//! The tenant side: its objects as text, beside those that kubeadm would make, and in a real API server.

#[cfg(test)]
mod interruption;
#[cfg(test)]
mod joining;
#[cfg(test)]
mod kubeadm_objects;
#[cfg(test)]
mod objects;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod scene;
