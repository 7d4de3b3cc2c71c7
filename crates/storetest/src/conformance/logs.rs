//! Logs of tasks: pieces that grow, are removed, belong to their commit and scope, and leave with their task.

#![expect(clippy::unwrap_used, reason = "in what tests share, too, a panic is the report")]

use store::browse::Browse;
use store::logs::{LogRow, LogsOf, SavedLog};
use store::row::TaskKey;
use store::seam::{Batch, Decided, Lookup, Store, Writer};
use store::verify::verify;
use verdict::log::{Level, Line, LogChange, Piece, SentLine, SentLog, TaskLog};
use verdict::{Scope, Span, Time};

use super::driver::{Driver, caller};
use super::fixture::Fixture;
use super::reports::{report, succeeded};

fn sent(texts: &[&str]) -> SentLog {
    let line = |text: &&str| SentLine {
        number: None,
        at: Some(Time::from_millis(7)),
        level: Level::Warn,
        text: (*text).into(),
    };
    SentLog::new(texts.iter().map(line).collect()).unwrap()
}

/// What the rules make of these lines.
async fn change<F: Fixture>(
    driver: &mut Driver<F>,
    task: &TaskKey,
    attempt: u32,
    texts: &[&str],
) -> LogChange {
    let mut log = TaskLog::new(pieces(driver, task).await);
    log.add(attempt, &sent(texts), Time::from_millis(9));
    log.into_change()
}

async fn save<F: Fixture>(driver: &mut Driver<F>, task: &TaskKey, change: LogChange) {
    driver.pause().await;
    let mut batch = driver.writer().begin().await.unwrap();
    batch.look_up(Lookup::tasks(std::slice::from_ref(task))).await.unwrap();
    batch.moment().await.unwrap();
    let logs = vec![SavedLog { task: task.clone(), change }];
    batch.save(Decided { logs, ..Decided::default() }).await.unwrap();
    batch.commit().await.unwrap();
}

/// Adds lines to the log of a task.
pub async fn log<F: Fixture>(driver: &mut Driver<F>, task: &TaskKey, attempt: u32, texts: &[&str]) {
    let change = change(driver, task, attempt, texts).await;
    save(driver, task, change).await;
}

async fn pieces<F: Fixture>(driver: &mut Driver<F>, task: &TaskKey) -> Vec<Piece> {
    driver.pause().await;
    let mut batch = driver.writer().begin().await.unwrap();
    batch.look_up(Lookup::logs(std::slice::from_ref(task))).await.unwrap().logs.pop().unwrap()
}

async fn rows<F: Fixture>(driver: &Driver<F>, key: &TaskKey) -> Vec<LogRow> {
    let of = LogsOf::Task { key: key.clone(), after: None };
    driver.browse().logs(&of, 100).await.unwrap()
}

fn texts(rows: &[LogRow]) -> Vec<&str> {
    rows.iter().flat_map(|row| &row.lines).map(|line| line.text.as_str()).collect()
}

pub async fn grow_piece_by_piece<F: Fixture>(driver: &mut Driver<F>) {
    let task = driver.add(&Scope::default(), "q").await;
    log(driver, &task, 1, &["one", "two\n\"quoted\" é \u{1b}[0m"]).await;
    log(driver, &task, 1, &["three"]).await;
    let found = rows(driver, &task).await;
    assert_eq!(texts(&found), ["one", "two\n\"quoted\" é \u{1b}[0m", "three"]);
    assert_eq!(found.len(), 1, "short lines share a piece");
    let (at, level) = (Time::from_millis(7), Level::Warn);
    assert_eq!(found[0].lines[2], Line { number: 3, at, level, text: "three".into() });
    // A long line begins the next piece, and another attempt, too.
    log(driver, &task, 1, &[&"x".repeat(8_150), &"y".repeat(1_000)]).await;
    log(driver, &task, 2, &["again"]).await;
    let found = rows(driver, &task).await;
    assert_eq!(found.iter().map(|row| row.lines.len()).collect::<Vec<_>>(), [3, 1, 1, 1]);
    assert_eq!(found.iter().map(|row| row.piece).collect::<Vec<_>>(), pieces(driver, &task).await);
    let later = LogsOf::Task { key: task.clone(), after: Some((1, 4)) };
    assert_eq!(texts(&driver.browse().logs(&later, 100).await.unwrap()).last(), Some(&"again"));
    assert_eq!(driver.browse().logs(&later, 1).await.unwrap()[0].piece.id.first, 5);
    let checked = verify(driver.store().browse()).await.unwrap();
    assert_eq!(checked.findings, []);
}

pub async fn drop_their_oldest_and_say_how_many<F: Fixture>(driver: &mut Driver<F>) {
    let task = driver.add(&Scope::default(), "q").await;
    for _ in 0..12 {
        log(driver, &task, 1, &[&"x".repeat(7_000)]).await;
    }
    let found = rows(driver, &task).await;
    assert_eq!((found.len(), found[0].piece.dropped), (9, 3));
    assert_eq!(found.last().unwrap().piece.last, 12);
}

pub async fn belong_to_their_commit_and_scope<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::new("acme", "main");
    let task = driver.add(&scope, "q").await;
    let lost = change(driver, &task, 1, &["lost"]).await;
    driver.pause().await;
    let mut batch = driver.writer().begin().await.unwrap();
    batch.look_up(Lookup::tasks(std::slice::from_ref(&task))).await.unwrap();
    let logs = vec![SavedLog { task: task.clone(), change: lost }];
    batch.save(Decided { logs, ..Decided::default() }).await.unwrap();
    drop(batch);
    assert_eq!(rows(driver, &task).await, []);
    log(driver, &task, 1, &["kept"]).await;
    assert_eq!(texts(&rows(driver, &task).await), ["kept"]);
    for other in [Scope::default(), Scope::new("acme", "side"), Scope::new("bolt", "main")] {
        let foreign = TaskKey { scope: other, id: task.id };
        assert_eq!(rows(driver, &foreign).await, []);
    }
}

pub async fn are_read_in_pages_and_leave_with_their_task<F: Fixture>(driver: &mut Driver<F>) {
    let scope = Scope::default();
    let gone = driver.add(&scope, "first").await;
    let leased = driver.lease(&scope, "first", 1).await;
    log(driver, &gone, 1, &["gone"]).await;
    driver.about(&gone, report(&caller(&leased[0]), succeeded())).await;
    let stays = driver.add(&Scope::new("acme", "main"), "q").await;
    log(driver, &stays, 1, &["stays"]).await;
    log(driver, &stays, 2, &["too"]).await;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = driver.browse().logs(&LogsOf::All { after }, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.task.id, last.piece.id));
        found.extend(page);
    }
    assert_eq!(texts(&found), ["gone", "stays", "too"]);
    assert_eq!(found[1].task, stays);
    driver.wait(Span::from_secs(24 * 60 * 60));
    driver.pause().await;
    let mut batch = driver.writer().begin().await.unwrap();
    let ended = batch.ended(None, 100).await.unwrap();
    let forgotten = ended.iter().map(|ended| ended.position).collect();
    batch.save(Decided { forgotten, ..Decided::default() }).await.unwrap();
    batch.commit().await.unwrap();
    let left = driver.browse().logs(&LogsOf::All { after: None }, 100).await.unwrap();
    assert_eq!(texts(&left), ["stays", "too"]);
    assert_eq!(verify(driver.store().browse()).await.unwrap().findings, []);
}
