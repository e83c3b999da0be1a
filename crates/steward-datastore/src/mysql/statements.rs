//! Everything that is said to a MySQL or `MariaDB` server. Names are quoted here; values go as parameters.
//!
//! All of it is sent as prepared statements, of which the server takes one at a time: text that escaped its quotes could
//! not begin another one.

use crate::names::{Schema, TenantUid, User};
use crate::quote::QuoteError;
use crate::quote::mysql::{account, granted_database, identifier, literal};

/// What kine needs to keep its table, and nothing more.
pub(super) const PRIVILEGES: [&str; 7] = [
    "ALTER", "CREATE", "DELETE", "INDEX", "INSERT", "SELECT", "UPDATE",
];

/// What is left of that while nobody may change anything.
pub(super) const FROZEN_PRIVILEGES: [&str; 1] = ["SELECT"];

/// Which server it is, as MySQL and as `MariaDB` call it. Older versions of the latter do not say.
pub(super) const IDENTITY: &str =
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'server_uid')";

/// Whether Steward's account may make others. Who may not sees no account but their own.
pub(super) const ADMINISTRATOR: &str =
    "SELECT count(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'CREATE USER'";

/// Whether names of databases in grants are literal; nothing where the server does not know the setting.
pub(super) const LITERAL_GRANTS: &str = "SHOW GLOBAL VARIABLES LIKE 'partial\\_revokes'";

/// What an account may do everywhere: at least `USAGE`, which is nothing, if it exists.
pub(super) const GLOBAL_PRIVILEGES: &str =
    "SELECT GRANTEE, PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = ?";

/// What accounts may do in whole databases.
pub(super) const DATABASE_PRIVILEGES: &str =
    "SELECT GRANTEE, TABLE_SCHEMA, PRIVILEGE_TYPE FROM information_schema.SCHEMA_PRIVILEGES";

/// What an account may do in single tables.
pub(super) const TABLE_PRIVILEGES: &str =
    "SELECT GRANTEE, TABLE_SCHEMA FROM information_schema.TABLE_PRIVILEGES WHERE GRANTEE = ?";

/// The database, under all spellings that the server takes for the same.
pub(super) const DATABASE: &str =
    "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?";

/// Tables of a database.
pub(super) const TABLES: &str =
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?";

/// Waits until nobody else is at work on the tenant; 1 when that is so. Given back when the connection ends.
pub(super) const LOCK: &str = "SELECT GET_LOCK(?, 10)";

/// Connections of an account.
pub(super) const SESSIONS: &str = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = ?";

/// What the name of the table begins with that says whose a database is; the UID of the control plane follows. The tenant may not
/// drop or rename it.
pub(super) const MARK: &str = "steward_owner_";

/// The name of that table in the database of a tenant.
pub(super) fn mark(owner: &TenantUid) -> String {
    format!("{MARK}{}", User::of(owner))
}

/// Whether kine's table is in the database that the connection is in.
pub(super) const TABLE_EXISTS: &str = "\
    SELECT count(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'kine'";

/// How many rows kine keeps.
pub(super) const COUNT: &str = "SELECT count(*) FROM kine";

/// kine's table, as kine itself makes it when it finds none.
pub(super) const CREATE_TABLE: &str = "\
    CREATE TABLE IF NOT EXISTS kine (\
        id BIGINT UNSIGNED AUTO_INCREMENT, name VARCHAR(630) CHARACTER SET ascii COLLATE ascii_bin, \
        created INTEGER, deleted INTEGER, create_revision BIGINT UNSIGNED, prev_revision BIGINT UNSIGNED, \
        lease INTEGER, value MEDIUMBLOB, old_value MEDIUMBLOB, PRIMARY KEY (id), \
        KEY kine_name_index (name), KEY kine_name_id_index (name, id), KEY kine_id_deleted_index (id, deleted), \
        KEY kine_prev_revision_index (prev_revision), \
        UNIQUE KEY kine_name_prev_revision_uindex (name, prev_revision))";

/// Columns of kine's table.
pub(super) const COLUMNS: usize = 9;

