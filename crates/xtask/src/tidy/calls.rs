//! Calls that a crate may not make, found in its code outside tests.
//!
//! Clippy bans some of these by resolved path in the whole workspace. This table is more precise (per crate, with
//! exceptions per file) and needs no type information, so it also finds calls inside macros.

use crate::finding::Finding;
use crate::rust_source::find_word;
use crate::tree::Tree;

struct Ban {
    /// Folders whose code may not contain the words.
    folders: &'static [&'static str],
    words: &'static [&'static str],
    /// Names of the files, without `.rs`, whose purpose is this call. A folder of that name counts too.
    except: &'static [&'static str],
    /// Prefixes directly before the word that make it a different item.
    harmless_after: &'static [&'static str],
    why: &'static str,
    remedy: &'static str,
}

const RULES: &[&str] = &["crates/verdict/src/"];
const PURE: &[&str] = &["crates/verdict/src/", "crates/topology/src/"];
const SHELL: &[&str] = &["crates/store/src/", "crates/coordinator/src/"];
const EVERYWHERE: &[&str] = &["crates/", "sdks/"];

const BANS: &[Ban] = &[
    Ban {
        folders: PURE,
        words: &["SystemTime", "Instant::now", "Timestamp::now"],
        except: &[],
        harmless_after: &[],
        why: "the rules are a function of their arguments",
        remedy: "take the time as an argument",
    },
    Ban {
        folders: PURE,
        words: &["rand::", "getrandom", "Ulid::new", "Ulid::generate"],
        except: &[],
        harmless_after: &[],
        why: "the rules are a function of their arguments",
        remedy: "take ids and nonces from the request, and draw from a seeded generator",
    },
    Ban {
        folders: PURE,
        words: &["std::env", "std::fs", "std::net", "std::io", "std::process", "std::thread"],
        // Compares a generated file with the published one, in tests only.
        except: &["published"],
        harmless_after: &[],
        why: "the rules do no I/O",
        remedy: "do it in the coordinator and pass in what was read",
    },
    Ban {
        folders: PURE,
        words: &["tokio", "async fn", "async move", "async {"],
        except: &[],
        harmless_after: &[],
        why: "nothing in the rules waits",
        remedy: "write a plain function",
    },
    Ban {
        folders: RULES,
        words: &["serde", "serde_json", "rusqlite"],
        except: &[],
        harmless_after: &[],
        why: "deriving an encoding on a rule type makes it a promise",
        remedy: "encode in `wire` or in `store`",
    },
    Ban {
        folders: PURE,
        words: &["HashMap", "HashSet"],
        except: &[],
        harmless_after: &[],
        why: "their order differs between two runs of the same seed",
        remedy: "use BTreeMap or BTreeSet",
    },
    Ban {
        folders: SHELL,
        words: &["SystemTime::now", "Instant::now", "Timestamp::now", "Zoned::now"],
        except: &["clock"],
        // The runtime's clock measures waits; a simulator can pause it.
        harmless_after: &["tokio::time::"],
        why: "there is one clock and a simulator must be able to replace it",
        remedy: "ask the clock that was handed in",
    },
    Ban {
        folders: SHELL,
        words: &["thread::sleep"],
        except: &[],
        harmless_after: &[],
        why: "a sleeping thread holds what others wait for",
        remedy: "wait on a channel or a condition with a deadline",
    },
    Ban {
        folders: SHELL,
        words: &["rand::", "getrandom"],
        except: &["ids", "entropy"],
        harmless_after: &[],
        why: "randomness is injected so that a seed repeats a run",
        remedy: "draw from the source that was handed in",
    },
    Ban {
        folders: EVERYWHERE,
        words: &["unbounded_channel", "mpsc::unbounded"],
        except: &[],
        harmless_after: &[],
        why: "everything that can grow has a named bound",
        remedy: "use a bounded channel and say what happens when it is full",
    },
    Ban {
        folders: EVERYWHERE,
        words: &[".unwrap()"],
        except: &[],
        harmless_after: &[],
        why: "a defect should say which invariant broke",
        remedy: "return the error, or `expect` with the reason why it holds",
    },
    Ban {
        folders: &["crates/cli/src/"],
        words: &["store::", "coordinator::"],
        // The commands beside `serve` work on a store directly, even when no server can run, or are part of serving.
        except: &[
            "serve",
            "traces",
            "open_store",
            "dev",
            "lost_store",
            "submit_defaults",
            "verify",
            "coordinators",
            "backup",
            "epoch",
            "migrate",
            "prove",
            "restore",
            "retention",
        ],
        // A module of the same crate.
        harmless_after: &["crate::", "self::", "super::"],
        why: "the program talks HTTP and embeds the coordinator only to serve",
        remedy: "go through the client of sdks/rust",
    },
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in tree.rust().filter(|(path, _)| !tree.is_test_file(path)) {
        for ban in BANS.iter().filter(|ban| ban.covers(path)) {
            for word in ban.words {
                for at in find_word(&source.code, word) {
                    if !source.is_test_code(at) && !ban.is_harmless(&source.code[..at]) {
                        findings.push(ban.finding(path, source.line_of(at), word));
                    }
                }
            }
        }
    }
    findings
}

