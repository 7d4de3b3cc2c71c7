//! `--decode-with`: payloads that only their owner can read, decoded by a command of the owner.
//!
//! A payload codec stores `{"$codec": name, "data": base64}` in place of a value. The command gets the bytes of `data` on
//! standard input and the name of the codec in `TENURE_CODEC`, and prints the plain JSON. It runs on this machine with the
//! rights of the person who named it: the server never sees the plain text.

use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use wire::Json;
use wire::answers::Run;

use crate::exit::{CliError, Exit};

/// A command that takes longer waits for something that will not come.
const DECODE_TIMEOUT: Duration = Duration::from_secs(30);

/// The most that a command may print: a payload that was compressed may be much larger than the server stores.
const PLAIN_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A value as a codec stores it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    #[serde(rename = "$codec")]
    codec: String,
    data: String,
}

/// The run with its input and output in plain. Values that no codec made stay as they are.
pub(crate) async fn decoded(run: Run, command: &str) -> Result<Run, CliError> {
    let input = of_member("input", run.input.clone(), command).await?;
    let output = of_member("output", run.output.clone(), command).await?;
    Ok(Run { input, output, ..run })
}

async fn of_member(
    member: &str,
    value: Option<Json>,
    command: &str,
) -> Result<Option<Json>, CliError> {
    let Some(value) = value else { return Ok(None) };
    let Ok(Encoded { codec, data }) = value.read::<Encoded>() else { return Ok(Some(value)) };
    let failed = |why: String| {
        let message =
            format!("cannot decode the {member}, which the codec `{codec}` encoded: {why}");
        CliError::new(Exit::Failed, "not_decoded", message)
            .hint("leave --decode-with out to see the value as it is stored")
    };
    let data =
        STANDARD.decode(&data).map_err(|error| failed(format!("`data` is no base64: {error}")))?;
    let plain = plain(command, &codec, data).await.map_err(failed)?;
    let plain = Json::from_text(plain)
        .map_err(|error| failed(format!("`{command}` printed what is no JSON value: {error}")))?;
    Ok(Some(plain))
}

/// What the command prints about these bytes.
async fn plain(command: &str, codec: &str, data: Vec<u8>) -> Result<String, String> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .env("TENURE_CODEC", codec)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start a shell for `{command}`: {error}"))?;
    let (mut stdin, stdout) = (
        child.stdin.take().expect("its input is piped"),
        child.stdout.take().expect("its output is piped"),
    );
    let mut text = String::new();
    let talked = async {
        // A command that needs not all of its input may end before it has read it.
        let write = async {
            let _ = stdin.write_all(&data).await;
            drop(stdin);
        };
        let mut bounded = stdout.take(PLAIN_BYTES_MAX + 1);
        let (read, ()) = tokio::join!(bounded.read_to_string(&mut text), write);
        read?;
        drop(bounded);
        child.wait().await
    };
    let ended = tokio::time::timeout(DECODE_TIMEOUT, talked).await;
    let ended = ended.map_err(|_| format!("`{command}` took more than {DECODE_TIMEOUT:?}"))?;
    let ended = ended.map_err(|error| format!("cannot read what `{command}` prints: {error}"))?;
    match (ended.success(), text.len() as u64 > PLAIN_BYTES_MAX) {
        (_, true) => Err(format!("`{command}` printed more than {PLAIN_BYTES_MAX} bytes")),
        (false, false) => Err(format!("`{command}` ended with {ended}")),
        (true, false) => Ok(text),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn json(text: &str) -> Option<Json> {
        Some(Json::from_text(text.to_owned()).expect("it is JSON"))
    }

    async fn decode(value: &str, command: &str) -> Result<String, CliError> {
        let found = of_member("input", json(value), command).await?;
        Ok(found.expect("something was found").into_text())
    }

    #[tokio::test]
    async fn a_command_gets_the_bytes_and_the_name_of_the_codec() {
        // `eyJhIjogMS4wfQ==` is `{"a": 1.0}`.
        let value = r#"{"$codec": "plain", "data": "eyJhIjogMS4wfQ=="}"#;
        assert_eq!(decode(value, "cat").await.unwrap(), r#"{"a": 1.0}"#);
        let named = decode(value, "printf '\"%s\"' \"$TENURE_CODEC\"").await.unwrap();
        assert_eq!(named, "\"plain\"");
    }

    #[tokio::test]
    async fn a_value_without_a_codec_stays_as_it_is() {
        for value in ["7", r#"{"$codec": "x"}"#, r#"{"$codec": "x", "data": "", "more": 1}"#] {
            assert_eq!(decode(value, "exit 1").await.unwrap(), value);
        }
        assert!(of_member("output", None, "exit 1").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_cannot_be_decoded_says_why() {
        let value = r#"{"$codec": "x", "data": "AAAA"}"#;
        for (value, command, why) in [
            (value, "exit 3", "exit status: 3"),
            (value, "echo no", "no JSON value"),
            (r#"{"$codec": "x", "data": "%"}"#, "cat", "no base64"),
        ] {
            let error = decode(value, command).await.unwrap_err();
            assert!(error.message.contains(why), "{}", error.message);
            assert_eq!(error.code, "not_decoded");
        }
    }
}
