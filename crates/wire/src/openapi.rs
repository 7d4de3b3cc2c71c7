//! The OpenAPI 3.1 document, generated from the structs that are parsed and written.
//!
//! The routes are a table: path, caller, request, answer, error codes. The document is committed as
//! `protocol/openapi.json`; the same types always produce the same bytes.

mod routes;

use utoipa::ToSchema;
use utoipa::openapi::link::LinkBuilder;
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{Components, ComponentsBuilder, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, InfoBuilder, OpenApi, OpenApiBuilder, Paths, Ref, RefOr, Required, Response,
    ResponseBuilder, Schema, path::ParameterIn,
};

use crate::{
    Code, admin, answers, approvals, effects, pausing, recovery, requests, schedules,
    scope_budgets, topologies,
};
use routes::approvals::APPROVAL_ROUTES;
use routes::effects::EFFECT_ROUTES;
use routes::flow::FLOW_ROUTES;
use routes::kinds::KIND_ROUTES;
use routes::links::LINKS;
use routes::recovery::RECOVERY_ROUTES;
use routes::schedules::SCHEDULE_ROUTES;
use routes::session::SESSION_ROUTES;
use routes::topologies::TOPOLOGY_ROUTES;
use routes::{Body, ROUTES, Route};

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";
const OPEN_METRICS: &str = "application/openmetrics-text";

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Anyone,
    /// A client's or worker's key.
    ApiKey,
    /// A key, or none if only the same machine can call.
    ApiKeyUnlessLoopback,
    /// The token of one attempt.
    TaskToken,
}

/// The document as text: indented, with a line break at the end.
pub fn openapi_json() -> String {
    let document = document();
    let mut text = serde_json::to_string_pretty(&document)
        .expect("the document holds only strings, numbers and maps with string keys");
    text.push('\n');
    text
}

fn document() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Tenure")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Work under leases: a worker executes, only the coordinator decides what is true. Every \
             report is answered COMMITTED, CANCELLED (authority lost) or REJECTED (invalid). Clients \
             must ignore members of answers they do not know; unknown members of requests are refused.",
        ))
        .build();
    OpenApiBuilder::new().info(info).paths(paths()).components(Some(components())).build()
}

fn paths() -> Paths {
    let mut paths = Paths::new();
    let rest = APPROVAL_ROUTES
        .iter()
        .chain(EFFECT_ROUTES)
        .chain(FLOW_ROUTES)
        .chain(KIND_ROUTES)
        .chain(SCHEDULE_ROUTES)
        .chain(SESSION_ROUTES);
    for route in ROUTES.iter().chain(rest).chain(RECOVERY_ROUTES).chain(TOPOLOGY_ROUTES) {
        paths.add_path_operation(route.path, vec![route.method.clone()], operation(route));
    }
    paths
}

fn operation(route: &Route) -> Operation {
    let mut operation = OperationBuilder::new()
        .operation_id(Some(route.id))
        .tag(route.tag)
        .summary(Some(route.summary))
        .parameters(Some(parameters(route)))
        .request_body(route.body.map(request_body));
    for (status, description, body) in route.answers {
        let response = linked(route.id, *status, answer(description, *body));
        operation = operation.response(status.to_string(), response);
    }
    for status in statuses(route.codes) {
        operation = operation.response(status.to_string(), problem(route.codes, status));
    }
    operation.securities(security(route.caller)).build()
}

fn parameters(route: &Route) -> Vec<Parameter> {
    let in_path = route
        .path
        .split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| text_parameter(name, ParameterIn::Path, Required::True, None));
    in_path.chain((route.parameters)()).collect()
}

fn text_parameter(
    name: &str,
    place: ParameterIn,
    required: Required,
    description: Option<&str>,
) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .description(description)
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

fn request_body(body: Body) -> RequestBody {
    let required = if body.may_be_empty() { Required::False } else { Required::True };
    RequestBodyBuilder::new()
        .content(JSON, Content::new(Some(schema(body))))
        .required(Some(required))
        .build()
}

/// Links from an answer to the calls that take the id it names.
fn linked(id: &str, status: u16, response: ResponseBuilder) -> Response {
    let links = LINKS.iter().filter(|link| link.from == id && link.status == status);
    let response = links.fold(response, |response, link| {
        let value = format!("$response.body#{}", link.pointer);
        let next = LinkBuilder::new().operation_id(link.to).parameter(link.parameter, value);
        response.link(link.to, next.build())
    });
    response.build()
}

fn answer(description: &str, body: Body) -> ResponseBuilder {
    let response = ResponseBuilder::new().description(description);
    match body {
        Body::Text => response.content("text/plain", Content::new(Some(schema(body)))),
        Body::Metrics => response.content(OPEN_METRICS, Content::new(Some(schema(body)))),
        Body::JsonOrEvents(_, event) => response
            .content(JSON, Content::new(Some(schema(body))))
            .content("text/event-stream", Content::new(Some(reference(event)))),
        _ => response.content(JSON, Content::new(Some(schema(body)))),
    }
}

