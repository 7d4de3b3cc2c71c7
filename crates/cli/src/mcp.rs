//! `tenure mcp`: the Model Context Protocol, so that an agent can submit runs, look at them and ask people.
//!
//! A client like every other command: it calls a Tenure server over HTTP, keeps no state, and may do what the key may do
//! and nothing more. Over standard input and output that is the key of this process. Over HTTP it is the key that each
//! caller sends: the key of this process is lent to no caller.
//!
//! [`message`] reads and writes JSON-RPC, [`endpoint`] answers requests, [`stdio`] and [`http`] carry messages, and
//! [`tools`] has what an agent may call.

mod bounds;
mod endpoint;
mod http;
mod message;
mod refusal;
mod stdio;
mod tools;

use std::io::IsTerminal;
use std::net::SocketAddr;

use self::endpoint::Endpoint;
use crate::args::GlobalArgs;
use crate::exit::{CliError, CommandResult};
use crate::output::{self, Format};
use crate::profile::Connection;
use crate::server;

/// The largest message that is read: an input of the largest size, escaped, in its call.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Calls under way at once. An agent makes a few; more is a loop, and each holds a call of the server.
const CALLS_MAX: usize = 32;

const EXAMPLES: &str = "\
An MCP client starts `tenure mcp` and speaks with it over standard input and output. Its configuration names the
command, and the server and key as TENURE_URL and TENURE_API_KEY; without them the profile of `tenure dev` is used.

With --listen it serves HTTP at /mcp instead. Each client sends its own key, as `Authorization: Bearer KEY`.

Approvals are for people. With --allow-approvals, and a key with the role approver or admin, there is a tool that
decides them.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Serve HTTP at this address instead of standard input and output, such as 127.0.0.1:7410
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Accept calls that name this origin, as programs with a browser inside do; may be repeated [default: none]
    #[arg(long = "allow-origin", value_name = "ORIGIN", requires = "listen")]
    origins: Vec<String>,
    /// Allow plain HTTP beyond loopback: anyone on the network path can read keys and payloads
    #[arg(long, requires = "listen")]
    insecure_plaintext: bool,
    /// Offer a tool that decides approvals, to keys with the role approver or admin
    #[arg(long)]
    allow_approvals: bool,
}

pub(crate) async fn run(
    format: Format,
    global_args: &GlobalArgs,
    arguments: Arguments,
) -> CommandResult {
    let endpoint = Endpoint { allow_approvals: arguments.allow_approvals };
    let Some(listen) = arguments.listen else {
        let client = server::connect(global_args)?;
        if std::io::stdin().is_terminal() {
            output::note(
                "this speaks the Model Context Protocol; an MCP client starts it (Ctrl-D ends it)",
            );
        }
        return stdio::serve(endpoint, client).await;
    };
    if !listen.ip().is_loopback() && !arguments.insecure_plaintext {
        return Err(not_loopback(listen));
    }
    // Every caller brings its own key.
    let url = Connection::choose_url(global_args.url.as_deref())?;
    let keyless = Connection { url, key: String::new() };
    let client = server::client(&keyless, global_args.ca_file.as_deref())?;
    let place = http::Place { listen, origins: arguments.origins, server: keyless.url };
    http::run(format, endpoint, client, place).await
}

fn not_loopback(listen: SocketAddr) -> CliError {
    let message = format!("{listen} is beyond loopback, and keys would cross the network in plain");
    CliError::usage("not_loopback", message).hint(
        "listen on 127.0.0.1 behind a proxy that speaks TLS, or insist with --insecure-plaintext",
    )
}
