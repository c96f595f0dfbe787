//! Cuts messages as the server does and decodes each: any bytes give messages or errors.

use kilndb_wire::{Frontend, frontend};

pub fn run(data: &[u8]) {
    if let Ok(Some(length)) = frontend::startup_length(data) {
        // The outcome does not matter, only that there is one.
        let _ = frontend::decode_startup(&data[..length]);
    }
    let mut rest = data;
    while let Ok(Some((_, length))) = frontend::message_length(rest) {
        let (message, after) = rest.split_at(length);
        if let Ok(Frontend::Password(body)) = frontend::decode(message) {
            let _ = frontend::decode_password(body);
            let _ = frontend::decode_sasl_initial(body);
        }
        rest = after;
    }
}
