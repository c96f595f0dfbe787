//! Messages to the client, appended to one buffer.

use kilndb_base::error::ErrorFields;

/// What a session has to say, until its next flush point.
#[derive(Default)]
pub struct OutputBuffer {
    pub buf: Vec<u8>,
}

/// A column of a RowDescription.
pub struct FieldDescription<'a> {
    pub name: &'a str,
    pub table_oid: u32,
    pub attnum: i16,
    pub type_oid: u32,
    pub type_len: i16,
    pub typmod: i32,
    pub format: i16,
}

impl OutputBuffer {
    /// Appends a message whose body `fill` writes.
    pub fn message(&mut self, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        self.buf.push(kind);
        let at = self.buf.len();
        self.buf.extend_from_slice(&[0; 4]);
        fill(&mut self.buf);
        let length = (self.buf.len() - at) as u32;
        self.buf[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn empty(&mut self, kind: u8) {
        self.buf.extend_from_slice(&[kind, 0, 0, 0, 4]);
    }

    pub fn authentication_ok(&mut self) {
        self.message(b'R', |b| b.extend_from_slice(&0u32.to_be_bytes()));
    }
    pub fn authentication_cleartext_password(&mut self) {
        self.authentication(3, &[]);
    }
    pub fn authentication_md5_password(&mut self, challenge: [u8; 4]) {
        self.authentication(5, &challenge);
    }
    /// Mechanisms, the best first.
    pub fn authentication_sasl(&mut self, mechanisms: &[&str]) {
        let mut list = Vec::new();
        mechanisms.iter().for_each(|name| put_cstr(&mut list, name));
        list.push(0);
        self.authentication(10, &list);
    }
    pub fn authentication_sasl_continue(&mut self, data: &[u8]) {
        self.authentication(11, data);
    }
    pub fn authentication_sasl_final(&mut self, data: &[u8]) {
        self.authentication(12, data);
    }
    fn authentication(&mut self, request: u32, data: &[u8]) {
        self.message(b'R', |b| {
            b.extend_from_slice(&request.to_be_bytes());
            b.extend_from_slice(data);
        });
    }
    pub fn parameter_status(&mut self, name: &str, value: &str) {
        self.message(b'S', |b| {
            put_cstr(b, name);
            put_cstr(b, value);
        });
    }
    pub fn backend_key_data(&mut self, process_id: i32, secret: &[u8]) {
        self.message(b'K', |b| {
            b.extend_from_slice(&process_id.to_be_bytes());
            b.extend_from_slice(secret);
        });
    }
    pub fn negotiate_protocol_version(&mut self, newest_minor: i32, unknown: &[&str]) {
        self.message(b'v', |b| {
            b.extend_from_slice(&((3i32 << 16) | newest_minor).to_be_bytes());
            b.extend_from_slice(&(unknown.len() as i32).to_be_bytes());
            for name in unknown {
                put_cstr(b, name);
            }
        });
    }
    /// `status`: `I`, `T` or `E`.
    pub fn ready_for_query(&mut self, status: u8) {
        self.message(b'Z', |b| b.push(status));
    }
    pub fn parse_complete(&mut self) {
        self.empty(b'1');
    }
    pub fn bind_complete(&mut self) {
        self.empty(b'2');
    }
    pub fn close_complete(&mut self) {
        self.empty(b'3');
    }
    pub fn no_data(&mut self) {
        self.empty(b'n');
    }
    pub fn portal_suspended(&mut self) {
        self.empty(b's');
    }
    pub fn empty_query_response(&mut self) {
        self.empty(b'I');
    }
    pub fn copy_done(&mut self) {
        self.empty(b'c');
    }
    pub fn copy_data(&mut self, data: &[u8]) {
        self.message(b'd', |b| b.extend_from_slice(data));
    }
    /// CopyInResponse (`G`) or CopyOutResponse (`H`).
    pub fn copy_response(&mut self, kind: u8, binary: bool, columns: usize) {
        let format = i16::from(binary);
        self.message(kind, |b| {
            b.push(format as u8);
            b.extend_from_slice(&(columns as i16).to_be_bytes());
            for _ in 0..columns {
                b.extend_from_slice(&format.to_be_bytes());
            }
        });
    }
    pub fn command_complete(&mut self, tag: &str) {
        self.message(b'C', |b| put_cstr(b, tag));
    }
    pub fn parameter_description(&mut self, types: &[u32]) {
        self.message(b't', |b| {
            b.extend_from_slice(&(types.len() as i16).to_be_bytes());
            for t in types {
                b.extend_from_slice(&t.to_be_bytes());
            }
        });
    }
    pub fn row_description<'a>(&mut self, fields: impl ExactSizeIterator<Item = FieldDescription<'a>>) {
        self.message(b'T', |b| {
            b.extend_from_slice(&(fields.len() as i16).to_be_bytes());
            for f in fields {
                put_cstr(b, f.name);
                b.extend_from_slice(&f.table_oid.to_be_bytes());
                b.extend_from_slice(&f.attnum.to_be_bytes());
                b.extend_from_slice(&f.type_oid.to_be_bytes());
                b.extend_from_slice(&f.type_len.to_be_bytes());
                b.extend_from_slice(&f.typmod.to_be_bytes());
                b.extend_from_slice(&f.format.to_be_bytes());
            }
        });
    }
    pub fn notification(&mut self, process_id: i32, channel: &str, payload: &str) {
        self.message(b'A', |b| {
            b.extend_from_slice(&process_id.to_be_bytes());
            put_cstr(b, channel);
            put_cstr(b, payload);
        });
    }
    /// What a function gave that a FunctionCall has called; None: NULL.
    pub fn function_call_response(&mut self, value: Option<&[u8]>) {
        let length = value.map_or(-1, |v| v.len() as i32);
        self.buf.push(b'V');
        self.buf.extend_from_slice(&(8 + length.max(0)).to_be_bytes());
        self.buf.extend_from_slice(&length.to_be_bytes());
        self.buf.extend_from_slice(value.unwrap_or(&[]));
    }
    /// A DataRow of `count` columns; `write` appends column `i`'s bytes, or returns false for NULL. On an error nothing
    /// is appended.
    pub fn data_row<E>(
        &mut self,
        count: usize,
        write: &mut dyn FnMut(usize, &mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let b = &mut self.buf;
        let start = b.len();
        b.extend_from_slice(&[b'D', 0, 0, 0, 0]);
        b.extend_from_slice(&(count as u16).to_be_bytes());
        for i in 0..count {
            let at = b.len();
            b.extend_from_slice(&[0xff; 4]);
            match write(i, b) {
                Ok(true) => {
                    let length = (b.len() - at - 4) as u32;
                    b[at..at + 4].copy_from_slice(&length.to_be_bytes());
                }
                Ok(false) => {}
                Err(e) => {
                    b.truncate(start);
                    return Err(e);
                }
            }
        }
        let length = (b.len() - start - 1) as u32;
        b[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }
    /// ErrorResponse, or NoticeResponse if the severity is below ERROR.
    pub fn error_or_notice(&mut self, e: &ErrorFields) {
        let kind = if e.severity >= kilndb_base::Severity::Error { b'E' } else { b'N' };
        let position = e.position.map(|p| p.to_string());
        let internal_position = e.internal_position.map(|p| p.to_string());
        let fields = [
            (b'S', Some(e.severity.as_str())),
            (b'V', Some(e.severity.as_str())),
            (b'C', Some(e.sqlstate.as_str())),
            (b'M', Some(e.message.as_str())),
            (b'D', e.detail.as_deref()),
            (b'H', e.hint.as_deref()),
            (b'P', position.as_deref()),
            (b'p', internal_position.as_deref()),
            (b'q', e.internal_query.as_deref()),
            (b'W', e.context.as_deref()),
            (b's', e.schema.as_deref()),
            (b't', e.table.as_deref()),
            (b'c', e.column.as_deref()),
            (b'd', e.data_type.as_deref()),
            (b'n', e.constraint.as_deref()),
        ];
        self.message(kind, |b| {
            for (code, value) in fields {
                if let Some(value) = value {
                    b.push(code);
                    put_cstr(b, value);
                }
            }
            b.push(0);
        });
    }
}

/// A zero byte would end the string early and derail the client: it is left out.
fn put_cstr(b: &mut Vec<u8>, s: &str) {
    if s.as_bytes().contains(&0) {
        b.extend(s.bytes().filter(|c| *c != 0));
    } else {
        b.extend_from_slice(s.as_bytes());
    }
    b.push(0);
}
