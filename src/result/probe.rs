//! `--probe`: which functions the `kprobe` collector probes.

use crate::kernel::resolve::NAMED_TARGETS;
use crate::roles::{self, Pattern, RoleId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The functions to probe.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// The named targets, and the function of each role that each process calls most.
    #[default]
    Roles,
    /// The named targets only.
    Targets,
    /// Every candidate of every role.
    All,
    /// These functions, and a function of each of these roles.
    List { functions: Vec<String>, roles: Vec<RoleId> },
}

impl Probe {
    /// The functions given by name.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        let functions: &[String] = match self {
            Self::List { functions, .. } => functions,
            Self::Roles | Self::Targets | Self::All => &[],
        };
        functions.iter().map(String::as_str)
    }

    /// Whether a function of `role` is probed that was not given by name.
    pub fn has_role(&self, role: RoleId) -> bool {
        match self {
            Self::Roles | Self::All => true,
            Self::Targets => NAMED_TARGETS.contains(&role),
            Self::List { roles, .. } => roles.contains(&role),
        }
    }

    /// Whether functions have to be chosen by their calls.
    pub fn has_choice(&self) -> bool {
        match self {
            Self::Roles | Self::Targets => true,
            Self::All => false,
            Self::List { roles, .. } => !roles.is_empty(),
        }
    }

    /// Whether all calls are timed, not only those of roles with rare or long ones.
    pub fn times_all(&self) -> bool {
        matches!(self, Self::Targets | Self::List { .. })
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Roles => f.write_str("roles"),
            Self::Targets => f.write_str("targets"),
            Self::All => f.write_str("all"),
            Self::List { functions, roles } => {
                let roles = roles.iter().map(|role| role.as_str());
                f.write_str(&functions.iter().map(String::as_str).chain(roles).collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl FromStr for Probe {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "roles" => return Ok(Self::Roles),
            "targets" => return Ok(Self::Targets),
            "all" => return Ok(Self::All),
            _ => {}
        }
        let (mut functions, mut chosen) = (Vec::new(), Vec::new());
        for name in text.split(',') {
            let role = probed_roles().find(|role| role.id.as_str() == name);
            match role {
                Some(role) if !chosen.contains(&role.id) => chosen.push(role.id),
                Some(_) => {}
                None if known_functions().any(|known| known == roles::base_name(name)) => {
                    let name = name.to_owned();
                    if !functions.contains(&name) {
                        functions.push(name);
                    }
                }
                None => return Err(unknown(name)),
            }
        }
        Ok(Self::List { functions, roles: chosen })
    }
}

/// Roles with a function to probe.
fn probed_roles() -> impl Iterator<Item = &'static roles::Role> {
    roles::all().iter().filter(|role| !role.candidates.is_empty())
}

/// Functions that belong to a role on some kernel.
fn known_functions() -> impl Iterator<Item = &'static str> {
    let exact = |role: &'static roles::Role| {
        role.frames.iter().filter_map(|frame| match frame {
            Pattern::Exact(name) => Some(*name),
            Pattern::Prefix(_) => None,
        })
    };
    roles::all().iter().flat_map(move |role| role.candidates.iter().copied().chain(exact(role)))
}

/// The error for a name that is neither function nor role.
fn unknown(name: &str) -> String {
    let words = ["roles", "targets", "all"].into_iter();
    let known = words.chain(probed_roles().map(|role| role.id.as_str())).chain(known_functions());
    let mut alike: Vec<(usize, &str)> = known.map(|known| (strsim::levenshtein(name, known), known)).collect();
    alike.sort_unstable();
    alike.dedup();
    alike.retain(|(distance, _)| *distance <= name.len() / 3);
    alike.truncate(3);
    let alike: Vec<&str> = alike.into_iter().map(|(_, known)| known).collect();
    let alike = if alike.is_empty() { String::new() } else { format!("similar: {}; ", alike.join(", ")) };
    format!(
        "unknown function or role '{name}'; {alike}known: roles, targets, all, or a list of the roles and functions that \
         `pipeprof roles` prints"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_functions_or_roles() {
        for text in ["roles", "targets", "all", "pipe_write", "pipe_write,page-alloc"] {
            let probe: Probe = text.parse().unwrap();
            assert_eq!(probe.to_string(), text);
        }
        assert_eq!("pipe_write,pipe_write,vfs,vfs".parse::<Probe>().unwrap().to_string(), "pipe_write,vfs");
        assert!("__mutex_lock.constprop.0".parse::<Probe>().is_ok(), "with the compiler's suffix");
    }

    #[test]
    fn wrong_names_are_answered_with_similar_ones() {
        for (wrong, similar) in [("pipe_wirte", "pipe_write"), ("page-aloc", "page-alloc"), ("target", "targets")] {
            let error = wrong.parse::<Probe>().unwrap_err();
            assert!(error.contains(&format!("'{wrong}'")) && error.contains(similar), "{error}");
        }
        let error = "pipe_write,".parse::<Probe>().unwrap_err();
        assert!(error.contains("''") && !error.contains("similar"), "{error}");
        assert!("user".parse::<Probe>().is_err(), "this role has no function to probe");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<Probe>();
        }
    }
}
