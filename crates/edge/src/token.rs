//! Task tokens: the right to call about one attempt of one task, for a limited time.
//!
//! A compact JWT with HS256 and one fixed form. The header is recomputed and compared as bytes,
//! never interpreted, so there is no algorithm to choose and no key to fetch. The key belongs to
//! the tenant and workspace that the claims name. All claims are required and typed, and other
//! claims are refused.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;
use verdict::{LeaseId, Name, Scope, Span, TaskId, Time};

use crate::token_keys::ScopeKey;
use crate::{Keys, SigningKey};

/// Longer text cannot be a token of ours: with the longest names it stays below 900 bytes.
const TOKEN_BYTES_MAX: usize = 1024;

/// Room for a token with names of usual length.
const TOKEN_BYTES_USUAL: usize = 512;

/// The lifetime of a token unless the task's deadline needs more (S4-8).
pub const LIFETIME_DEFAULT: Span = Span::from_secs(3600);

/// The maximum lifetime (S4-9); heartbeats bring fresh tokens.
pub const LIFETIME_MAX: Span = Span::from_secs(7200);

/// The clocks of two coordinators may differ by this much.
pub const LEEWAY: Span = Span::from_secs(30);

const ISSUER: &str = "tenure";
const AUDIENCE: &str = "tenure-tasks";

/// No padding, and no bits beyond the last byte: one token has one spelling.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(false),
);

/// What a token authorises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenScope {
    pub scope: Scope,
    pub task: TaskId,
    pub attempt: u32,
    pub lease: LeaseId,
    /// The store's epoch in which the lease was granted.
    pub epoch: u32,
    /// The API key that leased the task: it may not decide what this attempt asks for. Absent while coordinators that do
    /// not know the claim share the store.
    pub key: Option<Name>,
    /// The last stage of the task that the poll of this lease takes, if it takes any after the present one: as far as that, a
    /// report may ask for the next stage.
    pub until: Option<u32>,
}

/// A caller with a token that we issued. Only [`verify`] creates one.
#[derive(Clone, Debug)]
pub struct TaskPrincipal {
    token: TokenScope,
    issued_at: Time,
    expires_at: Time,
}

/// A signed token and its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    pub token: String,
    pub expires_at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefused {
    #[error("this coordinator did not issue the task token")]
    Invalid,
    /// Authentic, but expired.
    #[error("the task token has expired")]
    Expired,
}

/// In any order: [`issue`] begins with those that are the same in all tokens of a scope.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims<'a> {
    #[serde(borrow)]
    iss: Cow<'a, str>,
    #[serde(borrow)]
    aud: Cow<'a, str>,
    iat: u64,
    nbf: u64,
    exp: u64,
    #[serde(borrow)]
    jti: Cow<'a, str>,
    #[serde(borrow)]
    ten: Cow<'a, str>,
    #[serde(borrow)]
    ws: Cow<'a, str>,
    #[serde(borrow)]
    run: Cow<'a, str>,
    #[serde(borrow)]
    task: Cow<'a, str>,
    att: u32,
    #[serde(borrow)]
    lease: Cow<'a, str>,
    ep: u32,
    #[serde(borrow, default)]
    key: Option<Cow<'a, str>>,
    #[serde(default)]
    until: Option<u32>,
}

/// The lifetime of a token issued now: long enough for the task's deadline and the grace after it,
/// within the limits (R-29).
pub fn lifetime(deadline: Option<Time>, grace: Span, now: Time) -> Span {
    let needed = deadline.map_or(Span::ZERO, |deadline| deadline.plus(grace).since(now));
    LIFETIME_DEFAULT.max(needed).min(LIFETIME_MAX)
}

