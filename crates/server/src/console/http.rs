//! HTTP/1.1, as much of it as a page and a scraper need: requests without a body, answers as a whole (RFC 9112).
//!
//! Must not know: what is asked for.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kilndb_lab::target::percent_decoded;
use std::io::{self, Read};

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

pub(super) struct HttpRequest {
    pub method: String,
    /// Without what stands behind a question mark.
    pub path: String,
    /// `database=…` behind it.
    pub database: Option<String>,
    pub host: String,
    /// A name and a password (RFC 7617).
    pub credentials: Option<(String, String)>,
    pub keeps_alive: bool,
}

/// Reads requests from a stream, one after the other.
#[derive(Default)]
pub(super) struct HttpReader {
    bytes: Vec<u8>,
}

impl HttpReader {
    /// The next request, or what is wrong with it. None: the client has closed the connection.
    pub fn next(&mut self, stream: &mut impl Read) -> io::Result<Option<Result<HttpRequest, &'static str>>> {
        let mut chunk = [0; 4096];
        loop {
            match parse(&self.bytes) {
                Ok(Some((request, length))) => {
                    self.bytes.drain(..length);
                    return Ok(Some(Ok(request)));
                }
                Err(wrong) => return Ok(Some(Err(wrong))),
                Ok(None) if self.bytes.len() > HEAD_BYTES_MAX => return Ok(Some(Err("the request is too long"))),
                Ok(None) => {}
            }
            match stream.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(count) => self.bytes.extend_from_slice(&chunk[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// None: it is not whole yet.
fn parse(bytes: &[u8]) -> Result<Option<(HttpRequest, usize)>, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes).map_err(|_| "this is no request of HTTP/1.1")? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let (path, parameters) = parsed.path.unwrap_or("/").split_once('?').unwrap_or((parsed.path.unwrap_or("/"), ""));
    let database = parameters.split('&').find_map(|parameter| parameter.strip_prefix("database="));
    let mut request = HttpRequest {
        method: parsed.method.unwrap_or("").to_string(),
        path: path.to_string(),
        database: database.map(decoded).transpose()?.filter(|name| !name.is_empty()),
        host: String::new(),
        credentials: None,
        keeps_alive: parsed.version == Some(1),
    };
    for header in parsed.headers.iter() {
        let value = std::str::from_utf8(header.value).map_err(|_| "a header is no UTF-8")?.trim();
        match header.name.to_ascii_lowercase().as_str() {
            "host" => request.host = value.to_string(),
            "connection" => request.keeps_alive = !value.eq_ignore_ascii_case("close") && request.keeps_alive,
            "authorization" => request.credentials = Some(credentials(value).ok_or("the authorization is not Basic")?),
            "content-length" if value != "0" => return Err("a request has no body here"),
            "transfer-encoding" => return Err("a request has no body here"),
            _ => {}
        }
    }
    Ok(Some((request, length)))
}

/// The value of a parameter, in which a blank may stand as `+`.
fn decoded(text: &str) -> Result<String, &'static str> {
    percent_decoded(&text.replace('+', " ")).ok_or("a % without its digits, or a name that is no UTF-8")
}

fn credentials(value: &str) -> Option<(String, String)> {
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    Some((name.to_string(), password.to_string()))
}

pub(super) struct HttpResponse {
    status: u16,
    kind: &'static str,
    body: Vec<u8>,
    /// Headers beside those that all have.
    more: &'static str,
    /// The head alone is asked for.
    is_head: bool,
}

/// What no other page is to do with ours, and what ours may do.
const ALWAYS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n\
    Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'\r\n";

impl HttpResponse {
    fn new(status: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> HttpResponse {
        HttpResponse { status, kind, body: body.into(), more: "", is_head: false }
    }
    pub fn text(status: u16, body: impl Into<String>) -> HttpResponse {
        HttpResponse::new(status, "text/plain; charset=utf-8", body.into() + "\n")
    }
    pub fn html(body: &str) -> HttpResponse {
        HttpResponse::new(200, "text/html; charset=utf-8", body)
    }
    pub fn json(body: String) -> HttpResponse {
        HttpResponse::new(200, "application/json", body)
    }
    /// The format that Prometheus reads.
    pub fn metrics(body: String) -> HttpResponse {
        HttpResponse::new(200, "text/plain; version=0.0.4; charset=utf-8", body)
    }
    /// The browser is to ask for a name and a password.
    pub fn who_are_you(body: &str) -> HttpResponse {
        let more = "WWW-Authenticate: Basic realm=\"kiln_console\", charset=\"UTF-8\"\r\n";
        HttpResponse { more, ..HttpResponse::text(401, body) }
    }

    /// `is_head`: the request asks for the head alone.
    pub fn for_head(self, is_head: bool) -> HttpResponse {
        HttpResponse { is_head, ..self }
    }

    pub fn bytes(&self, goes_on: bool) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            _ => "Service Unavailable",
        };
        let connection = if goes_on { "keep-alive" } else { "close" };
        let mut bytes = format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {connection}\r\n{ALWAYS}{}\r\n",
            self.status,
            self.kind,
            self.body.len(),
            self.more
        )
        .into_bytes();
        if !self.is_head {
            bytes.extend_from_slice(&self.body);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Option<Result<HttpRequest, &'static str>> {
        HttpReader::default().next(&mut text.as_bytes()).expect("nothing fails")
    }

    #[test]
    fn requests_are_read_one_after_the_other() {
        let text = "GET /metrics?x=1&database=a%20b HTTP/1.1\r\nHost: h:1\r\nAuthorization: basic am9lOmE6Yg==\r\n\r\n\
                    GET / HTTP/1.0\r\n\r\n";
        let (mut stream, mut reader) = (text.as_bytes(), HttpReader::default());
        let first = reader.next(&mut stream).expect("it is read").expect("it is there").expect("it is right");
        assert_eq!((first.method.as_str(), first.path.as_str(), first.host.as_str()), ("GET", "/metrics", "h:1"));
        assert_eq!(first.credentials, Some(("joe".into(), "a:b".into())));
        assert!(first.keeps_alive && first.database.as_deref() == Some("a b"));
        let second = reader.next(&mut stream).expect("it is read").expect("it is there").expect("it is right");
        assert!(second.path == "/" && !second.keeps_alive && second.credentials.is_none());
        assert!(reader.next(&mut stream).expect("it is read").is_none());
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in [
            "\u{1}\u{2}\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nAuthorization: Bearer x\r\n\r\n",
        ] {
            assert!(matches!(one(text), Some(Err(_))), "{text}");
        }
        let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(HEAD_BYTES_MAX + 4096));
        assert!(matches!(one(&long), Some(Err("the request is too long"))));
        assert!(one("GET / HT").is_none(), "it ends before it is whole");
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let bytes = HttpResponse::text(404, "nothing").bytes(true);
        let text = String::from_utf8(bytes).expect("text");
        assert!(text.starts_with("HTTP/1.1 404 Not Found\r\n") && text.contains("Content-Length: 8\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nnothing\n"), "{text}");
    }
}
