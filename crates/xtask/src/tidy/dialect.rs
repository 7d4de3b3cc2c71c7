//! The SQL of the PostgreSQL engine stays inside the dialect that compatible databases share, and uses no session
//! state that a connection pooler could break.
//!
//! There are two lists: banned features, except in files with a reason; and required features, which the operators'
//! page must list one by one. SQL means the strings of the engine and its migrations.

use crate::finding::Finding;
use crate::rust_source::{RustSource, find_word};
use crate::tree::Tree;

const ENGINE: &str = "crates/store/src/postgres";
const MIGRATIONS: &str = "crates/store/src/postgres/migrations/";
const PAGE: &str = "docs/operate/scaling.md";

struct Ban {
    words: &'static [&'static str],
    /// File names, without folder, where it is allowed; `*.sql` for the migrations.
    except: &'static [&'static str],
    why: &'static str,
    remedy: &'static str,
}

/// Banned words in SQL. This repository writes keywords in capitals, so prose in strings is not mistaken for SQL.
const BANS: &[Ban] = &[
    Ban {
        words: &[
            "pg_advisory_lock",
            "pg_advisory_xact_lock",
            "pg_try_advisory_lock",
            "pg_try_advisory_xact_lock",
            "pg_advisory_unlock",
        ],
        // The lock of a flow key ends with its transaction, also behind a pooler, and has no row that it could be.
        except: &["statements.rs"],
        why: "advisory locks are missing or per node elsewhere, and a pooler gives them to others",
        remedy: "lock a row",
    },
    Ban {
        words: &["LISTEN", "NOTIFY", "UNLISTEN", "pg_notify("],
        // The second plays a bug of the museum, in test builds only.
        except: &["hints.rs", "commit.rs"],
        why: "hints need a session of their own and are not to be had everywhere",
        remedy: "send a hint through `hints.rs`, and work without it",
    },
    Ban {
        words: &[
            "TEMP TABLE",
            "TEMPORARY",
            "UNLOGGED",
            "CREATE EXTENSION",
            "COPY",
            "PREPARE",
            "DEALLOCATE",
            "DISCARD",
        ],
        except: &[],
        why: "it belongs to a session or to one engine",
        remedy: "unnest arrays, and page by key",
    },
    Ban {
        words: &[
            "WITH RECURSIVE",
            "AS MATERIALIZED",
            "AS NOT MATERIALIZED",
            "AS (INSERT",
            "AS (UPDATE",
            "AS (DELETE",
        ],
        // They read which lines a flow key has and which tenants have messages, and write nothing inside the expression.
        except: &["statements.rs", "messages.rs"],
        why: "writing inside a common table expression has an order that engines do not agree on",
        remedy: "send one statement after the other in the same transaction",
    },
    Ban {
        words: &[
            "ctid",
            "xmin",
            "txid_current(",
            "pg_current_xact_id(",
            "nextval(",
            "SERIAL",
            "BIGSERIAL",
            "IDENTITY",
        ],
        except: &[],
        why: "it shows how one engine stores rows, or makes every writer wait for one counter",
        remedy: "use ids that are made outside and the revision of a row",
    },
    Ban {
        words: &["SET SESSION", "SET ROLE", "SET LOCAL", "RESET"],
        except: &["session.rs", "scopes.rs", "primary.rs"],
        why: "behind a pooler the next client inherits a session's settings",
        remedy: "set it LOCAL where transactions begin, in `session.rs`",
    },
    Ban {
        words: &["set_config("],
        except: &["scopes.rs", "pruning.rs"],
        why: "what a transaction may see and remove is set in two places",
        remedy: "go through `scopes.rs`",
    },
    Ban {
        words: &["LOCK TABLE"],
        except: &["opening.rs", "copy_target.rs"],
        why: "a table lock blocks every other session",
        remedy: "lock rows by key",
    },
    Ban {
        words: &["CREATE TRIGGER", "CREATE FUNCTION", "CREATE POLICY", "plpgsql"],
        except: &["*.sql"],
        why: "the second line of defence stands in migrations, where it is reviewed as a whole",
        remedy: "write a migration",
    },
    Ban {
        words: &["DO $$", "DECLARE", "FETCH"],
        except: &["opening.rs", "*.sql"],
        why: "code inside a statement is not reviewed, tested or found",
        remedy: "write a migration, or decide in Rust",
    },
    Ban {
        words: &["DROP SCHEMA", "TRUNCATE TABLE"],
        except: &["copy_target.rs"],
        why: "only an unfinished copy is ever removed whole",
        remedy: "delete by key",
    },
];

