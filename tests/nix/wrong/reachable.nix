# listen: other hosts can reach 0.0.0.0:8787
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  listen = "0.0.0.0:8787";
}; }
