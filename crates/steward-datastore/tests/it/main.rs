//! Tenants in real databases: etcd, PostgreSQL, `MariaDB` and NATS, each with passwords or certificates and encryption.

#[cfg(test)]
mod etcd;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod mariadb;
#[cfg(test)]
mod nats;
#[cfg(test)]
mod postgresql;
#[cfg(test)]
mod servers;
