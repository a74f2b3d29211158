#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pipeprof::fuzz::path_steps(bytes));
