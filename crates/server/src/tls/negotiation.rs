//! The requests that come before all messages: SSLRequest and GSSENCRequest, and TLS without asking.
//!
//! Invariants
//! 1. Each kind of encryption is asked for at most once, and none after another has been agreed on.
//! 2. Bytes that follow a request which was refused end the connection: whoever was to read them was not agreed on yet.
//!    Bytes that follow one which was accepted belong to the handshake.

use super::{TlsContext, TlsOffer};
use crate::connection::ConnectionLink;
use crate::connection_log;
use crate::runtime::CoroutineRuntime;
use crate::shared::ServerShared;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_context::client::SessionControl;
use std::cell::{Cell, RefCell};

/// How TLS begins: by a handshake record.
pub const HANDSHAKE_RECORD: u8 = 0x16;

/// How far a connection has come.
#[derive(Default)]
pub struct Negotiation {
    /// A packet has come: TLS does not begin by itself any more.
    has_begun: Cell<bool>,
    ssl_done: Cell<bool>,
    gss_done: Cell<bool>,
    /// What the worker is to do when the coroutine has ended.
    order: RefCell<Option<TlsOrder>>,
}

/// TLS has been agreed on.
pub struct TlsOrder {
    pub context: Arc<TlsContext>,
    /// What is to be sent before the first record.
    pub answer: &'static [u8],
    /// What the client has sent already.
    pub early: Vec<u8>,
    /// The client did not ask.
    pub is_direct: bool,
}

impl Negotiation {
    pub fn take_order(&self) -> Option<TlsOrder> {
        self.order.take()
    }
    /// The next byte is the connection's first.
    pub fn is_at_first_byte(&self) -> bool {
        !self.has_begun.get()
    }
    /// A whole packet is being read, or TLS has begun.
    pub fn begin(&self) {
        self.has_begun.set(true);
    }
    pub fn finish(&self) {
        self.ssl_done.set(true);
        self.gss_done.set(true);
    }
}

fn repeated(request: &str) -> Error {
    let text = format!("unsupported frontend protocol {request}: server supports 3.0 to 3.2");
    Error::new(sqlstate::FEATURE_NOT_SUPPORTED, text)
}

fn refuse_early_bytes(link: &ConnectionLink, request: &str) -> Result<()> {
    if link.take_unread_input().is_empty() {
        return Ok(());
    }
    let text = format!("received unencrypted data after {request} request");
    Err(Error::new(sqlstate::PROTOCOL_VIOLATION, text).with_detail(
        "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.",
    ))
}

/// An SSLRequest has come.
pub fn answer_ssl_request(runtime: &CoroutineRuntime, shared: &ServerShared) -> Result<()> {
    let link = &runtime.link;
    link.negotiation.begin();
    if link.negotiation.ssl_done.replace(true) {
        return Err(repeated("1234.5679"));
    }
    let context = available(&runtime.control, shared)?;
    trace(shared, &runtime.control, if context.is_some() { "SSLRequest accepted" } else { "SSLRequest rejected" });
    let Some(context) = context else {
        link.output.borrow_mut().buf.push(b'N');
        return refuse_early_bytes(link, "SSL");
    };
    link.negotiation.finish();
    let order = TlsOrder { context, answer: b"S", early: link.take_unread_input(), is_direct: false };
    link.negotiation.order.replace(Some(order));
    Ok(())
}

/// A GSSENCRequest has come. There is no GSSAPI.
pub fn answer_gss_request(runtime: &CoroutineRuntime, shared: &ServerShared) -> Result<()> {
    let link = &runtime.link;
    link.negotiation.begin();
    if link.negotiation.gss_done.replace(true) {
        return Err(repeated("1234.5680"));
    }
    trace(shared, &runtime.control, "GSSENCRequest rejected");
    link.output.borrow_mut().buf.push(b'N');
    refuse_early_bytes(link, "GSSAPI encryption")
}

/// A connection's first byte is that of a handshake. None: there is no TLS for it.
pub fn answer_handshake(link: &ConnectionLink, control: &SessionControl, shared: &ServerShared) -> Option<TlsOrder> {
    link.negotiation.begin();
    link.negotiation.finish();
    let early = link.take_unread_input();
    let available = available(control, shared).unwrap_or_else(|e| {
        connection_log::failed(shared, control, &e);
        None
    });
    let Some(context) = available else {
        trace(shared, control, "direct SSL connection rejected");
        return None;
    };
    Some(TlsOrder { context, answer: b"", early, is_direct: true })
}

/// What TLS would be done by. On Unix-domain sockets there is none: nobody is in between.
fn available(control: &SessionControl, shared: &ServerShared) -> Result<Option<Arc<TlsContext>>> {
    let is_tcp = control.activity.lock().unwrap_or_else(|e| e.into_inner()).client_addr.is_some();
    match shared.tls.current() {
        TlsOffer::Tls(context) if is_tcp => Ok(Some(context)),
        TlsOffer::Broken if is_tcp => {
            let text = "could not initialize SSL connection: SSL context not set up";
            Err(Error::new(sqlstate::PROTOCOL_VIOLATION, text).with_severity(Severity::Fatal))
        }
        _ => Ok(None),
    }
}

/// For `trace_connection_negotiation`.
pub fn trace(shared: &ServerShared, control: &SessionControl, message: &str) {
    if shared.instance.cluster.settings().flag("trace_connection_negotiation") {
        let line = Error::notice(sqlstate::SUCCESSFUL_COMPLETION, Severity::Log, message);
        connection_log::failed(shared, control, &line);
    }
}