/// Calls of the driver that create a named prepared statement in the session.
const NAMING_CALLS: &[&str] = &[
    ".prepare(",
    ".prepare_typed(",
    ".prepare_cached(",
    ".prepare_typed_cached(",
    ".query(",
    ".query_one(",
    ".query_opt(",
    ".query_raw(",
    ".execute(",
    ".execute_raw(",
    ".copy_in(",
    ".copy_out(",
];

/// Features that other engines may lack. The operators' page lists each one that our SQL uses.
const FEATURES: &[&str] = &[
    "FOR UPDATE",
    "SKIP LOCKED",
    "ON CONFLICT",
    "RETURNING",
    "unnest(",
    "WITH ORDINALITY",
    "LATERAL",
    "clock_timestamp()",
    "gen_random_uuid()",
    "set_config(",
    "current_setting(",
    "ROW LEVEL SECURITY",
    "CREATE TRIGGER",
    "REFERENCING NEW TABLE",
    "plpgsql",
    "REPEATABLE READ",
    "LOCK TABLE",
    "LISTEN",
    "pg_notify(",
    "to_regclass(",
    "fillfactor",
    "autovacuum_vacuum_threshold",
    "COLLATE",
    "FILTER",
    "jsonb",
    "SET LOCAL ROLE",
    "lock_timeout",
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "enable_seqscan",
    "IS DISTINCT FROM",
    "GROUPING SETS",
    "WINDOW",
    "TABLESAMPLE",
    "MERGE INTO",
    "PARTITION BY",
    "EXCLUDE USING",
    "DEFERRABLE",
    "tsvector",
    "INHERITS",
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = sql(tree);
    let mut findings = Vec::new();
    for (path, text) in &sources {
        findings.extend(banned(path, text));
    }
    for (path, source) in engine(tree) {
        findings.extend(naming(path, source));
    }
    findings.extend(undocumented(tree, &sources));
    findings
}

fn engine(tree: &Tree) -> impl Iterator<Item = (&str, &RustSource)> {
    tree.rust().filter(|(path, _)| path.starts_with(ENGINE))
}

/// All text that may be SQL, with the rest blanked so that line numbers stay.
fn sql(tree: &Tree) -> Vec<(String, String)> {
    let strings = engine(tree).map(|(path, source)| (path.to_owned(), strings_of(source)));
    let files = tree
        .texts()
        .filter(|(path, _)| path.starts_with(MIGRATIONS) && path.ends_with(".sql"))
        .map(|(path, text)| (path.to_string(), without_comments(text)));
    strings.chain(files).collect()
}

fn strings_of(source: &RustSource) -> String {
    let masks = source.code.bytes().zip(source.comments.bytes());
    let bytes = source.text.bytes().zip(masks).map(|(byte, (code, comment))| {
        let is_string = code.is_ascii_whitespace() && comment.is_ascii_whitespace();
        if is_string || byte == b'\n' { byte } else { b' ' }
    });
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

fn without_comments(text: &str) -> String {
    let line = |line: &str| line.split("--").next().unwrap_or_default().to_owned();
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn banned(path: &str, text: &str) -> Vec<Finding> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_excepted = |ban: &&Ban| {
        ban.except
            .iter()
            .any(|except| *except == name || (*except == "*.sql" && name.ends_with(".sql")))
    };
    let mut findings = Vec::new();
    for ban in BANS.iter().filter(|ban| !is_excepted(ban)) {
        for word in ban.words {
            findings.extend(find_word(text, word).into_iter().map(|at| Finding {
                file: path.to_owned(),
                line: text[..at].matches('\n').count() + 1,
                what: format!("`{word}` is used in SQL"),
                why: ban.why,
                remedy: ban.remedy.to_owned(),
            }));
        }
    }
    findings
}

/// The files that name prepared statements, after they have checked that there is no pooler in between.
const NAMING_PLACES: [&str; 2] = ["connections.rs", "hints.rs"];

fn naming(path: &str, source: &RustSource) -> Vec<Finding> {
    let mut findings = Vec::new();
    if path.rsplit('/').next().is_some_and(|file| NAMING_PLACES.contains(&file)) {
        return findings;
    }
    for call in NAMING_CALLS {
        let calls = source.code.match_indices(call).map(|(at, _)| at);
        findings.extend(calls.filter(|at| !source.is_test_code(*at)).map(|at| Finding {
            file: path.to_owned(),
            line: source.line_of(at),
            what: format!("`{call}…)` names a prepared statement"),
            why: "a pooler in transaction mode gives the session with that name to others",
            remedy: "use `query_typed`, `execute_typed` or `batch_execute`: a connection that may, puts a \
                name in place of the text"
                .to_owned(),
        }));
    }
    findings
}

/// The features that the page lists: the first cell of each row, in backticks.
fn listed(page: &str) -> Vec<&str> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(word, _)| word)
        .collect()
}

