//! The stand-in for the module system does what the manual of NixOS says, or the other tests would hold nothing.

use nix_tests::{eval, root};
use serde_json::{Value, json};

/// The configuration that these modules make, with `lib` in scope.
fn config(modules: &str) -> anyhow::Result<Value> {
    eval::expression(&format!(
        "let lib = import {}/tests/nix/lib.nix; inherit (lib) mkIf mkMerge mkDefault mkForce mkOption types; \
         option = type: mkOption {{ inherit type; }}; in (lib.evalModules {{ modules = [ {modules} ]; }}).config",
        root().display()
    ))
}

fn refused(modules: &str) -> String {
    match config(modules) {
        Ok(value) => panic!("{modules}: {value}"),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn the_strongest_definition_wins_and_equals_must_agree() {
    let a = "{ options.a = mkOption { type = types.int; default = 1; }; }";
    for (definitions, value) in [
        ("", 1),
        ("{ a = mkDefault 2; }", 2),
        ("{ a = mkDefault 2; } { a = 3; }", 3),
        ("{ a = 3; } { a = mkForce 4; }", 4),
        ("{ a = 3; } { a = 3; }", 3),
        ("{ a = mkIf false 3; }", 1),
        ("{ a = mkIf true (mkForce 5); } { a = 3; }", 5),
        ("{ a = mkMerge [ (mkIf false 3) (mkDefault 6) ]; }", 6),
    ] {
        assert_eq!(config(&format!("{a} {definitions}")).unwrap(), json!({ "a": value }), "{definitions}");
    }
    let both = refused(&format!("{a} {{ a = 3; }} {{ a = 4; }}"));
    assert!(both.contains("`a' has conflicting definition values: 3 in "), "{both}");
    assert!(
        refused("{ options.a = option types.int; }").contains("`a' was accessed but has no value defined")
    );
}

#[test]
fn a_condition_is_pushed_down_to_the_values_and_may_ask_what_it_sets() {
    let enabled = |value: &str| {
        config(&format!(
            "({{ config, ... }}: {{ options = {{ on = option types.bool; x.y = option (types.listOf types.str); }}; \
             config = mkIf config.on {{ x.y = [ \"a\" ]; }}; }}) {{ on = {value}; x.y = [ \"b\" ]; }}"
        ))
        .unwrap()
    };
    assert_eq!(enabled("true")["x"]["y"], json!(["a", "b"]));
    assert_eq!(enabled("false")["x"]["y"], json!(["b"]));
}

#[test]
fn what_is_not_declared_is_refused_wherever_it_stands() {
    let a = "{ options.a.b = mkOption { type = types.attrsOf (types.submodule { options.c = option types.int; }); default = { }; }; }";
    for (definition, name) in [
        ("{ z = 1; }", "z"),
        ("{ a.z = 1; }", "a.z"),
        ("{ a.b.x = { c = 1; z = 2; }; }", "a.b.x.z"),
        // As nixpkgs does: a condition hides no typo.
        ("{ a = mkIf false { z = 1; }; }", "a.z"),
    ] {
        let said = refused(&format!("{a} {definition}"));
        assert!(said.contains(&format!("`{name}' does not exist")), "{definition}: {said}");
    }
    assert!(refused(&format!("{a} {{ config = {{ }}; z = 1; }}")).contains("unknown attributes z"));
    assert!(refused(&format!("{a} {a}")).contains("`a.b' is declared twice"));
    assert!(
        refused("{ options.a = mkOption { type = types.int; exmaple = 1; }; } { a = 1; }")
            .contains("exmaple")
    );
}

#[test]
fn a_free_form_takes_the_rest_and_leaves_what_is_typed_to_its_type() {
    let module = |definition: &str| {
        format!(
            "{{ options.s = option (types.submodule {{ freeformType = types.toml; \
             options.a.b = mkOption {{ type = types.int; default = 1; }}; }}); }} {{ s = {definition}; }}"
        )
    };
    let value = config(&module("{ a.c = \"x\"; d = [ 1 ]; }")).unwrap();
    assert_eq!(value["s"], json!({ "a": { "b": 1, "c": "x" }, "d": [1] }));
    assert!(refused(&module("{ a.b = \"x\"; }")).contains("`s.a.b' is not of type `signed integer'"));
}

#[test]
fn a_value_of_another_type_is_refused_with_its_name_and_place() {
    for (kind, wrong) in [
        ("types.bool", "1"),
        ("types.str", "1"),
        ("types.ints.between 1 3", "4"),
        ("types.enum [ \"a\" ]", "\"b\""),
        ("types.path", "\"relative\""),
        ("types.package", "\"/nix/store/x\""),
        ("types.nullOr types.int", "\"1\""),
        ("types.listOf types.int", "[ \"1\" ]"),
        ("types.attrsOf types.int", "{ x = \"1\"; }"),
        ("types.strMatching \"[a-z]+\"", "\"A\""),
        ("types.either types.int types.bool", "\"1\""),
    ] {
        let said = refused(&format!("{{ options.a = option ({kind}); }} {{ a = {wrong}; }}"));
        assert!(
            said.contains("A definition for option `a") && said.contains("is not of type"),
            "{kind}: {said}"
        );
    }
}