/// The rows behind a number.
pub(super) const READ_ROWS: &str = "\
    SELECT id, name, created, deleted, create_revision, prev_revision, lease, value, old_value \
    FROM kine WHERE id > ? ORDER BY id LIMIT 100";

/// Takes in a number of rows.
pub(super) fn write_rows(rows: usize) -> String {
    let row = format!("({})", ["?"; COLUMNS].join(", "));
    format!(
        "INSERT INTO kine (id, name, created, deleted, create_revision, prev_revision, lease, value, old_value) VALUES {}",
        vec![row; rows].join(", ")
    )
}

/// Refuses names the server cannot have, before anything is made.
pub(super) fn require_possible(schema: &Schema, user: &User) -> Result<(), QuoteError> {
    identifier(schema.as_str())?;
    account(user.as_str())?;
    Ok(())
}

pub(super) fn create_user(user: &User, password: &str) -> Result<String, QuoteError> {
    Ok(format!(
        "CREATE USER IF NOT EXISTS {} IDENTIFIED BY {}",
        account(user.as_str())?,
        literal(password)?
    ))
}

pub(super) fn set_password(user: &User, password: &str) -> Result<String, QuoteError> {
    Ok(format!(
        "ALTER USER {} IDENTIFIED BY {} ACCOUNT UNLOCK",
        account(user.as_str())?,
        literal(password)?
    ))
}

pub(super) fn lock_user(user: &User) -> Result<String, QuoteError> {
    Ok(format!(
        "ALTER USER {} ACCOUNT LOCK",
        account(user.as_str())?
    ))
}

pub(super) fn create_database(schema: &Schema) -> Result<String, QuoteError> {
    Ok(format!(
        "CREATE DATABASE IF NOT EXISTS {}",
        identifier(schema.as_str())?
    ))
}

pub(super) fn create_mark(schema: &Schema, owner: &TenantUid) -> Result<String, QuoteError> {
    Ok(format!(
        "CREATE TABLE IF NOT EXISTS {}.{} (id INTEGER PRIMARY KEY)",
        identifier(schema.as_str())?,
        identifier(&mark(owner))?
    ))
}

pub(super) fn grant(schema: &Schema, user: &User, wildcards: bool) -> Result<String, QuoteError> {
    Ok(format!(
        "GRANT {} ON {}.* TO {}",
        PRIVILEGES.join(", "),
        granted_database(schema.as_str(), wildcards)?,
        account(user.as_str())?
    ))
}

pub(super) fn revoke(schema: &Schema, user: &User, wildcards: bool) -> Result<String, QuoteError> {
    Ok(format!(
        "REVOKE ALL PRIVILEGES ON {}.* FROM {}",
        granted_database(schema.as_str(), wildcards)?,
        account(user.as_str())?
    ))
}

pub(super) fn freeze(schema: &Schema, user: &User, wildcards: bool) -> Result<String, QuoteError> {
    let writes = PRIVILEGES
        .iter()
        .filter(|privilege| !FROZEN_PRIVILEGES.contains(privilege));
    let writes: Vec<&str> = writes.copied().collect();
    Ok(format!(
        "REVOKE {} ON {}.* FROM {}",
        writes.join(", "),
        granted_database(schema.as_str(), wildcards)?,
        account(user.as_str())?
    ))
}

pub(super) fn revoke_everything(user: &User) -> Result<String, QuoteError> {
    Ok(format!(
        "REVOKE ALL PRIVILEGES, GRANT OPTION FROM {}",
        account(user.as_str())?
    ))
}

pub(super) fn drop_database(schema: &Schema) -> Result<String, QuoteError> {
    Ok(format!(
        "DROP DATABASE IF EXISTS {}",
        identifier(schema.as_str())?
    ))
}

pub(super) fn drop_user(user: &User) -> Result<String, QuoteError> {
    Ok(format!("DROP USER IF EXISTS {}", account(user.as_str())?))
}

/// How the server writes an account in its tables.
pub(super) fn grantee(user: &User) -> String {
    format!("'{user}'@'%'")
}
