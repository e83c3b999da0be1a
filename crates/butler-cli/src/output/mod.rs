//! What people and programs read: progress, tables, documents.

pub mod age;
pub mod document;
pub mod progress;
pub mod table;
