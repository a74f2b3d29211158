//! What `--kernel` accepts.

use crate::arch::Processor;
use crate::vm::Kernel;
use crate::vm::hardware::Hardware;
use crate::vm::image::{config_beside, release_of};
use crate::vm::store::KernelCache;
use anyhow::{Context as _, Result, bail};
use std::path::Path;

impl Kernel {
    /// Find the kernel for `name`: a path to an image, a `.deb` that contains one, or the release or series of a
    /// kernel in the cache.
    pub fn find(name: &str) -> Result<Self> {
        let path = Path::new(name);
        if name.ends_with(".deb") {
            return Ok(KernelCache::open()?.add(path, name, None, None, None)?.kernel());
        }
        if path.exists() && !path.is_dir() {
            let (release, processor) = release_of(path).with_context(|| format!("--kernel {name}"))?;
            let config = config_beside(path, &release);
            return Ok(Self { image: path.to_owned(), processor, config, release });
        }
        if path.is_dir() {
            bail!(
                "--kernel {name} is a directory: give the image in it, such as {name}/{}",
                Hardware::of(Processor::HERE).image
            );
        }
        if let Some(found) = KernelCache::open()?.find(name)? {
            return Ok(found.kernel());
        }
        if name.contains('/') || name.is_empty() {
            bail!("--kernel '{name}': file does not exist");
        }
        let way = if name.starts_with(|first: char| first.is_ascii_digit()) {
            format!("run `pipeprof kernel fetch {name}`")
        } else {
            "see `pipeprof kernel list`".to_owned()
        };
        bail!("--kernel {name}: neither a file nor a kernel in the cache: {way}, or give a path")
    }
}
