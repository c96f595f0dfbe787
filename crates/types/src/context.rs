//! What a function may see of the world: settings, time, randomness, and the catalogs through [`ValueHost`].

use crate::row::PhysicalType;
use crate::trigram::Thresholds;
use crate::types::TypeDescriptor;
use kilndb_base::{Error, Oid, Result};
use kilndb_fulltext::{Config, Dictionary};
use std::cell::Cell;
use std::sync::Arc;

/// The settings that values and formats depend on. A session keeps one and changes it with SET.
#[derive(Clone, Debug)]
pub struct FormatSettings {
    /// `ISO`, `SQL`, `Postgres`, `German`.
    pub date_style: DateStyle,
    pub date_order: DateOrder,
    pub interval_style: IntervalStyle,
    /// The name as SHOW prints it; data is found through `jiff`.
    pub time_zone: String,
    pub extra_float_digits: i32,
    pub bytea_output_hex: bool,
    pub standard_conforming_strings: bool,
    pub array_nulls: bool,
    /// How alike texts must be for pg_trgm's operators.
    pub trigram: Thresholds,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DateStyle {
    Iso,
    Sql,
    Postgres,
    German,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DateOrder {
    Ymd,
    Dmy,
    Mdy,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntervalStyle {
    Postgres,
    PostgresVerbose,
    SqlStandard,
    Iso8601,
}

impl Default for FormatSettings {
    fn default() -> Self {
        FormatSettings {
            date_style: DateStyle::Iso,
            date_order: DateOrder::Mdy,
            interval_style: IntervalStyle::Postgres,
            time_zone: "UTC".into(),
            extra_float_digits: 1,
            bytea_output_hex: true,
            standard_conforming_strings: true,
            array_nulls: true,
            trigram: Thresholds::default(),
        }
    }
}

/// Names of objects, as value code asks the catalogs for them.
pub trait ObjectNames {
    /// Name of a type as format_type prints it, for messages and output of regtype.
    fn format_type(&self, oid: Oid, typmod: i32) -> String;
    /// Text input of reg… types (`kind` is the reg type's own OID).
    fn reg_input(&self, kind: Oid, text: &str) -> Result<Oid>;
    /// Text output of reg… types.
    fn reg_output(&self, kind: Oid, oid: Oid) -> String;
}

/// What there is to know of types that are not built in, or are made of others.
pub trait TypeCatalog {
    /// The range type that `oid` names, itself or as its multirange.
    fn range_type(&self, oid: Oid) -> Option<crate::range::RangeType> {
        crate::range::built_in(oid)
    }
    /// Element type of an array type, or 0.
    fn element_type(&self, oid: Oid) -> Oid;
    /// Array type of an element type, or 0.
    fn array_type(&self, oid: Oid) -> Oid;
    /// Fields of a composite type: (name, type, typmod).
    fn composite_fields(&self, oid: Oid) -> Option<Vec<(String, Oid, i32)>>;
    /// The type right under a domain, with the modifier of its values.
    fn under_domain(&self, oid: Oid) -> Option<(Oid, i32)> {
        let _ = oid;
        None
    }
    /// An error unless a value of its base type belongs to the domain.
    fn check_domain(&self, oid: Oid, value: &crate::Datum) -> Result<()> {
        let _ = (oid, value);
        Ok(())
    }
    /// The value of a label, if the type is an enum.
    fn enum_value(&self, oid: Oid, label: &str) -> Option<Result<crate::Datum>> {
        let _ = (oid, label);
        None
    }
    /// The label of a value, if the type is an enum (or a domain over one).
    fn enum_label(&self, oid: Oid, value: u64) -> Option<String> {
        let _ = (oid, value);
        None
    }
}

/// Text search configurations and dictionaries, ready to be used.
pub trait TextSearchCatalog {
    /// A text search configuration with all its dictionaries.
    fn text_search_config(&self, oid: Oid) -> Result<Arc<Config>> {
        Err(Error::internal(format!("text search configuration {oid} cannot be looked up here")))
    }
    /// What default_text_search_config names.
    fn default_text_search_config(&self) -> Result<Oid> {
        Err(Error::internal("the text search configuration cannot be looked up here"))
    }
    fn text_search_dictionary(&self, oid: Oid) -> Result<Arc<Dictionary>> {
        Err(Error::internal(format!("text search dictionary {oid} cannot be looked up here")))
    }
}

/// By so much two times must differ to make different UUIDs of version 7, which have twelve bits for a part of a
/// millisecond (RFC 9562, section 6.2, method 3).
pub const UUID_CLOCK_STEP_NANOS: i64 = 1_000_000 / 4096 + 1;

/// The world around a session: what time it is, chance, and the client.
pub trait SessionEnvironment {
    /// Monotonic and wall clock, microseconds since 1970 UTC.
    fn clock_unix_micros(&self) -> i64;
    /// The wall clock in nanoseconds since 1970 UTC, and after what the session has been told before by
    /// [`UUID_CLOCK_STEP_NANOS`] at least.
    fn ascending_unix_nanos(&self) -> i64 {
        self.clock_unix_micros().saturating_mul(1000)
    }
    fn random_bytes(&self, buf: &mut [u8]);
    /// A notice or warning for the client.
    fn notice(&self, notice: Error);
}

/// What value code asks of the layers above: the catalogs and the session. Each concern is a trait of its own, and
/// this one is whatever has them all.
pub trait ValueHost: ObjectNames + TypeCatalog + TextSearchCatalog + SessionEnvironment {}

impl<T: ObjectNames + TypeCatalog + TextSearchCatalog + SessionEnvironment> ValueHost for T {}

/// Handed to every function call.
#[derive(Clone, Copy)]
pub struct EvalContext<'a> {
    pub format: &'a FormatSettings,
    /// Microseconds since 2000-01-01 UTC (as timestamptz).
    pub transaction_timestamp: i64,
    pub statement_timestamp: i64,
    pub host: &'a dyn ValueHost,
    /// State of the session's random(): xoroshiro-like, seeded by the session, set by setseed().
    pub random_state: &'a Cell<[u64; 2]>,
    /// Becomes true when an input function reads a text by the clock, such as 'now' or 'tomorrow': what has been made
    /// of the text is then no constant. None where nobody asks.
    pub clock_was_read: Option<&'a Cell<bool>>,
}

impl EvalContext<'_> {
    /// The transaction's start, for an input function that makes a value of it.
    pub(crate) fn clock_of_input(&self) -> i64 {
        if let Some(was_read) = self.clock_was_read {
            was_read.set(true);
        }
        self.transaction_timestamp
    }
}

/// A host for values of types that are read without looking anything up.
pub struct NoHost;

impl ObjectNames for NoHost {
    fn format_type(&self, oid: Oid, _typmod: i32) -> String {
        oid.to_string()
    }
    fn reg_input(&self, _kind: Oid, text: &str) -> Result<Oid> {
        Err(Error::internal(format!("\"{text}\" cannot be looked up here")))
    }
    fn reg_output(&self, _kind: Oid, oid: Oid) -> String {
        oid.to_string()
    }
}

impl TypeCatalog for NoHost {
    fn element_type(&self, _oid: Oid) -> Oid {
        0
    }
    fn array_type(&self, _oid: Oid) -> Oid {
        0
    }
    fn composite_fields(&self, _oid: Oid) -> Option<Vec<(String, Oid, i32)>> {
        None
    }
}

impl TextSearchCatalog for NoHost {}

impl SessionEnvironment for NoHost {
    fn clock_unix_micros(&self) -> i64 {
        0
    }
    fn random_bytes(&self, _buf: &mut [u8]) {}
    fn notice(&self, _notice: Error) {}
}

/// Types whose values any thread can show that knows the settings of formats: they are scalars that name no object.
pub fn is_shown_by_settings(type_oid: Oid) -> bool {
    crate::types::descriptor(type_oid)
        .is_some_and(|ty| ty.is_self_contained || ty.is_settings_free || is_nameless_scalar(ty))
}

/// Types whose values any thread can read that knows the settings of formats.
pub fn is_read_by_settings(type_oid: Oid) -> bool {
    crate::types::descriptor(type_oid).is_some_and(|ty| ty.is_self_contained || is_nameless_scalar(ty))
}

/// A scalar that names no object.
fn is_nameless_scalar(ty: &TypeDescriptor) -> bool {
    !matches!(ty.storage, PhysicalType::Tagged | PhysicalType::Oid)
}

/// Types whose values mean the same in every session and are read without looking anything up.
pub fn is_self_contained(type_oid: Oid) -> bool {
    crate::types::descriptor(type_oid).is_some_and(|ty| ty.is_self_contained)
}
