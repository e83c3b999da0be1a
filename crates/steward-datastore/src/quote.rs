//! Text becomes part of a statement here, and nowhere else: one function for each dialect and each kind of text.
//!
//! Names cannot be sent as parameters. They come from people who may not be trusted with the database, so each is
//! quoted, also where its type allows no character that would need it.
//!
//! Owns: the quoting rules of PostgreSQL and MySQL. Must not: shorten or change a name: what cannot be said is refused.

/// A name that cannot be written in a dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuoteError {
    /// There is none.
    #[error("a name in the data store cannot be empty")]
    Empty,
    /// It has a character that no quoting can carry.
    #[error("the name {name:?} has a character that the data store cannot have in a name")]
    Character {
        /// The name.
        name: String,
    },
    /// The server would cut it off, and it could then be another's.
    #[error("the name {name:?} is longer than the {longest} that the data store takes")]
    TooLong {
        /// The name.
        name: String,
        /// How long names may be.
        longest: usize,
    },
}

/// PostgreSQL's dialect.
pub mod postgresql {
    use super::QuoteError;

    /// Bytes of a name; the server cuts off what is longer.
    const LONGEST: usize = 63;

    /// A name: of a role, a database or a table.
    pub fn identifier(name: &str) -> Result<String, QuoteError> {
        super::refuse(name, name.len(), LONGEST, |letter| letter == '\0')?;
        Ok(format!("\"{}\"", name.replace('"', "\"\"")))
    }

    /// A text. Right whatever the server's setting about backslashes is.
    pub fn literal(text: &str) -> Result<String, QuoteError> {
        if text.contains('\0') {
            // Not shown: texts are passwords.
            return Err(QuoteError::Character {
                name: String::new(),
            });
        }
        let quoted = text.replace('\'', "''");
        Ok(if quoted.contains('\\') {
            format!("E'{}'", quoted.replace('\\', "\\\\"))
        } else {
            format!("'{quoted}'")
        })
    }
}

/// The dialect of MySQL and `MariaDB`, in the mode that [`SESSION_MODE`](mysql::SESSION_MODE) sets.
pub mod mysql {
    use super::QuoteError;

    /// Characters of a database's name.
    const LONGEST_DATABASE: usize = 64;
    /// Characters of an account's name in `MariaDB`; MySQL takes 32 and refuses what is longer.
    const LONGEST_USER: usize = 80;

    /// Run first on each connection: names in backticks, texts in single quotes with backslashes as escapes.
    pub const SESSION_MODE: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES'";

    /// A name: of a database or a table.
    pub fn identifier(name: &str) -> Result<String, QuoteError> {
        refuse(name, LONGEST_DATABASE)?;
        Ok(format!("`{}`", name.replace('`', "``")))
    }

    /// The name of a database where a grant is made. There, `_` and `%` stand for any character and any text, so that a
    /// grant for `a_b` would reach `axb`: they are escaped, unless the server takes them literally.
    pub fn granted_database(name: &str, wildcards: bool) -> Result<String, QuoteError> {
        identifier(name)?;
        if wildcards {
            Ok(format!("`{}`", granted_pattern(name).replace('`', "``")))
        } else {
            identifier(name)
        }
    }

    /// The name of a database as the server keeps it in its table of grants.
    pub fn granted_pattern(name: &str) -> String {
        name.replace('\\', "\\\\")
            .replace('_', "\\_")
            .replace('%', "\\%")
    }

    /// An account that may log in from anywhere.
    pub fn account(user: &str) -> Result<String, QuoteError> {
        refuse(user, LONGEST_USER)?;
        Ok(format!("{}@'%'", literal(user)?))
    }

    /// A text.
    pub fn literal(text: &str) -> Result<String, QuoteError> {
        if text.contains('\0') {
            // Not shown: texts are passwords.
            return Err(QuoteError::Character {
                name: String::new(),
            });
        }
        Ok(format!(
            "'{}'",
            text.replace('\\', "\\\\").replace('\'', "''")
        ))
    }

    /// Names are kept in three-byte UTF-8, and without the spaces at their ends.
    fn refuse(name: &str, longest: usize) -> Result<(), QuoteError> {
        let is_impossible = |letter| letter == '\0' || u32::from(letter) > 0xffff;
        super::refuse(name, name.chars().count(), longest, is_impossible)?;
        if name.ends_with(' ') {
            return Err(QuoteError::Character {
                name: name.to_owned(),
            });
        }
        Ok(())
    }
}