fn undocumented(tree: &Tree, sources: &[(String, String)]) -> Vec<Finding> {
    let page = tree.text(PAGE).unwrap_or_default();
    let listed = listed(page);
    let is_used = |word: &str| sources.iter().any(|(_, text)| !find_word(text, word).is_empty());
    let missing = FEATURES.iter().filter(|word| is_used(word) && !listed.contains(word));
    let missing = missing.map(|word| Finding {
        file: PAGE.to_owned(),
        line: 1,
        what: format!("the SQL uses `{word}` and the page does not list it"),
        why: "operators choose a database by what we rely on",
        remedy: "add a row with what it is for, or do without it".to_owned(),
    });
    let known = |word: &&&str| FEATURES.contains(*word) && !is_used(word);
    let stale = listed.iter().filter(known).map(|word| Finding {
        file: PAGE.to_owned(),
        line: 1,
        what: format!("the page lists `{word}`, which no SQL uses"),
        why: "operators choose a database by what we rely on",
        remedy: "remove the row".to_owned(),
    });
    missing.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let all = check(&Tree::of(files));
        all.into_iter().map(|finding| (finding.file, finding.what)).collect()
    }

    fn engine_file(name: &str, code: &str) -> Vec<(String, String)> {
        findings(&[(&format!("{ENGINE}/{name}"), &format!("//! A.\n{code}\n"))])
    }

    #[test]
    fn planted_sql_outside_the_dialect_is_found() {
        for planted in [
            "SELECT pg_advisory_xact_lock(1)",
            "LISTEN other",
            "CREATE TEMP TABLE t (a int)",
            "WITH x AS (DELETE FROM t RETURNING a) SELECT 1 FROM x",
            "SELECT ctid FROM t",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            "SELECT set_config('a', 'b', false)",
            "LOCK TABLE t",
            "CREATE TRIGGER t AFTER INSERT ON t",
            "DO $$ BEGIN END $$",
            "DROP SCHEMA tenure",
        ] {
            let found = engine_file("batch.rs", &format!("const SQL: &str = \"{planted}\";"));
            assert!(found.iter().any(|(file, _)| file.ends_with("batch.rs")), "{planted}");
        }
        let migration = format!("{MIGRATIONS}V9__x.sql");
        assert!(!findings(&[(&migration, "SELECT nextval('s');")]).is_empty());
        assert!(findings(&[(&migration, "-- no nextval('s') here")]).is_empty());
    }

    #[test]
    fn what_is_listed_may_stand_where_it_is_listed() {
        let set = "const SQL: &str = \"BEGIN; SET LOCAL work_mem = '1MB'\";";
        assert!(engine_file("session.rs", set).is_empty());
        assert!(!engine_file("batch.rs", set).is_empty());
        let prose = "// LISTEN carefully.\nfn reset() { LISTEN; }";
        assert!(engine_file("batch.rs", prose).is_empty(), "comments and code are not SQL");
    }

    #[test]
    fn named_statements_are_found() {
        assert!(!engine_file("reads.rs", "fn f() { client.query(sql, &[]); }").is_empty());
        assert!(!engine_file("reads.rs", "fn f() { client.prepare_cached(sql); }").is_empty());
        assert!(engine_file("reads.rs", "fn f() { client.query_typed(sql, &[]); }").is_empty());
        assert!(engine_file("connections.rs", "fn f() { client.prepare(sql); }").is_empty());
    }

    #[test]
    fn the_page_and_the_sql_say_the_same() {
        let engine = format!("{ENGINE}/reads.rs");
        let used =
            (engine.as_str(), "//! A.\nconst S: &str = \"SELECT 1 FOR UPDATE SKIP LOCKED\";\n");
        let rows = "| `FOR UPDATE` | x |\n| `SKIP LOCKED` | y |\n";
        assert!(findings(&[used, (PAGE, rows)]).is_empty());
        assert_eq!(findings(&[used, (PAGE, "| `FOR UPDATE` | x |\n")]).len(), 1);
        assert_eq!(findings(&[(PAGE, rows)]).len(), 2, "rows that no SQL needs");
    }
}
