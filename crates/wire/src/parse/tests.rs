//! Hostile and malformed bodies: each is refused with the member at fault, or repaired where
//! required.

use super::*;
use crate::Json;
use crate::limits::{BATCH_ITEMS_MAX, DEPTH_MAX};

fn submit_with_input(input: &str) -> Result<SubmitRun, FieldError> {
    parse(format!(r#"{{"kind":"k","queue":"q","input":{input}}}"#).as_bytes())
}

fn fault<T: Body + std::fmt::Debug>(body: impl AsRef<[u8]>) -> FieldError {
    parse::<T>(body.as_ref()).expect_err("a bad body was accepted")
}

fn report(members: &[u8]) -> Vec<u8> {
    [br#"{"attempt":1,"workerId":"w1","outcome":"FAILED","#, members, b"}"].concat()
}

fn nested(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

#[test]
fn a_whole_submit_is_read_and_its_input_kept_byte_for_byte() {
    // S4-14: wire names are camelCase.
    let body = r#"{"kind":"k","queue":"q","input":{"b": 1.50, "a":"\u0000\u0041"},"goal":"g",
        "taskKey":"t","assetId":"a","resources":{"memoryBytes":1,"cpuMillicores":2,"timeoutMs":3},
        "priority":-5,"maxAttempts":2,"lostMax":1,"leaseMs":2000,"heartbeatIntervalMs":500,
        "cancelGraceMs":0,"runAt":"2026-01-01T00:00:00Z","deadline":"2026-01-01T00:00:01Z",
        "seed":9007199254740991,"labels":{"team":"a"},"retry":{"baseMs":0,"capMs":0},
        "traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#;
    let run: SubmitRun = parse(body.as_bytes()).unwrap();
    assert_eq!(run.input.text(), r#"{"b": 1.50, "a":"\u0000\u0041"}"#);
    assert_eq!(run.seed, Some((1 << 53) - 1));
    assert_eq!(run.retry.unwrap().base_and_cap_ms(), (0, 0));
    let minimal: SubmitRun = parse(br#" {"kind":"k","queue":"q"} "#).unwrap();
    assert!(minimal.input.is_null());
}

#[test]
fn only_objects_are_bodies() {
    assert!(fault::<Started>("[1,\"w1\"]").message.contains("array"));
    assert!(fault::<Started>("").message.contains("empty"));
    assert!(fault::<Started>(" \n").message.contains("empty"));
    assert!(fault::<Started>("null").message.contains("object"));
    assert!(fault::<Started>("\u{feff}{}").message.contains("byte order mark"));
    let inner = fault::<SubmitRun>(r#"{"kind":"k","queue":"q","resources":[1,2,3]}"#);
    assert_eq!(inner.field, "resources");
    assert_eq!(
        fault::<SubmitRun>(r#"{"kind":"k","queue":"q","labels":[["a","b"]]}"#).field,
        "labels"
    );
    assert_eq!(parse::<CancelRun>(b"").unwrap(), CancelRun::default());
}

#[test]
fn unknown_members_are_named_at_every_level() {
    assert_eq!(fault::<SubmitRun>(r#"{"kind":"k","queue":"q","plans":{}}"#).field, "plans");
    assert_eq!(fault::<SubmitRun>(r#"{"plan":{"stages":[]}}"#).field, "plan.stages");
    assert_eq!(fault::<SubmitRun>(r#"{"Kind":"k"}"#).field, "Kind");
    let inner = fault::<SubmitRun>(r#"{"kind":"k","queue":"q","retry":{"baseMs":1,"max":3}}"#);
    assert_eq!(inner.field, "retry.max");
    assert!(inner.message.contains("`baseMs` or `capMs`"), "{inner}");
    assert!(inner.message.contains("line 1"), "{inner}");
}

#[test]
fn missing_members_and_wrong_types_are_named() {
    let missing = fault::<SubmitRun>(r#"{"kind":"k"}"#);
    assert_eq!((missing.field.as_str(), missing.message.as_str()), ("queue", "is missing"));
    let missing = fault::<Completed>(report(br#""error":{"message":"m"}"#));
    assert_eq!(missing.field, "error.category");
    assert_eq!(fault::<Started>(r#"{"attempt":"1","workerId":"w"}"#).field, "attempt");
    assert_eq!(fault::<Started>(r#"{"workerId":"w","attempt":1.0}"#).field, "attempt");
    assert_eq!(fault::<Started>(r#"{"workerId":"w","attempt":-1}"#).field, "attempt");
    assert_eq!(fault::<Started>(r#"{"workerId":"w","attempt":4294967296}"#).field, "attempt");
    let second_line =
        fault::<LeaseRequest>("{\"workerId\":\"w\",\n \"queues\":[\"a\",7],\"max\":1}");
    assert_eq!(second_line.field, "queues[1]");
    assert!(second_line.message.contains("line 2"), "{second_line}");
    let time = fault::<Started>(r#"{"attempt":1,"workerId":"w","startedAt":"yesterday"}"#);
    assert_eq!(time.field, "startedAt");
    assert!(time.message.contains("RFC 3339"), "{time}");
}

#[test]
fn unknown_outcomes_and_categories_are_refused_with_the_known_ones() {
    // S4-27, S4-58: the vocabularies are closed.
    let outcome = fault::<Completed>(r#"{"attempt":1,"workerId":"w","outcome":"DONE"}"#);
    assert_eq!(outcome.field, "outcome");
    assert!(outcome.message.contains("SUCCEEDED, FAILED, CANCELLED"), "{outcome}");
    let category = fault::<Completed>(report(br#""error":{"category":"OOPS","message":"m"}"#));
    assert_eq!(category.field, "error.category");
}

#[test]
fn limits_are_part_of_parsing() {
    assert_eq!(fault::<Started>(r#"{"attempt":0,"workerId":"w"}"#).field, "attempt");
    assert_eq!(fault::<SubmitRun>(r#"{"kind":"k k","queue":"q"}"#).field, "kind");
}

#[test]
fn results_of_steps_and_inputs_of_children_are_as_free_as_inputs_of_runs() {
    let call = |steps: &str, children: &str| {
        let head = r#""attempt":1,"workerId":"w""#;
        let body = format!(r#"{{{head},"steps":[{steps}],"children":[{children}]}}"#);
        parse::<crate::requests::CheckpointCall>(body.as_bytes())
    };
    let step = |result: &str| format!(r#"{{"key":"a#1","outcome":"SUCCEEDED","result":{result}}}"#);
    let child = |input: &str| format!(r#"{{"key":"c#1","kind":"k","queue":"q","input":{input}}}"#);
    for text in ["18446744073709551615", "[-12345678901234567890]", &nested(DEPTH_MAX - 1)] {
        let parsed = call(&step(text), &child(text)).unwrap();
        assert_eq!(parsed.steps[0].result.as_ref().unwrap().text(), text);
        assert_eq!(parsed.children[0].input.text(), text);
        let signal = format!(r#"{{"name":"go","payload":{text}}}"#);
        let signal = parse::<crate::requests::SendSignal>(signal.as_bytes()).unwrap();
        assert_eq!(signal.payload.unwrap().text(), text);
    }
    let deep = call(&step(&nested(DEPTH_MAX)), "").unwrap_err();
    assert!(deep.message.contains("32 levels"), "{deep}");
    assert!(call(&step(r#""\ud800""#), "").is_err(), "a result is never repaired");
    assert!(
        call(r#"{"key":"a#1","outcome":"SUCCEEDED","spend":{"tokens":18446744073709551615}}"#, "")
            .is_err()
    );
}

#[test]
fn nesting_is_bounded() {
    // The body itself counts as one level.
    assert!(submit_with_input(&nested(DEPTH_MAX - 1)).is_ok());
    let deep = submit_with_input(&nested(DEPTH_MAX)).unwrap_err();
    assert_eq!(deep.field, "input");
    assert!(deep.message.contains("32 levels"), "{deep}");
    assert!(submit_with_input(&nested(100_000)).is_err());
    assert!(submit_with_input(&format!("{:?}", "[{".repeat(1000))).is_ok(), "brackets in strings");
}

#[test]
fn a_member_may_be_there_only_once() {
    assert_eq!(fault::<Started>(r#"{"attempt":1,"workerId":"w","attempt":2}"#).field, "attempt");
    assert_eq!(submit_with_input(r#"{"a":1,"a":1}"#).unwrap_err().field, "input.a");
    assert_eq!(
        submit_with_input(r#"[0,{"a":{"b":1,"\u0062":2}}]"#).unwrap_err().field,
        "input[1].a.b"
    );
    assert!(submit_with_input(r#"[{"a":1},{"a":1}]"#).is_ok());
    let many: String = (0..100).map(|i| format!("\"m{i}\":0,")).collect();
    assert!(submit_with_input(&format!("{{{many}\"last\":0}}")).is_ok());
    assert_eq!(submit_with_input(&format!("{{{many}\"m99\":0}}")).unwrap_err().field, "input.m99");
    assert_eq!(submit_with_input(&format!("{{{many}\"m0\":0}}")).unwrap_err().field, "input.m0");
}

#[test]
fn integers_of_the_user_are_kept_and_numbers_beyond_every_double_are_refused() {
    let long = "9".repeat(300);
    for fine in ["9007199254740991", "-9007199254740992", "18446744073709551616", &long] {
        assert_eq!(submit_with_input(fine).unwrap().input.text(), fine);
    }
    for fine in ["0", "-0", "1e308", "0.1", "1E+2"] {
        assert!(submit_with_input(fine).is_ok(), "{fine}");
    }
    let longer = "9".repeat(310);
    for odd in ["1e400", "-1e400", &longer] {
        assert_eq!(
            submit_with_input(&format!("{{\"n\":{odd}}}")).unwrap_err().field,
            "input.n",
            "{odd}"
        );
    }
    for broken in ["NaN", "Infinity", "-Infinity", "01", "1.", ".5", "+1", "1e", "0x10"] {
        assert!(submit_with_input(broken).is_err(), "{broken}");
    }
    assert_eq!(
        fault::<Started>(r#"{"workerId":"w","attempt":18446744073709551616}"#).field,
        "attempt"
    );
    let seed = r#"{"kind":"k","queue":"q","seed":9007199254740992}"#;
    assert_eq!(
        fault::<SubmitRun>(seed).field,
        "seed",
        "a member of ours stays within what is exact"
    );
}

#[test]
fn what_is_not_json_is_told_where_it_breaks() {
    for body in [
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1,}",
        "{,}",
        "{'a':1}",
        "{\"a\":tru}",
        "{\"a\":\"\x01\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12g4\"}",
        "{} {}",
        "{\"a\":[1,]}",
        "{\"a\":[1 2]}",
        "{\"a\":\"",
        "{\"a\":\"\\",
        "{\"a\":\"\\u12",
        "{a:1}",
    ] {
        let fault = fault::<Started>(body);
        assert!(fault.message.contains("(line 1, column "), "{body}: {fault}");
    }
}

#[test]
fn text_that_is_not_unicode_is_refused_outside_of_free_text() {
    let surrogate = submit_with_input(r#"{"a":"\ud800"}"#).unwrap_err();
    assert_eq!(surrogate.field, "input.a");
    assert!(surrogate.message.contains("surrogate"), "{surrogate}");
    assert!(submit_with_input(r#""\ud83d\ude00 \u0000""#).is_ok(), "pairs and NUL are Unicode");
    assert!(submit_with_input(r#""\ud83d\u0041""#).is_err());
    assert!(submit_with_input(r#""\ude00\ud83d""#).is_err());
    let invalid = fault::<SubmitRun>(b"{\"kind\":\"k\",\"queue\":\"q\",\"input\":\"\xff\"}");
    assert_eq!((invalid.field.as_str(), invalid.message.as_str()), ("input", "is not UTF-8"));
    assert_eq!(fault::<Completed>(report(br#""output":{"a":"\ud800"}"#)).field, "output.a");
    assert!(fault::<Started>(b"{\"\xff\":1}").message.contains("UTF-8"));
}

#[test]
fn a_failure_report_never_fails_on_its_text() {
    // S4-30: lone surrogates, bytes that are not UTF-8 and NUL in the error are repaired.
    let body = report(
        b"\"error\":{\"category\":\"USER_CODE\",\"message\":\"a\\ud800b\\u0000\",\
          \"stackTrace\":\"\xff \\udc00 x\"},\"partialProgress\":{\"n\": 1.0}",
    );
    let report: Completed = parse(&body).unwrap();
    let error = report.error.unwrap();
    assert_eq!(error.message, "a\u{fffd}b\u{fffd}");
    assert_eq!(error.stack_trace.unwrap(), "\u{fffd} \u{fffd} x");
    assert_eq!(report.partial_progress.unwrap().text(), r#"{"n": 1.0}"#);
    let beat: Heartbeat =
        parse(br#"{"attempt":1,"workerId":"w","message":"half \ud83d"}"#).unwrap();
    assert_eq!(beat.message.unwrap(), "half \u{fffd}");
    assert_eq!(fault::<Heartbeat>(br#"{"attempt":1,"workerId":"w\ud83d"}"#).field, "workerId");
}

#[test]
fn one_bad_item_does_not_spoil_a_batch() {
    let body = br#"{"reports":[
        {"taskId":"t1","taskToken":"x","attempt":1,"workerId":"w","outcome":"SUCCEEDED","output":["\"]}"]},
        {"taskId":"t2","taskToken":"x","attempt":1,"workerId":"w","outcome":"SUCCEEDED","oops":"]},"},
        {"a":},
        7,
        {"taskId":"t3","taskToken":"x","attempt":0,"workerId":"w","outcome":"SUCCEEDED"}]}"#;
    let items = parse_batch::<Report>(body).unwrap();
    assert_eq!(items[0].as_ref().unwrap().output, Some(Json::from_value(&["\"]}"]).unwrap()));
    let fields: Vec<&str> =
        items[1..].iter().map(|item| item.as_ref().unwrap_err().field.as_str()).collect();
    assert_eq!(fields, ["reports[1].oops", "reports[2]", "reports[3]", "reports[4].attempt"]);
}

#[test]
fn a_batch_has_one_member_with_one_to_a_thousand_items() {
    let batch =
        |n: usize| format!(r#"{{"runs":[{}]}}"#, vec![r#"{"kind":"k","queue":"q"}"#; n].join(","));
    let count = |n| parse_batch::<SubmitRun>(batch(n).as_bytes()).map(|items| items.len());
    assert_eq!(count(BATCH_ITEMS_MAX), Ok(BATCH_ITEMS_MAX));
    assert_eq!(count(BATCH_ITEMS_MAX + 1).unwrap_err().field, "runs");
    assert_eq!(count(0).unwrap_err().field, "runs");
    let refused = |body: &str| parse_batch::<SubmitRun>(body.as_bytes()).unwrap_err().field;
    assert_eq!(refused(r#"{"runs":{}}"#), "runs");
    assert_eq!(refused(r#"{"runs":[1],"more":1}"#), "more");
    assert_eq!(refused(r#"{"runs":[1],"runs":[1]}"#), "runs");
    assert_eq!(refused("{}"), "runs");
    for broken in [
        r#"{"runs":[1"#,
        r#"{"runs":[1]"#,
        r#"{"runs":[1]} x"#,
        r#"{"runs":["x\"#,
        r#"{"runs":[,]}"#,
    ] {
        assert_eq!(refused(broken), "", "{broken}");
    }
}

#[test]
fn a_submit_is_one_run_or_many() {
    let one = parse_submit(br#"{"kind":"k","queue":"q","input":{"runs":[]}}"#).unwrap();
    assert!(matches!(one, Submit::One(run) if run.kind == "k"));
    let many =
        parse_submit(br#"{"runs":[{"kind":"k","queue":"q","idempotencyKey":"a b"},{}]}"#).unwrap();
    assert!(
        matches!(&many, Submit::Many(items) if items[0].is_ok() && items[1].is_err()),
        "{many:?}"
    );
    let misplaced = parse_submit(br#"{"kind":"k","queue":"q","idempotencyKey":"a"}"#).unwrap_err();
    assert_eq!(misplaced.field, "idempotencyKey");
    assert!(misplaced.message.contains("Idempotency-Key header"));
    assert!(parse_submit(b"").is_err());
    assert!(parse_submit(b"[]").is_err());
}

#[test]
fn no_damage_to_a_body_panics_or_passes_as_json() {
    let body = r#"{"kind":"k","queue":"q","input":{"a":[1,-2.5e3,"é\ud83d\ude00\n",true,null]},"priority":1}"#;
    let judge = |bytes: &[u8]| {
        let _ = parse_submit(bytes);
        let _ = parse_batch::<SubmitRun>(bytes);
        if parse::<SubmitRun>(bytes).is_ok() {
            assert!(serde_json::from_slice::<serde_json::Value>(bytes).is_ok(), "{bytes:?}");
        }
    };
    assert!(parse::<SubmitRun>(body.as_bytes()).is_ok());
    for index in 0..body.len() {
        judge(&body.as_bytes()[..index]);
        for byte in *b"\"\\{}[]:,-+.0eu \n\0\x7f\x80\xed\xff" {
            let mut damaged = body.as_bytes().to_vec();
            damaged[index] = byte;
            judge(&damaged);
            damaged.insert(index, byte);
            judge(&damaged);
        }
    }
}

#[test]
fn a_wrong_type_is_named_in_the_words_of_json() {
    for (body, said) in [
        (r#"{"kind":"k","queue":"q","priority":99999999999}"#, "an integer from -2147483648 to"),
        (r#"{"kind":"k","queue":"q","priority":1.5}"#, "expected an integer from -2147483648"),
        (r#"{"kind":"k","queue":"q","maxAttempts":-1}"#, "an integer from 0 to 4294967295"),
        (r#"{"kind":"k","queue":"q","leaseMs":"1"}"#, "an integer from 0 to"),
        (r#"{"kind":"k","queue":"q","labels":[]}"#, "invalid type: array, expected an object"),
        (r#"{"kind":"k","queue":"q","retry":7}"#, "expected an object"),
    ] {
        let fault = fault::<SubmitRun>(body);
        assert!(fault.message.contains(said), "{fault}");
        for rust in ["i32", "u32", "u64", "struct", "sequence", " map"] {
            assert!(!fault.message.contains(rust), "{fault}");
        }
    }
}
