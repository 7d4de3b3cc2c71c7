//! Workers: they poll, and handle each lease according to their behaviour.

use std::rc::Rc;

use historyck::event::{Answer, Class, Credential, Granted, Invoke, Operation, Return};
use serde_json::json;
use wire::answers::{Envelope, Leases};

use crate::actor_context::{ActorContext, CallOutcome, HeldLease, OutgoingCall};
use crate::durable::Attempt;
use crate::history::{self, name};
use crate::lease::Lease;
use crate::network::HttpRequest;
use crate::program::KIND;
use crate::rng::{SimRng, Stream};
use crate::run_spec::queue;
use crate::worker_behaviour::WorkerBehaviour;

/// Timeout beyond the poll's wait.
const TIMEOUT_MS: u64 = 1_500;

/// How often the same poll is retried before the worker abandons it.
const POLLS_MAX: usize = 4;

pub(crate) async fn worker(ctx: Rc<ActorContext>, number: u32) {
    let mut rng = SimRng::new(ctx.seed, Stream::Worker(number));
    let who = format!("worker-{number}");
    let scope = ctx.scope_of(number);
    // One worker of each scope never dies, so that every accepted run can end.
    let is_first = (number as usize) < ctx.accesses.len();
    let lives_on = is_first || rng.chance(500);
    let mut polls = 0;
    let mut working: Vec<tokio::task::JoinHandle<()>> = Vec::new();
    while !ctx.is_over.get() && (lives_on || !ctx.faults_stopped.get()) {
        working.retain(|lease| !lease.is_finished());
        let room = ctx.options.behaviour.at_once_max - working.len() as u64;
        if room > 0 {
            polls += 1;
            for envelope in poll(&ctx, &mut rng, (&who, scope), polls, room).await {
                working.push(match envelope.kind.as_str() {
                    KIND => {
                        let rng = SimRng::new(rng.number(), Stream::Worker(number));
                        let attempt =
                            Attempt::new(ctx.clone(), (who.clone(), scope), rng, &envelope);
                        ctx.spawn(attempt.work(envelope))
                    }
                    _ => ctx.spawn(take(&ctx, &mut rng, &who, number, &envelope).work()),
                });
            }
        }
        ctx.sleep(rng.between(10, 300)).await;
    }
}

/// Polls for work; a poll with an id is retried until it is answered.
async fn poll(
    ctx: &ActorContext,
    rng: &mut SimRng,
    (who, scope): (&str, usize),
    n: u64,
    room: u64,
) -> Vec<Envelope> {
    let access = &ctx.accesses[scope];
    let is_named = rng.chance(ctx.options.behaviour.named_polls);
    let poll_id = is_named.then(|| format!("{who}-{n}"));
    let behaviour = ctx.options.behaviour;
    let max = if behaviour.takes_all { room } else { rng.between(1, room) };
    let wait_ms = rng.between(behaviour.poll_wait_ms.0, behaviour.poll_wait_ms.1);
    let queues: Vec<String> = (0..ctx.options.runs.queues).map(queue).collect();
    let body = json!({
        "workerId": who, "queues": queues, "max": max, "waitMs": wait_ms, "pollId": poll_id,
    });
    for _ in 0..if is_named { POLLS_MAX } else { 1 } {
        let to = ctx.pick_host(rng);
        let ask = HttpRequest {
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
            now: ctx.store_time(),
            shown: Some(Credential { class: Class::Worker, task: None, attempt: None }),
            ..history::invoke(Operation::Lease)
        };
        let timeout_ms = TIMEOUT_MS.max(behaviour.timeout_ms) + wait_ms;
        let calling = OutgoingCall { who, to, ask, timeout_ms, invokes: vec![invoke] };
        let called = ctx.call(calling).await;
        if let CallOutcome::Ok(leases) = ctx.read::<Leases>(who, &called) {
            let grants = leases.leases.iter().map(granted).collect();
            let given = Return { grants, ..history::answer(Answer::Ok) };
            ctx.record_return(who, called.calls[0], given);
            let mut observations = ctx.observations.borrow_mut();
            for lease in &leases.leases {
                observations.granted_by.insert((name(&lease.task_id), lease.attempt), to);
            }
            return leases.leases;
        }
        ctx.sleep(rng.between(20, 200)).await;
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
        // Clocks drift here, so the worker's clock proves nothing; see `judge` instead.
        lease_ms: None,
    }
}

fn take(
    ctx: &Rc<ActorContext>,
    rng: &mut SimRng,
    who: &str,
    worker: u32,
    envelope: &Envelope,
) -> Lease {
    let behaviour = match ctx.faults_stopped.get() {
        true => WorkerBehaviour::Obedient,
        false => WorkerBehaviour::draw(rng, &ctx.options.behaviour, &ctx.log),
    };
    ctx.say(format_args!(
        "{who} holds {} attempt {} fence {} {behaviour:?}",
        envelope.task_id, envelope.attempt, envelope.fence
    ));
    let place = (name(&envelope.task_id), envelope.attempt);
    let held = HeldLease { worker, is_obedient: behaviour.keeps_its_lease() };
    let mut observations = ctx.observations.borrow_mut();
    observations.held.insert(place, held);
    observations.tokens.push((
        envelope.task_id.clone(),
        envelope.attempt,
        envelope.task_token.clone(),
    ));
    drop(observations);
    let rng = SimRng::new(rng.number(), Stream::Worker(worker));
    let scope = ctx.scope_of(worker);
    Lease::new(ctx.clone(), (who.to_owned(), scope), rng, envelope, behaviour)
}
