//! The table of test suites: what each needs, what it runs, how long its short form may take.
//!
//! Data only, so that adding a suite is adding a row; `run` knows how a step is run, `install` how a need
//! is met.

use crate::install::Tool;

/// A named part of `cargo xtask test`.
pub(crate) struct Suite {
    /// The name on the command line and in the table.
    pub(crate) name: &'static str,
    /// What the short form may take on two cores, in minutes; the report says when it took longer.
    pub(crate) minutes: u32,
    /// Must there be root? For suites that drop to an unprivileged user themselves.
    pub(crate) root: bool,
    /// Without one of these the suite is skipped as a whole.
    pub(crate) tools: &'static [Tool],
    /// Without one of these single tests of it say that they are skipped.
    pub(crate) wishes: &'static [Tool],
    /// In this order.
    pub(crate) steps: &'static [Step],
}

/// One program that a suite runs.
pub(crate) struct Step {
    /// Unique within the suite; `suite/step` is the id under which it is skipped.
    pub(crate) name: &'static str,
    /// Without one of these only this step is skipped.
    pub(crate) tools: &'static [Tool],
    /// Would the later steps only fail for the same reason once this one failed?
    pub(crate) carries_the_rest: bool,
    /// What is run.
    pub(crate) work: Work,
}

/// What a step runs and how it is counted.
pub(crate) enum Work {
    /// Arguments of `cargo`: counts as one, by the exit code.
    Check(&'static [&'static str]),
    /// Tests chosen by these arguments, counted one by one: with nextest, or with `cargo test` where it is
    /// missing.
    Tests(&'static [&'static str]),
    /// The examples in the documentation, which nextest does not run; there may be none.
    DocTests(&'static [&'static str]),
    /// A file of tests for the test runner of Node, counted one by one.
    NodeTests(&'static str),
}

/// All suites, in the order in which they run.
pub(crate) const SUITES: &[Suite] = &[
    Suite {
        name: "core",
        minutes: 10,
        root: false,
        tools: &[Tool::Git],
        wishes: &[Tool::SystemdAnalyze],
        steps: &[
            Step::check("format", &["fmt", "--all", "--check"]),
            Step::check("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
            Step::tests(
                "tests",
                &[
                    "--workspace",
                    "--exclude",
                    "agents-tests",
                    "--exclude",
                    "identity-tests",
                    "--exclude",
                    "loop-tests",
                    "--exclude",
                    "nix-tests",
                    "--exclude",
                    "systemd-tests",
                ],
            ),
            Step {
                name: "doc-tests",
                tools: &[],
                carries_the_rest: false,
                work: Work::DocTests(&[
                    "--workspace",
                    "--exclude",
                    "agents-tests",
                    "--exclude",
                    "identity-tests",
                    "--exclude",
                    "loop-tests",
                    "--exclude",
                    "nix-tests",
                    "--exclude",
                    "systemd-tests",
                ]),
            },
            // rustdoc's warnings are errors here; run.rs sets RUSTDOCFLAGS.
            Step::check("doc", &["doc", "--workspace", "--no-deps"]),
            Step {
                name: "deny",
                tools: &[Tool::CargoDeny],
                carries_the_rest: false,
                // Not `advisories`: their database is a repository that is not always within reach. Not `--offline`:
                // it reads the packages of all platforms, and a new machine has only those that were built.
                work: Work::Check(&[
                    "deny",
                    "check",
                    "--hide-inclusion-graph",
                    "bans",
                    "licenses",
                    "sources",
                ]),
            },
        ],
    },
    Suite {
        name: "loop",
        minutes: 6,
        root: true,
        tools: &[Tool::Git, Tool::Bubblewrap],
        wishes: &[],
        steps: &[ARMED, Step::tests("tests", &["-p", "loop-tests"])],
    },
    Suite {
        name: "agents",
        minutes: 4,
        root: true,
        tools: &[Tool::Git, Tool::Bubblewrap, Tool::Node, Tool::Npm, Tool::Codex],
        wishes: &[],
        steps: &[ARMED, Step::tests("tests", &["-p", "agents-tests"])],
    },
    Suite {
        name: "identity",
        minutes: 2,
        root: true,
        tools: &[Tool::Git, Tool::OpenSsl, Tool::Nginx, Tool::Caddy, Tool::Haproxy, Tool::Apache],
        wishes: &[],
        steps: &[ARMED, Step::tests("tests", &["-p", "identity-tests"])],
    },
    Suite {
        name: "nix",
        minutes: 2,
        root: false,
        tools: &[Tool::Git, Tool::NixInstantiate, Tool::SystemdAnalyze],
        wishes: &[],
        steps: &[
            Step {
                name: "boardctl",
                tools: &[],
                carries_the_rest: true,
                work: Work::Check(&["build", "--bins", "-p", "boardctl"]),
            },
            Step::tests("tests", &["-p", "nix-tests"]),
        ],
    },
    Suite {
        name: "systemd",
        minutes: 10,
        root: true,
        tools: &[
            Tool::Bubblewrap,
            Tool::CargoDeb,
            Tool::DpkgDev,
            Tool::Mmdebstrap,
            Tool::Nspawn,
            Tool::MkfsExt4,
        ],
        wishes: &[Tool::NixInstantiate],
        steps: &[
            Step {
                name: "package",
                tools: &[],
                carries_the_rest: true,
                work: Work::Check(&["xtask", "dist", "--profile", "dev"]),
            },
            ARMED,
            Step::tests("tests", &["-p", "systemd-tests"]),
        ],
    },
    Suite {
        name: "browser",
        minutes: 3,
        root: false,
        tools: &[Tool::Git, Tool::Chromium, Tool::Node, Tool::Npm, Tool::PlaywrightCore],
        wishes: &[],
        steps: &[
            // `boardctl demo` is trigger, watcher and workers in one program.
            Step {
                name: "demo",
                tools: &[],
                carries_the_rest: true,
                work: Work::Check(&["build", "--bins", "-p", "boardctl"]),
            },
            Step {
                name: "walk",
                tools: &[],
                carries_the_rest: false,
                work: Work::NodeTests("tests/browser/walk.mjs"),
            },
        ],
    },
];

/// The programs with fault points, at which tests stop them. They lie where every other build puts its own, so they
/// are built right before.
const ARMED: Step = Step {
    name: "programs",
    tools: &[],
    carries_the_rest: true,
    work: Work::Check(&[
        "build",
        "--bins",
        "--features",
        "fault-points",
        "-p",
        "board-trigger",
        "-p",
        "board-worker",
        "-p",
        "board-watcher",
        "-p",
        "boardctl",
    ]),
};

impl Step {
    const fn check(name: &'static str, arguments: &'static [&'static str]) -> Self {
        Step { name, tools: &[], carries_the_rest: false, work: Work::Check(arguments) }
    }

    const fn tests(name: &'static str, arguments: &'static [&'static str]) -> Self {
        Step { name, tools: &[], carries_the_rest: false, work: Work::Tests(arguments) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all suites together may take on two cores, in minutes.
    const ALL_MINUTES: u32 = 45;

    #[test]
    fn names_are_unique_so_that_an_id_means_one_thing() {
        let mut ids: Vec<String> = Vec::new();
        for suite in SUITES {
            ids.push(suite.name.to_owned());
            ids.extend(suite.steps.iter().map(|step| format!("{}/{}", suite.name, step.name)));
        }
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }

    #[test]
    fn the_short_forms_together_fit_the_budget() {
        assert!(SUITES.iter().map(|suite| suite.minutes).sum::<u32>() <= ALL_MINUTES);
    }
}
