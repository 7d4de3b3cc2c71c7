//! Keys and the audit, as an administrator uses them.

use crate::home::Home;

#[test]
fn a_key_is_made_listed_rotated_and_revoked() {
    let home = Home::new();
    let _server = home.serve();
    let made = home.run(&["keys", "create", "--role", "worker", "--queue", "mail", "--name", "m1"]);
    assert_eq!(made.code, 0, "{made:?}");
    // stdout is the key and nothing else, so that a script can save it.
    let secret = made.stdout.trim();
    assert!(secret.starts_with("tnr_") && !secret.contains(char::is_whitespace), "{made:?}");
    assert!(made.stderr.contains("shown only once"), "{made:?}");
    let id = secret.split('_').nth(1).unwrap();
    let listed = home.run(&["keys", "list"]);
    let row = listed.stdout.lines().find(|line| line.starts_with(id)).unwrap();
    for cell in ["m1", "worker", "default/default", "mail", "good"] {
        assert!(row.contains(cell), "{cell} in {row}");
    }
    assert!(!listed.stdout.contains(secret.split('_').nth(2).unwrap()));
    let queues = ["queues", "--key", secret];
    home.run(&queues).assert_error(5, "forbidden", "role client", "keys create");
    let rotated = home.json(&["keys", "rotate", "--json", id, "--overlap", "0s"]);
    assert_eq!(rotated["key"]["keyId"], id);
    home.run(&queues).assert_error(5, "unauthenticated", "rotated", "--key");
    let renewed = ["queues", "--key", rotated["secret"].as_str().unwrap()];
    home.run(&renewed).assert_error(5, "forbidden", "role client", "keys create");
    assert_eq!(home.run(&["keys", "revoke", id]).stdout, format!("{id} is revoked\n"));
    home.run(&renewed).assert_error(5, "unauthenticated", "revoked", "--key");
    home.run(&["keys", "revoke", "none"]).assert_error(
        3,
        "key_not_found",
        "no API key",
        "keys list",
    );
    let keys = home.json(&["keys", "list", "--json"]);
    let mine = keys.as_array().unwrap().iter().find(|key| key["keyId"] != id).unwrap();
    let mine = mine["keyId"].as_str().unwrap();
    let last = home.run(&["keys", "revoke", mine]);
    last.assert_error(4, "last_admin_key", "last usable admin", "keys create --role admin");
}

#[test]
fn the_audit_tells_who_did_what() {
    let home = Home::new();
    let _server = home.serve();
    let made = home.json(&["keys", "create", "--json", "--role", "client"]);
    let id = made["key"]["keyId"].as_str().unwrap();
    home.run(&["keys", "revoke", id]);
    let log = home.json(&["audit", "--json"]);
    let entries = log["entries"].as_array().unwrap();
    let told: Vec<_> = entries.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(told, ["key.revoked", "key.created", "key.created"]);
    let people = home.run(&["audit", "--limit", "1"]);
    assert!(people.stdout.contains("key.revoked") && people.stdout.contains(id), "{people:?}");
    assert!(people.stderr.contains("--before"), "{people:?}");
}

#[test]
fn signing_keys_are_rotated_while_the_server_runs() {
    // X07
    let home = Home::new();
    let _server = home.serve();
    let gentle = home.run(&["keys", "rotate-signing"]);
    assert_eq!(gentle.code, 0, "{gentle:?}");
    assert!(gentle.stderr.contains("valid until"), "{gentle:?}");
    let hard = home.json(&["keys", "rotate-signing", "--json", "--emergency"]);
    assert!(hard["kid"].is_string() && hard.get("previousUntil").is_none(), "{hard}");
    assert!(!gentle.stdout.contains(hard["kid"].as_str().unwrap()));
}

