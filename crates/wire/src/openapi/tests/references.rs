//! Every reference of the document leads somewhere, and no two operations share a name.

use super::*;

#[test]
fn every_reference_resolves_and_every_operation_has_its_own_name() {
    let document = generated();
    let schemas = names_of(&document["components"]["schemas"]);
    let mut references = BTreeSet::new();
    collect_references(&document, &mut references);
    for reference in references {
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        assert!(schemas.contains(name), "{reference} leads nowhere");
    }
    let rest = || APPROVAL_ROUTES.iter().chain(EFFECT_ROUTES).chain(FLOW_ROUTES).chain(KIND_ROUTES);
    let more = || SCHEDULE_ROUTES.iter().chain(RECOVERY_ROUTES).chain(TOPOLOGY_ROUTES);
    let routes = || ROUTES.iter().chain(rest()).chain(more());
    let ids: BTreeSet<&str> = routes().map(|route| route.id).collect();
    assert_eq!(ids.len(), routes().count());
}

fn collect_references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                into.insert(reference.clone());
            }
            map.values().for_each(|value| collect_references(value, into));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, into)),
        _ => {}
    }
}
