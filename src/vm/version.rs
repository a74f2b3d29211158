//! Debian versions: their order, and which versions belong to a series such as `6.12`.

use std::cmp::Ordering;

/// Compare two Debian versions as in deb-version(7): runs of digits as numbers, `~` before everything, letters before
/// other characters.
pub fn compare(left: &str, right: &str) -> Ordering {
    let (left_epoch, left) = epoch(left);
    let (right_epoch, right) = epoch(right);
    left_epoch.cmp(&right_epoch).then_with(|| {
        let (left_upstream, left_revision) = left.rsplit_once('-').unwrap_or((left, ""));
        let (right_upstream, right_revision) = right.rsplit_once('-').unwrap_or((right, ""));
        part(left_upstream, right_upstream).then_with(|| part(left_revision, right_revision))
    })
}

fn epoch(version: &str) -> (u64, &str) {
    match version.split_once(':') {
        Some((epoch, rest)) => (epoch.parse().unwrap_or(0), rest),
        None => (0, version),
    }
}

fn part(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left.as_bytes(), right.as_bytes());
    while !left.is_empty() || !right.is_empty() {
        let text = |bytes: &[u8]| bytes.iter().position(u8::is_ascii_digit).unwrap_or(bytes.len());
        let (left_text, left_rest) = left.split_at(text(left));
        let (right_text, right_rest) = right.split_at(text(right));
        // Past the end, the weight is that of the end of the text: above `~`, below everything else.
        for index in 0..left_text.len().max(right_text.len()) {
            let order = weight(left_text.get(index)).cmp(&weight(right_text.get(index)));
            if order != Ordering::Equal {
                return order;
            }
        }
        let (left_number, left_rest) = number(left_rest);
        let (right_number, right_rest) = number(right_rest);
        let order = left_number.len().cmp(&right_number.len()).then_with(|| left_number.cmp(right_number));
        if order != Ordering::Equal {
            return order;
        }
        (left, right) = (left_rest, right_rest);
    }
    Ordering::Equal
}

fn weight(byte: Option<&u8>) -> i32 {
    match byte {
        None => 0,
        Some(b'~') => -1,
        Some(byte) if byte.is_ascii_alphabetic() => i32::from(*byte),
        Some(byte) => i32::from(*byte) + 256,
    }
}

/// The leading digits of `bytes` without leading zeros, and the rest.
fn number(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    let (digits, rest) = bytes.split_at(end);
    let start = digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    (digits.get(start..).unwrap_or_default(), rest)
}

/// Whether `version` (a kernel release or a Debian version) belongs to `series`. `6.1` includes `6.1.192-1` and
/// `6.1.0-56-cloud-amd64`, but not `6.12.1`. `7.3-rc` includes `7.3~rc5-1`.
pub fn in_series(version: &str, series: &str) -> bool {
    let series = series.replace("-rc", "~rc");
    let version = version.replace("-rc", "~rc");
    match version.strip_prefix(series.as_str()) {
        Some("") => true,
        Some(rest) => {
            let open = series.ends_with("~rc") && rest.starts_with(|c: char| c.is_ascii_digit());
            open || rest.starts_with(['.', '-', '+', '~', '_'])
        }
        None => false,
    }
}

/// The series of a version: `6.12` for `6.12.117+deb13-cloud-amd64`.
pub fn series_of(version: &str) -> String {
    let end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (_, version) = epoch(version);
    let Some((major, rest)) = version.split_once('.') else { return version.to_owned() };
    let minor = rest.get(..end(rest)).unwrap_or_default();
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_dpkg_does() {
        let ascending = [
            "5.10.262-1",
            "6.1.180-1~deb11u1",
            "6.1.180-1",
            "6.1.192-1",
            "6.1.192-2",
            "6.12.9-1",
            "6.12.117-1~deb12u1",
            "6.12.117-1",
            "6.12.117-1.1",
            "7.2.13-1~bpo13+1",
            "7.2.13-1",
            "7.3~rc5-1~exp1",
            "7.3-1",
            "7.3.4-1",
            "1:1.0-1",
        ];
        for (index, left) in ascending.iter().enumerate() {
            for (other, right) in ascending.iter().enumerate() {
                assert_eq!(compare(left, right), index.cmp(&other), "{left} against {right}");
            }
        }
        assert_eq!(compare("6.01-1", "6.1-1"), Ordering::Equal);
    }

    #[test]
    fn a_series_has_its_versions_and_no_others() {
        assert!(in_series("6.1.192-2", "6.1"));
        assert!(in_series("6.1.0-56-cloud-amd64", "6.1"));
        assert!(in_series("6.1.192-2", "6.1.192"));
        assert!(in_series("6.12.117+deb13-cloud-amd64", "6.12.117"));
        assert!(!in_series("6.12.117-1", "6.1"));
        assert!(in_series("7.3~rc5-1~exp1", "7.3"));
        assert!(in_series("7.3~rc5-1~exp1", "7.3-rc"));
        assert!(in_series("7.3-rc5-cloud-amd64", "7.3-rc5"));
        assert!(!in_series("7.3.4-1", "7.3-rc"));
        assert_eq!(series_of("6.12.117+deb13-cloud-amd64"), "6.12");
        assert_eq!(series_of("7.3~rc5-1"), "7.3");
        assert_eq!(series_of("x"), "x");
    }

    proptest::proptest! {
        #[test]
        fn the_order_is_total(left in "[0-9a-z.~+-]{0,12}", right in "[0-9a-z.~+-]{0,12}") {
            proptest::prop_assert_eq!(compare(&left, &right), compare(&right, &left).reverse());
            proptest::prop_assert_eq!(compare(&left, &left), Ordering::Equal);
            let _ = series_of(&left);
        }
    }
}
