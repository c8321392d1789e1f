# The default host with what the container of the systemd tests needs: its agent, and no waiting. Its units are those of
# default.nix.
{
  imports = [ ./default.nix ];
  services.board-agent.settings = {
    board = {
      branch = "main";
      undo_seconds = 0;
    };
    http.public_url = "http://127.0.0.1:8787";
    auth = {
      user_header = "X-User";
      operators.users = [ "op" ];
    };
    audit = {
      name = "board-agent";
      email = "board@example.invalid";
      quiet_seconds = 0;
    };
    limits = {
      idle_time = "60s";
      wall_time = "5m";
    };
    sandbox.read = [ "/opt/gates" ];
    runtimes.script = {
      kind = "command";
      argv = [ "/usr/local/bin/agent.sh" ];
    };
    profiles.standard.runtime = "script";
  };
}
