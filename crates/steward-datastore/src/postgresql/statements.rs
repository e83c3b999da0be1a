//! Everything that is said to a PostgreSQL server. Names are quoted here; values go as parameters.

use crate::names::{Schema, User};
use crate::quote::QuoteError;
use crate::quote::postgresql::{identifier, literal};

/// Whether Steward's account may do its work.
pub(super) const ADMINISTRATOR: &str =
    "SELECT rolsuper, rolcreatedb AND rolcreaterole FROM pg_roles WHERE rolname = current_user";

/// An account: whether it is more than a tenant's can be, whether it may log in, whether it is Steward's own, and its comment.
pub(super) const ROLE: &str = "\
    SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls \
        OR EXISTS (SELECT FROM pg_auth_members WHERE member = pg_roles.oid), \
        rolcanlogin, rolname = current_user, shobj_description(oid, 'pg_authid') \
    FROM pg_roles WHERE rolname = $1";

/// A database: its owner, whether the owner is Steward's own account, whether everybody may connect, and whether the
/// account may use it.
pub(super) const DATABASE: &str = "\
    SELECT pg_get_userbyid(datdba), pg_get_userbyid(datdba) = current_user, \
        EXISTS (SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) WHERE grantee = 0), \
        coalesce((SELECT has_database_privilege(r.oid, d.oid, 'CONNECT') \
            AND has_database_privilege(r.oid, d.oid, 'CREATE') \
            FROM pg_roles r WHERE r.rolname = $2), false) \
    FROM pg_database d WHERE datname = $1";

/// How much there is of an account outside of its database.
pub(super) const FOREIGN_OBJECTS: &str = "\
    SELECT count(*) FROM pg_shdepend s JOIN pg_roles r ON r.oid = s.refobjid \
    WHERE s.refclassid = 'pg_authid'::regclass AND r.rolname = $1 \
        AND s.dbid NOT IN (SELECT oid FROM pg_database WHERE datname = $2) \
        AND NOT (s.classid = 'pg_database'::regclass \
            AND s.objid IN (SELECT oid FROM pg_database WHERE datname = $2))";

/// Waits until nobody else is at work on the tenant. Given back when the connection ends.
pub(super) const LOCK: &str = "SELECT pg_advisory_lock(hashtextextended($1, 0))";

/// Ends all connections of an account.
pub(super) const END_SESSIONS: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1";

/// The owner of kine's table, if the table is there.
pub(super) const TABLE_OWNER: &str =
    "SELECT tableowner FROM pg_tables WHERE schemaname = 'public' AND tablename = 'kine'";

/// Whether kine's table is there, for whoever asks.
pub(super) const TABLE_EXISTS: &str = "SELECT to_regclass('public.kine') IS NOT NULL";

/// Which cluster of databases it is: chosen when it was made, and the same on all copies of it.
pub(super) const IDENTITY: &str = "SELECT system_identifier::text FROM pg_control_system()";

/// Whether whoever asks may change any row.
pub(super) const MAY_WRITE: &str =
    "SELECT has_table_privilege('public.kine', 'INSERT, UPDATE, DELETE, TRUNCATE')";

/// Nobody changes a row any more. The lock waits for those who are at it; whoever waits for the lock finds that they may not.
pub(super) const FREEZE: &str = "\
    BEGIN; \
    SET LOCAL lock_timeout = '10s'; \
    LOCK TABLE public.kine IN SHARE MODE; \
    REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON public.kine FROM CURRENT_USER; \
    COMMIT";

/// The opposite. An owner may grant whatever they have revoked.
pub(super) const THAW: &str =
    "GRANT INSERT, UPDATE, DELETE, TRUNCATE ON public.kine TO CURRENT_USER";

/// How many rows kine keeps.
pub(super) const COUNT: &str = "SELECT count(*) FROM public.kine";

/// kine's table, as kine itself makes it when it finds none.
pub(super) const CREATE_TABLE: &str = "\
    CREATE TABLE IF NOT EXISTS public.kine (\
        id BIGSERIAL PRIMARY KEY, name TEXT COLLATE \"C\", created INTEGER, deleted INTEGER, \
        create_revision BIGINT, prev_revision BIGINT, lease INTEGER, value BYTEA, old_value BYTEA); \
    CREATE INDEX IF NOT EXISTS kine_name_index ON public.kine (name); \
    CREATE INDEX IF NOT EXISTS kine_name_id_index ON public.kine (name, id); \
    CREATE INDEX IF NOT EXISTS kine_id_deleted_index ON public.kine (id, deleted); \
    CREATE INDEX IF NOT EXISTS kine_prev_revision_index ON public.kine (prev_revision); \
    CREATE UNIQUE INDEX IF NOT EXISTS kine_name_prev_revision_uindex ON public.kine (name, prev_revision)";

