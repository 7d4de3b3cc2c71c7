//! The published JSON Schema is the one of the declaration's types.

use serde_json::Value;

use crate::declaration::Declaration;
use crate::schema::Schema;
use crate::work::Work;

/// Where the schema is published, for the person who has to write it anew.
const PUBLISHED: &str = "protocol/topology.schema.json";

fn generated() -> Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(Declaration)).unwrap();
    schema["title"] = "A Tenure topology".into();
    schema
}

#[test]
fn the_published_schema_is_the_one_of_the_types() {
    let published: Value = serde_json::from_str(crate::SCHEMA).unwrap();
    if published == generated() {
        return;
    }
    let fresh = std::env::temp_dir().join("topology.schema.json");
    let text = serde_json::to_string_pretty(&generated()).unwrap() + "\n";
    std::fs::write(&fresh, text).unwrap();
    panic!("{PUBLISHED} is out of date: copy {} over it", fresh.display());
}

#[test]
fn the_published_schema_refuses_what_the_reader_refuses() {
    let schema = Schema::compile(&generated()).unwrap();
    let shipped = include_str!("../../../topologies/execution.yaml");
    let file: Value = serde_saphyr::from_str(shipped).unwrap();
    assert_eq!(schema.test(&file, &mut Work::of_check()), Ok(()));
    let wrong: [fn(&mut Value); 4] = [
        |file| file["artefacts"] = Value::Null,
        |file| file["roles"]["readiness"]["uses"] = "magic".into(),
        |file| file["limits"]["cycles"] = "three".into(),
        |file| file["events"]["TICKET_READY"]["every"] = "soon".into(),
    ];
    for change in wrong {
        let mut file = file.clone();
        change(&mut file);
        assert!(schema.test(&file, &mut Work::of_check()).is_err(), "{file}");
        assert!(crate::read(&file.to_string()).is_err(), "{file}");
    }
}
