//! Seals over records, and what their sealer reads.

use store::administration::{Administration, Seal};
use store::browse::Browse;
use store::record_seals::{
    EndedRecord, EndedRecords, Leaf, Leaves, RecordSeal, SealFilter, SealsOf, root_of,
};
use store::seam::Writer;
use verdict::{Digest, Scope, Span, TaskId, Time};

use super::driver::{Driver, caller};
use super::fixture::Fixture;
use super::reports::{report, succeeded};

fn seal(tenant: &str, n: u64, end: i64) -> RecordSeal {
    let task = TaskId::from_u128(u128::from(n));
    let leaves = vec![Leaf { task, digest: Digest::of(&[&n.to_be_bytes()]) }];
    RecordSeal {
        tenant: tenant.into(),
        n,
        at: Time::from_millis(end + 5),
        complete_to: Time::from_millis(i64::MIN),
        first_end: Time::from_millis(end),
        last_end: Time::from_millis(end + 1),
        count: 1,
        root: root_of(&leaves),
        chain: Digest::of(&[tenant.as_bytes(), &n.to_be_bytes()]),
        seal: Seal([n as u8; Seal::BYTES]),
        leaves,
    }
}

async fn write<F: Fixture>(driver: &mut Driver<F>, seals: &[&RecordSeal]) {
    driver.pause().await;
    let record_seals = seals.iter().map(|seal| (*seal).clone()).collect();
    let act = Administration { record_seals, ..Administration::default() };
    driver.writer().administer(&act).await.expect("the act is written");
}

async fn read<F: Fixture>(driver: &mut Driver<F>, filter: &SealFilter) -> Vec<RecordSeal> {
    driver.pause().await;
    driver.browse().record_seals(filter).await.expect("browsing works")
}

fn all(of: SealsOf) -> SealFilter {
    SealFilter { tenant: None, of, leaves: Leaves::ALL, limit: 99 }
}

pub async fn append_only_behind_the_newest<F: Fixture>(driver: &mut Driver<F>) {
    let (first, second, other) = (seal("acme", 1, 10), seal("acme", 2, 20), seal("zoo", 1, 30));
    write(driver, &[&first]).await;
    // Another coordinator was first, or a seal is missing: nothing is written, and nothing fails.
    let late = RecordSeal { chain: Digest::of(&[b"late"]), ..first.clone() };
    write(driver, &[&late, &seal("acme", 3, 30)]).await;
    write(driver, &[&second, &other]).await;
    let stored = [first.clone(), second.clone(), other.clone()];
    assert_eq!(read(driver, &all(SealsOf::After(None))).await, stored);
    let after = SealsOf::After(Some(("acme".into(), 1)));
    assert_eq!(read(driver, &all(after)).await, [second.clone(), other.clone()]);
    assert_eq!(read(driver, &all(SealsOf::Newest)).await, [second.clone(), other.clone()]);
    let of_tenant = SealFilter { tenant: Some("acme".into()), ..all(SealsOf::Newest) };
    assert_eq!(read(driver, &of_tenant).await, std::slice::from_ref(&second));
    // Leaves only where they are wanted.
    let leaves = Leaves::Between(Time::from_millis(12), Time::from_millis(20));
    let some = SealFilter { leaves, limit: 2, ..all(SealsOf::After(None)) };
    let bare = RecordSeal { leaves: Vec::new(), ..first };
    assert_eq!(read(driver, &some).await, [bare, second]);
}

pub async fn cover_what_has_ended<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let mut keys = Vec::new();
    for goal in [None, Some("ship it")] {
        let mut submission = driver.submission(&scope, "q");
        submission.spec.goal = goal.map(Into::into);
        keys.push(submission.task_key());
        driver.submit(submission).await;
        let leased = driver.lease(&scope, "q", 1).await;
        let key = keys.last().expect("just added").clone();
        driver.about(&key, report(&caller(&leased[0]), succeeded())).await;
        driver.wait(Span::from_secs(10));
    }
    let live = driver.add(&scope, "q").await;
    let [first, second] = [keys[0].id, keys[1].id];
    let ended = async |driver: &Driver<F>, of| -> Vec<EndedRecord> {
        driver.browse().ended_records(&of).await.expect("browsing works")
    };
    let mut named = ended(driver, EndedRecords::Of(vec![second, live.id, first])).await;
    named.sort_by_key(|record| record.leaf.task);
    let ids = |records: &[EndedRecord]| records.iter().map(|it| it.leaf.task).collect::<Vec<_>>();
    assert_eq!(ids(&named), [first, second]);
    assert_ne!(named[0].leaf.digest, named[1].leaf.digest);
    let since = |from, after, limit| EndedRecords::Since { from, after, limit };
    let start = Time::from_millis(i64::MIN);
    let page = ended(driver, since(start, None, 1)).await;
    assert_eq!(page, named[..1]);
    let after = Some((page[0].completed_at, page[0].leaf.task));
    assert_eq!(ended(driver, since(start, after, 9)).await, named[1..]);
    assert_eq!(ended(driver, since(named[1].completed_at, None, 9)).await, named[1..]);
}
