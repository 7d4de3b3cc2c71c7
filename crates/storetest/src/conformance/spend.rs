//! What runs used: added up with the commit that used it, by scope and day, and never lost, wrapped or shown to others.

#![expect(clippy::unwrap_used, reason = "in what tests share, too, a panic is the report")]

use store::browse::Browse;
use store::seam::{Batch, Decided, Lookup, Writer};
use store::spend::{SpendQuery, SpendRow, spend_rows};
use verdict::scope_budget::{Day, whole_tenant};
use verdict::{Amounts, Scope};

use super::driver::Driver;
use super::fixture::Fixture;

fn tokens(tokens: u64) -> Amounts {
    Amounts { tokens, ..Amounts::default() }
}

fn of(workspace: &str) -> Scope {
    Scope::new("acme", workspace)
}

fn row(workspace: &str, day: u32, amounts: Amounts) -> SpendRow {
    SpendRow { scope: of(workspace), day: Day(day), amounts }
}

async fn save<F: Fixture>(driver: &mut Driver<F>, spend: Vec<SpendRow>) {
    driver.pause().await;
    let mut batch = driver.writer().begin().await.unwrap();
    batch.moment().await.unwrap();
    batch.save(Decided { spend, ..Decided::default() }).await.unwrap();
    batch.commit().await.unwrap();
}

/// The sum as a batch reads it, which is what a reader beside the writers sees.
async fn sum<F: Fixture>(driver: &mut Driver<F>, scope: &Scope, since: u32) -> Amounts {
    let wanted = [SpendQuery { scope: scope.clone(), since: Day(since) }];
    let mut batch = driver.writer().begin().await.unwrap();
    let found = batch.look_up(Lookup::spend(&wanted)).await.unwrap().spend;
    drop(batch);
    assert_eq!(driver.browse().spend(&wanted).await.unwrap(), found);
    found[0]
}

pub async fn adds_up_by_scope_and_day<F: Fixture>(driver: &mut Driver<F>) {
    let more = Amounts { cost_micros: 7, tokens: 5, steps: 3, tool_calls: 1 };
    save(driver, spend_rows(&of("a"), Day(10), more).to_vec()).await;
    // One batch may use something in a scope twice.
    save(
        driver,
        [spend_rows(&of("a"), Day(11), more), spend_rows(&of("a"), Day(11), more)].concat(),
    )
    .await;
    save(driver, spend_rows(&of("b"), Day(11), tokens(100)).to_vec()).await;
    assert_eq!(sum(driver, &of("a"), 11).await, more.plus(more));
    assert_eq!(sum(driver, &of("a"), 0).await, more.plus(more).plus(more));
    assert_eq!(sum(driver, &of("a"), 12).await, Amounts::default());
    assert_eq!(sum(driver, &of("b"), 0).await, tokens(100));
    assert_eq!(sum(driver, &whole_tenant(&"acme".into()), 11).await.tokens, 110);
    assert_eq!(sum(driver, &Scope::default(), 0).await, Amounts::default());
}

pub async fn never_wraps<F: Fixture>(driver: &mut Driver<F>) {
    // W-10: a sum that does not fit is the largest there is, so no limit is lifted by it.
    let largest = verdict::budget::SUM_MAX;
    for amounts in [tokens(u64::MAX), tokens(largest), tokens(1)] {
        save(driver, vec![row("a", 3, amounts)]).await;
    }
    save(driver, vec![row("a", 4, tokens(largest))]).await;
    assert_eq!(sum(driver, &of("a"), 0).await.tokens, largest);
}

pub async fn belongs_to_its_commit<F: Fixture>(driver: &mut Driver<F>) {
    driver.pause().await;
    let mut batch = driver.writer().begin().await.unwrap();
    batch.moment().await.unwrap();
    let spend = vec![row("a", 3, tokens(9))];
    batch.save(Decided { spend, ..Decided::default() }).await.unwrap();
    drop(batch);
    assert_eq!(sum(driver, &of("a"), 0).await, Amounts::default());
}

pub async fn is_read_in_pages<F: Fixture>(driver: &mut Driver<F>) {
    let days = [("a", 2), ("a", 10), ("b", 1)];
    save(driver, days.map(|(workspace, day)| row(workspace, day, tokens(1))).to_vec()).await;
    save(driver, vec![row("a", 10, tokens(4))]).await;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = driver.browse().spend_rows(after.as_ref(), 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.scope.clone(), last.day));
        found.extend(page);
    }
    let expected = [("a", 2, 1), ("a", 10, 5), ("b", 1, 1)];
    assert_eq!(found, expected.map(|(workspace, day, sum)| row(workspace, day, tokens(sum))));
}

/// A month of a tenant with a thousand workspaces.
pub async fn costs_the_same_for_a_thousand_workspaces<F: Fixture>(driver: &mut Driver<F>) {
    for day in 1..=3 {
        let rows = (0..1_000).flat_map(|n| spend_rows(&of(&format!("w{n}")), Day(day), tokens(1)));
        save(driver, rows.collect()).await;
    }
    assert_eq!(sum(driver, &whole_tenant(&"acme".into()), 2).await.tokens, 2_000);
    assert_eq!(sum(driver, &of("w999"), 1).await.tokens, 3);
}