fn refuse(
    name: &str,
    length: usize,
    longest: usize,
    is_impossible: impl Fn(char) -> bool,
) -> Result<(), QuoteError> {
    if name.is_empty() {
        return Err(QuoteError::Empty);
    }
    if name.contains(is_impossible) {
        return Err(QuoteError::Character {
            name: name.to_owned(),
        });
    }
    if length > longest {
        return Err(QuoteError::TooLong {
            name: name.to_owned(),
            longest,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    /// What the server makes of a quoted text: what is between the quotes, with doubled quotes as one. None if the text
    /// ends before the statement does.
    fn unquoted(statement: &str, quote: char) -> Option<String> {
        let inner = statement.strip_prefix(quote)?.strip_suffix(quote)?;
        let mut text = String::new();
        let mut letters = inner.chars();
        while let Some(letter) = letters.next() {
            if letter == quote && letters.next() != Some(quote) {
                return None;
            }
            text.push(letter);
        }
        Some(text)
    }

    #[test]
    fn attacks_stay_names_in_postgresql() {
        assert_eq!(
            postgresql::identifier("a\"; DROP DATABASE b; --").unwrap(),
            "\"a\"\"; DROP DATABASE b; --\""
        );
        assert_eq!(postgresql::identifier("\"").unwrap(), "\"\"\"\"");
        assert_eq!(postgresql::identifier("0815").unwrap(), "\"0815\"");
        assert_eq!(postgresql::identifier("User").unwrap(), "\"User\"");
        assert_eq!(
            postgresql::identifier("naïve’\u{202e}").unwrap(),
            "\"naïve’\u{202e}\""
        );
        assert_eq!(
            postgresql::literal("it's \\' over").unwrap(),
            "E'it''s \\\\'' over'"
        );
    }

    #[test]
    fn attacks_stay_names_in_mysql() {
        assert_eq!(
            mysql::identifier("a`; DROP DATABASE b; -- ;").unwrap(),
            "`a``; DROP DATABASE b; -- ;`"
        );
        assert_eq!(
            mysql::account("a'@'localhost").unwrap(),
            "'a''@''localhost'@'%'"
        );
        assert_eq!(
            mysql::literal("\\'; DROP USER root; -- ").unwrap(),
            "'\\\\''; DROP USER root; -- '"
        );
        assert_eq!(mysql::identifier("naïve’").unwrap(), "`naïve’`");
    }

    #[test]
    fn a_grant_reaches_no_database_of_a_similar_name() {
        assert_eq!(
            mysql::granted_database("a_b%c", true).unwrap(),
            "`a\\_b\\%c`"
        );
        assert_eq!(mysql::granted_database("a_b%c", false).unwrap(), "`a_b%c`");
    }

    #[test]
    fn what_no_quotes_can_carry_is_refused() {
        for name in ["", "a\0b", "\0"] {
            postgresql::identifier(name).unwrap_err();
            mysql::identifier(name).unwrap_err();
            mysql::account(name).unwrap_err();
        }
        mysql::identifier("a\u{1f600}").unwrap_err();
        mysql::identifier("a ").unwrap_err();
        mysql::account("a ").unwrap_err();
        let shown = postgresql::literal("hunter2\0").unwrap_err().to_string();
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn a_name_that_would_be_cut_off_is_refused() {
        postgresql::identifier(&"a".repeat(63)).unwrap();
        mysql::identifier(&"ä".repeat(64)).unwrap();
        let error = postgresql::identifier(&"ä".repeat(32))
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("is longer than the 63 that the data store takes"),
            "{error}"
        );
        mysql::identifier(&"a".repeat(65)).unwrap_err();
        mysql::account(&"a".repeat(81)).unwrap_err();
    }

    proptest! {
        #[test]
        fn whatever_is_quoted_is_one_name_again(name in "[^\0]{1,15}") {
            if let Ok(quoted) = postgresql::identifier(&name) {
                prop_assert_eq!(unquoted(&quoted, '"'), Some(name.clone()));
            }
            if let Ok(quoted) = mysql::identifier(&name) {
                prop_assert_eq!(unquoted(&quoted, '`'), Some(name));
            }
        }
    }
}
