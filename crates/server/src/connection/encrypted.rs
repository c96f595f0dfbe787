//! A connection that is encrypted, or about to be: bytes on their way between its socket and its buffers.
//!
//! Invariants
//! 1. Once TLS has been agreed on, everything goes through the TLS session: no byte of the socket reaches the input as it
//!    is, and no byte of the output the socket.
//! 2. A step of the handshake is taken when the worker says so, not while bytes are read, but for the last one of a client
//!    that has gone.

use super::{Connection, ConnectionLink, INPUT_AHEAD_BYTES, MOVED_AT_ONCE_BYTES};
use crate::connection_log;
use crate::tls::negotiation::{self, HANDSHAKE_RECORD, TlsOrder};
use crate::tls::{TlsSession, ended_in_handshake};
use kilndb_base::{Error, Result, sqlstate};
use std::io::ErrorKind;
use std::ops::Deref;

/// Whether the worker is to go on with a connection's handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandshakeTurn {
    NotDue,
    Due,
    /// The worker knows.
    Queued,
}

/// Bytes to be sent.
pub enum ReplyBytes<'a> {
    Plain(std::cell::Ref<'a, [u8]>),
    Encrypted(&'a [u8]),
}

impl Deref for ReplyBytes<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            ReplyBytes::Plain(bytes) => bytes,
            ReplyBytes::Encrypted(bytes) => bytes,
        }
    }
}

/// Takes what was decrypted.
fn into_input(link: &ConnectionLink) -> impl FnMut(&[u8]) + '_ {
    |bytes| link.receive(bytes)
}

impl Connection {
    // ---- the beginning

    /// Before the first packet is whole: TLS may begin without having been asked for. False: it does not.
    pub(super) fn begins_with_handshake(&mut self) -> bool {
        let link = self.link.clone();
        if !link.negotiation.is_at_first_byte() {
            return false;
        }
        let first = link.input.borrow().first().copied();
        link.negotiation.begin();
        if first != Some(HANDSHAKE_RECORD) {
            return false;
        }
        match negotiation::answer_handshake(&link, &self.control, &self.shared) {
            Some(order) => self.begin_tls(order),
            None => self.end_input(),
        }
        true
    }

    pub(super) fn begin_tls(&mut self, order: TlsOrder) {
        match TlsSession::begin(order) {
            Ok(session) => {
                if session.has_incoming() {
                    self.set_handshake_due();
                }
                self.tls = Some(Box::new(session));
            }
            Err(e) => {
                connection_log::failed(&self.shared, &self.control, &e);
                self.end_input();
            }
        }
    }

    fn set_handshake_due(&mut self) {
        if self.handshake == HandshakeTurn::NotDue {
            self.handshake = HandshakeTurn::Due;
        }
    }

    /// Takes one step of the handshake.
    pub fn shake_hands(&mut self) {
        self.handshake = HandshakeTurn::NotDue;
        let link = self.link.clone();
        let Some(tls) = self.tls.as_mut().filter(|tls| tls.is_in_handshake()) else { return };
        match tls.shake_hands(&mut into_input(&link)) {
            Ok(false) => {}
            Ok(true) => {
                if let Err(e) = self.admit_encrypted() {
                    self.fail_tls(&e);
                }
            }
            Err(e) => self.fail_tls(&e),
        }
        self.write_encrypted();
    }

    /// The handshake is over.
    fn admit_encrypted(&mut self) -> Result<()> {
        let Some(tls) = &self.tls else { return Ok(()) };
        if tls.is_direct() {
            if !tls.has_agreed_on_protocol() {
                let text = "received direct SSL connection request without ALPN protocol negotiation extension";
                return Err(Error::new(sqlstate::PROTOCOL_VIOLATION, text));
            }
            negotiation::trace(&self.shared, &self.control, "direct SSL connection accepted");
        }
        let facts = tls.facts()?;
        self.control.activity.lock().unwrap_or_else(|e| e.into_inner()).tls = Some(facts.into());
        if tls.has_peer_closed() {
            self.link.end_of_input.set(true);
        }
        Ok(())
    }

    /// The log is told why, and the session ends as if the client had gone.
    fn fail_tls(&mut self, why: &Error) {
        let line = why.clone().with_severity(kilndb_base::Severity::Log);
        connection_log::failed(&self.shared, &self.control, &line);
        if let Some(tls) = &self.tls
            && tls.is_direct()
            && self.control.tls().is_none()
        {
            negotiation::trace(&self.shared, &self.control, "direct SSL connection rejected");
        }
        self.end_input();
    }

