//! Measure what a change would help: [`trial`] repeats the pipeline with a [`remedy`], with the times of [`timed`] and a
//! [`locale`]. [`shell_words`] replaces programs in lines for the shell.

pub(crate) mod locale;
pub(crate) mod remedy;
pub(crate) mod shell_words;
pub mod timed;
pub mod trial;
