//! User data of a machine, as Cluster API's kubeadm bootstrap provider writes it.
//!
//! Owns: the two header lines, the variables of `ds.meta_data`, and what each key of a cloud-config document means for a
//! machine of this kind. A key that means nothing here is kept in [`UserData::ignored`], so that it can be logged.
//!
//! Must not: touch files or run anything. Contents of files hold bootstrap tokens and keys: no error and no `Debug` shows
//! them.
//!
//! ```
//! use butler_host::cloud_config::{MetaData, parse};
//!
//! let text = "## template: jinja\n#cloud-config\nruncmd: [\"hostname {{ ds.meta_data.local_hostname }}\"]\n";
//! let user_data = parse(text, &MetaData::new("i-1", "worker-1"))?;
//! assert_eq!(user_data.run_commands[0].arguments(), ["sh", "-c", "hostname worker-1"]);
//! # Ok::<(), butler_host::cloud_config::Error>(())
//! ```

mod content;
mod document;
mod template;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// First line of user data whose variables are to be filled in.
const TEMPLATE_HEADER: &str = "## template: jinja";
/// First line of the document itself.
const DOCUMENT_HEADER: &str = "#cloud-config";

/// What a machine is to do with its user data, in the order of the fields: commands of every boot come first, then the
/// files, then the commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserData {
    /// Run before the files are written, each time the machine boots.
    pub boot_commands: Vec<Command>,
    /// Written in this order.
    pub write_files: Vec<FileToWrite>,
    /// Run after the files are written.
    pub run_commands: Vec<Command>,
    /// The host name that the document asks for.
    pub hostname: Option<String>,
    /// What the document says and a machine of this kind does not do.
    pub ignored: Vec<Ignored>,
}

/// A file of the user data.
#[derive(Clone, PartialEq, Eq)]
pub struct FileToWrite {
    /// Absolute.
    pub path: String,
    /// Decoded.
    pub content: Vec<u8>,
    /// Who owns it.
    pub owner: Owner,
    /// The permission bits, at most `0o7777`.
    pub permissions: u32,
    /// Whether the content goes to the end of a file that is there.
    pub append: bool,
}

impl fmt::Debug for FileToWrite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FileToWrite")
            .field("path", &self.path)
            .field("content", &format_args!("{} bytes", self.content.len()))
            .field("owner", &self.owner)
            .field("permissions", &format_args!("{:#o}", self.permissions))
            .field("append", &self.append)
            .finish()
    }
}

/// Who owns a file, by name or by number in text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub user: String,
    /// Group; the user's own if absent.
    pub group: Option<String>,
}

impl Default for Owner {
    fn default() -> Self {
        Self {
            user: "root".to_owned(),
            group: Some("root".to_owned()),
        }
    }
}

/// One command of the user data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A line for the shell.
    Shell(String),
    /// A program and its arguments; never empty.
    Arguments(Vec<String>),
}

impl Command {
    /// The program and its arguments.
    pub fn arguments(&self) -> Vec<String> {
        match self {
            Self::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
            Self::Arguments(arguments) => arguments.clone(),
        }
    }
}

/// A part of the document without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Where it is: `ntp`, `write_files[2].defer_until`.
    pub key: String,
    /// Why nothing is done about it.
    pub reason: &'static str,
}

/// The variables `ds.meta_data.*` of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MetaData(BTreeMap<String, String>);

impl MetaData {
    /// The two that every machine has.
    pub fn new(instance_id: impl Into<String>, local_hostname: impl Into<String>) -> Self {
        Self(BTreeMap::from([
            (Self::INSTANCE_ID.to_owned(), instance_id.into()),
            (Self::LOCAL_HOSTNAME.to_owned(), local_hostname.into()),
        ]))
    }

    const INSTANCE_ID: &str = "instance_id";
    const LOCAL_HOSTNAME: &str = "local_hostname";

