# As little as a host can say.
{
  services.board-agent = {
    enable = true;
    repository = "/srv/repo";
  };
}
