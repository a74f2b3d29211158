//! What was seen, as data: [`ended`] keeps the counts of processes that have ended, [`assemble`] names what was counted, in
//! one row what [`alike`] finds to be the same, [`stages`], [`labels`] for people, [`names`] of files and [`stage_times`] are
//! derived from it, [`ceilings`] say what would be
//! left without a process, [`failures`] lists who failed, [`streams`] are what went to and from files, [`named_files`] what was done with their names, [`spoken`] what they wrote to their standard error, [`divided`] who read one pipe at the same time, [`off_cpu`], [`locks`] and [`sampling`] name stacks, and [`work`] is what comparisons read.

pub(crate) mod alike;
pub(crate) mod assemble;
pub(crate) mod ceilings;
pub(crate) mod divided;
pub(crate) mod ended;
pub(crate) mod failures;
pub(crate) mod forks;
pub(crate) mod labels;
pub(crate) mod locks;
pub(crate) mod named_files;
pub(crate) mod names;
pub(crate) mod off_cpu;
pub(crate) mod related_names;
pub(crate) mod sampling;
pub(crate) mod spoken;
pub(crate) mod stage_times;
pub(crate) mod stages;
pub(crate) mod streams;
pub mod work;
