//! The computed cost of a schema beside the steps that applying it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jsonschema::{Keyword, ValidationError};
use serde_json::json;

use super::*;

/// `levels` definitions, each of which asks the one before twice.
fn doubling(levels: usize, by: &str) -> Value {
    let mut definitions = json!({"a0": {"type": "object"}});
    for level in 1..=levels {
        let before = json!({"$ref": format!("#/$defs/a{}", level - 1)});
        definitions[format!("a{level}")] = json!({by: [before, before]});
    }
    json!({"$defs": definitions, "$ref": format!("#/$defs/a{levels}")})
}

#[test]
fn definitions_that_double_are_refused_and_a_few_levels_are_not() {
    for by in ["allOf", "anyOf", "oneOf"] {
        assert!(of(&doubling(6, by)).is_ok(), "{by}");
        for levels in [27, 40, 600] {
            let said = of(&doubling(levels, by)).unwrap_err();
            assert!(said.contains("more than 10000 steps"), "{by} {levels}: {said}");
        }
    }
}

#[test]
fn recursion_that_multiplies_is_refused() {
    let me = json!({"$ref": "#"});
    for schema in [
        json!({"allOf": [{"items": me}, {"items": me}]}),
        json!({"properties": {"a": me}, "patternProperties": {"^a": me}}),
        json!({"contains": me, "items": me}),
        json!({"properties": {"a": me}, "unevaluatedProperties": me, "additionalProperties": me}),
        json!({"anyOf": [{"properties": {"kids": {"items": me}}}, {"properties": {"kids": {"items": me}, "b": true}}]}),
        json!({"if": {"additionalProperties": me}, "then": {"additionalProperties": me}}),
        json!({"dependentSchemas": {"a": {"items": me}}, "items": me}),
    ] {
        assert!(of(&schema).is_err(), "{schema}");
    }
}

/// Two levels that ask again what their branches have looked at: the library asks the lower one twice for each question.
#[test]
fn asking_what_was_looked_at_multiplies_too() {
    let mut schema = json!({"properties": {"x": true}});
    for _ in 0..30 {
        schema = json!({"anyOf": [schema], "unevaluatedProperties": false});
    }
    assert!(of(&schema).is_err());
}

#[test]
fn trees_and_conditions_are_fine() {
    let me = json!({"$ref": "#"});
    for schema in [
        json!({"properties": {"left": me, "right": me, "name": {"type": "string"}}}),
        json!({"type": ["array", "object", "string"], "items": me, "additionalProperties": me}),
        json!({"anyOf": [
            {"properties": {"and": {"items": me}}, "required": ["and"]},
            {"properties": {"or": {"items": me}}, "required": ["or"]},
            {"properties": {"not": me}, "required": ["not"]},
        ]}),
        json!({"prefixItems": [me, me, me], "items": false}),
        json!({"$anchor": "top", "additionalProperties": {"$ref": "#top"}}),
    ] {
        let cost = of(&schema).unwrap_or_else(|why| panic!("{schema}: {why}"));
        assert!(cost.verdict < 100, "{schema}: {cost:?}");
    }
}

