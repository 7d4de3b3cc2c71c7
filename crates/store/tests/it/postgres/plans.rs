//! How many rows the statements of a lifecycle visit, independent of the size of the store.

use store::postgres::{hot_statements, list_statement};
use store::{Filter, LabelFilter, TaskKey, TaskWithSpec};
use storetest::conformance::driver::caller;
use storetest::conformance::reports::{report, succeeded};
use storetest::conformance::{Between, Driver};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls};
use verdict::Scope;

use super::Postgres;

async fn connect(fixture: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(fixture.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The plan of a statement as a batch would run it, after execution.
async fn plan(
    client: &Client,
    sql: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
) -> Vec<String> {
    plan_with(client, "", sql, parameters).await
}

/// The same after these settings.
async fn plan_with(
    client: &Client,
    settings: &str,
    sql: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
) -> Vec<String> {
    client.batch_execute(hot_statements().begin).await.unwrap();
    client.batch_execute(settings).await.unwrap();
    client.query("SELECT set_config('tenure.scopes', '*', true)", &[]).await.unwrap();
    let explain = format!("EXPLAIN (ANALYZE, TIMING OFF) {sql}");
    let rows = client.query_typed(&explain, parameters).await.unwrap();
    client.batch_execute("ROLLBACK").await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

fn ids_of(tasks: &[TaskWithSpec]) -> Vec<Vec<u8>> {
    tasks.iter().map(|ready| ready.task.id.as_u128().to_be_bytes().to_vec()).collect()
}

#[tokio::test]
async fn tasks_are_looked_up_one_by_one_by_their_key() {
    let fixture = Postgres::new();
    let client = connect(&fixture).await;
    let mut driver = Driver::start(fixture, Between::Nothing).await;
    let scope = Scope::default();
    for _ in 0..40 {
        driver.add(&scope, "images").await;
    }
    let leased = driver.lease(&scope, "images", 40).await;
    for ready in &leased[..20] {
        let key = TaskKey { scope: scope.clone(), id: ready.task.id };
        driver.about(&key, report(&caller(ready), succeeded())).await;
    }
    let (ended, running) = leased.split_at(20);
    for (sql, tasks) in [(hot_statements().lock, running), (hot_statements().ended, ended)] {
        let ids = ids_of(tasks);
        let tenants = vec![scope.tenant.as_str(); ids.len()];
        let workspaces = vec![scope.workspace.as_str(); ids.len()];
        let keys: [(&(dyn ToSql + Sync), Type); 3] = [
            (&tenants, Type::TEXT_ARRAY),
            (&workspaces, Type::TEXT_ARRAY),
            (&ids, Type::BYTEA_ARRAY),
        ];
        let plan = plan(&client, sql, &keys).await;
        let is_joined = |line: &String| line.contains("Join Filter") || line.contains("Seq Scan");
        // A full table scan in every batch is what made large stores slow.
        assert!(!plan.iter().any(is_joined), "{}", plan.join("\n"));
        let found = plan.iter().filter(|line| line.contains("loops=20")).count();
        assert!(found >= 2, "each key is searched on its own: {}", plan.join("\n"));
    }
}

#[tokio::test]
async fn an_object_is_looked_up_by_its_key_in_a_table_without_statistics() {
    // A new store has none until it is analyzed, and a plan that reads all objects of a type is kept by the connection:
    // deliveries of 20,000 effects took six milliseconds of the database each.
    let fixture = Postgres::new();
    let client = connect(&fixture).await;
    let _driver = Driver::start(fixture, Between::Nothing).await;
    let same = vec!["default"; 20];
    let types = vec!["effect"; 20];
    let ids: Vec<String> = (0..20).map(|n| format!("effect-{n}")).collect();
    let keys: [(&(dyn ToSql + Sync), Type); 4] = [
        (&same, Type::TEXT_ARRAY),
        (&same, Type::TEXT_ARRAY),
        (&types, Type::TEXT_ARRAY),
        (&ids, Type::TEXT_ARRAY),
    ];
    let lookup = plan(&client, hot_statements().objects, &keys).await.join("\n");
    assert!(lookup.contains("objects_pkey"), "{lookup}");
    // Lists of one status have the index that lookups must not have.
    let list = "SELECT o.body FROM tenure.objects o WHERE o.tenant = $1 AND o.workspace = $2 \
        AND o.object_type = $3 AND o.status = $4 ORDER BY o.tenant, o.workspace, o.object_type, o.id LIMIT 100";
    let fill = "BEGIN; SELECT set_config('tenure.scopes', '*', true); \
        INSERT INTO tenure.objects (tenant, workspace, object_type, id, revision, status, pending, body) \
        SELECT 'default', 'default', 'effect', 'effect-' || i, 1, \
            CASE WHEN i % 1000 = 0 THEN 'rare' ELSE 'usual' END, false, '{}' \
        FROM generate_series(1, 5000) i; COMMIT; ANALYZE tenure.objects";
    client.batch_execute(fill).await.unwrap();
    let names: [(&(dyn ToSql + Sync), Type); 4] = [
        (&"default", Type::TEXT),
        (&"default", Type::TEXT),
        (&"effect", Type::TEXT),
        (&"rare", Type::TEXT),
    ];
    let listed = plan(&client, list, &names).await.join("\n");
    assert!(listed.contains("objects_by_status"), "{listed}");
}

#[tokio::test]
async fn messages_that_are_due_are_read_from_an_index_in_a_table_without_statistics() {
    // A tenant whose trees were cancelled left forty thousand, and every batch read and sorted them all.
    let fixture = Postgres::new();
    let client = connect(&fixture).await;
    let _driver = Driver::start(fixture, Between::Nothing).await;
    let fill = "ALTER TABLE tenure.messages SET (autovacuum_enabled = off); \
        BEGIN; SELECT set_config('tenure.scopes', '*', true); \
        INSERT INTO tenure.messages (addressee, sender, entry, place, tenant, workspace, body, due) \
        SELECT decode(md5(i::text), 'hex'), decode(repeat('00', 16), 'hex'), 1, 0, \
            CASE WHEN i <= 20000 THEN 'crowd' ELSE 'small' END, 'default', '{}', i \
        FROM generate_series(1, 20001) i; COMMIT";
    client.batch_execute(fill).await.unwrap();
    let (settings, none) = (hot_statements().without_sorts, Vec::<Vec<u8>>::new());
    let due: [(&(dyn ToSql + Sync), Type); 3] =
        [(&30_000_i64, Type::INT8), (&1_016_i64, Type::INT8), (&none, Type::BYTEA_ARRAY)];
    let others: [(&(dyn ToSql + Sync), Type); 3] =
        [(&30_000_i64, Type::INT8), (&"crowd", Type::TEXT), (&none, Type::BYTEA_ARRAY)];
    for (sql, parameters, index) in [
        (hot_statements().addressees, due, "messages_by_due"),
        (hot_statements().of_other_tenants, others, "messages_by_tenant"),
    ] {
        let plan = plan_with(&client, settings, sql, &parameters).await.join("\n");
        assert!(plan.contains(index), "{plan}");
        let whole = ["Seq Scan", "Bitmap", "Sort", "Hash"];
        assert!(!whole.iter().any(|whole| plan.contains(whole)), "{plan}");
    }
}

/// Tenants that have ended this many tasks each, and one with a few older ones.
async fn crowd(client: &Client, each: i32) {
    const TENANTS: i32 = 20;
    const OURS: i32 = 40;
    let last = OURS + TENANTS * each;
    let sql = format!(
        "BEGIN; SELECT set_config('tenure.scopes', '*', true);
         INSERT INTO tenure.inputs (id, tenant, workspace, queue, kind, priority, created_at,
            fingerprint, labels, input)
         SELECT decode(lpad(to_hex(i), 32, '0'), 'hex'),
            CASE WHEN i <= {OURS} THEN 'small' ELSE 'tenant' || i % {TENANTS} END, 'default',
            'images', 'resize', 0, 0, decode(repeat('00', 32), 'hex'),
            CASE WHEN i % 7 = 0 THEN '{{\"team\":\"red\"}}' END, '{{}}'
         FROM generate_series(1, {last}) i;
         INSERT INTO tenure.done (id, tenant, workspace, state, completed_at, attempt, failures,
            lost, claim_version, entries, record)
         SELECT id, tenant, workspace, 'cancelled', 0, 0, 0, 0, 0, 1, fingerprint
         FROM tenure.inputs; COMMIT; ANALYZE tenure.inputs; ANALYZE tenure.done"
    );
    client.batch_execute(&sql).await.unwrap();
}

/// How many rows of `inputs` a list visits, with a custom or a generic plan.
async fn visited(client: &Client, mode: &str, tenant: &str, filter: &Filter) -> (u64, Vec<String>) {
    let quoted = |value: Option<&str>| value.map_or("NULL".to_owned(), |it| format!("'{it}'"));
    let label = |label: &LabelFilter| {
        format!(r#"ARRAY['{{"{}":"{}"}}']"#, label.name, label.value.as_deref().unwrap_or_default())
    };
    let labels = filter.labels.first().map_or("NULL".to_owned(), label);
    let worker = quoted(filter.worker.as_ref().map(|name| name.as_str()));
    let category = quoted(filter.category.map(verdict::Category::name));
    let state = quoted(filter.state.map(verdict::State::name));
    let (limit, scan_max) = (filter.limit + 1, filter.scan_max);
    let begin = hot_statements().begin;
    let prepare = format!(
        "{begin}; SET LOCAL plan_cache_mode = {mode};
         PREPARE list (bytea, text, text, bytea, text, text, text[], text[], text, text, text, bigint,
            bigint, text[]) AS {}",
        list_statement(filter)
    );
    client.batch_execute(&prepare).await.unwrap();
    client.query("SELECT set_config('tenure.scopes', '*', true)", &[]).await.unwrap();
    let explain = format!(
        "EXPLAIN (ANALYZE, TIMING OFF) EXECUTE list (decode(repeat('ff', 17), 'hex'), '{tenant}',
         'default', '', NULL, NULL, {labels}, NULL, {state}, {category}, {worker}, {limit},
         {scan_max}, NULL)"
    );
    let rows = client.query(&explain, &[]).await.unwrap();
    client.batch_execute("ROLLBACK; DEALLOCATE list").await.unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let index = if filter.children { "inputs_by_scope" } else { "inputs_roots" };
    let scan = plan.iter().find(|line| line.contains(index));
    let scan = scan.unwrap_or_else(|| panic!("no index: {}", plan.join("\n")));
    let rows = scan.split("actual rows=").nth(1).and_then(|it| it.split([' ', '.']).next());
    (rows.unwrap().parse().unwrap(), plan)
}

#[tokio::test]
async fn a_list_visits_rows_of_its_own_scope_only() {
    // F72: ended tasks of other tenants are not visited, and a filtered scan is bounded.
    let fixture = Postgres::new();
    let client = connect(&fixture).await;
    let _driver = Driver::start(fixture, Between::Nothing).await;
    crowd(&client, 500).await;
    let plain = Filter { limit: 10, ..Filter::default() };
    let team =
        |value: &str| vec![LabelFilter { name: "team".to_owned(), value: Some(value.to_owned()) }];
    let all = Filter { children: true, ..plain.clone() };
    let red = Filter { labels: team("red"), ..plain.clone() };
    let blue = Filter { labels: team("blue"), scan_max: 100, ..plain.clone() };
    let worker = Filter { worker: Some("w1".into()), scan_max: 100, ..plain.clone() };
    let category =
        Filter { category: Some(verdict::Category::Timeout), scan_max: 100, ..plain.clone() };
    let ended = Filter { state: Some(verdict::State::Cancelled), ..plain.clone() };
    let failed = Filter { state: Some(verdict::State::Failed), scan_max: 100, ..plain.clone() };
    for (tenant, filter, most) in [
        ("small", &plain, 11),
        ("small", &all, 11),
        ("small", &red, 40),
        ("small", &ended, 11),
        ("tenant7", &plain, 11),
        ("tenant7", &ended, 11),
        ("tenant7", &blue, 100),
        ("tenant7", &failed, 100),
        ("tenant7", &worker, 100),
        ("tenant7", &category, 100),
    ] {
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let (rows, plan) = visited(&client, mode, tenant, filter).await;
            assert!((1..=most).contains(&rows), "{rows} of {most}: {}", plan.join("\n"));
            assert!(!plan.iter().any(|line| line.contains("Seq Scan")), "{}", plan.join("\n"));
        }
    }
}