#[test]
fn a_tenant_is_limited_and_its_limits_are_taken_away() {
    let home = Home::new();
    let _server = home.serve();
    home.submit(&["k", "--queue", "q"]);
    let set = home.run(&["limits", "set", "default", "--unfinished-runs", "1"]);
    assert_eq!(set.code, 0, "{set:?}");
    let row = set.stdout.lines().find(|line| line.starts_with("default")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["default", "any", "any", "1", "1"]);
    let refused = home.run(&["submit", "k", "--queue", "q"]);
    refused.assert_error(4, "quota_reached", "1 unfinished run", "tenure limits list");
    let listed = home.json(&["limits", "list", "--json"]);
    assert_eq!(listed[0]["unfinishedRunsNow"], 1, "{listed}");
    assert_eq!(home.run(&["limits", "clear", "default"]).code, 0);
    home.submit(&["k", "--queue", "q"]);
    let half = home.run(&["limits", "set", "default", "--burst", "2"]);
    assert!(half.code == 2 && half.stderr.contains("--requests-per-second"), "{half:?}");
}

#[test]
fn an_audit_that_was_changed_behind_the_server_is_noticed() {
    // X45: edited, cut and reordered in the database itself; `verify` names the first bad entry.
    let home = Home::new();
    let server = home.serve();
    for name in ["a", "b", "c"] {
        home.run(&["keys", "create", "--role", "client", "--name", name]);
    }
    // After a rotation of the signing keys, older seals can still be checked.
    home.run(&["keys", "rotate-signing", "--emergency"]);
    home.run(&["keys", "create", "--role", "client", "--name", "d"]);
    let sound = home.run(&["audit", "verify"]);
    assert_eq!((sound.code, sound.stdout.lines().count()), (0, 1), "{sound:?}");
    assert!(sound.stdout.contains("no findings in 6 entries, 6 of them sealed"), "{sound:?}");
    drop(server);
    let store = home.store();
    let verify = ["verify", "--store", store.to_str().unwrap()];
    assert_eq!(home.run(&verify).code, 0);
    let backup = std::fs::read(&store).unwrap();
    for (tampering, says) in [
        ("UPDATE audit SET actor = 'somebody' WHERE n = 3", "entry 3 was changed"),
        ("DELETE FROM audit WHERE n = 3", "entries 3 to 3 are missing"),
        (
            "DELETE FROM audit WHERE n = 3; UPDATE audit SET n = n - 1 WHERE n > 3",
            "entry 3 was changed, or the entry before it was exchanged",
        ),
        ("DELETE FROM audit WHERE n > 4", "entries 5 to 6 were written and are missing"),
        ("UPDATE audit SET seal = NULL", "entries 1 to 6 have no seals"),
        ("UPDATE audit SET seal = NULL WHERE n < 3", "entries 1 to 2 have no seals"),
    ] {
        std::fs::write(&store, &backup).unwrap();
        let database = rusqlite::Connection::open(&store).unwrap();
        let unguarded = "DROP TRIGGER audit_no_update; DROP TRIGGER audit_no_delete;";
        database.execute_batch(&format!("{unguarded} {tampering}")).unwrap();
        database.close().unwrap();
        let ran = home.run(&verify);
        let first = ran.stdout.lines().next().unwrap_or_default();
        assert!(ran.code == 1 && first.contains(says), "{tampering}: {ran:?}");
    }
    // All seals are gone, and the anchor too: the store knows that it always had seals.
    std::fs::write(&store, &backup).unwrap();
    let database = rusqlite::Connection::open(&store).unwrap();
    database.execute_batch("DROP TRIGGER audit_no_update; UPDATE audit SET seal = NULL").unwrap();
    database.close().unwrap();
    std::fs::remove_file(store.with_extension("anchor")).unwrap();
    let ran = home.run(&verify);
    assert!(ran.code == 1 && ran.stdout.contains("entries 1 to 6 have no seals"), "{ran:?}");
    // The running server detects it too, and the seals that it adds from now on do not hide it.
    let _server = home.serve();
    home.run(&["keys", "create", "--role", "client", "--name", "e"]);
    let found = home.run(&["audit", "verify"]);
    assert!(found.code == 1 && found.stdout.contains("entries 1 to 6 have no seals"), "{found:?}");
}
