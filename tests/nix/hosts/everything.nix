# Every option with a value that is not its default, as far as one host can have them all.
{ lib, pkgs, ... }:

{
  time.timeZone = "Europe/Vienna";
  services.board-agent = {
    enable = true;
    package = pkgs.board-agent;
    user = "agents";
    group = "agents";
    stateDir = "/srv/board-agent";
    repository = "/srv/100%/repo";
    listen = "192.0.2.1:8080";
    openFirewall = true;
    openFirewallInterface = "tailscale0";
    slots = {
      draft = 1;
      read = 3;
      build = 4;
    };
    credentials = {
      proxy-secret = "/run/secrets/board-proxy";
      openai = "/run/secrets/openai";
    };
    environmentFiles = [ "/run/secrets/agents.env" ];
    path = [
      pkgs.codex
      pkgs.nix
    ];
    worker = {
      timeout = "4h";
      memoryMax = "8G";
      serviceConfig = {
        CPUQuota = "200%";
        ReadWritePaths = [ "/srv/cache" ];
      };
    };
    sandbox.sockets = [ "/nix/var/nix/daemon-socket/socket" ];
    checkConfig = false;
    settings = {
      board = {
        language = "en";
        branch = "trunk";
        undo_seconds = 0;
        allow_filters = true;
      };
      http = {
        public_url = "https://board.example.org";
        hosts = [ "board" ];
        allow_non_loopback = true;
      };
      auth = {
        groups_header = "X-Auth-Request-Groups";
        operators = {
          groups = [ "board-operators" ];
          require = "all";
          users = [ "lukas" ];
        };
        viewers.users = [ "gast" ];
      };
      audit = {
        name = "board";
        email = "board@example.org";
      };
      limits.idle_time = lib.mkForce "5m";
      sandbox = {
        network = "none";
        allow_api_keys = true;
      };
      runtimes = {
        codex = {
          kind = "codex";
          program = "codex";
          args = [ "--config" "model_verbosity=low" ];
          env.NIX_REMOTE = "daemon";
          credential = {
            env = "OPENAI_API_KEY";
            file = "/run/board-agent-keys/openai";
          };
        };
        script = {
          kind = "command";
          argv = [ "/srv/agents/agent.sh" ];
        };
      };
      profiles = {
        standard = {
          runtime = "codex";
          model = "gpt-5";
        };
        careful = {
          runtime = "codex";
          effort = "high";
          iterations = 5;
        };
      };
      roles.reviewer.profile = "careful";
      metrics.listen = "127.0.0.1:9187";
    };
  };
}