fn schema(body: Body) -> RefOr<Schema> {
    match body {
        Body::Json(name) | Body::JsonOrEmpty(name) | Body::JsonOrEvents(name, _) => reference(name),
        Body::OneOf(one, other) => RefOr::T(Schema::OneOf(
            OneOfBuilder::new().item(reference(one)).item(reference(other)).build(),
        )),
        Body::Text | Body::Metrics => {
            RefOr::T(ObjectBuilder::new().schema_type(Type::String).build().into())
        }
        Body::AnyObject => RefOr::T(ObjectBuilder::new().schema_type(Type::Object).build().into()),
    }
}

fn reference(name: &str) -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(name))
}

fn statuses(codes: &[Code]) -> Vec<u16> {
    let mut statuses: Vec<u16> = codes.iter().map(|code| code.status()).collect();
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

fn problem(codes: &[Code], status: u16) -> Response {
    let meanings: Vec<String> = codes
        .iter()
        .filter(|code| code.status() == status)
        .map(|code| format!("`{code}`: {}", code.title()))
        .collect();
    ResponseBuilder::new()
        .description(meanings.join("; "))
        .content(PROBLEM, Content::new(Some(reference("Problem"))))
        .build()
}

fn security(caller: Caller) -> Option<Vec<SecurityRequirement>> {
    let with = |name| SecurityRequirement::new(name, [] as [&str; 0]);
    match caller {
        Caller::Anyone => None,
        Caller::ApiKey => Some(vec![with("apiKey")]),
        Caller::ApiKeyUnlessLoopback => Some(vec![with("apiKey"), SecurityRequirement::default()]),
        Caller::TaskToken => Some(vec![with("taskToken")]),
    }
}

fn components() -> Components {
    let bearer = |description: &str| {
        let mut scheme = Http::new(HttpAuthScheme::Bearer);
        scheme.description = Some(description.to_owned());
        SecurityScheme::Http(scheme)
    };
    ComponentsBuilder::new()
        .schemas_from_iter(schemas())
        .security_scheme(
            "apiKey",
            bearer("An API key with the roles client, worker, admin, reader or approver."),
        )
        .security_scheme("taskToken", bearer("The `taskToken` of the envelope: one attempt only."))
        .build()
}

/// The schemas that routes name, and those that they refer to.
fn schemas() -> Vec<(String, RefOr<Schema>)> {
    let mut all = Vec::new();
    add::<requests::SubmitRun>(&mut all);
    add::<requests::SubmitMany>(&mut all);
    add::<requests::CancelRun>(&mut all);
    add::<requests::WaitForRuns>(&mut all);
    add::<requests::Announcement>(&mut all);
    add::<requests::AnnouncedKind>(&mut all);
    add::<requests::RetryRun>(&mut all);
    add::<requests::ForkRun>(&mut all);
    add::<requests::LeaseRequest>(&mut all);
    add::<requests::Started>(&mut all);
    add::<requests::Heartbeat>(&mut all);
    add::<requests::Completed>(&mut all);
    add::<requests::Reports>(&mut all);
    add::<requests::Heartbeats>(&mut all);
    add::<requests::Starts>(&mut all);
    add::<requests::CheckpointCall>(&mut all);
    add::<requests::CheckpointCalls>(&mut all);
    add::<requests::SendSignal>(&mut all);
    add::<requests::ResumeRun>(&mut all);
    add::<requests::UnpinRun>(&mut all);
    add::<answers::RunAccepted>(&mut all);
    add::<answers::SubmitResults>(&mut all);
    add::<answers::Run>(&mut all);
    add::<answers::RunList>(&mut all);
    add::<answers::WaitAnswer>(&mut all);
    add::<answers::Kinds>(&mut all);
    add::<answers::KindView>(&mut all);
    add::<answers::Session>(&mut all);
    add::<answers::ConsoleCode>(&mut all);
    add::<answers::CancelAccepted>(&mut all);
    add::<answers::Leases>(&mut all);
    add::<answers::StartedAck>(&mut all);
    add::<answers::HeartbeatAck>(&mut all);
    add::<answers::CompletedAck>(&mut all);
    add::<answers::ReportAnswers>(&mut all);
    add::<answers::HeartbeatAnswers>(&mut all);
    add::<answers::StartAnswers>(&mut all);
    add::<answers::CheckpointAck>(&mut all);
    add::<answers::CheckpointAnswers>(&mut all);
    add::<answers::Checkpoints>(&mut all);
    add::<answers::Steps>(&mut all);
    add::<answers::Children>(&mut all);
    add::<answers::PlanSteps>(&mut all);
    add::<answers::SignalAccepted>(&mut all);
    add::<answers::RunResumed>(&mut all);
    add::<answers::RunUnpinned>(&mut all);
    add::<approvals::DecideApproval>(&mut all);
    add::<approvals::ApprovalList>(&mut all);
    add::<approvals::ApprovalView>(&mut all);
    add::<approvals::ApprovalDecided>(&mut all);
    add::<effects::CreateEndpoint>(&mut all);
    add::<effects::UpdateEndpoint>(&mut all);
    add::<effects::RotateEndpoint>(&mut all);
    add::<effects::EndpointSecret>(&mut all);
    add::<effects::EndpointView>(&mut all);
    add::<effects::EndpointList>(&mut all);
    add::<effects::EffectList>(&mut all);
    add::<effects::EffectView>(&mut all);
    add::<effects::TryView>(&mut all);
    add::<effects::EffectChange>(&mut all);
    add::<effects::ReconcileEffect>(&mut all);
    add::<effects::RedriveEffects>(&mut all);
    add::<effects::Redriven>(&mut all);
    add::<schedules::CreateSchedule>(&mut all);
    add::<schedules::UpdateSchedule>(&mut all);
    add::<schedules::ScheduleCall>(&mut all);
    add::<schedules::BackfillSchedule>(&mut all);
    add::<schedules::ScheduleList>(&mut all);
    add::<schedules::ScheduleView>(&mut all);
    add::<schedules::ScheduleTriggered>(&mut all);
    add::<schedules::SchedulePreview>(&mut all);
    add::<schedules::ScheduleHistory>(&mut all);
    add_recovery(&mut all);
    add_topologies(&mut all);
    add::<answers::History>(&mut all);
    add::<answers::Logs>(&mut all);
    add::<answers::Record>(&mut all);
    add::<answers::Explanation>(&mut all);
    add::<answers::Gate>(&mut all);
    add::<answers::Queues>(&mut all);
    add::<answers::Workers>(&mut all);
    add::<answers::FlowKeys>(&mut all);
    add::<answers::Ready>(&mut all);
    add::<answers::Version>(&mut all);
    add_administration(&mut all);
    add::<pausing::PauseQueue>(&mut all);
    add::<pausing::ResumeQueue>(&mut all);
    add::<pausing::QueueStatus>(&mut all);
    add::<answers::Problem>(&mut all);
    all
}

fn add_administration(all: &mut Vec<(String, RefOr<Schema>)>) {
    add::<admin::CreateKey>(all);
    add::<admin::RotateKey>(all);
    add::<admin::NewKey>(all);
    add::<admin::Key>(all);
    add::<admin::Keys>(all);
    add::<admin::AuditLog>(all);
    add::<admin::RotateSigning>(all);
    add::<admin::SigningRotated>(all);
    add::<admin::AuditVerified>(all);
    add::<admin::SetLimits>(all);
    add::<admin::TenantLimits>(all);
    add::<admin::Limits>(all);
    add::<scope_budgets::SetBudget>(all);
    add::<scope_budgets::ScopeBudget>(all);
    add::<scope_budgets::ScopeBudgets>(all);
    add::<admin::TaskSetAside>(all);
    add::<admin::ParkedMessage>(all);
    add::<admin::SetAside>(all);
}

fn add_recovery(all: &mut Vec<(String, RefOr<Schema>)>) {
    add::<recovery::SetRecoveryPolicy>(all);
    add::<recovery::DeleteRecoveryPolicy>(all);
    add::<recovery::EscalationTerms>(all);
    add::<recovery::QuestionView>(all);
    add::<recovery::RecoveryPolicyView>(all);
    add::<recovery::RecoveryPolicyList>(all);
    add::<recovery::CandidateView>(all);
    add::<recovery::CandidateList>(all);
    add::<recovery::CandidateHistory>(all);
    add::<recovery::DecideCandidate>(all);
}

fn add_topologies(all: &mut Vec<(String, RefOr<Schema>)>) {
    add::<topologies::ApplyTopology>(all);
    add::<topologies::DeploymentCall>(all);
    add::<topologies::DeploymentView>(all);
    add::<topologies::DeploymentList>(all);
    add::<topologies::TopologyPlan>(all);
    add::<topologies::CreateArtifact>(all);
    add::<topologies::MoveArtifact>(all);
    add::<topologies::ArtifactView>(all);
    add::<topologies::ArtifactList>(all);
    add::<topologies::RequestEvent>(all);
    add::<topologies::EventRequested>(all);
    add::<topologies::WorkOrderList>(all);
    add::<topologies::ClaimList>(all);
    add::<topologies::PauseStateList>(all);
    add::<topologies::PauseStateView>(all);
    add::<topologies::ClosePauseState>(all);
    add::<topologies::TakeTurns>(all);
    add::<topologies::Turns>(all);
    add::<topologies::Turn>(all);
    add::<topologies::RenewTurn>(all);
    add::<topologies::ReturnTurn>(all);
    add::<topologies::Propose>(all);
    add::<topologies::Proposed>(all);
}

fn add<T: ToSchema>(all: &mut Vec<(String, RefOr<Schema>)>) {
    all.push((T::name().into_owned(), T::schema()));
    T::schemas(all);
}

#[cfg(test)]
mod tests;
