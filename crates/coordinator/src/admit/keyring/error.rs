//! Why the signing keys are unavailable.

use std::io;
use std::path::PathBuf;

use store::Failure;

use edge::KEY_BYTES;

#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    #[error("the key file {path} cannot be read or created")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "the key file {path} has {found} bytes instead of {KEY_BYTES}; \
         restore it, or remove it to get a new key"
    )]
    Length { path: PathBuf, found: usize },
    #[error("the key file {path} is neither one key nor a list of keys; restore it from a backup")]
    Format { path: PathBuf },
    #[error(
        "the key file {path} cannot open the signing keys in the database: it is from another \
         installation, or was created anew; copy the file of a running coordinator"
    )]
    Differs { path: PathBuf },
    #[error(
        "the signing keys of the other coordinators are in the database, and the key file that opens \
         them is missing; copy it from one of them to {path}"
    )]
    NotCopied { path: PathBuf },
    #[error("{path} holds other signing keys")]
    Occupied { path: PathBuf },
    #[error("the signing keys in the store cannot be read or written")]
    Store(#[from] Failure),
    #[error("the signing keys are not in a file, so they cannot be rotated")]
    NoFile,
    #[error("the key file {path} can be read by others (mode {mode:o}); run `chmod 600 {path}`")]
    Readable { path: PathBuf, mode: u32 },
    #[error(
        "the key file {path} holds typed text or a sample, not random bytes; remove it to get a new key"
    )]
    Guessable { path: PathBuf },
}