#[test]
fn what_would_be_resolved_in_another_way_is_refused() {
    for (schema, said) in [
        (json!({"$ref": "#"}), "refers to itself for the same value"),
        (
            json!({"$defs": {"a": {"anyOf": [true, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
            "itself",
        ),
        (json!({"$ref": "https://example.com/a.json"}), "leads nowhere"),
        (json!({"$ref": "other.json#/$defs/a"}), "leads nowhere"),
        (json!({"$ref": "#/$defs/%61"}), "leads nowhere"),
        (
            json!({"$defs": {"a": {"$id": "x", "$defs": {"b": true}}}}),
            "`$id` stands only at the top",
        ),
        (json!({"$dynamicRef": "#a"}), "`$dynamicRef` has no bound"),
        (json!({"$schema": "http://json-schema.org/draft-04/schema#"}), "newer draft"),
        (json!({"allOf": [{"$anchor": "a"}, {"$anchor": "a"}], "$ref": "#a"}), "leads nowhere"),
    ] {
        let found = of(&schema).unwrap_err();
        assert!(found.contains(said), "{schema}: {found}");
    }
}

/// The library itself counts how often it asks a subschema; the bound must never be below.
#[test]
fn the_bound_holds_for_what_the_library_does() {
    let me = json!({"$ref": "#"});
    let schemas = [
        doubling(8, "allOf"),
        doubling(8, "anyOf"),
        doubling(8, "oneOf"),
        json!({"items": me, "additionalProperties": me, "not": {"const": 7}}),
        json!({"anyOf": [{"type": "string"}, {"items": me}, {"properties": {"a": me}}]}),
        json!({"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["a"]}, "else": {"minProperties": 1},
            "additionalProperties": {"oneOf": [{"type": "null"}, {"type": "array", "contains": {"type": "number"}}, me]}}),
        json!({"unevaluatedProperties": {"type": "number"}, "anyOf": [
            {"properties": {"a": {"type": "array"}}}, {"patternProperties": {"^b": {"items": {"maximum": 3}}}},
            {"unevaluatedProperties": false, "allOf": [{"properties": {"c": true}}]}]}),
        json!({"unevaluatedItems": {"type": "number"}, "anyOf": [{"prefixItems": [true, {"type": "array"}]}, {"contains": {"type": "string"}}]}),
        json!({"dependentSchemas": {"a": {"properties": {"b": {"type": "array"}}}}, "propertyNames": {"pattern": "^[a-z]"}}),
    ];
    let mut deep = json!({"a": 1, "b": [1, 2, "x"], "c": null});
    for _ in 0..20 {
        deep = json!({"a": deep, "b": [1, "s", [2, [3]]], "c": {"a": []}});
    }
    let values =
        [json!(7), json!([1, [2, ["x", null]], {"a": {}}]), json!({"a": {"a": {"b": [1]}}}), deep];
    for schema in &schemas {
        let cost = of(schema).unwrap_or_else(|why| panic!("{schema}: {why}"));
        let mut all = 0;
        for value in &values {
            let (verdict, errors) = asked(schema, value);
            let size = size_of(value);
            all += verdict;
            assert!(verdict <= size * cost.verdict, "{schema}: {verdict}, {cost:?}");
            assert!(errors <= size.saturating_mul(cost.errors), "{schema}: {errors}, {cost:?}");
        }
        assert!(all > 0, "the library asked nothing of {schema}");
    }
}

/// How many subschemas the library asks for a verdict, and for the violations.
fn asked(schema: &Value, value: &Value) -> (u64, u64) {
    struct Counted(Arc<AtomicU64>);
    impl<'i> Keyword<'i> for Counted {
        fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        fn is_valid(&self, _: &'i Value) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            true
        }
    }
    let count = Arc::new(AtomicU64::new(0));
    let counting = count.clone();
    let validator = jsonschema::options()
        .with_keyword("x-count", move |_, _, _| Ok(Box::new(Counted(counting.clone()))))
        .build(&with_counters(schema))
        .unwrap();
    let _ = validator.is_valid(value);
    let verdict = count.swap(0, Ordering::Relaxed);
    let _ = validator.iter_errors(value).count();
    (verdict, count.swap(0, Ordering::Relaxed))
}

/// The schema with a counter in every object that has a keyword, which does no harm in one that is no schema.
fn with_counters(schema: &Value) -> Value {
    const MAPS: [&str; 4] = ["properties", "patternProperties", "$defs", "dependentSchemas"];
    match schema {
        Value::Array(items) => items.iter().map(with_counters).collect(),
        Value::Object(keywords) => {
            let mut counted: Map<String, Value> = keywords
                .iter()
                .map(|(keyword, value)| match value {
                    Value::Object(map) if MAPS.contains(&keyword.as_str()) => {
                        let parts = map.iter().map(|(name, it)| (name.clone(), with_counters(it)));
                        (keyword.clone(), parts.collect())
                    }
                    _ => (keyword.clone(), with_counters(value)),
                })
                .collect();
            counted.insert("x-count".to_owned(), Value::Bool(true));
            Value::Object(counted)
        }
        other => other.clone(),
    }
}
