//! The model as text, Markdown, JSON and HTML.

pub mod layout;
pub mod markdown;
pub mod terminal;