/// Gives out all rows, as text, which is the same whatever the widths of the numbers are.
pub(super) const COPY_OUT: &str = "\
    COPY public.kine (id, name, created, deleted, create_revision, prev_revision, lease, value, old_value) TO STDOUT";

/// Takes the rows in.
pub(super) const COPY_IN: &str = "\
    COPY public.kine (id, name, created, deleted, create_revision, prev_revision, lease, value, old_value) FROM STDIN";

/// The next row gets a number behind all others: numbers are the tenant's resource versions.
pub(super) const CONTINUE_NUMBERS: &str = "\
    SELECT setval(pg_get_serial_sequence('public.kine', 'id'), coalesce(max(id), 0) + 1, false) FROM public.kine";

/// Refuses names the server cannot have, before anything is made.
pub(super) fn require_possible(schema: &Schema, user: &User) -> Result<(), QuoteError> {
    identifier(schema.as_str())?;
    identifier(user.as_str())?;
    Ok(())
}

/// What is sent together is done together: there is no role of ours without its comment.
pub(super) fn create_role(
    user: &User,
    verifier: &str,
    comment: &str,
) -> Result<String, QuoteError> {
    Ok(format!(
        "CREATE ROLE {} LOGIN PASSWORD {}; {}",
        identifier(user.as_str())?,
        literal(verifier)?,
        comment_on_role(user, comment)?
    ))
}

pub(super) fn comment_on_role(user: &User, comment: &str) -> Result<String, QuoteError> {
    Ok(format!(
        "COMMENT ON ROLE {} IS {}",
        identifier(user.as_str())?,
        literal(comment)?
    ))
}

pub(super) fn set_password(user: &User, verifier: &str) -> Result<String, QuoteError> {
    Ok(format!(
        "ALTER ROLE {} PASSWORD {}",
        identifier(user.as_str())?,
        literal(verifier)?
    ))
}

pub(super) fn allow_login(user: &User, allowed: bool) -> Result<String, QuoteError> {
    let attribute = if allowed { "LOGIN" } else { "NOLOGIN" };
    Ok(format!(
        "ALTER ROLE {} {attribute}",
        identifier(user.as_str())?
    ))
}

/// Steward's account may act for the tenant's: who is no superuser needs that to give things to it.
pub(super) fn join_role(user: &User) -> Result<String, QuoteError> {
    Ok(format!(
        "GRANT {} TO CURRENT_USER",
        identifier(user.as_str())?
    ))
}

/// Keys are compared byte by byte, whatever the server's language is.
pub(super) fn create_database(schema: &Schema, user: &User) -> Result<String, QuoteError> {
    Ok(format!(
        "CREATE DATABASE {} OWNER {} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'",
        identifier(schema.as_str())?,
        identifier(user.as_str())?
    ))
}

pub(super) fn give_database(schema: &Schema, user: &User) -> Result<String, QuoteError> {
    Ok(format!(
        "ALTER DATABASE {} OWNER TO {}",
        identifier(schema.as_str())?,
        identifier(user.as_str())?
    ))
}

pub(super) fn give_table(user: &User) -> Result<String, QuoteError> {
    Ok(format!(
        "ALTER TABLE public.kine OWNER TO {}",
        identifier(user.as_str())?
    ))
}

/// By default everybody may connect to every database.
pub(super) fn close_database(schema: &Schema) -> Result<String, QuoteError> {
    Ok(format!(
        "REVOKE ALL ON DATABASE {} FROM PUBLIC",
        identifier(schema.as_str())?
    ))
}

pub(super) fn grant(schema: &Schema, user: &User) -> Result<String, QuoteError> {
    Ok(format!(
        "GRANT CONNECT, CREATE, TEMPORARY ON DATABASE {} TO {}",
        identifier(schema.as_str())?,
        identifier(user.as_str())?
    ))
}

pub(super) fn revoke(schema: &Schema, user: &User) -> Result<String, QuoteError> {
    Ok(format!(
        "REVOKE ALL ON DATABASE {} FROM {}",
        identifier(schema.as_str())?,
        identifier(user.as_str())?
    ))
}

/// Also ends the connections to it.
pub(super) fn drop_database(schema: &Schema) -> Result<String, QuoteError> {
    Ok(format!(
        "DROP DATABASE IF EXISTS {} WITH (FORCE)",
        identifier(schema.as_str())?
    ))
}

pub(super) fn drop_role(user: &User) -> Result<String, QuoteError> {
    Ok(format!(
        "DROP ROLE IF EXISTS {}",
        identifier(user.as_str())?
    ))
}
