# socketGroup: `listen` is no unix socket
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  socketGroup = "nginx";
}; }
