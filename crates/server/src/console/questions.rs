//! What the page asks for, once a second, as JSON.
//!
//! 1. A question that fails (for want of a right, or of time) is answered with why; the others are not lost.
//!
//! Must not know: how the page shows it.

use super::http::HttpResponse;
use kilndb_lab::client::{Answer, Client, ClientError};
use kilndb_lab::questions::QUESTIONS;
use serde_json::{Map, Value, json};

/// All answers, by the questions' names.
pub(super) fn answers(client: &mut Client) -> Result<HttpResponse, ClientError> {
    let mut all = Map::new();
    for question in &QUESTIONS {
        let answer = match question.ask(client) {
            Ok(answer) => table(answer),
            Err(ClientError::Server(e)) => json!({ "problem": e.message }),
            Err(e) => return Err(e),
        };
        all.insert(question.name.to_string(), answer);
    }
    Ok(HttpResponse::json(Value::Object(all).to_string()))
}

fn table(answer: Answer) -> Value {
    let columns: Vec<String> = answer.columns.into_iter().map(|(name, _)| name).collect();
    json!({ "columns": columns, "rows": answer.rows })
}
