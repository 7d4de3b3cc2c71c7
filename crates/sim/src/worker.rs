//! Workers: they poll, and treat each lease as their conduct says.

use std::rc::Rc;

use historyck::event::{Answer, Class, Granted, Invoke, Operation, Return, Shown};
use serde_json::json;
use wire::answers::{Envelope, Leases};

use crate::conduct::Conduct;
use crate::dice::{Dice, Stream};
use crate::history::{self, name};
use crate::lease::Lease;
use crate::network::Ask;
use crate::order::queue;
use crate::stage::{Calling, Held, Said, Stage};

/// How long to wait for an answer beyond the poll's own wait.
const PATIENCE_MS: u64 = 1_500;

/// How often the same poll is asked again before it is given up.
const POLLS_MAX: usize = 4;

pub(crate) async fn worker(stage: Rc<Stage>, number: u32) {
    let mut dice = Dice::new(stage.seed, Stream::Worker(number));
    let who = format!("worker-{number}");
    let scope = stage.scope_of(number);
    // One worker of each scope always lives on, so that what was accepted can end.
    let is_first = (number as usize) < stage.accesses.len();
    let lives_on = is_first || dice.chance(500);
    let mut polls = 0;
    let mut working: Vec<tokio::task::JoinHandle<()>> = Vec::new();
    while !stage.is_over.get() && (lives_on || !stage.is_calm.get()) {
        working.retain(|lease| !lease.is_finished());
        let room = stage.options.conduct.at_once_max - working.len() as u64;
        if room > 0 {
            polls += 1;
            for envelope in poll(&stage, &mut dice, (&who, scope), polls, room).await {
                let lease = take(&stage, &mut dice, &who, number, &envelope);
                working.push(stage.spawn(lease.work()));
            }
        }
        stage.sleep(dice.between(10, 300)).await;
    }
}

/// Asks for work; a poll with a name is repeated until it is answered.
async fn poll(
    stage: &Stage,
    dice: &mut Dice,
    (who, scope): (&str, usize),
    n: u64,
    room: u64,
) -> Vec<Envelope> {
    let access = &stage.accesses[scope];
    let is_named = dice.chance(stage.options.conduct.named_polls);
    let poll_id = is_named.then(|| format!("{who}-{n}"));
    let conduct = stage.options.conduct;
    let max = if conduct.takes_all { room } else { dice.between(1, room) };
    let wait_ms = dice.between(conduct.poll_wait_ms.0, conduct.poll_wait_ms.1);
    let queues: Vec<String> = (0..stage.options.runs.queues).map(queue).collect();
    let body = json!({
        "workerId": who, "queues": queues, "max": max, "waitMs": wait_ms, "pollId": poll_id,
    });
    for _ in 0..if is_named { POLLS_MAX } else { 1 } {
        let to = stage.any_host(dice);
        let ask = Ask {
            method: "POST",
            path: "/v1/leases".to_owned(),
            bearer: access.worker_key.clone(),
            idempotency_key: None,
            body: Some(body.to_string().into_bytes()),
        };
        let invoke = Invoke {
            worker: Some(who.to_owned()),
            poll: poll_id.clone(),
            scope: Some(access.scope.clone()),
            max: Some(max),
            now: stage.coordinators_now(),
            shown: Some(Shown { class: Class::Worker, task: None, attempt: None }),
            ..history::invoke(Operation::Lease)
        };
        let patience_ms = PATIENCE_MS.max(conduct.patience_ms) + wait_ms;
        let calling = Calling { who, to, ask, patience_ms, invokes: vec![invoke] };
        let called = stage.call(calling).await;
        if let Said::Ok(leases) = stage.read::<Leases>(who, &called) {
            let grants = leases.leases.iter().map(granted).collect();
            let given = Return { grants, ..history::answer(Answer::Ok) };
            stage.give(who, called.calls[0], given);
            let mut books = stage.books.borrow_mut();
            for lease in &leases.leases {
                books.granted_by.insert((name(&lease.task_id), lease.attempt), to);
            }
            return leases.leases;
        }
        stage.sleep(dice.between(20, 200)).await;
    }
    Vec::new()
}

fn granted(lease: &Envelope) -> Granted {
    Granted {
        task: name(&lease.task_id),
        attempt: lease.attempt,
        lease: Some(lease.lease_id.clone()),
        fence: Some(lease.fence),
        expires: Some(lease.lease_expires_at.as_ms()),
        // Clocks drift here, so that the worker's own clock proves nothing; see `judge` instead.
        lease_ms: None,
    }
}

fn take(stage: &Rc<Stage>, dice: &mut Dice, who: &str, worker: u32, envelope: &Envelope) -> Lease {
    let conduct = match stage.is_calm.get() {
        true => Conduct::Obedient,
        false => Conduct::draw(dice, &stage.options.conduct, &stage.log),
    };
    stage.say(format_args!(
        "{who} holds {} attempt {} fence {} {conduct:?}",
        envelope.task_id, envelope.attempt, envelope.fence
    ));
    let place = (name(&envelope.task_id), envelope.attempt);
    let held = Held { worker, is_obedient: conduct.keeps_its_lease() };
    let mut books = stage.books.borrow_mut();
    books.held.insert(place, held);
    books.tokens.push((envelope.task_id.clone(), envelope.attempt, envelope.task_token.clone()));
    drop(books);
    let dice = Dice::new(dice.number(), Stream::Worker(worker));
    let scope = stage.scope_of(worker);
    Lease::new(stage.clone(), (who.to_owned(), scope), dice, envelope, conduct)
}
