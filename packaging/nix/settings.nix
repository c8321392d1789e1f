# The typed keys of services.board-agent.settings, which become the configuration file (docs/config.example.toml). Every
# other key goes into the file as it is, and `boardctl check-config` says what is wrong with it.
#
# Without a value a key is left out, so the defaults are those of the programs, written once there.
{ lib }:

let
  inherit (lib) mkOption types;

  left =
    type: description:
    mkOption {
      type = types.nullOr type;
      default = null;
      inherit description;
    };
  with' = example: option: option // { inherit example; };
  names =
    description:
    mkOption {
      type = types.listOf types.str;
      default = [ ];
      inherit description;
    };
  from = name: lib.literalExpression "config.services.board-agent.${name}";
  role = what: {
    profile = mkOption {
      type = types.str;
      default = "standard";
      example = "careful";
      description = "The profile, one of `settings.profiles`, that ${what} get.";
    };
    iterations = with' 10 (left (types.ints.between 1 20) "Iterations per job at most.");
    guidance = with' "agents/builder.md" (
      left types.str "A file in the repository, relative to its top, that is quoted into the prompt."
    );
  };
in
{
  board = {
    repository = mkOption {
      type = types.str;
      defaultText = from "repository";
      example = "/srv/nixos-config";
      description = "The checkout.";
    };
    state_dir = mkOption {
      type = types.str;
      defaultText = from "stateDir";
      example = "/srv/board-agent";
      description = "The state directory.";
    };
    branch = with' "main" (
      left types.str "The branch of the board; without it the one that is checked out at the first start."
    );
    language = with' "en" (
      left (types.enum [ "de" "en" ]) "The language of the board and of the prompts; `de` without it."
    );
    timezone = mkOption {
      type = types.str;
      defaultText = lib.literalExpression "config.time.timeZone";
      example = "UTC";
      description = "The time zone of the times that people read; that of the host, else Europe/Berlin.";
    };
    undo_seconds = with' 0 (left (types.ints.between 0 30) "How long a click can be taken back.");
  };

  http = {
    listen = mkOption {
      type = types.str;
      defaultText = from "listen";
      example = "unix:/run/board-agent/http.sock";
      description = "The address.";
    };
    public_url = with' "https://board.example.ts.net" (left types.str "What the browser calls the board; no path.");
    hosts = with' [ "board" ] (names "Further names that are right in `Host`.");
    allow_non_loopback = mkOption {
      type = types.bool;
      default = false;
      example = true;
      description = "Accept a `listen` that other hosts can reach.";
    };
  };

  auth = {
    mode = mkOption {
      type = types.enum [ "proxy" "open" "oidc" ];
      default = "proxy";
      example = "open";
      description = "Where identity comes from: a proxy's header, a token (loopback only, for trying out), or a login of its own (an optional feature of the build).";
    };
    user_header = with' "X-Auth-Request-Preferred-Username" (left types.str "The one header that names the user.");
    groups_header = with' "X-Auth-Request-Groups" (left types.str "The header with the groups; without it groups are not read.");
    secret_file = with' "/run/secrets/board-proxy" (
      left types.str "The proxy's secret; better given as `services.board-agent.credentials.proxy-secret`."
    );
    trusted_peers = with' [ "traefik" ] (
      left (types.listOf types.str) "Who may speak as the proxy: addresses for TCP (loopback without it), users for a unix socket."
    );
    operators = {
      users = with' [ "lukas" ] (names "Users who may do everything.");
      groups = with' [ "board-operators" ] (names "Groups whose members may do everything.");
      require = with' "all" (
        left (types.enum [ "any" "all" ]) "Whether one of the two lists must match or both; `any` without it."
      );
    };
    viewers = {
      users = with' [ "gast" ] (names "Users who may look.");
      groups = with' [ "board-viewers" ] (names "Groups whose members may look.");
    };
  };

  limits = {
    iterations = with' 10 (left (types.ints.between 1 20) "Iterations per job, default and cap.");
    wall_time = with' "4h" (left types.str "What one job may take; that of `services.board-agent.worker.timeout`.");
    idle_time = with' "10m" (left types.str "How long an agent may be silent.");
    worktree_disk = with' "20GiB" (left types.str "What one worktree may take.");
  };

  slots =
    lib.genAttrs [ "draft" "read" "build" ] (
      lane:
      mkOption {
        type = types.ints.between 0 16;
        defaultText = from "slots.${lane}";
        example = 1;
        description = "The number of slots that there are, for `boardctl doctor`.";
      }
    );

  builder = lib.genAttrs [ "inbox" "results" "user" ] (
    name: with' "agent-codex" (left types.str "That of `services.board-agent.builder.${name}`.")
  );

  sandbox = {
    mode = with' "bubblewrap" (
      left (types.enum [ "bubblewrap" "none" ]) "What stands around every run; `none` is shown on every page."
    );
    network = with' "none" (
      left (types.enum [ "host" "outside" "none" ]) "Which network a run sees; `host` without it."
    );
    read = with' [ "/opt/tools" ] (names "Further paths that every run may read.");
    sockets = with' [ "/nix/var/nix/daemon-socket/socket" ] (
      names "Those of `services.board-agent.sandbox.sockets`."
    );
    allow_api_keys = with' true (left types.bool "Allow `credential` of runtimes.");
  };

  runtimes = mkOption {
    type = types.attrsOf (
      types.submodule {
        freeformType = types.attrsOf types.anything;
        options = {
          kind = mkOption {
            type = types.enum [ "codex" "claude" "acp" "command" "opencode" "gemini" ];
            example = "claude";
            description = "How the program is spoken to.";
          };
          program = with' "codex" (
            left types.str "The program, for every kind but `command`: a name among those of `services.board-agent.path`, or an absolute path."
          );
          argv = with' [ "/srv/agents/agent.sh" ] (left (types.listOf types.str) "Program and arguments of the kind `command`.");
          env = with' { NIX_REMOTE = "daemon"; } (left (types.attrsOf types.str) "Further environment of the agent; no secrets, this lies in the store.");
        };
      }
    );
    default = {
      codex = {
        kind = "codex";
        program = "codex";
      };
    };
    example = {
      claude = {
        kind = "claude";
        program = "claude";
      };
    };
    description = "Programs that can be an agent, by name; defined, they take the place of the default.";
  };

  profiles = mkOption {
    type = types.attrsOf (
      types.submodule {
        freeformType = types.attrsOf types.anything;
        options = {
          runtime = mkOption {
            type = types.str;
            example = "codex";
            description = "One of `settings.runtimes`.";
          };
          model = with' "gpt-5" (left types.str "The model, in the words of the runtime.");
          effort = with' "high" (left types.str "The effort, in the words of the runtime.");
          description = with' "for most orders" (left types.str "What the planner and the operator are shown.");
        };
      }
    );
    default.standard.runtime = "codex";
    example.careful = {
      runtime = "claude";
      effort = "high";
    };
    description = "A runtime and a model under a name; defined, they take the place of the default.";
  };

  roles = {
    builder = role "builds";
    reviewer = role "reviews";
    researcher = role "researches";
    planner = role "drafts and splits";
  };
}
