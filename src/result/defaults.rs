//! Which values are left out of result.json.

/// Whether a value is that of its type's default.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
