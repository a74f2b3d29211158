//! The colours that the Firefox Profiler knows, for those of roles.

use crate::util::colour::rgb;
use fxprof_processed_profile::CategoryColor;

/// Less colourful ones are grey, as the difference of the largest and the smallest of red, green and blue.
const LEAST_CHROMA: i32 = 24;

/// Hues up to these degrees, and their colour.
const HUES: [(f64, CategoryColor); 10] = [
    (12.0, CategoryColor::Red),
    (38.0, CategoryColor::Orange),
    (70.0, CategoryColor::Yellow),
    (110.0, CategoryColor::LightGreen),
    (175.0, CategoryColor::Green),
    (210.0, CategoryColor::LightBlue),
    (245.0, CategoryColor::Blue),
    (290.0, CategoryColor::Purple),
    (345.0, CategoryColor::Magenta),
    (360.0, CategoryColor::Red),
];

/// The known colour with the hue of `colour`, `#rrggbb`.
pub(super) fn nearest(colour: &str) -> CategoryColor {
    let [red, green, blue] = rgb(colour).map(i32::from);
    let (most, least) = (red.max(green).max(blue), red.min(green).min(blue));
    if most - least < LEAST_CHROMA {
        return CategoryColor::Gray;
    }
    let part = |from: i32, to: i32| f64::from(to - from) / f64::from(most - least);
    // The hue of HSL.
    let sixths = if most == red {
        part(blue, green).rem_euclid(6.0)
    } else if most == green {
        part(red, blue) + 2.0
    } else {
        part(green, red) + 4.0
    };
    let found = HUES.into_iter().find(|(up_to, _)| sixths * 60.0 <= *up_to);
    found.map_or(CategoryColor::Gray, |(_, colour)| colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hues_are_kept() {
        let names = [
            ("#ef8a84", CategoryColor::Red),
            ("#f6a55f", CategoryColor::Orange),
            ("#f2d16b", CategoryColor::Yellow),
            ("#a9d68b", CategoryColor::LightGreen),
            ("#6cc796", CategoryColor::Green),
            ("#7fb8e6", CategoryColor::LightBlue),
            ("#a58add", CategoryColor::Purple),
            ("#e59abc", CategoryColor::Magenta),
            ("#cfcfcf", CategoryColor::Gray),
            ("odd", CategoryColor::Gray),
        ];
        for (colour, known) in names {
            assert_eq!(nearest(colour), known, "{colour}");
        }
    }
}
