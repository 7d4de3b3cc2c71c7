//! Sends spans to an OpenTelemetry collector: OTLP over HTTP, as protobuf.
//!
//! The only module that uses OpenTelemetry's library, and only for the format: the queue, its bound
//! and the handling of lost spans are in the coordinator.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use coordinator::trace::{Attribute, ExportFailed, Span, SpanExport, SpanKind};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use opentelemetry::trace::{
    Link, SpanContext, SpanId, SpanKind as Kind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter as Otlp, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use rustls::{ClientConfig, RootCertStore};
use wire::TraceContext;

use crate::exit::CliError;

/// The path for traces below a collector's address.
const TRACES_PATH: &str = "/v1/traces";

/// The request timeout; below the coordinator's, so that the error says what timed out.
const REQUEST_WITHIN: Duration = Duration::from_secs(9);

#[derive(Debug)]
pub(crate) struct Exporter {
    otlp: Otlp,
    scope: InstrumentationScope,
}

impl Exporter {
    /// An exporter for the collector at `endpoint`, whether it is reachable or not.
    pub(crate) fn open(endpoint: &str) -> Result<Arc<Exporter>, CliError> {
        let unusable = |why: String| {
            CliError::usage("otlp_endpoint", format!("spans cannot be sent to `{endpoint}`: {why}"))
                .hint("name a collector that accepts OTLP over HTTP, such as http://127.0.0.1:4318")
        };
        let (scheme, _) = endpoint.split_once("://").unwrap_or_default();
        if !matches!(scheme, "http" | "https") {
            return Err(unusable("the address must begin with http:// or https://".to_owned()));
        }
        let client = client(scheme).map_err(unusable)?;
        let mut otlp = Otlp::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(address(endpoint))
            .with_timeout(REQUEST_WITHIN)
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        let version = env!("CARGO_PKG_VERSION");
        let resource = Resource::builder()
            .with_service_name("tenure")
            .with_attribute(KeyValue::new("service.version", version))
            .build();
        otlp.set_resource(&resource);
        let scope = InstrumentationScope::builder("tenure").with_version(version).build();
        Ok(Arc::new(Exporter { otlp, scope }))
    }

    fn data(&self, span: Span) -> SpanData {
        let mut links = SpanLinks::default();
        links.links = span.links.into_iter().map(|to| Link::with_context(context(to))).collect();
        let start = instant(span.start.millis());
        SpanData {
            span_context: context(span.context),
            parent_span_id: span.parent.map_or(SpanId::INVALID, SpanId::from),
            parent_span_is_remote: true,
            span_kind: kind(span.kind),
            name: span.name.into(),
            start_time: start,
            end_time: start + span.length,
            attributes: span.attributes.into_iter().map(|(key, value)| pair(key, value)).collect(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links,
            status: span.fault.map_or(Status::Unset, Status::error),
            instrumentation_scope: self.scope.clone(),
        }
    }
}

impl SpanExport for Exporter {
    fn export(&self, spans: Vec<Span>) -> BoxFuture<'_, Result<(), ExportFailed>> {
        let spans = spans.into_iter().map(|span| self.data(span)).collect();
        let failed = |source| ExportFailed { source: Box::new(source) };
        self.otlp.export(spans).map(move |sent| sent.map_err(failed)).boxed()
    }
}

/// Accepts an address that already contains the path, as some collectors document it.
fn address(endpoint: &str) -> String {
    let base = endpoint.trim_end_matches('/');
    if base.ends_with(TRACES_PATH) { base.to_owned() } else { format!("{base}{TRACES_PATH}") }
}

/// Plain HTTP verifies no certificate; https uses the authorities of the system.
fn client(scheme: &str) -> Result<reqwest::Client, String> {
    let mut roots = RootCertStore::empty();
    if scheme == "https" {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("this system has no trusted certificate authority".to_owned());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = reqwest::Client::builder().tls_backend_preconfigured(tls);
    builder.timeout(REQUEST_WITHIN).build().map_err(|error| error.to_string())
}

fn context(context: TraceContext) -> SpanContext {
    SpanContext::new(
        TraceId::from(context.trace),
        SpanId::from(context.span),
        TraceFlags::new(context.flags),
        true,
        TraceState::default(),
    )
}

fn kind(kind: SpanKind) -> Kind {
    match kind {
        SpanKind::Consumer => Kind::Consumer,
        SpanKind::Internal => Kind::Internal,
    }
}

fn pair(key: &'static str, value: Attribute) -> KeyValue {
    match value {
        Attribute::Text(text) => KeyValue::new(key, text),
        Attribute::Number(number) => KeyValue::new(key, number),
    }
}

/// By the store's clock, like every other time that people see.
fn instant(unix_ms: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(unix_ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_the_path_or_not() {
        for endpoint in ["http://c:4318", "http://c:4318/", "http://c:4318/v1/traces"] {
            assert_eq!(address(endpoint), "http://c:4318/v1/traces");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_before_anything_is_served() {
        for nonsense in ["collector:4318", "", "grpc://collector:4317", "http://"] {
            let refused = Exporter::open(nonsense).expect_err("it is no address");
            assert_eq!(refused.code, "otlp_endpoint", "{nonsense}");
        }
    }
}
