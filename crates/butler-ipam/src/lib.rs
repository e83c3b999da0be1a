//! Address pools.
