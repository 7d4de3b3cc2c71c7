//! Refused calls under leases that several coordinators receive at once.

use store::{TaskKey, TaskWithSpec};
use storetest::conformance::driver::caller;
use storetest::conformance::reports::{report, succeeded};
use storetest::conformance::{Between, Call, Driver};
use tokio_postgres::NoTls;
use verdict::{Scope, Span};

use super::Postgres;

/// Records the order in which refusals are inserted into their table.
const WATCH: &str = "CREATE TABLE public.came (n bigserial, task bytea); \
    CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS \
        'BEGIN INSERT INTO public.came (task) VALUES (NEW.task); RETURN NEW; END'; \
    CREATE TRIGGER note BEFORE INSERT ON tenure.refused FOR EACH ROW EXECUTE FUNCTION public.note()";

fn late_report(ready: &TaskWithSpec) -> Call {
    let key = TaskKey { scope: Scope::default(), id: ready.task.id };
    Call::About { key, request: report(&caller(ready), succeeded()) }
}

#[tokio::test]
async fn refusals_are_written_in_one_order_whatever_the_order_of_the_calls() {
    // S2-52: an insert waits for a concurrent insert of the same row. Two batches with the same refusals in different
    // orders would deadlock, and one of them would be rolled back.
    let fixture = Postgres::new();
    let (client, connection) = tokio_postgres::connect(fixture.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    let scope = Scope::default();
    for _ in 0..3 {
        driver.add(&scope, "images").await;
    }
    let leased = driver.lease(&scope, "images", 3).await;
    driver.wait(Span::from_secs(90));
    driver.sweep().await;
    client.batch_execute(WATCH).await.unwrap();
    let late: Vec<Call> = [2, 0, 1].map(|n| late_report(&leased[n])).into();
    driver.ask_all(late).await;
    let came = client.query("SELECT task FROM public.came ORDER BY n", &[]).await.unwrap();
    let came: Vec<Vec<u8>> = came.iter().map(|row| row.get(0)).collect();
    assert_eq!(came.len(), 3);
    assert!(came.is_sorted(), "{came:?}");
    // Readers still see them in order of arrival.
    let ords = client.query("SELECT ord FROM tenure.refused ORDER BY task", &[]).await.unwrap();
    let ords: Vec<i64> = ords.iter().map(|row| row.get(0)).collect();
    assert_eq!(ords, [2, 3, 1]);
}
