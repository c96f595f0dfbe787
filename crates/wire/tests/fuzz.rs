//! The fuzz target of fuzz/targets/wire.rs over random messages, repeatable.

#[path = "../../../fuzz/generate.rs"]
#[allow(dead_code)]
mod generate;
#[path = "../../../fuzz/targets/wire.rs"]
mod target;

use generate::Generator;

#[test]
fn random_bytes_give_messages_or_errors() {
    let mut random = Generator(1);
    for round in 0..20_000u32 {
        let body: Vec<u8> =
            (0..random.below(40)).map(|_| if random.below(3) == 0 { 0 } else { random.byte() }).collect();
        let mut data = Vec::new();
        if round % 4 != 0 {
            // A head that fits, so that the body is decoded and not only refused.
            data.push(b"QPBDECHSXpdcfF"[random.below(14)]);
        }
        data.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        data.extend_from_slice(&body);
        target::run(&data);
    }
}
