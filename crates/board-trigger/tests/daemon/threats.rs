//! Rows of the threat table (web.md, 6) that need a repository: what an agent or a stranger could plant in it.
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};

use crate::house::House;

/// Commits what was written, and waits until the board shows it: by this card, or by this broken file.
fn shown(house: &House, path: &str) -> Value {
    house.git(&["add", "-A"]);
    house.git(&["commit", "-q", "-m", "gepflanzt"]);
    house.wait_for(path, || {
        let board = house.get("/api/board").json();
        let broken = board["broken"].as_array().unwrap().iter().find(|file| file["path"] == path).cloned();
        broken.or_else(|| {
            let slug = path.rsplit('/').next().unwrap().trim_end_matches(".md");
            let card = house.get(&format!("/api/board/cards/{slug}"));
            (card.status == 200).then(|| card.json())
        })
    })
}

fn plant(house: &House, path: &str, text: &str) -> Value {
    std::fs::write(house.repository().join(path), text).unwrap();
    shown(house, path)
}

#[test]
fn t17_a_link_is_no_card_and_its_target_is_never_read() {
    let house = House::open();
    std::fs::write(house.dir().join("geheim.md"), "# Intent: Streng geheim\n").unwrap();
    for (name, target) in [("fern", "../../../geheim.md"), ("nah", "limit.md"), ("fest", "/etc/passwd")] {
        let path = format!("docs/intent/{name}.md");
        symlink(target, house.repository().join(&path)).unwrap();
        let broken = shown(&house, &path);
        let why = broken["reason"].as_str().unwrap();
        assert!(why.contains("keine reguläre Datei"), "{broken}");
    }
    let page = house.get("/").text();
    assert!(
        page.contains("keine reguläre Datei") && !page.contains("Streng geheim") && !page.contains("root:"),
        "{page}"
    );
}

#[test]
fn t19_yaml_that_grows_nests_or_repeats_decides_nothing() {
    let house = House::open();
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    for (name, yaml) in [
        ("bombe", bomb.to_owned()),
        ("tief", format!("a: {}{}\n", "[".repeat(5000), "]".repeat(5000))),
        ("doppelt", "phase: geplant\nphase: deployed\n".to_owned()),
        ("marke", "phase: !!python/object:os.system x\n".to_owned()),
        ("lang", format!("phase: {}\n", "x".repeat(200_000))),
    ] {
        // In front of a text it is only a proposal, and none that can be read.
        let card =
            plant(&house, &format!("docs/intent/{name}.md"), &format!("---\n{yaml}---\n# Intent: {name}\n"));
        assert_eq!(
            (&card["phase"], &card["title"], &card["proposal"]),
            (&json!("geplant"), &json!(name), &Value::Null)
        );
        // As the record of a card it decides nothing.
        std::fs::create_dir_all(house.repository().join("docs/board")).unwrap();
        std::fs::write(house.repository().join(format!("docs/board/{name}.yaml")), &yaml).unwrap();
        let other = plant(&house, &format!("docs/intent/nach-{name}.md"), "# Intent: Danach\n");
        assert_eq!(other["phase"], "geplant");
        let card = house.get(&format!("/api/board/cards/{name}")).json();
        assert_eq!(card["phase"], "geplant", "{card}");
    }
}

