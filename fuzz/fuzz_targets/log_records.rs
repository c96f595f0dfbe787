#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| kilndb_storage::fuzz_log_records::run(data));
