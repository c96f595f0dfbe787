//! The fuzz target of fuzz/targets/wire.rs over random messages, repeatable.

#[path = "../../../fuzz/targets/wire.rs"]
mod target;

#[test]
fn random_bytes_give_messages_or_errors() {
    let mut state = 1u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..20_000u32 {
        let body: Vec<u8> = (0..next() % 40).map(|_| if next() % 3 == 0 { 0 } else { next() as u8 }).collect();
        let mut data = Vec::new();
        if round % 4 != 0 {
            // A head that fits, so that the body is decoded and not only refused.
            data.push(b"QPBDECHSXpdcfF"[(next() % 14) as usize]);
        }
        data.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        data.extend_from_slice(&body);
        target::run(&data);
    }
}
