//! What each key of the document means.
//!
//! Owns: the walk through the document, the place in the words of every error, and the reasons for what is ignored.

use serde_json::{Map, Value};

use super::{Command, Error, FileToWrite, Ignored, Owner, UserData, content::Encoding};

const NO_ACCOUNTS: &str =
    "nobody logs in to a machine of this kind; run commands in it through the host";
const NO_DISKS: &str = "a machine's disk is a directory of the host";
const NO_CLOCK: &str = "a machine's clock is the host's";
const NO_PACKAGES: &str = "a machine's programs are the host's, nothing is installed at boot";
const NO_IDENTITY: &str = "the host gives a machine its name and addresses";
const NO_REPORTS: &str = "the console log tells how user data was carried out";
const UNKNOWN: &str = "not a key that is understood here";

/// Keys that a document may well have, and that a machine of this kind has no use for.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("apt", NO_PACKAGES),
    ("chpasswd", NO_ACCOUNTS),
    ("disable_root", NO_ACCOUNTS),
    ("disk_setup", NO_DISKS),
    ("final_message", NO_REPORTS),
    ("fqdn", NO_IDENTITY),
    ("fs_setup", NO_DISKS),
    ("groups", NO_ACCOUNTS),
    ("growpart", NO_DISKS),
    ("manage_etc_hosts", NO_IDENTITY),
    ("mounts", NO_DISKS),
    ("ntp", NO_CLOCK),
    ("output", NO_REPORTS),
    ("package_reboot_if_required", NO_PACKAGES),
    ("package_update", NO_PACKAGES),
    ("package_upgrade", NO_PACKAGES),
    ("packages", NO_PACKAGES),
    ("phone_home", NO_REPORTS),
    ("preserve_hostname", NO_IDENTITY),
    ("resize_rootfs", NO_DISKS),
    ("ssh_authorized_keys", NO_ACCOUNTS),
    ("ssh_pwauth", NO_ACCOUNTS),
    ("swap", NO_DISKS),
    ("timezone", NO_CLOCK),
    ("users", NO_ACCOUNTS),
];

const DEFAULT_PERMISSIONS: u32 = 0o644;
const LARGEST_PERMISSIONS: u32 = 0o7777;
const COMMAND_RULE: &str = "a command is a text for the shell, or a list of a program and its arguments; quote a text that contains \": \" or begins with \"[\"";
const PERMISSIONS_RULE: &str = "write the permissions as octal digits in quotes, such as \"0640\": as a number they would be read as decimal";

/// Reads the document, headers included: to YAML they are comments.
pub(super) fn read(text: &str) -> Result<UserData, Error> {
    let document: Value = serde_saphyr::from_str(text).map_err(|error| Error::Yaml {
        rule: error.without_snippet().to_string(),
    })?;
    let keys = match document {
        Value::Null => Map::new(),
        Value::Object(keys) => keys,
        _ => {
            return Err(invalid(
                "the top",
                "it must be a mapping of keys such as write_files",
            ));
        }
    };
    let mut user_data = UserData::default();
    for (key, value) in &keys {
        match key.as_str() {
            "write_files" => user_data.write_files = files(value, &mut user_data.ignored)?,
            "bootcmd" => user_data.boot_commands = commands(key, value)?,
            "runcmd" => user_data.run_commands = commands(key, value)?,
            "hostname" => user_data.hostname = Some(hostname(value)?),
            _ => user_data.ignored.push(Ignored {
                key: key.clone(),
                reason: WITHOUT_EFFECT
                    .iter()
                    .find(|(known, _)| known == key)
                    .map_or(UNKNOWN, |(_, reason)| reason),
            }),
        }
    }
    Ok(user_data)
}

fn invalid(place: impl Into<String>, rule: impl Into<String>) -> Error {
    Error::Invalid {
        place: place.into(),
        rule: rule.into(),
    }
}

/// The items of a list; a key without a value is an empty one.
fn items<'value>(place: &str, value: &'value Value) -> Result<&'value [Value], Error> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        _ => Err(invalid(place, "it must be a list")),
    }
}

fn hostname(value: &Value) -> Result<String, Error> {
    match value {
        Value::String(name) if !name.trim().is_empty() => Ok(name.trim().to_owned()),
        _ => Err(invalid("hostname", "it must be a text that is not empty")),
    }
}

fn commands(key: &str, value: &Value) -> Result<Vec<Command>, Error> {
    items(key, value)?
        .iter()
        .enumerate()
        .map(|(index, item)| command(&format!("{key}[{index}]"), item))
        .collect()
}

fn command(place: &str, value: &Value) -> Result<Command, Error> {
    match value {
        Value::String(line) => Ok(Command::Shell(line.clone())),
        Value::Array(words) if !words.is_empty() => words
            .iter()
            .enumerate()
            .map(|(index, word)| argument(&format!("{place}[{index}]"), word))
            .collect::<Result<_, _>>()
            .map(Command::Arguments),
        Value::Array(_) => Err(invalid(place, "the list is empty; name a program")),
        _ => Err(invalid(place, COMMAND_RULE)),
    }
}

