//! Say it: [`answer`] draws the conclusion, with [`findings`] that are not about time, [`standstill`] of what waits for ever, [`holders`] of who else has a pipe
//! open, [`killed`] of who was ended, [`limits`] of who is to be slow, with [`programs`] as they are known by their names, [`machine`] of all processes, [`words`] for the critical path with [`naps`] for its sleeps, and [`states`] of processes with their colours; [`advice`] has rules for what would help; [`tables`],
//! [`pipe_rows`], [`timeline_svg`] and [`critical`] show it, [`text`] on a terminal and [`html`] in a page. [`graphs`] are the
//! files of pictures.

pub(crate) mod advice;
pub(crate) mod answer;
pub mod critical;
pub(crate) mod findings;
mod first_of;
pub mod graphs;
pub(crate) mod holders;
pub mod html;
pub(crate) mod killed;
pub(crate) mod limits;
pub(crate) mod machine;
mod naps;
pub(crate) mod pipe_rows;
pub(crate) mod programs;
pub(crate) mod standstill;
pub(crate) mod states;
pub(crate) mod tables;
pub mod text;
pub(crate) mod timeline_svg;
pub(crate) mod words;
