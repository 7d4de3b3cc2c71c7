//! The shipped topologies: valid, and made of the shared logic alone.

use topology::declaration::Logic;

use crate::{FILES, TASK_MANAGEMENT, compiled};

#[test]
fn the_shipped_topologies_pass_every_check() {
    // S0-1, S0-4: each deployment type chooses and configures its roles in a file of its own.
    for (name, text) in FILES {
        assert_eq!(compiled(text).name(), name);
    }
}

#[test]
fn task_management_has_its_six_roles_over_the_shared_logic() {
    // S0-3, S0-5, S0-6, S1-1, S1-2: further roles are further uses of the same logic.
    let topology = compiled(TASK_MANAGEMENT);
    let roles: Vec<(&str, Logic)> = topology
        .declaration()
        .roles
        .iter()
        .map(|(name, role)| (name.as_str(), role.uses))
        .collect();
    let expected = [
        ("capture-readiness", Logic::Readiness),
        ("deadline-monitor", Logic::DeadlineMonitor),
        ("gate", Logic::Gate),
        ("manifest-scheduler", Logic::Scheduler),
        ("runner", Logic::Runner),
        ("scheduler", Logic::Scheduler),
    ];
    assert_eq!(roles, expected);
}
