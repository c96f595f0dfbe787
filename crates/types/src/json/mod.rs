//! json and jsonb: text, trees, bytes.

pub mod aggregate;
pub mod binary;
pub mod convert;
pub mod node;
pub mod parse;
pub mod path_method;
pub mod path_parse;
pub mod path_run;
pub mod path_set;
pub mod populate;
pub mod sets;
pub mod value;

pub use parse::validate;
pub use value::JsonValue;
