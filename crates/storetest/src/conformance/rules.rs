//! Which version of the rules is in force for a store.

use store::browse::{Browse, RowsAfter};
use store::seam::{Batch, Store, Writer};
use verdict::{Rules, Scope};

use super::driver::Driver;
use super::fixture::Fixture;

/// The only coordinator of a store decides by the newest version it supports, and every decision records it.
pub async fn are_the_newest_for_whoever_is_alone<F: Fixture>(driver: &mut Driver<F>) {
    let key = driver.add(&Scope::default(), "images").await;
    driver.pause().await;
    assert_eq!(driver.store().status().rules, Rules::NEWEST.number());
    let mut batch = driver.writer().begin().await.expect("a batch can be begun");
    assert_eq!(batch.moment().await.expect("the clock can be read").rules, Rules::NEWEST);
    drop(batch);
    let history =
        driver.browse().rows(&key, RowsAfter::Entry(0), 10).await.expect("it can be read").history;
    let rules: Vec<u32> = history.iter().map(|entry| entry.rules).collect();
    assert_eq!(rules, [Rules::NEWEST.number()]);
}