    /// Whatever the client says from now on is not heard.
    fn end_input(&mut self) {
        if !self.link.started.get() {
            self.link.take_unread_input();
        }
        self.link.end_of_input.set(true);
    }

    // ---- what comes

    /// See [`Connection::read_input`].
    pub(super) fn read_encrypted(&mut self, scratch: &mut [u8]) {
        let mut left_bytes = MOVED_AT_ONCE_BYTES;
        self.left_unread = false;
        loop {
            let Some(tls) = &self.tls else { return };
            if self.link.end_of_input.get() {
                return;
            }
            let room_bytes = tls.room_bytes().min(scratch.len());
            let is_behind = self.link.unread_input() >= INPUT_AHEAD_BYTES && self.link.has_message();
            if is_behind || left_bytes == 0 || room_bytes == 0 {
                self.left_unread = true;
                return;
            }
            match self.socket.read(&mut scratch[..room_bytes]) {
                Ok(0) => return self.encrypted_input_ended(),
                Ok(n) => {
                    self.receive_encrypted(&mut scratch[..n]);
                    left_bytes = left_bytes.saturating_sub(n);
                    if n < room_bytes && !self.end_is_near {
                        return;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.encrypted_input_ended(),
            }
        }
    }

    fn encrypted_input_ended(&mut self) {
        // It may have said why it goes.
        if self.tls.as_ref().is_some_and(|tls| tls.is_in_handshake() && tls.has_incoming()) {
            self.shake_hands();
        }
        if self.tls.as_ref().is_some_and(|tls| tls.is_in_handshake()) {
            self.fail_tls(&ended_in_handshake());
        }
        self.link.end_of_input.set(true);
    }

    fn receive_encrypted(&mut self, bytes: &mut [u8]) {
        let link = self.link.clone();
        let Some(tls) = &mut self.tls else { return };
        if tls.is_in_handshake() {
            tls.keep(bytes);
            return self.set_handshake_due();
        }
        let received = tls.receive(bytes, &mut into_input(&link));
        if tls.has_peer_closed() {
            link.end_of_input.set(true);
        }
        if let Err(e) = received {
            self.fail_tls(&e);
        }
    }

    // ---- what goes

    /// The output is encrypted, as far as it is to be sent next.
    pub fn prepare_reply(&mut self) {
        let Some(tls) = &mut self.tls else { return };
        if !tls.has_pending() {
            self.encrypt_output();
        }
    }

    /// Encrypts the next part of the output.
    fn encrypt_output(&mut self) {
        let link = self.link.clone();
        let Some(tls) = &mut self.tls else { return };
        // A session that is writing a row says itself that there is something to send.
        let Ok(output) = link.output.try_borrow() else { return };
        let written = link.written.get();
        let encrypted = match output.buf.get(written..) {
            Some(text) if !text.is_empty() => tls.encrypt(text, &mut into_input(&link)),
            _ => return,
        };
        drop(output);
        match encrypted {
            Ok(bytes) => _ = self.note_written(written + bytes),
            Err(e) => {
                self.note_written(usize::MAX);
                self.fail_tls(&e);
            }
        }
    }

    /// See [`Connection::write_output`].
    pub(super) fn write_encrypted(&mut self) {
        self.is_blocked = false;
        self.left_unwritten = false;
        let mut left_bytes = MOVED_AT_ONCE_BYTES;
        loop {
            self.prepare_reply();
            let Some(tls) = &mut self.tls else { return };
            if !tls.has_pending() {
                return;
            }
            if left_bytes == 0 {
                self.left_unwritten = true;
                return;
            }
            match self.socket.write(tls.pending()) {
                Ok(n) => {
                    tls.note_sent(n);
                    left_bytes = left_bytes.saturating_sub(n);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    return;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    tls.drop_pending();
                    self.link.write_failed.set(true);
                    self.note_written(usize::MAX);
                    return;
                }
            }
        }
    }

    /// The session is over: what it has said last goes out, and then a goodbye.
    pub(super) fn close_tls(&mut self) {
        let link = self.link.clone();
        while self.tls.is_some() && link.pending_output() > 0 {
            self.encrypt_output();
        }
        if let Some(tls) = &mut self.tls {
            tls.close(&mut into_input(&link));
        }
    }
}
