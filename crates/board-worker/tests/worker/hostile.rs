//! An agent that tries to get out, in the mounts of every role and as an unprivileged user.
//!
//! Every attempt is judged on the host: by the file that it would have changed, or by the secret that it would
//! have printed. A write into a fresh directory of the sandbox succeeds for the agent and reaches nothing. The
//! same attempts are made without a sandbox, where each has to succeed: else it would prove nothing.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use board_worker::runtimes::command::Text;
use board_worker::sandbox::{Bind, Mode, Network, SandboxPlan};

use crate::supervised::{Trial, is_running};
use crate::{alone, bubblewrap};

/// Stands in everything that no agent may read, behind the attempt's name.
const CANARY: &str = "canary-7f3a";

/// Writes of the agent: name, what it runs, the file of the host that must stay as it was.
const WRITES: [(&str, &str, &str); 7] = [
    ("beside", "echo agent >../beside", "beside"),
    ("absolute", "echo agent >ROOT/above", "above"),
    ("state", "echo agent >ROOT/state/state.json", "state/state.json"),
    ("worktree", "echo agent >ROOT/other/source", "other/source"),
    ("repository", "echo agent >ROOT/repo/.git/config", "repo/.git/config"),
    ("own git", "echo agent >TREE/.git", "work/.git"),
    ("link", "ln -s ROOT/state HOME/link && echo agent >HOME/link/linked", "state/linked"),
];

/// Reads of the agent: name, the file.
const READS: [(&str, &str); 5] = [
    ("read worktree", "other/secret"),
    ("read state", "state/secret"),
    ("read home", "user/secret"),
    ("read credential", "state/runtimes/other/auth.json"),
    ("read repository", "repo/secret"),
];

/// Directories of the host where services keep what is theirs; each gets a secret for the time of a test, which only
/// root can put there.
const HOST: [(&str, &str); 3] = [("read run", "/run"), ("read var", "/var/lib"), ("read srv", "/srv")];

