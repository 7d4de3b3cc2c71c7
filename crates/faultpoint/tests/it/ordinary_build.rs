//! The ordinary binary contains nothing that only test builds may have.
//!
//! Cargo reports which features it would build the server with; this test builds nothing. A constant in the library,
//! which every ordinary build evaluates, proves that nothing is left at run time without the feature.

use std::process::Command;

/// The features with which cargo would build `faultpoint` as part of this build.
fn features_in(what: &[&str]) -> Vec<String> {
    try_features_in(what).expect("the crate of the fault points is part of it")
}

/// The same; `None` if cargo would not build it.
fn try_features_in(what: &[&str]) -> Option<Vec<String>> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--edges", "normal,build", "--locked", "--offline"]);
    cargo.args(["--prefix", "none", "--format", "{lib} {f}"]).args(what);
    let told = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let tree = String::from_utf8(told.stdout).unwrap();
    let features = tree.lines().find_map(|line| line.strip_prefix("faultpoint "));
    let names = features?.split([',', ' ']).filter(|name| !name.is_empty() && *name != "(*)");
    Some(names.map(str::to_owned).collect())
}

#[test]
fn nothing_that_users_compile_contains_the_crate() {
    for package in ["tenure-sdk", "tenure-wire", "tenure-verdict", "tenure-workflow"] {
        assert_eq!(try_features_in(&["--package", package]), None, "{package}");
    }
    let with_bugs = try_features_in(&["--package", "tenure-sdk", "--features", "museum"]);
    assert!(with_bugs.is_some(), "or nothing is ever found");
}

#[test]
fn x33_no_fault_point_and_no_switch_of_the_lab_is_in_the_binary() {
    assert_eq!(features_in(&["--package", "tenure"]), Vec::<String>::new());
    assert_eq!(features_in(&["--workspace"]), Vec::<String>::new());
    let lab = features_in(&["--workspace", "--features", "tenure-faultpoint/lab"]);
    assert_eq!(lab, ["lab"], "or nothing is ever found");
}
