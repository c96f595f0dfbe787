//! What each path answers.
//!
//! Must not know: sockets.

use super::gate::{ConsoleGate, ConsoleVisitor};
use super::http::{HttpRequest, HttpResponse};
use super::{metrics, questions};

const PAGE: &str = include_str!("page.html");

pub(super) fn answer(request: &HttpRequest, visitor: &mut ConsoleVisitor, gate: &ConsoleGate) -> HttpResponse {
    let is_head = request.method == "HEAD";
    if !is_head && request.method != "GET" {
        return HttpResponse::text(405, "the console changes nothing: GET and HEAD");
    }
    let answer = match request.path.as_str() {
        "/health" | "/ready" => is_well(gate),
        "/" => gate.session(request, visitor).map_or_else(|refused| refused, |_| HttpResponse::html(PAGE)),
        "/data.json" => asked(request, visitor, gate, questions::answers),
        "/metrics" => asked(request, visitor, gate, metrics::text),
        _ => HttpResponse::text(404, "there is /, /data.json, /metrics, /health and /ready"),
    };
    answer.for_head(is_head)
}

/// Nobody needs a name to ask this: a machine that looks after servers has none. The console begins once recovery is over, so that
/// a server which answers is ready, unless it is about to stop.
fn is_well(gate: &ConsoleGate) -> HttpResponse {
    match gate.is_stopping() {
        true => HttpResponse::text(503, "shutting down"),
        false => HttpResponse::text(200, "ok"),
    }
}

/// Asks in the visitor's session. One that fails is left: what comes next logs in anew.
fn asked(
    request: &HttpRequest,
    visitor: &mut ConsoleVisitor,
    gate: &ConsoleGate,
    ask: fn(&mut kilndb_lab::client::Client) -> Result<HttpResponse, kilndb_lab::client::ClientError>,
) -> HttpResponse {
    let done = match gate.session(request, visitor) {
        Ok(client) => ask(client),
        Err(refused) => return refused,
    };
    done.unwrap_or_else(|e| {
        visitor.leave();
        HttpResponse::text(503, e.to_string())
    })
}
