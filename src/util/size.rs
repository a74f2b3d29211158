//! Sizes in bytes, such as `4K`, `256K`, `2M` and `10G`, in powers of 1024.

/// Parse a size in bytes. Suffixes K, M, G, T (and `KiB`, `KB` and so on) are powers of 1024.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    if number.is_empty() {
        return Err(format!("'{text}' is not a size: use a whole number with K, M, G or T, such as 256K"));
    }
    let shift = match suffix.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(format!("unknown unit '{suffix}' in '{text}': use K, M, G or T (powers of 1024)")),
    };
    let number: u64 = number.parse().map_err(|_| format!("'{text}' is too large (limit: 16 EiB)"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("'{text}' is too large (limit: 16 EiB)"))
}

/// `bytes` as the shortest exact size: 4096 is `4K`, 4097 is `4097`.
pub fn format(bytes: u64) -> String {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// `bytes` in a unit that suits them, rounded: `600 MiB`.
pub fn rough(bytes: u64) -> String {
    let Some((shift, unit)) = [(30, "GiB"), (20, "MiB"), (10, "KiB")].into_iter().find(|(shift, _)| bytes >> shift > 0)
    else {
        return format!("{bytes} bytes");
    };
    let value = bytes as f64 / (1_u64 << shift) as f64;
    if value < 99.95 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(parse("256K"), Ok(256 << 10));
        assert_eq!(parse("10GiB"), Ok(10 << 30));
        assert_eq!(parse("7"), Ok(7));
        assert!(parse("-1").is_err());
        assert!(parse("K").is_err());
        assert!(parse("1.5G").is_err());
        assert!(parse("99999999999T").is_err());
        assert_eq!(format(256 << 10), "256K");
        assert_eq!(format(4097), "4097");
        assert_eq!([1000, 1536, 600 << 20, 5 << 30].map(rough), ["1000 bytes", "1.5 KiB", "600 MiB", "5.0 GiB"]);
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back(bytes: u64) {
            proptest::prop_assert_eq!(parse(&format(bytes)), Ok(bytes));
        }
    }
}
