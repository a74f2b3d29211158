//! Colours as texts.

/// Red, green and blue of `#rrggbb`; grey for other texts.
pub fn rgb(colour: &str) -> [u8; 3] {
    let part = |from: usize| colour.get(from..from + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    match [part(1), part(3), part(5)] {
        [Some(red), Some(green), Some(blue)] => [red, green, blue],
        _ => [0xbb; 3],
    }
}

/// The relative luminance of WCAG 2, from 0 (black) to 1 (white).
pub fn luminance(colour: &str) -> f64 {
    let [red, green, blue] = rgb(colour).map(|channel| {
        let value = f64::from(channel) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}
