//! The shared libraries a program needs, as this machine's dynamic loader finds them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::Error;
use crate::command::{self, Invocation};

/// Every shared library a program or library needs, directly or not, and the dynamic loader, under the paths where
/// the loader looks for them. A static program, or a script, needs none.
///
/// The dynamic loader runs to find them: ask only about files you trust.
pub fn libraries_of(path: &Path) -> Result<BTreeSet<PathBuf>, Error> {
    let absolute = std::path::absolute(path).map_err(|error| Error::Libraries {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    let invocation = Invocation {
        program: PathBuf::from("ldd"),
        arguments: vec![OsString::from("--"), absolute.into()],
        directory: PathBuf::from("/"),
        environment: vec![("LC_ALL", "C".to_owned())],
    };
    let printed = command::output(&invocation).map_err(|error| Error::from_ldd(path, &error))?;
    let unusable = |reason: String| Error::Libraries {
        path: path.to_owned(),
        reason,
    };
    if !printed.success {
        let both = format!("{}{}", printed.output, printed.errors);
        return if both.contains("not a dynamic executable") {
            Ok(BTreeSet::new())
        } else {
            Err(unusable(both.trim().to_owned()))
        };
    }
    parse(&printed.output).map_err(|missing| {
        unusable(format!(
            "{missing} was not found; install the package that has it"
        ))
    })
}

/// Every shared library that a program and its plugins need, and the plugins themselves.
///
/// One question for all of them, where one for each would take seconds: the dynamic loader is asked as `ldd` asks it,
/// with the plugins loaded beside the program. Nothing of the program or the plugins runs.
pub(crate) fn libraries_with_plugins(
    program: &Path,
    plugins: &BTreeSet<PathBuf>,
) -> Result<BTreeSet<PathBuf>, Error> {
    // A program that needs no loader would not ask it, but run.
    if plugins.is_empty() || libraries_of(program)?.is_empty() {
        return libraries_of(program);
    }
    let plugins: Vec<_> = plugins.iter().map(|path| path.to_string_lossy()).collect();
    let invocation = Invocation {
        program: program.to_owned(),
        arguments: Vec::new(),
        directory: PathBuf::from("/"),
        environment: vec![
            ("LC_ALL", "C".to_owned()),
            ("LD_TRACE_LOADED_OBJECTS", "1".to_owned()),
            ("LD_PRELOAD", plugins.join(":")),
        ],
    };
    let printed = command::output(&invocation).map_err(|error| Error::from_ldd(program, &error))?;
    let unusable = |reason: String| Error::Libraries {
        path: program.to_owned(),
        reason,
    };
    // What cannot be loaded is told there, and left out.
    if !printed.success || !printed.errors.trim().is_empty() {
        return Err(unusable(printed.errors.trim().to_owned()));
    }
    parse(&printed.output).map_err(|missing| {
        unusable(format!(
            "{missing} was not found; install the package that has it"
        ))
    })
}

/// Reads what `ldd` prints; the error is a library that was not found.
fn parse(output: &str) -> Result<BTreeSet<PathBuf>, String> {
    let mut libraries = BTreeSet::new();
    for line in output.lines().map(str::trim) {
        let (name, found) = match line.split_once(" => ") {
            Some((name, found)) => (name, found),
            None => (line, line),
        };
        if found.starts_with("not found") {
            return Err(name.to_owned());
        }
        // What has no path is the kernel's own, or the remark that there are none.
        if let Some(path) = found
            .split(" (0x")
            .next()
            .filter(|path| path.starts_with('/'))
        {
            libraries.insert(plain(Path::new(path)));
        }
    }
    Ok(libraries)
}

/// The path without `..`: a library may be found relative to another one.
fn plain(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                result.pop();
            }
            Component::CurDir => {}
            other => result.push(other),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn loader_and_libraries_are_read_but_not_the_kernels_own() {
        let output = "\tlinux-vdso.so.1 (0x00007ffd2b1f2000)\n\
             \tlibm.so.6 => /usr/lib/systemd/../x86_64-linux-gnu/libm.so.6 (0x00007f0d5c4f0000)\n\
             \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f0d5c30f000)\n\
             \t/lib64/ld-linux-x86-64.so.2 (0x00007f0d5c5f7000)\n";
        let libraries: Vec<PathBuf> = parse(output).unwrap().into_iter().collect();
        assert_eq!(
            libraries,
            [
                "/lib/x86_64-linux-gnu/libc.so.6",
                "/lib64/ld-linux-x86-64.so.2",
                "/usr/lib/x86_64-linux-gnu/libm.so.6",
            ]
            .map(PathBuf::from)
        );
    }

    #[test]
    fn static_program_needs_nothing() {
        assert_eq!(parse("\tstatically linked\n"), Ok(BTreeSet::new()));
    }

    #[test]
    fn missing_library_is_named() {
        assert_eq!(
            parse("\tlibfoo.so.1 => not found\n"),
            Err("libfoo.so.1".to_owned())
        );
    }
}
