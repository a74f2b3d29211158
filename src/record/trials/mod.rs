//! Measure what a change would help: [`trial`] repeats the pipeline with a [`remedy`], with the times of [`timed`] and a
//! [`locale`]. [`shell_words`] replaces programs in lines for the shell, and [`refusals`] see what programs do without a
//! system call.

pub(crate) mod locale;
mod refusals;
pub(crate) mod remedy;
pub(crate) mod shell_words;
pub mod timed;
pub mod trial;
