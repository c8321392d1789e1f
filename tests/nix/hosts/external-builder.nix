# Another service builds.
{
  services.board-agent = {
    enable = true;
    repository = "/srv/repo";
    builder = {
      inbox = "/var/lib/agent-codex/builder-inbox";
      results = "/var/lib/agent-codex/builder-results";
      user = "agent-codex";
    };
    settings.auth.operators.users = [ "lukas" ];
  };
}
