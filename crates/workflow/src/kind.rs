//! What a task is called, with the types of its input and its output.
//!
//! A [`Kind`] is declared once and used wherever the task is named: where it is handled, submitted, called, scheduled.
//! A wrong pair of kind and value does not compile. A plain name stands for a kind whose types are not known.
//!
//! It knows no code: a program may submit a kind whose code is written in another language.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

use serde_json::Value;
use wire::requests::AnnouncedKind;
use wire::{Builds, Json};

/// The queue of a kind that names none, in every SDK.
const DEFAULT_QUEUE: &str = "default";

/// A kind of task and the queue where its runs wait.
///
/// ```
/// use workflow::Kind;
/// const GREET: Kind<String, String> = Kind::new("greet").queue("mail");
/// assert_eq!((GREET.name(), GREET.queue_name()), ("greet", "mail"));
/// ```
pub struct Kind<I, O> {
    name: &'static str,
    queue: &'static str,
    version: Option<&'static str>,
    builds: Option<Builds>,
    input_schema: Option<Schema>,
    output_schema: Option<Schema>,
    /// A kind takes an input and gives an output; it holds neither, so it is `Copy`, `Send` and `Sync` for all types.
    of: PhantomData<fn(I) -> O>,
}

/// A JSON Schema, as text or as what makes it: a kind is a constant, and neither is made before a worker announces it.
#[derive(Clone, Copy)]
enum Schema {
    Text(&'static str),
    #[cfg(feature = "schemars")]
    Made(fn() -> Value),
}

impl<I, O> Kind<I, O> {
    pub const fn new(name: &'static str) -> Kind<I, O> {
        Kind {
            name,
            queue: DEFAULT_QUEUE,
            version: None,
            builds: None,
            input_schema: None,
            output_schema: None,
            of: PhantomData,
        }
    }

    /// The queue where runs of this kind wait; `default` when none is named.
    pub const fn queue(self, queue: &'static str) -> Kind<I, O> {
        Kind { queue, ..self }
    }

    /// The version that workers announce. It describes: runs are leased by kind and queue alone.
    pub const fn version(self, version: &'static str) -> Kind<I, O> {
        Kind { version: Some(version), ..self }
    }

    /// Which builds may continue a durable run of this kind that has recorded something: with [`Builds::Pin`] only workers of
    /// the build that recorded it, with [`Builds::Any`] every worker, and the run remembers the build. The worker needs a build
    /// id. Nothing is remembered when this is not called.
    ///
    /// ```
    /// use workflow::{Builds, Kind};
    /// const ORDER: Kind<u64, u64> = Kind::new("order").builds(Builds::Pin);
    /// ```
    pub const fn builds(self, builds: Builds) -> Kind<I, O> {
        Kind { builds: Some(builds), ..self }
    }

    /// A JSON Schema of the input, which workers announce: `tenure submit --check` refuses an input that does not fit.
    ///
    /// ```
    /// use workflow::Kind;
    /// const GREET: Kind<String, String> = Kind::new("greet").input_schema(r#"{"type": "string"}"#);
    /// ```
    pub const fn input_schema(self, schema: &'static str) -> Kind<I, O> {
        Kind { input_schema: Some(Schema::Text(schema)), ..self }
    }

    /// A JSON Schema of the output, which workers announce.
    pub const fn output_schema(self, schema: &'static str) -> Kind<I, O> {
        Kind { output_schema: Some(Schema::Text(schema)), ..self }
    }

    /// Announces the schemas of both types, which `schemars` makes.
    #[cfg(feature = "schemars")]
    pub const fn with_schemas(self) -> Kind<I, O>
    where
        I: schemars::JsonSchema,
        O: schemars::JsonSchema,
    {
        Kind {
            input_schema: Some(Schema::Made(schema_of_input::<I>)),
            output_schema: Some(Schema::Made(schema_of_output::<O>)),
            ..self
        }
    }

