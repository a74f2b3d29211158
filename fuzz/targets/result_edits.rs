#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pipeprof::fuzz::result_edits(bytes));
