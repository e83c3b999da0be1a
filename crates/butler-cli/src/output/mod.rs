//! What people read: progress and tables.

pub mod progress;
pub mod table;