/// Signs a token for one attempt.
pub fn issue(keyring: &impl Keys, token: &TokenScope, lifetime: Span, now: Time) -> Issued {
    let iat = seconds(now);
    let exp = iat + lifetime.min(LIFETIME_MAX).millis() / 1000;
    let TokenScope { scope, task, attempt, lease, epoch, key: held_by, until } = token;
    let (id, run) = (token_id(*lease, now), task.run_name());
    let signing = keyring.current();
    let key = scope_key(&signing, scope);
    let mut claims = String::with_capacity(TOKEN_BYTES_USUAL);
    claims.push_str(key.first_claims());
    write!(
        claims,
        r#""iat":{iat},"nbf":{iat},"exp":{exp},"jti":"{id:016x}","run":"{run}","task":"{task}","att":{attempt},"lease":"{lease}","ep":{epoch}"#
    )
    .expect("text can be appended to");
    if let Some(held_by) = held_by {
        // Ids of keys are hexadecimal.
        write!(claims, r#","key":"{held_by}""#).expect("text can be appended to");
    }
    if let Some(until) = until {
        write!(claims, r#","until":{until}"#).expect("text can be appended to");
    }
    claims.push('}');
    let token = sign(signing.token_keys().header(), &key, claims.as_bytes());
    Issued { token, expires_at: instant(exp) }
}

/// Tells the tokens of one lease apart. Public, like the lease's id from which it is made.
fn token_id(lease: LeaseId, now: Time) -> u64 {
    /// Spreads consecutive times over all bits, because the ids of consecutive leases differ in a few only.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    lease.as_u128() as u64 ^ (now.millis() as u64).wrapping_mul(SPREAD)
}

/// The claims that are the same in all tokens of a scope.
pub(crate) fn first_claims(scope: &Scope) -> String {
    let quoted = |name: &str| serde_json::to_string(name).expect("text can be written");
    let (tenant, workspace) = (quoted(scope.tenant.as_str()), quoted(scope.workspace.as_str()));
    format!(r#"{{"iss":"{ISSUER}","aud":"{AUDIENCE}","ten":{tenant},"ws":{workspace},"#)
}

/// What the tokens with these first claims begin with.
pub(crate) fn first_text(header: &str, first_claims: &str) -> String {
    // Three bytes are four characters; what follows decides how the others are written.
    let whole = first_claims.len() - first_claims.len() % 3;
    format!("{header}.{}", BASE64.encode(&first_claims.as_bytes()[..whole]))
}

fn scope_key(signing: &SigningKey, scope: &Scope) -> Arc<ScopeKey> {
    let keys = signing.token_keys();
    keys.find(scope.tenant.as_str(), scope.workspace.as_str())
        .unwrap_or_else(|| keys.remember(ScopeKey::derive(signing, scope.clone())))
}

fn sign(header: &str, key: &ScopeKey, payload: &[u8]) -> String {
    let mut text = String::with_capacity(TOKEN_BYTES_USUAL);
    text.push_str(header);
    text.push('.');
    BASE64.encode_string(payload, &mut text);
    let signature = key.sign(&text);
    text.push('.');
    BASE64.encode_string(signature, &mut text);
    text
}

/// The first part of all tokens that the key with this id signs.
pub(crate) fn header(kid: &str) -> String {
    BASE64.encode(format!(r#"{{"alg":"HS256","kid":"{kid}","typ":"task+jwt"}}"#))
}

/// Accepts exactly the tokens that [`issue`] made, until they expire by the store's clock.
pub fn verify(keyring: &impl Keys, text: &str, now: Time) -> Result<TaskPrincipal, TokenRefused> {
    let principal = authenticate(keyring, text, now)?;
    if principal.is_expired(now, Span::ZERO) {
        return Err(TokenRefused::Expired);
    }
    Ok(principal)
}

/// The same, but leaves the expiry for the caller to judge.
pub fn authenticate(
    keyring: &impl Keys,
    text: &str,
    now: Time,
) -> Result<TaskPrincipal, TokenRefused> {
    let (signed, signature) = parts(text).ok_or(TokenRefused::Invalid)?;
    let claims = read_claims(&signed.payload).ok_or(TokenRefused::Invalid)?;
    let key = authentic(keyring, &signed, &signature, &claims, now).ok_or(TokenRefused::Invalid)?;
    let token = token_scope(&claims, &key).ok_or(TokenRefused::Invalid)?;
    let (issued_at, expires_at) = (instant(claims.iat), instant(claims.exp));
    let soonest = now.plus(LEEWAY);
    let is_sane = claims.exp > claims.iat
        && claims.exp - claims.iat <= LIFETIME_MAX.millis() / 1000
        && issued_at <= soonest
        && instant(claims.nbf) <= soonest;
    if !is_sane {
        return Err(TokenRefused::Invalid);
    }
    Ok(TaskPrincipal { token, issued_at, expires_at })
}

/// The signed part of a token.
struct Signed<'a> {
    text: &'a str,
    header: &'a str,
    payload: Vec<u8>,
}

fn parts(text: &str) -> Option<(Signed<'_>, Vec<u8>)> {
    if text.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let (signed, signature) = text.rsplit_once('.')?;
    let (header, payload) = signed.split_once('.')?;
    let payload = BASE64.decode(payload).ok()?;
    Some((Signed { text: signed, header, payload }, BASE64.decode(signature).ok()?))
}

/// The key that made the signature. The claims are parsed before they are trusted, only to find the
/// key; they are neither used nor cached until the signature has been verified.
fn authentic(
    keyring: &impl Keys,
    signed: &Signed<'_>,
    signature: &[u8],
    claims: &Claims<'_>,
    now: Time,
) -> Option<Arc<ScopeKey>> {
    let signing = keyring.find(|key| key.token_keys().header() == signed.header, now)?;
    let keys = signing.token_keys();
    if let Some(key) = keys.find(&claims.ten, &claims.ws) {
        return key.is_signature(signed.text, signature).then_some(key);
    }
    let key = ScopeKey::derive(&signing, Scope::new(&*claims.ten, &*claims.ws));
    key.is_signature(signed.text, signature).then(|| keys.remember(key))
}

/// serde would also accept the members as an array, in an order that we never promised.
fn read_claims(payload: &[u8]) -> Option<Claims<'_>> {
    if payload.first() != Some(&b'{') {
        return None;
    }
    serde_json::from_slice(payload).ok()
}

fn token_scope(claims: &Claims<'_>, key: &ScopeKey) -> Option<TokenScope> {
    let Claims {
        iss,
        aud,
        iat: _,
        nbf: _,
        exp: _,
        jti,
        ten: _,
        ws: _,
        run,
        task,
        att,
        lease,
        ep,
        key: held_by,
        until,
    } = claims;
    let is_ours = iss == ISSUER && aud == AUDIENCE && !jti.is_empty();
    let task = TaskId::parse(task).filter(|_| is_ours && task.starts_with("task_"))?;
    TaskId::parse(run).filter(|root| *root == task && run.starts_with("run_"))?;
    Some(TokenScope {
        scope: key.scope().clone(),
        task,
        attempt: *att,
        lease: LeaseId::parse(lease)?,
        epoch: *ep,
        key: held_by.as_deref().map(Name::from),
        until: *until,
    })
}

impl TaskPrincipal {
    pub fn token(&self) -> &TokenScope {
        &self.token
    }

    pub fn issued_at(&self) -> Time {
        self.issued_at
    }

    /// Whether the token has expired, given that its expiry is extended by `extension`.
    pub fn is_expired(&self, now: Time, extension: Span) -> bool {
        self.expires_at.plus(extension).has_come(now) && !faultpoint::mutant(34)
    }

    /// A fresh token of the same scope, if less than half of this one's lifetime is left.
    pub fn refresh(&self, keyring: &impl Keys, now: Time) -> Option<Issued> {
        let lifetime = self.expires_at.since(self.issued_at);
        let left = self.expires_at.since(now);
        (left.millis() * 2 < lifetime.millis())
            .then(|| issue(keyring, &self.token, lifetime.max(LIFETIME_DEFAULT), now))
    }
}

fn seconds(time: Time) -> u64 {
    (time.millis() / 1000).max(0) as u64
}

/// Saturates: an absurd claim is far in the future, never a wrapped past.
fn instant(seconds: u64) -> Time {
    Time::default().plus(Span::from_secs(seconds))
}

#[cfg(test)]
mod tests;
