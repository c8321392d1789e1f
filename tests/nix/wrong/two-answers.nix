# The option `services.board-agent.user' has conflicting definition values
{
  imports = [ { services.board-agent.user = "lukas"; } ];
  services.board-agent = {
    enable = true;
    repository = "/srv/repo";
    user = "agents";
  };
}
