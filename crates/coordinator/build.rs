//! Embeds the console: its files as text, compressed and with their digests. Its output is committed in `console/dist`, so that a
//! build needs no Node.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// The files beside the page itself, and their media types.
const FILES: [(&str, &str); 3] = [
    ("app.js", "text/javascript; charset=utf-8"),
    ("app.css", "text/css; charset=utf-8"),
    ("icon.svg", "image/svg+xml"),
];

fn main() {
    let dist = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo says where the crate is"))
        .join("../../console/dist");
    println!("cargo::rerun-if-changed={}", dist.display());
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_HTTP").is_none() {
        return;
    }
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo says where output goes"));
    let mut code = format!(
        "const PAGE: &str = include_str!({:?});\nconst FILES: [File; {}] = [\n",
        dist.join("index.html"),
        FILES.len()
    );
    for (name, media_type) in FILES {
        let (plain, packed) = (dist.join(name), out.join(format!("{name}.gz")));
        let text = fs::read(&plain).unwrap_or_else(|error| panic!("{}: {error}", plain.display()));
        fs::write(&packed, gzip(&text)).expect("the output folder can be written");
        let tag = hex(&Sha256::digest(&text));
        writeln!(
            code,
            "    File {{ name: {name:?}, media_type: {media_type:?}, tag: {tag:?}, \
             plain: include_bytes!({plain:?}), packed: include_bytes!({packed:?}) }},"
        )
        .expect("a string takes everything");
    }
    code.push_str("];\n");
    fs::write(out.join("console.rs"), code).expect("the output folder can be written");
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}
