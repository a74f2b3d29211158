#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pipeprof::fuzz::code_json_gz(bytes));
