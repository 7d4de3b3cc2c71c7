//! Replays `protocol/scenarios`: scenarios in a form that any language can read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use verdict::Span;

use super::test_server::{Lease, Response, TestServer, both};

#[tokio::test]
async fn every_scenario_of_the_protocol_holds_on_both_engines() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../protocol/scenarios");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    // Folders hold scenarios for the engines of SDKs.
    files.retain(|file| file.is_file());
    files.sort();
    assert!(files.len() >= 14, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let scenario: Value = serde_json::from_str(&text).unwrap();
        for api in both().await {
            let mut story = Story::new(&api);
            for (number, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
                story.place = format!("{}, step {}: {step}", file.display(), number + 1);
                story.play(step).await;
            }
        }
    }
}

struct Story<'s> {
    api: &'s TestServer,
    runs: HashMap<String, String>,
    leases: HashMap<String, Lease>,
    place: String,
}

impl<'s> Story<'s> {
    fn new(api: &'s TestServer) -> Self {
        Self { api, runs: HashMap::new(), leases: HashMap::new(), place: String::new() }
    }

    async fn play(&mut self, step: &Value) {
        match step["do"].as_str().unwrap() {
            "pass" => {
                let span = Span::from_millis(step["ms"].as_u64().unwrap());
                self.api.pass(span).await;
            }
            "submit" => self.submit(step).await,
            "lease" => self.lease(step).await,
            "cancel" => {
                let got = self.api.cancel(self.run(step), step["send"].clone()).await;
                self.expect(step, &got);
            }
            "show" => {
                let got = self.api.get(&format!("/v1/runs/{}", self.run(step))).await;
                self.expect(step, &got);
            }
            call => {
                let lease = &self.leases[step["lease"].as_str().unwrap()];
                let got = self.api.call(lease, call, lease.said(step["send"].clone())).await;
                self.expect(step, &got);
            }
        }
    }

    fn run(&self, step: &Value) -> &str {
        &self.runs[step["run"].as_str().unwrap()]
    }

    async fn submit(&mut self, step: &Value) {
        let mut body = step["send"].clone();
        let members = body.as_object_mut().unwrap();
        if let Some(millis) = members.remove("deadlineInMs") {
            let now = store::Clock::wall(self.api.clock.as_ref()).millis();
            let deadline = wire::Time::from_ms(now + millis.as_i64().unwrap());
            members.insert("deadline".to_owned(), json!(deadline));
        }
        let mut request = self.api.request("POST", "/v1/runs").bearer_auth(&self.api.key);
        if let Some(key) = step["key"].as_str() {
            request = request.header("idempotency-key", key);
        }
        let got = self.api.send(request.json(&body)).await;
        self.expect(step, &got);
        if let Some(name) = step["as"].as_str() {
            self.runs.insert(name.to_owned(), got.text("runId"));
        }
    }

    async fn lease(&mut self, step: &Value) {
        let got = self.api.post("/v1/leases", &self.api.key, step["send"].clone()).await;
        let mut leases = got.leases();
        let Some(name) = step["as"].as_str() else {
            assert_eq!(step["expect"]["leases"], leases.len(), "{}", self.place);
            return;
        };
        assert_eq!(leases.len(), 1, "{}", self.place);
        let lease = leases.remove(0);
        for (member, value) in step["expect"].as_object().unwrap() {
            match member.as_str() {
                "run" => {
                    assert_eq!(lease.run, self.runs[value.as_str().unwrap()], "{}", self.place)
                }
                member => assert_eq!(&lease.envelope[member], value, "{}", self.place),
            }
        }
        let worker = step["send"]["workerId"].as_str().unwrap();
        self.leases.insert(name.to_owned(), lease.by(worker));
    }

    #[track_caller]
    fn expect(&self, step: &Value, got: &Response) {
        for (member, value) in step["expect"].as_object().unwrap() {
            let value = match value.as_str().and_then(|text| text.strip_prefix('$')) {
                Some(name) => json!(self.runs[name]),
                None => value.clone(),
            };
            let found = match member.as_str() {
                "status" => json!(got.status),
                member => got.body[member].clone(),
            };
            assert_eq!(found, value, "{member} at {}: {got:?}", self.place);
        }
    }
}
