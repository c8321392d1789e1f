//! The tidy test: reads the sources and refuses what the layers and habits of the project rule out.
//!
//! The compiler cannot see that `model` must not know a clock or that a queue directory has one spelling.
//! Each rule is a function from a text to findings, so each is also fed a text that breaks it: a rule that
//! cannot fail would hold nothing.

#[cfg(test)]
mod architecture;
#[cfg(test)]
mod arrows;
#[cfg(test)]
mod habits;
#[cfg(test)]
mod purity;
#[cfg(test)]
mod source;
#[cfg(test)]
mod spelling;
#[cfg(test)]
mod tree;

#[cfg(test)]
mod tests {
    use crate::source::Source;
    use crate::tree::{Finding, tracked};
    use crate::{architecture, arrows, habits, purity, spelling};

    /// Rules about one Rust file.
    const RUST: &[fn(&Source) -> Vec<Finding>] = &[
        arrows::model_knows_no_edge,
        arrows::crates_name_only_what_lies_below,
        arrows::one_file_behind_each_wrapped_crate,
        arrows::programs_are_started_in_few_places,
        purity::model_is_pure,
        spelling::phase_ids_are_spelled_once,
        spelling::queue_directories_are_spelled_once,
        habits::nothing_is_left_undone,
        habits::ignored_tests_give_a_reason,
        habits::tests_wait_with_a_deadline,
        habits::a_module_says_what_it_is,
    ];

    /// Rules about one text of any kind; each looks at the path for whether it is meant.
    const TEXT: &[fn(&str, &str) -> Vec<Finding>] = &[
        arrows::manifests_point_downwards,
        habits::crates_share_the_lints,
        habits::files_can_be_read_in_a_sitting,
        habits::templates_are_escaped,
        spelling::templates_spell_no_phase,
        spelling::nothing_names_this_machine,
    ];

    #[test]
    fn the_tree_is_tidy() {
        let files = tracked().unwrap();
        assert!(
            files.iter().any(|file| file.path == "Cargo.toml"),
            "the list of files is not this project's"
        );
        let mut findings = Vec::new();
        for file in &files {
            findings.extend(TEXT.iter().flat_map(|rule| rule(&file.path, &file.text)));
            if file.path.ends_with(".rs") {
                let source = Source::parse(&file.path, &file.text);
                findings.extend(RUST.iter().flat_map(|rule| rule(&source)));
            }
        }
        findings.extend(architecture::the_map_shows_the_tree(&files));
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
    }
}
