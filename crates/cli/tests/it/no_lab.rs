//! What only test builds may have is not in the binary that people use.

#[test]
fn x33_no_fault_point_and_no_switch_of_the_lab_is_in_the_binary() {
    let binary = std::fs::read(env!("CARGO_BIN_EXE_tenure")).unwrap();
    let text = String::from_utf8_lossy(&binary);
    for name in ["TENURE_LAB", "commit.before", "carry.polls_told", "prune.leaving"] {
        assert!(!text.contains(name), "{name} is in the binary");
    }
    assert!(text.contains("TENURE_STORE"), "or nothing is ever found");
}
