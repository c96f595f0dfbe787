//! Random bytes, and good messages with random changes: they give answers or errors.

use kilndb_auth::lines::{AuthFiles, read_lines};
use kilndb_auth::scram::{ExchangeFacts, SCRAM_SHA_256, ScramExchange, ScramStep};
use std::io;
use std::path::{Path, PathBuf};

struct Random(u64);
impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
    fn changed(&mut self, good: &[u8], alphabet: &[u8]) -> Vec<u8> {
        let mut bytes = good.to_vec();
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len() + 1);
            let byte = alphabet[self.below(alphabet.len())];
            match self.below(3) {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => bytes[at] = byte,
                _ => bytes.truncate(at),
            }
        }
        bytes
    }
}

const VERIFIER: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                        wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

#[test]
fn changed_messages_let_nobody_in() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let facts = ExchangeFacts {
        role_name: "x",
        verifier: Some(VERIFIER),
        channel_binding: None,
        mock_nonce: &[1; 32],
        iterations: 4096,
        random: [2; 18],
    };
    let mut answered = 0;
    for _ in 0..20_000 {
        let mut exchange = ScramExchange::begin(SCRAM_SHA_256, &facts).expect("a mechanism that there is");
        let first = random.changed(b"n,,n=,r=rOprNGfwEbeRWgbNEkqO", b"n,=ypa\0\xff r");
        let Ok(ScramStep::Continue(told)) = exchange.step(Some(&first)) else { continue };
        answered += 1;
        let nonce = String::from_utf8_lossy(&told).split(',').next().unwrap_or_default().to_string();
        let last = format!("c=biws,{nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let last = random.changed(last.as_bytes(), b"c,=bp\0\xffA+");
        // The proof is of another exchange.
        assert!(!matches!(exchange.step(Some(&last)), Ok(ScramStep::Done(_))));
        assert!(exchange.step(Some(&last)).is_err(), "an exchange has an end");
    }
    assert!(answered > 1000, "only {answered} first messages were good");
}

struct OneFile(Vec<u8>);
impl AuthFiles for OneFile {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path == Path::new("/d/f") { Ok(self.0.clone()) } else { Err(io::Error::from_raw_os_error(2)) }
    }
    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec!["/d/x.conf".into()])
    }
}

#[test]
fn any_file_has_lines() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let good = b"local \"a b\",@nowhere all \\\n peer map=x # y\ninclude_dir d\ninclude_if_exists e\n";
    for _ in 0..5_000 {
        let file = OneFile(random.changed(good, b"\"\\\n,@# \0\xffa"));
        read_lines(&file, Path::new("/d/f")).expect("the file is there");
    }
}
