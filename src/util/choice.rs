//! Sets of values that have names: on the command line, in files and in sentences.

use strum::{EnumMessage, VariantArray};

/// An enum whose values have names. Their help is their documentation, or strum's `message` instead.
pub trait Choice: VariantArray + EnumMessage + Into<&'static str> + Copy {
    /// As typed: `read-write`.
    fn name(self) -> &'static str {
        self.into()
    }

    fn about(&self) -> &'static str {
        self.get_message().or_else(|| self.get_documentation()).unwrap_or_default().trim_end_matches('.')
    }

    fn named(name: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|value| value.name() == name)
    }
}

impl<T: VariantArray + EnumMessage + Into<&'static str> + Copy> Choice for T {}
