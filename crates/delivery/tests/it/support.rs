//! A resolver with scripted answers, and a dialler that only records.

#![expect(clippy::unwrap_used, reason = "in what tests share, too, a panic is the report")]

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use delivery::{
    CheckedAddress, Dial, Egress, Outgoing, Resolve, Roots, SendOutcome, Sender, Stream,
};
use futures_util::future::BoxFuture;

/// Answers each name with the next of its scripted answers; the last one stays.
#[derive(Default)]
pub(crate) struct ScriptedResolver {
    answers: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) asked: Mutex<usize>,
}

impl ScriptedResolver {
    pub(crate) fn answering(name: &str, answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| answer.iter().map(|it| it.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        Self {
            answers: Mutex::new(BTreeMap::from([(name.to_owned(), answers)])),
            asked: Mutex::default(),
        }
    }
}

impl Resolve for ScriptedResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        *self.asked.lock().unwrap() += 1;
        let mut answers = self.answers.lock().unwrap();
        let answer = answers
            .get_mut(name)
            .map(|list| if list.len() > 1 { list.remove(0) } else { list[0].clone() });
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

#[derive(Default)]
pub(crate) struct RecordingDialer {
    pub(crate) dialled: Mutex<Vec<SocketAddr>>,
}

impl Dial for RecordingDialer {
    fn dial(&self, address: CheckedAddress) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
        self.dialled.lock().unwrap().push(address.get());
        Box::pin(async { Err(io::Error::other("only recorded")) })
    }
}

pub(crate) struct Attempted {
    pub(crate) outcome: SendOutcome,
    pub(crate) dialled: Vec<SocketAddr>,
    pub(crate) asked: usize,
}

pub(crate) async fn attempt(url: &str, egress: Egress, resolver: ScriptedResolver) -> Attempted {
    let (resolver, dialer) = (Arc::new(resolver), Arc::new(RecordingDialer::default()));
    let sender = Sender::new(egress, &Roots::Pem(Vec::new())).unwrap();
    let sender = sender.with_resolver(resolver.clone()).with_dialer(dialer.clone());
    let outcome = sender.send(&outgoing(url)).await;
    let dialled = dialer.dialled.lock().unwrap().clone();
    let asked = *resolver.asked.lock().unwrap();
    Attempted { outcome, dialled, asked }
}

pub(crate) fn outgoing(url: &str) -> Outgoing {
    let (tenant, url) = ("default".to_owned(), url.to_owned());
    Outgoing { tenant, url, headers: Vec::new(), body: Bytes::from_static(b"{}") }
}
