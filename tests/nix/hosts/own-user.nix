# The owner of the checkout, which lies in his home, and a state directory of his own.
{
  users.users.lukas = {
    isNormalUser = true;
    home = "/home/lukas";
  };
  services.board-agent = {
    enable = true;
    user = "lukas";
    group = "users";
    stateDir = "/srv/board-agent";
    repository = "/home/lukas/nixos config";
    settings.auth.operators.users = [ "lukas" ];
  };
}
