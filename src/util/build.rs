//! Identifies this build. Two builds of the same version may contain different code, which exact counts reveal.

use object::{File, Object, ReadCache};
use std::sync::OnceLock;

/// Version and build: `0.1.0 (build 1a2b3c4d)`, with the first digits of the linker's build ID. The version alone if
/// there is no build ID or `/proc/self/exe` cannot be read.
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let version = env!("CARGO_PKG_VERSION");
        match build_id() {
            Some(id) => format!("{version} (build {id})"),
            None => version.to_owned(),
        }
    })
}

fn build_id() -> Option<String> {
    let executable = ReadCache::new(std::fs::File::open("/proc/self/exe").ok()?);
    let id = File::parse(&executable).ok()?.build_id().ok()??.to_vec();
    Some(id.iter().take(4).map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_linker_writes_a_build_id() {
        assert!(super::version().contains("(build "), "{}", super::version());
    }
}