impl Ban {
    fn covers(&self, path: &str) -> bool {
        let mut parts = path.split('/').map(|part| part.trim_end_matches(".rs"));
        self.folders.iter().any(|folder| path.starts_with(folder))
            && !parts.any(|part| self.except.contains(&part))
    }

    fn is_harmless(&self, before: &str) -> bool {
        self.harmless_after.iter().any(|head| before.ends_with(head))
    }

    fn finding(&self, path: &str, line: usize, word: &str) -> Finding {
        Finding {
            file: path.to_owned(),
            line,
            what: format!("`{word}` is used here"),
            why: self.why,
            remedy: self.remedy.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_ban_catches_every_word_it_lists() {
        for ban in BANS {
            for word in ban.words {
                let path = format!("{}x/src/y.rs", ban.folders[0]);
                let found = findings(&path, &format!("fn f() {{ {word} ; }}"));
                assert!(!found.is_empty(), "`{word}` in {path} was not found");
            }
        }
    }

    #[test]
    fn comments_strings_and_tests_may_speak_of_anything() {
        let text = "// SystemTime\nfn f() { g(\"tokio\"); }\n#[cfg(test)]\nmod tests { fn h() { x.unwrap(); } }";
        assert!(findings("crates/verdict/src/a.rs", text).is_empty());
        assert!(findings("crates/store/tests/it/a.rs", "fn f() { x.unwrap(); }").is_empty());
    }

    #[test]
    fn the_rules_may_use_a_seeded_generator() {
        assert!(findings("crates/verdict/src/a.rs", "use rand_chacha::ChaCha8Rng;").is_empty());
    }

    #[test]
    fn only_the_clock_module_reads_the_clock() {
        let text = "fn f() { std::time::Instant::now() }";
        assert_eq!(findings("crates/coordinator/src/intake.rs", text).len(), 1);
        assert_eq!(findings("crates/coordinator/src/oclock.rs", text).len(), 1);
        assert!(findings("crates/coordinator/src/clock.rs", text).is_empty());
        let wait = "fn f() { tokio::time::Instant::now() + wait }";
        assert!(findings("crates/coordinator/src/intake.rs", wait).is_empty());
    }

    #[test]
    fn the_program_embeds_the_coordinator_only_to_serve() {
        let text = "use coordinator::Coordinator;";
        assert_eq!(findings("crates/cli/src/submit.rs", text).len(), 1);
        assert!(findings("crates/cli/src/serve.rs", text).is_empty());
        assert!(findings("crates/cli/src/submit.rs", "use crate::store::x;").is_empty());
    }
}