fn argument(place: &str, value: &Value) -> Result<String, Error> {
    let word = match value {
        Value::String(word) => word.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        _ => return Err(invalid(place, "an argument is a text or a number")),
    };
    if word.contains('\0') {
        return Err(invalid(place, "an argument cannot contain a NUL character"));
    }
    Ok(word)
}

/// Those that are to be written late come last; nothing else happens between.
fn files(value: &Value, ignored: &mut Vec<Ignored>) -> Result<Vec<FileToWrite>, Error> {
    let mut early = Vec::new();
    let mut late = Vec::new();
    for (index, item) in items("write_files", value)?.iter().enumerate() {
        let place = format!("write_files[{index}]");
        let Value::Object(keys) = item else {
            return Err(invalid(place, "it must be a mapping with a path"));
        };
        let entry = Entry { place, keys };
        let deferred = entry.truth("defer")?;
        let file = entry.file(ignored)?;
        if deferred { &mut late } else { &mut early }.push(file);
    }
    early.append(&mut late);
    Ok(early)
}

/// One item of `write_files`, and where it is.
struct Entry<'document> {
    place: String,
    keys: &'document Map<String, Value>,
}

impl Entry<'_> {
    fn file(&self, ignored: &mut Vec<Ignored>) -> Result<FileToWrite, Error> {
        const KEYS: &[&str] = &[
            "path",
            "content",
            "owner",
            "permissions",
            "encoding",
            "append",
            "defer",
        ];
        if self.keys.contains_key("source") {
            return Err(self.invalid("source", "a machine fetches no files; give the content"));
        }
        ignored.extend(
            self.keys
                .keys()
                .filter(|key| !KEYS.contains(&key.as_str()))
                .map(|key| Ignored {
                    key: format!("{}.{key}", self.place),
                    reason: UNKNOWN,
                }),
        );
        Ok(FileToWrite {
            path: self.path()?,
            content: self.content()?,
            owner: self.owner()?,
            permissions: self.permissions()?,
            append: self.truth("append")?,
        })
    }

    fn invalid(&self, key: &str, rule: impl Into<String>) -> Error {
        invalid(format!("{}.{key}", self.place), rule)
    }

    fn text(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.invalid(key, "it must be a text; put it in quotes")),
        }
    }

    /// In all the words that people use for yes and no.
    fn truth(&self, key: &str) -> Result<bool, Error> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(truth)) => Ok(*truth),
            Some(Value::String(word)) => match word.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Ok(true),
                "false" | "no" | "off" | "0" => Ok(false),
                _ => Err(self.invalid(key, "it must be true or false")),
            },
            Some(_) => Err(self.invalid(key, "it must be true or false")),
        }
    }

    fn path(&self) -> Result<String, Error> {
        let path = self
            .text("path")?
            .ok_or_else(|| self.invalid("path", "it is missing"))?;
        if !path.starts_with('/') || path.ends_with('/') || path.contains('\0') {
            return Err(self.invalid("path", "it must be the absolute path of a file"));
        }
        if path.split('/').any(|part| part == "..") {
            return Err(self.invalid("path", "it must not climb with \"..\""));
        }
        Ok(path.to_owned())
    }

    fn content(&self) -> Result<Vec<u8>, Error> {
        let encoding = match self.text("encoding")? {
            None => Encoding::PLAIN,
            Some(name) => {
                Encoding::from_name(name).ok_or_else(|| self.invalid("encoding", Encoding::RULE))?
            }
        };
        match self.text("content")? {
            None => Ok(Vec::new()),
            Some(text) => encoding
                .decode(text)
                .map_err(|rule| self.invalid("content", rule)),
        }
    }

    fn owner(&self) -> Result<Owner, Error> {
        let Some(text) = self.text("owner")? else {
            return Ok(Owner::default());
        };
        let is_name = |name: &str| {
            !name.is_empty()
                && !name.contains(|c: char| c == ':' || c.is_whitespace() || c.is_control())
        };
        let (user, group) = match text.trim().split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text.trim(), None),
        };
        if !is_name(user) || !group.is_none_or(is_name) {
            return Err(self.invalid("owner", "write it as user:group"));
        }
        Ok(Owner {
            user: user.to_owned(),
            group: group.map(str::to_owned),
        })
    }

    fn permissions(&self) -> Result<u32, Error> {
        let digits = match self.keys.get("permissions") {
            None | Some(Value::Null) => return Ok(DEFAULT_PERMISSIONS),
            Some(Value::String(digits)) => digits.trim(),
            Some(_) => return Err(self.invalid("permissions", PERMISSIONS_RULE)),
        };
        let octal = !digits.is_empty() && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        u32::from_str_radix(digits, 8)
            .ok()
            .filter(|&permissions| octal && permissions <= LARGEST_PERMISSIONS)
            .ok_or_else(|| self.invalid("permissions", PERMISSIONS_RULE))
    }
}