    /// What a worker announces of the kind, or why a schema cannot be.
    #[doc(hidden)]
    pub fn announcement(&self) -> Result<AnnouncedKind, String> {
        let read = |schema: Option<Schema>, what: &str| {
            schema.map(Schema::read).transpose().map_err(|why| {
                format!("the schema of the {what} of `{}` is not a JSON object: {why}", self.name)
            })
        };
        Ok(AnnouncedKind {
            kind: self.name.to_owned(),
            version: self.version.map(str::to_owned),
            builds: self.builds,
            input_schema: read(self.input_schema, "input")?,
            output_schema: read(self.output_schema, "output")?,
        })
    }

    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub const fn queue_name(&self) -> &'static str {
        self.queue
    }
}

impl Schema {
    /// The schema without needless spaces, which count against the limit of its size.
    fn read(self) -> Result<Json, String> {
        let members: serde_json::Map<String, Value> = match self {
            Schema::Text(text) => serde_json::from_str(text),
            #[cfg(feature = "schemars")]
            Schema::Made(make) => serde_json::from_value(make()),
        }
        .map_err(|why| why.to_string())?;
        Json::from_value(&members).map_err(|why| why.to_string())
    }
}

#[cfg(feature = "schemars")]
fn schema_of_input<T: schemars::JsonSchema>() -> Value {
    let made = schemars::generate::SchemaSettings::default().for_deserialize();
    made.into_generator().into_root_schema_for::<T>().to_value()
}

/// A type that is written otherwise than it is read has two schemas.
#[cfg(feature = "schemars")]
fn schema_of_output<T: schemars::JsonSchema>() -> Value {
    let made = schemars::generate::SchemaSettings::default().for_serialize();
    made.into_generator().into_root_schema_for::<T>().to_value()
}

impl<I, O> Clone for Kind<I, O> {
    fn clone(&self) -> Kind<I, O> {
        *self
    }
}

impl<I, O> Copy for Kind<I, O> {}

impl<I, O> fmt::Debug for Kind<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).field("queue", &self.queue).finish()
    }
}

/// What can be given an input of type `J`: a [`Kind`] whose input can be borrowed as `J`, so that a `Kind<String, _>`
/// takes a `&str`, or a name, which takes anything and gives JSON.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not take an input of type `{J}`",
    label = "the input is `{J}`",
    note = "a `Kind<I, O>` takes what an `I` can be borrowed as; a plain name takes every input"
)]
pub trait RunKind<J: ?Sized> {
    type Output;

    fn name(&self) -> &str;

    fn queue_name(&self) -> Option<&str>;
}

impl<I: Borrow<J>, O, J: ?Sized> RunKind<J> for Kind<I, O> {
    type Output = O;

    fn name(&self) -> &str {
        self.name
    }

    fn queue_name(&self) -> Option<&str> {
        Some(self.queue)
    }
}

impl<J: ?Sized> RunKind<J> for &str {
    type Output = Value;

    fn name(&self) -> &str {
        self
    }

    fn queue_name(&self) -> Option<&str> {
        None
    }
}

impl<J: ?Sized> RunKind<J> for String {
    type Output = Value;

    fn name(&self) -> &str {
        self
    }

    fn queue_name(&self) -> Option<&str> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_tells_its_version_and_schemas_and_refuses_text_that_is_none() {
        const GREET: Kind<String, u32> =
            Kind::new("greet").version("2").input_schema(r#"{ "type": "string" }"#);
        let told = GREET.announcement().unwrap();
        assert_eq!((told.kind.as_str(), told.version.as_deref()), ("greet", Some("2")));
        assert_eq!(told.input_schema.unwrap().text(), r#"{"type":"string"}"#);
        assert_eq!(told.output_schema, None);
        for text in ["true", "{", "[1]"] {
            let why = GREET.output_schema(text).announcement().unwrap_err();
            assert!(why.contains("the schema of the output of `greet`"), "{why}");
        }
    }

    #[cfg(feature = "schemars")]
    #[test]
    fn schemas_are_made_from_the_types() {
        #[derive(schemars::JsonSchema)]
        #[expect(dead_code, reason = "only its shape is read")]
        struct Order {
            cents: u64,
        }
        const ORDER: Kind<Order, String> = Kind::new("order").with_schemas();
        let told = ORDER.announcement().unwrap();
        let schema: Value = serde_json::from_str(told.input_schema.unwrap().text()).unwrap();
        assert_eq!(schema["required"], serde_json::json!(["cents"]));
        assert!(told.output_schema.unwrap().text().contains(r#""type":"string""#));
    }
}
