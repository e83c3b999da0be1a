//! What a MySQL server has of a tenant, and whose it is.
//!
//! Servers of this kind do not say who owns a database, so it is read from the grants: a database is the tenant's if the
//! tenant's account, and no other, was given it. For whom the account is, the name of a table says: two `DataStore`s, or two
//! Stewards, may lead to one server and choose the same names.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::mysql::session::Session;
use crate::mysql::{is_established, statements};
use crate::quote::mysql::granted_pattern;
use crate::store::Tenant;

/// What there is.
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
pub(super) struct Survey {
    pub(super) user_exists: bool,
    pub(super) database_exists: bool,
    /// Whether `_` and `%` in a grant stand for other characters.
    pub(super) wildcards: bool,
    /// The account may do something outside of the tenant's database.
    pub(super) has_foreign_grants: bool,
    /// The account may do something everywhere.
    has_global_grants: bool,
    /// What the account may do in the tenant's database.
    granted: BTreeSet<String>,
    /// Accounts of others that were given the tenant's database.
    others: BTreeSet<String>,
    /// The database has tables, ours aside.
    has_tables: bool,
    /// The database bears the tenant's mark.
    pub(super) is_marked: bool,
    /// The marks of others that it bears.
    foreign_marks: BTreeSet<String>,
}

impl Survey {
    pub(super) async fn make(session: &mut Session, tenant: &Tenant) -> Result<Self, Error> {
        let grantee = statements::grantee(&tenant.user);
        let schema = tenant.schema.as_str();
        // The account is made before the database and removed after it, so it is looked for after it: a database that was
        // seen without its account is nobody's work in progress.
        let database_exists = database_exists(session, tenant).await?;
        let contents: Vec<(String, String)> = session
            .rows("read tables", statements::TABLES, (schema,))
            .await?;
        let settings: Vec<(String, String)> = session
            .rows("read the server's settings", statements::LITERAL_GRANTS, ())
            .await?;
        let wildcards = !settings.iter().any(|(_, value)| value == "ON");
        let global: Vec<(String, String)> = session
            .rows("read accounts", statements::GLOBAL_PRIVILEGES, (&grantee,))
            .await?;
        let databases: Vec<(String, String, String)> = session
            .rows("read grants", statements::DATABASE_PRIVILEGES, ())
            .await?;
        let tables: Vec<(String, String)> = session
            .rows("read grants", statements::TABLE_PRIVILEGES, (&grantee,))
            .await?;
        let pattern = if wildcards {
            granted_pattern(schema)
        } else {
            schema.to_owned()
        };
        // The server compares names without regard to case; we do not.
        let mut global = global
            .into_iter()
            .filter(|(of, _)| *of == grantee)
            .peekable();
        let user_exists = global.peek().is_some();
        let has_global_grants = global.any(|(_, privilege)| privilege != "USAGE");
        let mut survey = Self {
            user_exists,
            database_exists,
            wildcards,
            has_foreign_grants: tables.iter().any(|(of, _)| *of == grantee),
            has_global_grants,
            granted: BTreeSet::new(),
            others: BTreeSet::new(),
            has_tables: false,
            is_marked: false,
            foreign_marks: BTreeSet::new(),
        };
        let tables = contents
            .into_iter()
            .filter_map(|(database, table)| (database == schema).then_some(table));
        for table in tables {
            if table == statements::mark(&tenant.owner) {
                survey.is_marked = true;
            } else if table.starts_with(statements::MARK) {
                survey.foreign_marks.insert(table);
            } else {
                survey.has_tables = true;
            }
        }
        for (of, database, privilege) in databases {
            let ours = of == grantee;
            if ours && database == pattern {
                survey.granted.insert(privilege);
            } else if ours {
                survey.has_foreign_grants = true;
            } else if database == pattern || database == schema {
                survey.others.insert(of);
            }
        }
        Ok(survey)
    }

    /// Whether the account may do in the database what kine needs.
    pub(super) fn is_granted(&self) -> bool {
        statements::PRIVILEGES
            .iter()
            .all(|privilege| self.granted.contains(*privilege))
    }

    /// Whether the account may read the database, and do nothing else there or elsewhere.
    pub(super) fn is_frozen(&self) -> bool {
        let granted = self.granted.iter().map(String::as_str);
        !self.has_foreign_grants && granted.eq(statements::FROZEN_PRIVILEGES)
    }

    /// Whether the account, if there is one, is the tenant's alone.
    pub(super) fn account_is_ours(&self, tenant: &Tenant) -> bool {
        let uses_anothers =
            self.database_exists && !self.granted.is_empty() && !self.database_is_ours(tenant);
        self.user_exists && !self.has_global_grants && !self.has_foreign_grants && !uses_anothers
    }

    /// Whether the database says that it is another control plane's.
    pub(super) fn is_anothers(&self) -> bool {
        !self.is_marked && !self.foreign_marks.is_empty()
    }

    /// Whether the database is the tenant's.
    pub(super) fn database_is_ours(&self, tenant: &Tenant) -> bool {
        if !self.others.is_empty() {
            return false;
        }
        if self.is_anothers() {
            return false;
        }
        // The mark comes before the grants, and what older releases made has none.
        self.is_marked
            || is_established(tenant)
            || (self.user_exists && self.granted.is_empty() && !self.has_tables)
    }

    /// Complains if what is there is somebody else's.
    pub(super) fn refuse_what_is_not_ours(&self, tenant: &Tenant) -> Result<(), Error> {
        let not_ours = |what: String, why: String| Err(Error::NotOurs { what, why });
        let account = format!("the account \"{}\" of MySQL", tenant.user);
        if self.has_global_grants {
            return not_ours(account, "it may do more than a tenant".to_owned());
        }
        if self.has_foreign_grants && !is_established(tenant) {
            return not_ours(account, "it may use other databases".to_owned());
        }
        if self.database_exists && !self.database_is_ours(tenant) {
            let users: Vec<&str> = self.others.iter().map(String::as_str).collect();
            let why = if let Some(mark) = self.foreign_marks.first() {
                format!("its table {mark} names the UID of another control plane")
            } else if !users.is_empty() {
                format!("it was given to {}", users.join(", "))
            } else if self.granted.is_empty() {
                "it was made for no account of this name".to_owned()
            } else {
                let mark = statements::mark(&tenant.owner);
                format!("it is in use, and has no table {mark}, which would say that it is")
            };
            return not_ours(format!("the database \"{}\" of MySQL", tenant.schema), why);
        }
        Ok(())
    }
}

/// Whether the tenant's database is there.
pub(super) async fn database_exists(session: &mut Session, tenant: &Tenant) -> Result<bool, Error> {
    let schema = tenant.schema.as_str();
    let found: Vec<String> = session
        .rows("read databases", statements::DATABASE, (schema,))
        .await?;
    Ok(found.iter().any(|name| name == schema))
}