#[test]
fn t20_json_that_repeats_a_key_nests_or_has_an_unknown_one_is_refused() {
    let house = House::open();
    for body in [
        r#"{"title":"a","title":"b"}"#.to_owned(),
        r#"{"title":"a","phase":"deployed"}"#.to_owned(),
        r#"{"title":1.5}"#.to_owned(),
        r#"{"title":["a"]}"#.to_owned(),
        format!(r#"{{"title":"a","x":{}{}}}"#, "[".repeat(20_000), "]".repeat(20_000)),
        "[]".to_owned(),
        "null".to_owned(),
        r#"{"title":"a"} {"title":"b"}"#.to_owned(),
    ] {
        let refused = house.post("/api/board/cards", &body);
        assert!((400..500).contains(&refused.status), "{body:.60}: {}", refused.head);
        assert!(
            refused.json()["detail"].as_str().is_some_and(|text| !text.is_empty()),
            "{body:.60}: {}",
            refused.text()
        );
    }
    let moved = house.post("/api/board/cards/limit/move", r#"{"to":"in_arbeit","to":"deployed"}"#);
    assert!((400..500).contains(&moved.status), "{}", moved.text());
    assert_eq!(house.get("/api/board/cards/limit").json()["phase"], json!("geplant"));
}

#[test]
fn t22_a_page_loads_nothing_that_a_text_names() {
    let house = House::open();
    let text = "# Intent: Bilder\n\n![a](https://evil.example/a.png?q=geheim) <img src=//evil.example/b>\n\
                [Link](https://evil.example/c)\n";
    plant(&house, "docs/intent/bilder.md", text);
    let page = house.get("/karten/bilder").text();
    assert!(!page.contains("<img"), "{page}");
    let link = page.split("<a ").find(|tag| tag.contains("evil.example/c")).unwrap();
    assert!(link.split('>').next().unwrap().contains("noreferrer"), "{link}");
    assert!(link.contains("evil.example"), "the host is to be seen: {link}");
}

#[test]
fn t28_nothing_that_a_repository_configures_is_run_by_the_board() {
    let house = House::open();
    let witness = house.dir().join("gelaufen");
    let script = house.dir().join("skript.sh");
    std::fs::write(&script, format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat\n", witness.display())).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = script.display().to_string();
    for (key, value) in [
        ("core.fsmonitor", run.as_str()),
        ("diff.external", &run),
        ("diff.böse.command", &run),
        ("diff.böse.textconv", &run),
        ("core.pager", &run),
        ("core.sshCommand", &run),
        ("gpg.program", &run),
        ("commit.gpgsign", "true"),
        ("log.showSignature", "true"),
        ("credential.helper", &run),
        ("core.editor", &run),
        ("uploadpack.packObjectsHook", &run),
        ("alias.log", &format!("!{run}")),
    ] {
        let done = Command::new("git")
            .current_dir(house.repository())
            .args(["config", key, value])
            .status()
            .unwrap();
        assert!(done.success(), "{key}");
    }
    for hook in [
        "reference-transaction",
        "post-checkout",
        "pre-commit",
        "post-commit",
        "post-index-change",
        "fsmonitor-watchman",
    ] {
        let path = house.repository().join(".git/hooks").join(hook);
        std::fs::copy(&script, &path).unwrap();
    }
    std::fs::write(house.repository().join(".gitattributes"), "*.md diff=böse\n").unwrap();
    std::fs::write(house.repository().join("docs/intent/limit.md"), "# Intent: Angriff\n").unwrap();
    // The operator's own git would run some of it; the board's must not.
    let plain = Command::new("git")
        .current_dir(house.repository())
        .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgsign=false"])
        .args(["-c", "user.name=x", "-c", "user.email=x@example.org"])
        .args(["commit", "-q", "-m", "a", "--", "docs/intent/limit.md"])
        .status();
    assert!(plain.unwrap().success());
    let _ = std::fs::remove_file(&witness);
    for path in ["/", "/karten/limit", "/karten/limit/diff", "/api/board", "/api/board/cards/limit"] {
        house.get(path);
    }
    house.post("/api/board/cards/limit/move", r#"{"to":"in_arbeit"}"#);
    house.get("/");
    assert!(!witness.exists(), "{}", std::fs::read_to_string(&witness).unwrap_or_default());
}

#[test]
fn t33_and_t37_there_is_no_session_behind_a_proxy_and_nothing_is_kept_of_a_page() {
    let house = House::proxy();
    let host = house.tcp();
    let get = |path: &str| {
        house.raw(&format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nX-Board-Proxy-Secret: {}\r\nX-Auth-Request-User: lukas\r\n\
             Connection: close\r\n\r\n",
            crate::house::SECRET
        ))
    };
    for path in ["/", "/karten/limit", "/api/board", "/system", "/karten/neu"] {
        let reply = get(path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.head);
        assert_eq!(reply.header("set-cookie"), None, "{path}");
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{path}");
    }
}

#[test]
fn t39_a_viewer_and_an_error_learn_nothing_of_the_machine() {
    let house = House::proxy();
    let host = house.tcp();
    let get = |path: &str| {
        house.raw(&format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nX-Board-Proxy-Secret: {}\r\nX-Auth-Request-User: gast\r\n\
             Connection: close\r\n\r\n",
            crate::house::SECRET
        ))
    };
    assert_eq!(get("/system").status, 403);
    let secret = [house.dir().display().to_string(), crate::house::SECRET.to_owned(), "CARGO".to_owned()];
    for path in [
        "/",
        "/karten/limit",
        "/karten/gibt-es-nicht",
        "/api/board/cards/..%2f..%2fetc",
        "/api/nirgends",
        "/system",
    ] {
        let text = get(path).text();
        for word in &secret {
            assert!(!text.contains(word.as_str()), "{path} tells {word}: {text}");
        }
    }
}

#[test]
fn t41_a_page_takes_everything_from_the_board_itself() {
    let house = House::open();
    for path in ["/", "/karten/limit", "/system", "/karten/neu", "/api/board"] {
        let reply = house.get(path);
        assert_eq!(reply.status, 200, "{path}");
        for attribute in ["src=\"", "href=\"", "action=\""] {
            let text = reply.text().replace("&#x2f;", "/");
            for address in
                text.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap_or_default())
            {
                let own =
                    address.starts_with('/') && !address.starts_with("//") || address.starts_with(['#', '?']);
                assert!(own, "{path}: {attribute}{address}");
            }
        }
    }
}
