//! The model as text, Markdown, JSON and HTML.

pub mod chart;
pub mod graphs;
pub mod html;
pub mod layout;
pub mod markdown;
pub mod terminal;
