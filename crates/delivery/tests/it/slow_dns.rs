//! Names that are not answered: their calls end in time, and do not delay those of other tenants.

#![expect(clippy::unwrap_used, reason = "in what tests share, too, a panic is the report")]

use std::future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use delivery::{
    Egress, LOOKUPS_OF_TENANT_MAX, Outgoing, Resolve, Roots, SendOutcome, Sender, TOTAL_LIMIT,
};
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::{RecordingDialer, outgoing};

/// Does not answer names that begin with `slow`, and counts how often it was asked for one.
#[derive(Default)]
struct SilentResolver {
    asked: AtomicUsize,
}

impl Resolve for SilentResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            if name.starts_with("slow") {
                self.asked.fetch_add(1, Ordering::Relaxed);
                future::pending::<()>().await;
            }
            Ok(vec![IpAddr::from([93, 184, 216, 34])])
        })
    }
}

fn sender(resolver: &Arc<SilentResolver>) -> Sender {
    let sender = Sender::new(Egress::default(), &Roots::Pem(Vec::new())).unwrap();
    sender.with_resolver(resolver.clone()).with_dialer(Arc::new(RecordingDialer::default()))
}

fn of(tenant: &str, url: &str) -> Outgoing {
    Outgoing { tenant: tenant.to_owned(), ..outgoing(url) }
}

#[tokio::test(start_paused = true)]
async fn slow_names_of_one_tenant_do_not_delay_another() {
    let resolver = Arc::<SilentResolver>::default();
    let (sender, begun) = (sender(&resolver), Instant::now());
    let mut calls = JoinSet::new();
    for name in 0..10 * LOOKUPS_OF_TENANT_MAX {
        let call = of("hostile", &format!("https://slow{name}.example.com/"));
        let sender = sender.clone();
        calls.spawn(async move { sender.send(&call).await });
    }
    // Behind all of them.
    let (there, call) = (sender.clone(), of("friendly", "https://hook.example.com/"));
    let outcome = tokio::spawn(async move { there.send(&call).await }).await.unwrap();
    assert_eq!(outcome, SendOutcome::NotSent("no connection"), "it was dialled");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    for outcome in calls.join_all().await {
        assert_eq!(outcome, SendOutcome::NotSent("no connection in time"));
    }
    assert!(begun.elapsed() < TOTAL_LIMIT + Duration::from_secs(1), "no claim is held longer");
    assert_eq!(resolver.asked.load(Ordering::Relaxed), LOOKUPS_OF_TENANT_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_long_call_does_not_wait_long_for_an_address() {
    let (sender, begun) = (sender(&Arc::default()), Instant::now());
    let (call, day) = (of("default", "https://slow.example.com/"), Duration::from_secs(86_400));
    let outcome = sender.call(&call, day, 0).await;
    assert_eq!(outcome, SendOutcome::NotSent("no connection in time"));
    assert!(begun.elapsed() < TOTAL_LIMIT + Duration::from_secs(1));
}
