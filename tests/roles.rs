//! Roles and features on real kernels: functions in the tables exist and can be probed as the tables say.

use crate::common::{guest, pipeprof};
use pipeprof::roles::RoleId;
use pipeprof::vm::{Job, run_job};
use serde_json::Value;

fn in_guest(series: &str, command: &[&str]) -> Value {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    run_job(&guest(series), &Job::Command(command)).expect("a guest that answers").parse().expect("JSON")
}

fn words(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().filter_map(Value::as_str).collect()
}

/// The expected symbols were read manually from the kernel's own list.
#[test]
#[ignore = "boots guests: make test"]
fn the_four_named_targets_resolve_and_can_be_reached_on_every_kernel() {
    let expected = [
        ("5.10", ["pipe_write", "__alloc_pages_nodemask", "__mutex_lock.constprop.0", "iov_iter_get_pages"]),
        ("6.1", ["pipe_write", "__alloc_pages", "__mutex_lock.constprop.0", "iov_iter_get_pages2"]),
        ("6.12", ["pipe_write", "__alloc_pages_noprof", "__mutex_lock.constprop.0", "iov_iter_get_pages2"]),
        ("7.2", ["anon_pipe_write", "__alloc_frozen_pages_noprof", "__mutex_lock.constprop.0", "iov_iter_get_pages2"]),
    ];
    for (series, symbols) in expected {
        let report = in_guest(series, &["roles", "--json"]);
        let roles = report["roles"].as_array().expect("roles");
        let named = [RoleId::PipeWrite, RoleId::PageAlloc, RoleId::MutexSlow, RoleId::UserPages];
        for (role, symbol) in named.iter().zip(symbols) {
            let row = roles.iter().find(|row| row["role"] == role.as_str()).expect("the role");
            assert_eq!(row["symbol"], symbol, "{role} on {series}");
            let reach = words(&row["reach"]);
            assert!(reach.contains(&"hardware-breakpoint"), "{role} on {series}: {row}");
            assert_eq!(reach.contains(&"kprobe"), *role != RoleId::UserPages, "{role} on {series}: {row}");
        }
        // A role whose candidates exist in none of Debian's kernels would be a mistake in the tables.
        for row in roles {
            let lost =
                row["symbol"].is_null() && words(&row["rejected"]).iter().any(|text| text.contains("not in this"));
            assert!(!lost, "{series}: {row}");
        }
    }
}

#[test]
#[ignore = "boots guests: make test"]
fn a_guest_allows_what_the_collectors_need() {
    let report = in_guest("6.1", &["doctor", "--json", "--no-qemu"]);
    for id in [
        "privilege",
        "btf",
        "sampling",
        "kprobes",
        "fentry",
        "hardware-breakpoints",
        "tracefs",
        "kptr-restrict",
        "record",
    ] {
        let features = report["features"].as_array().expect("features");
        let feature = features.iter().find(|feature| feature["id"] == id).expect("the feature");
        assert_eq!(feature["state"], "ok", "{feature}");
    }
}

#[test]
fn doctor_and_roles_answer_on_this_machine_whatever_it_allows() {
    for (command, list) in
        [(["doctor", "--json", "--no-qemu"], "features"), (["roles", "--json", "--memory=1G"], "roles")]
    {
        let output = pipeprof(&command).output().expect("pipeprof");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("nothing but JSON on standard output");
        assert!(!report[list].as_array().expect("a list").is_empty());
    }
}
