use super::*;
use proptest::prelude::*;

const LIST: &str = "\
ffffffff81000000 T srso_alias_untrain_ret
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t pipe_write
ffffffff81000180 t __mutex_lock.constprop.0
ffffffff81000200 t iovec_from_user.part.0
ffffffff81000240 T iovec_from_user
ffffffff81000280 t rmqueue.cold
ffffffff810002c0 t dup
ffffffff81000300 t dup
ffffffff82000000 D jiffies
ffffffffc0000000 t pipe_write\t[evil]
";

fn read(text: &str) -> Symbols {
    Symbols::read(text.as_bytes()).unwrap()
}

#[test]
fn addresses() {
    let symbols = read(LIST);
    assert_eq!(symbols.len(), 12);
    let found = symbols.at(0xffff_ffff_8100_0110).unwrap();
    assert_eq!((found.symbol.name, found.offset, found.size), ("pipe_write", 0x10, Some(0x80)));
    assert_eq!(symbols.at(0xffff_ffff_8100_0000).unwrap().symbol.name, "srso_alias_untrain_ret");
    assert_eq!(symbols.at(0xffff_ffff_80ff_ffff), None);
    let last = symbols.at(0xffff_ffff_c000_0010).unwrap();
    assert_eq!((last.symbol.module, last.size), (Some("evil"), None));
    assert_eq!(symbols.at(0xffff_ffff_8100_0310).unwrap().symbol.name, "dup");
    assert_eq!(symbols.at(0xffff_ffff_8200_0000), None, "data is not a function, and far after the last one");
}

#[test]
fn names_and_suffixes() {
    let symbols = read(LIST);
    let names = |function: &str| symbols.functions(function).iter().map(|s| s.name.to_owned()).collect::<Vec<_>>();
    assert_eq!(names("__mutex_lock"), ["__mutex_lock.constprop.0"]);
    assert_eq!(names("iovec_from_user"), ["iovec_from_user", "iovec_from_user.part.0"]);
    assert_eq!(names("pipe_write").len(), 1, "modules do not count");
    assert_eq!(names("rmqueue"), [""; 0], "a cold part is not the function");
    assert_eq!(names("jiffies"), [""; 0], "data is not a function");
    assert_eq!(names("dup").len(), 2);
    let named = |name: &str| symbols.iter().filter(|symbol| symbol.name == name).count();
    assert_eq!((named("jiffies"), named("__mutex_lock"), named("pipe_write")), (1, 0, 2));
}

#[test]
fn hidden_addresses_are_an_error_with_a_way_out() {
    let symbols = read("0000000000000000 T _text\n0000000000000000 t pipe_write\n");
    assert!(symbols.hidden());
    assert_eq!(symbols.at(0), None);
    assert_eq!(symbols.functions("pipe_write").len(), 1, "names are still known");
    let error = symbols.with_addresses().unwrap_err().to_string();
    assert!(error.contains("run as root") && error.contains("kptr_restrict"), "{error}");
    assert!(!read(LIST).hidden());
}

#[test]
fn lines_that_make_no_sense_are_named() {
    for (text, what) in [
        ("", "empty"),
        ("\n# nothing\n", "empty"),
        ("ffff T a\nxyz\n", "line 2"),
        ("ffff\n", "line 1"),
        ("ffff T\n", "line 1"),
        ("ffff T \n", "no name"),
        ("ffff TT a\n", "kind"),
        ("fffff00000000000000000 T a\n", "16 digits"),
        ("ffff T a\tb\n", "[module]"),
    ] {
        let error = Symbols::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(what), "{text:?}: {error}");
    }
    assert!(Symbols::read(&b"ffff T \xff\xfe\n"[..]).is_err());
    assert!(Symbols::open(Path::new("/nonexistent")).unwrap_err().to_string().contains("/nonexistent"));
}

/// Parse 200,000 lines. The limit is generous, because debug builds run it in parallel with other tests.
#[test]
fn two_hundred_thousand_lines_are_read_quickly() {
    use std::fmt::Write as _;
    let mut text = String::new();
    for line in 0..200_000_u64 {
        let _ = writeln!(text, "{:016x} t function_{line}", 0xffff_ffff_8100_0000 + line * 16);
    }
    let start = std::time::Instant::now();
    let symbols = read(&text);
    assert_eq!(symbols.at(0xffff_ffff_8100_0000 + 199_999 * 16 + 5).unwrap().symbol.name, "function_199999");
    assert_eq!(symbols.functions("function_77").len(), 1);
    assert!(start.elapsed().as_secs_f64() < 5.0, "{:?}", start.elapsed());
}

proptest! {
    #[test]
    fn lines_that_look_right_do_not_panic(
        lines in proptest::collection::vec(("[0-9a-f]{1,17}", "[a-zA-Z?] ?", "[a-z_.0-9]{0,9}", "(\t\\[[a-z]{0,3}\\]?)?"), 0..20),
        address: u64,
    ) {
        let text: String = lines.iter().map(|(a, k, n, m)| format!("{a} {k}{n}{m}\n")).collect();
        if let Ok(symbols) = Symbols::read(text.as_bytes()) {
            let _ = symbols.at(address);
            for symbol in symbols.iter() {
                let found = symbols.functions(symbol.name).contains(&symbol);
                prop_assert_eq!(found, symbol.is_function() && symbol.module.is_none());
            }
        }
    }

    #[test]
    fn every_function_is_found_at_its_address(
        addresses in proptest::collection::btree_set(1_u64..u64::MAX, 1..50),
    ) {
        let text: String = addresses.iter().map(|a| format!("{a:016x} t f{a:x}\n")).collect();
        let symbols = read(&text);
        for address in &addresses {
            let found = symbols.at(*address).unwrap();
            prop_assert_eq!((found.symbol.address, found.offset), (*address, 0));
        }
    }
}
