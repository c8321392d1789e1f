# repository: /tmp/repo lies below /tmp, which the units do not share
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  repository = "/tmp/repo";
}; }
