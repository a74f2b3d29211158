//! Kernel images, lists of symbols, and a mirror's index.

use crate::kernel::reach::Ways;
use crate::kernel::resolve;
use crate::kernel::symbols::{Symbol, Symbols};
use crate::vm::packages::{kernel_paragraphs, parse_packages};
use crate::vm::{image, version};
use std::cmp::Ordering;

/// Enough symbols to check: looking one up by name takes time.
const CHECKED: usize = 64;

/// A list in the format of /proc/kallsyms.
///
/// Properties: what is read is written so that it reads the same; each function is found at its address and by its name;
/// the functions of the roles survive being stored.
///
/// # Panics
/// If one does not hold.
pub fn kallsyms(bytes: &[u8]) {
    let Ok(symbols) = Symbols::read(bytes) else { return };
    let text: String = symbols.iter().map(|symbol| line(&symbol)).collect();
    match Symbols::read(text.as_bytes()) {
        Ok(again) => assert!(again.iter().eq(symbols.iter())),
        Err(error) => panic!("{error}\n{text}"),
    }
    assert_eq!(symbols.iter().count(), symbols.len());
    for symbol in symbols.iter().filter(Symbol::is_function).take(CHECKED) {
        if symbol.module.is_none() {
            assert!(symbols.functions(symbol.name).contains(&symbol), "{symbol:?}");
        }
        let Some(found) = symbols.at(symbol.address).filter(|_| symbol.address > 0) else {
            assert!(symbols.hidden() || symbol.address == 0, "{symbol:?}");
            continue;
        };
        assert_eq!((found.symbol.address, found.offset), (symbol.address, 0));
        if let Some(last) = found.size.and_then(|size| size.checked_sub(1)).filter(|last| *last < 4096) {
            let at_end = symbols.at(symbol.address + last);
            assert_eq!(at_end.map(|at_end| (at_end.symbol, at_end.offset)), Some((found.symbol, last)));
        }
    }
    if bytes.len().is_multiple_of(8) {
        let resolutions = resolve::resolve(&symbols, &ByLength);
        assert_eq!(resolve::from_comment(&resolve::to_comment(&resolutions)), Some(resolutions));
    }
}

fn line(symbol: &Symbol<'_>) -> String {
    let module = symbol.module.map(|module| format!("\t[{module}]")).unwrap_or_default();
    format!("{:016x} {} {}{module}\n", symbol.address, symbol.kind, symbol.name)
}

/// Ways that depend on nothing but the name.
struct ByLength;

impl Ways for ByLength {
    fn kprobe(&self, symbol: &Symbol<'_>) -> Result<(), String> {
        if symbol.name.len().is_multiple_of(2) { Ok(()) } else { Err("odd".to_owned()) }
    }
    fn fentry(&self, symbol: &Symbol<'_>) -> Result<(), String> {
        if symbol.name.len().is_multiple_of(3) { Ok(()) } else { Err(symbol.name.to_owned()) }
    }
    fn breakpoint(&self, symbol: &Symbol<'_>) -> Result<(), String> {
        if symbol.kind == 'T' { Ok(()) } else { Err(symbol.kind.to_string()) }
    }
}

/// The first bytes of a bzImage.
///
/// Properties: its release is the name of a file, and is the one in the header; versions have an order.
///
/// # Panics
/// If one does not hold.
pub fn bzimage(bytes: &[u8]) {
    let length = bytes.len() as u64;
    for release in [image::parse(bytes, length), image::parse(bytes, u64::MAX)].into_iter().flatten() {
        assert!(!release.is_empty() && !release.contains(['/', '\0', '\n', ' ']), "{release:?}");
        assert!(bytes.windows(release.len()).any(|window| window == release.as_bytes()));
        // A shorter image has the same release or none.
        let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
        assert!(image::parse(half, length).is_err() || image::parse(half, length).as_ref() == Ok(&release));
        let _ = version::series_of(&release);
    }
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n');
    let [a, b, c] = std::array::from_fn(|_| lines.next().unwrap_or_default());
    assert_eq!(version::compare(a, a), Ordering::Equal);
    assert_eq!(version::compare(a, b), version::compare(b, a).reverse());
    if version::compare(a, b).is_le() && version::compare(b, c).is_le() {
        assert!(version::compare(a, c).is_le(), "{a:?} {b:?} {c:?}");
    }
    assert!(version::in_series(a, a), "{a:?}");
}

/// The output of `apt-cache dumpavail`.
///
/// Properties: the paragraphs that are kept contain the same kernels; they are sorted, one for each release.
///
/// # Panics
/// If one does not hold.
pub fn package_index(bytes: &[u8]) {
    let packages = parse_packages(bytes, "cloud-amd64");
    for pair in packages.windows(2) {
        assert!(version::compare(&pair[0].version, &pair[1].version).is_ge(), "{pair:?}");
    }
    for package in &packages {
        assert!(package.name.contains(&package.release), "{package:?}");
    }
    match kernel_paragraphs(bytes) {
        Ok(kept) => {
            // An empty line is added to paragraphs without one.
            let begun = bytes.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"Package: ")).count();
            assert!(kept.len() <= bytes.len() + begun + 1);
            assert_eq!(parse_packages(&kept, "cloud-amd64"), packages);
        }
        Err(error) => panic!("{error:#}"),
    }
}
