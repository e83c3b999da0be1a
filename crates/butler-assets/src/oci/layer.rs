//! The layer: a tar whose bytes depend on the contents alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use super::{Content, EXECUTABLE, Error, Image};
use crate::digest::length;

/// Writes the layer, parents before children, in the order of the paths.
pub(super) fn write<W: Write>(image: &Image, output: &Path, writer: W) -> Result<W, Error> {
    let failed = |source| Error::Write {
        path: output.to_owned(),
        source,
    };
    let mut builder = Builder::new(writer);
    for (place, content) in with_parents(image)? {
        match content {
            Content::Directory { mode } => {
                let mut header = header(EntryType::Directory, mode, 0);
                builder
                    .append_data(&mut header, format!("{place}/"), io::empty())
                    .map_err(failed)?;
            }
            Content::Text { bytes, mode } => {
                let mut header = header(EntryType::Regular, mode, length(bytes.len()));
                builder
                    .append_data(&mut header, place, bytes.as_slice())
                    .map_err(failed)?;
            }
            Content::Link { target } => {
                let mut header = header(EntryType::Symlink, 0o777, 0);
                builder
                    .append_link(&mut header, place, target)
                    .map_err(failed)?;
            }
            Content::File { source, mode } => {
                let unreadable = |error| Error::Read {
                    reference: image.reference.clone(),
                    path: source.clone(),
                    source: error,
                };
                let (file, size) = open(&source).map_err(unreadable)?;
                let mut header = header(EntryType::Regular, mode, size);
                let mut exactly = Exactly {
                    reader: file,
                    left: size,
                };
                builder
                    .append_data(&mut header, place, &mut exactly)
                    .map_err(|error| {
                        // Both sides of the copy end up here; a shrunken source is the reader's fault.
                        if error.kind() == io::ErrorKind::UnexpectedEof {
                            unreadable(error)
                        } else {
                            failed(error)
                        }
                    })?;
            }
        }
    }
    builder.into_inner().map_err(failed)
}

/// The contents with every directory above them.
fn with_parents(image: &Image) -> Result<BTreeMap<String, Content>, Error> {
    let mut all = image.contents.clone();
    for place in image.contents.keys() {
        for (end, _) in place.match_indices('/') {
            let parent = &place[..end];
            match all.get(parent) {
                None => {
                    let mode = EXECUTABLE;
                    all.insert(parent.to_owned(), Content::Directory { mode });
                }
                Some(Content::Directory { .. }) => {}
                Some(_) => return Err(image.conflict(parent)),
            }
        }
    }
    Ok(all)
}

pub(super) fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata.len()))
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ))
    }
}

/// Reads as many bytes as the header promised: a file that grows is cut, one that shrinks is an error.
struct Exactly<R> {
    reader: R,
    left: u64,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (&mut self.reader).take(self.left).read(buffer)?;
        if count == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it shrank while it was read",
            ));
        }
        self.left -= length(count);
        Ok(count)
    }
}