/// Secrets in [`HOST`]; they go with it.
struct HostSecrets(Vec<(&'static str, PathBuf)>);

impl HostSecrets {
    fn put() -> HostSecrets {
        let mut secrets = HostSecrets(Vec::new());
        if nix::unistd::geteuid().is_root() {
            for (name, parent) in HOST {
                let directory = Path::new(parent).join(format!("board-hostile-{}", std::process::id()));
                std::fs::create_dir_all(&directory).unwrap();
                std::fs::write(directory.join("secret"), format!("{CANARY} {name}\n")).unwrap();
                secrets.0.push((name, directory));
            }
        }
        secrets
    }
}

impl Drop for HostSecrets {
    fn drop(&mut self) {
        for (_, directory) in &self.0 {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// The attempts over the network; with the host's network they are the design's own, not an escape.
const NETWORK: [&str; 2] = ["port", "abstract"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Builder,
    Reader,
    Planner,
}

/// Answers every connection with the canary and a name, as long as the test runs.
fn answer<S: Write>(name: &'static str, mut accept: impl FnMut() -> Option<S> + Send + 'static) {
    std::thread::spawn(move || {
        while let Some(mut stream) = accept() {
            let _ = writeln!(stream, "{CANARY} {name}");
        }
    });
}

/// The names of the attempts that reached the host.
fn reached(mode: &Mode, role: Role, network: Network, host: &HostSecrets) -> BTreeSet<String> {
    let mut trial = Trial::new(mode.clone());
    let root = trial.path("");
    for directory in ["state/runtimes/other", "other", "repo/.git", "user", "empty"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (_, _, file) in WRITES {
        std::fs::write(root.join(file), "before\n").unwrap();
    }
    for (name, file) in READS {
        std::fs::write(root.join(file), format!("{CANARY} {name}\n")).unwrap();
    }
    let control = UnixListener::bind(root.join("control.sock")).unwrap();
    answer("control socket", move || control.accept().ok().map(|(stream, _)| stream));
    let board = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = board.local_addr().unwrap().port();
    answer("port", move || board.accept().ok().map(|(stream, _)| stream));
    let abstract_name = format!("board-hostile-{port}-{}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap();
    answer("abstract", move || listener.accept().ok().map(|(stream, _)| stream));

    let work = root.join("work");
    let (write, view, directory) = match role {
        Role::Builder => (vec![Bind::same(&work)], vec![Bind::same(work.join(".git"))], work),
        Role::Reader => (Vec::new(), vec![Bind::same(&work)], work),
        Role::Planner => (Vec::new(), vec![Bind::same(root.join("empty"))], root.join("empty")),
    };
    let plan = SandboxPlan { network, write, view, directory, ..trial.plan() };
    let home = plan.home_seen();
    trial.given = Some(plan);
    trial.unprivileged();

    let mark = format!("600.{port}");
    let unix = "perl -MSocket -e 'socket(S,PF_UNIX,SOCK_STREAM,0); connect(S,pack_sockaddr_un(ADDRESS)) or exit 1; print <S>'";
    let mut script = String::from("echo began; echo ran >HOME/ran\n");
    for (_, attempt, _) in WRITES {
        script.push_str(&format!("({attempt})\n"));
    }
    for (_, file) in READS {
        script.push_str(&format!("cat ROOT/{file}\n"));
    }
    for (_, directory) in &host.0 {
        script.push_str(&format!("cat {}/secret\n", directory.display()));
    }
    script.push_str(&unix.replace("ADDRESS", "\"ROOT/control.sock\""));
    script.push('\n');
    script.push_str(&unix.replace("ADDRESS", &format!("\"\\0{abstract_name}\"")));
    script.push_str(&format!(
        "\nperl -MSocket -e 'socket(S,PF_INET,SOCK_STREAM,0); connect(S,pack_sockaddr_in({port},inet_aton(\"127.0.0.1\"))) or exit 1; print <S>'\n\
         setsid sh -c \"trap '' TERM HUP INT; sleep {mark} & sleep {mark}\" >/dev/null 2>&1 &\necho over\n"
    ));
    let trimmed = root.display().to_string().trim_end_matches('/').to_owned();
    let script = script
        .replace("TREE", &format!("{trimmed}/work"))
        .replace("ROOT", &trimmed)
        .replace("HOME", &home.display().to_string());
    let seen = trial.run(&mut Text::default(), &script);
    let said = seen.reading.final_message.unwrap_or_default();
    assert!(said.starts_with("began\n") && said.ends_with("over\n"), "{role:?}: {}", seen.log);
    assert_eq!(std::fs::read_to_string(root.join("home/ran")).unwrap(), "ran\n", "its home is its own");
    assert!(!is_running(&mark), "{role:?}: a process that left its group is still there");

    let changed = |file: &Path| std::fs::read_to_string(file).unwrap() != "before\n";
    let mut names: BTreeSet<String> = BufReader::new(said.as_bytes())
        .lines()
        .filter_map(|line| line.unwrap().strip_prefix(CANARY).map(|name| name.trim().to_owned()))
        .collect();
    names.extend(
        WRITES.iter().filter(|(.., file)| changed(&root.join(file))).map(|(name, ..)| (*name).into()),
    );
    names
}

#[test]
fn nothing_that_a_hostile_agent_tries_reaches_the_host_and_without_a_sandbox_all_of_it_does() {
    let _alone = alone();
    let Some(mode) = bubblewrap() else { return };
    let host = HostSecrets::put();
    let all: BTreeSet<String> = WRITES
        .iter()
        .map(|(name, ..)| *name)
        .chain(READS.iter().map(|(name, _)| *name))
        .chain(NETWORK)
        .chain(host.0.iter().map(|(name, _)| *name))
        .chain(["control socket"])
        .map(str::to_owned)
        .collect();
    let network: BTreeSet<String> = NETWORK.map(str::to_owned).into();
    for role in [Role::Builder, Role::Reader, Role::Planner] {
        assert_eq!(reached(&Mode::None, role, Network::Host, &host), all, "{role:?} without a sandbox");
        assert_eq!(reached(&mode, role, Network::None, &host), BTreeSet::new(), "{role:?}");
        assert_eq!(reached(&mode, role, Network::Host, &host), network, "{role:?} with the host's network");
    }
}
