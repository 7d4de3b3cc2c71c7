//! Expired idempotency keys are deleted from the table, and no others.

use storetest::conformance::driver::caller;
use storetest::conformance::reports::{report, succeeded};
use storetest::conformance::{Between, Driver};
use tokio_postgres::NoTls;
use verdict::{Answer, Scope, Span};

use super::Postgres;

const DAY: Span = Span::from_secs(24 * 60 * 60);

#[tokio::test]
async fn a_key_leaves_a_day_after_the_end_of_its_run() {
    // exactly when it expires; a live task keeps its key for ever.
    let postgres = Postgres::new();
    let url = postgres.database.url().to_owned();
    let mut driver = Driver::start(postgres, Between::Nothing).await;
    let scope = Scope::default();
    let ending = driver.submission(&scope, "images").with_key("ends");
    driver.submit(ending.clone()).await;
    let leased = driver.lease(&scope, "images", 1).await;
    driver.about(&ending.task_key(), report(&caller(&leased[0]), succeeded())).await;
    let waiting = driver.submission(&scope, "images").with_key("waits");
    driver.submit(waiting.clone()).await;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut left = Vec::new();
    for wait in [Span::from_millis(DAY.millis() - 1), Span::from_millis(1), DAY] {
        driver.wait(wait);
        driver.store().forget_old_keys().await.unwrap();
        let rows = client.query("SELECT count(*) FROM tenure.keys", &[]).await.unwrap();
        left.push(rows[0].get::<_, i64>(0));
    }
    assert_eq!(left, [2, 1, 1]);
    let again = driver.submission(&scope, "images").with_key("waits");
    assert!(matches!(driver.submit(again).await, Answer::Accepted { replayed: true, .. }));
    drop(client);
    connection.await.unwrap().unwrap();
}