    /// With one more.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.insert(key.into(), value.into());
        self
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Which machine this is; a machine made anew under the same name is another one.
    pub fn instance_id(&self) -> Option<&str> {
        self.get(Self::INSTANCE_ID)
    }

    fn keys(&self) -> String {
        let keys: Vec<&str> = self.0.keys().map(String::as_str).collect();
        keys.join(", ")
    }
}

/// Why user data cannot be carried out. Says the place and the rule, never a content.
#[derive(Debug, Error)]
pub enum Error {
    /// The bytes are no text.
    #[error(
        "user data is not UTF-8 text (first wrong byte at {position}); give the cloud-config document itself, not compressed"
    )]
    NotText {
        /// Offset of the first wrong byte.
        position: usize,
    },
    /// The first line says that it is something else.
    #[error(
        "user data begins with {found}, and a machine understands cloud-config alone: let the first line be {DOCUMENT_HEADER:?}, or {TEMPLATE_HEADER:?} and that"
    )]
    NotCloudConfig {
        /// What it is, in words.
        found: &'static str,
    },
    /// The template does something other than to name a variable.
    #[error("line {line} of user data: {rule}")]
    Template {
        /// Counted from one.
        line: usize,
        /// What is not understood.
        rule: &'static str,
    },
    /// A variable that the machine does not have.
    #[error(
        "line {line} of user data: the variable {variable:?} is not known; ds.meta_data has {known}"
    )]
    UnknownVariable {
        /// Counted from one.
        line: usize,
        /// As it is written.
        variable: String,
        /// The keys that are.
        known: String,
    },
    /// The text is no YAML.
    #[error("user data is not valid YAML: {rule}")]
    Yaml {
        /// The parser's words with line and column, without an excerpt of the text.
        rule: String,
    },
    /// A value breaks a rule.
    #[error("{place} of user data is not valid: {rule}")]
    Invalid {
        /// `write_files[3].permissions`.
        place: String,
        /// What it has to be.
        rule: String,
    },
}

/// Reads user data and fills in the variables.
pub fn parse(text: &str, meta_data: &MetaData) -> Result<UserData, Error> {
    let text = text.trim_start_matches(['\u{feff}', '\n', '\r', ' ', '\t']);
    let (first, rest) = split_line(text);
    if is_template_header(first) {
        // One line is gone from what is rendered, and counts in what is said about it.
        let rendered = template::render(rest, meta_data, 2)?;
        return parse_document(&rendered);
    }
    parse_document(text)
}

/// As [`parse`], from the bytes in which user data comes.
pub fn parse_bytes(bytes: &[u8], meta_data: &MetaData) -> Result<UserData, Error> {
    let text = std::str::from_utf8(bytes).map_err(|error| Error::NotText {
        position: error.valid_up_to(),
    })?;
    parse(text, meta_data)
}

fn parse_document(text: &str) -> Result<UserData, Error> {
    let text = text.trim_start();
    let (first, _) = split_line(text);
    if first.trim_end() != DOCUMENT_HEADER {
        return Err(Error::NotCloudConfig {
            found: kind_of(first),
        });
    }
    document::read(text)
}

fn split_line(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

/// Spaces around the words do not matter, as for those who invented the line.
fn is_template_header(line: &str) -> bool {
    line.strip_prefix("##")
        .and_then(|rest| rest.trim().strip_prefix("template:"))
        .is_some_and(|engine| engine.trim().eq_ignore_ascii_case("jinja"))
}

fn kind_of(first_line: &str) -> &'static str {
    let line = first_line.trim_end();
    if line.is_empty() {
        "nothing"
    } else if line.starts_with("#!") {
        "a script"
    } else if line.starts_with('{') {
        "JSON (Ignition, perhaps)"
    } else if line.starts_with("Content-Type:") || line.starts_with("MIME-Version:") {
        "a multipart message"
    } else if is_template_header(line) {
        "a second template header"
    } else if line.starts_with('#') {
        "another header"
    } else {
        "no header"
    }
}
