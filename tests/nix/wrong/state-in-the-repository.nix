# stateDir: /srv/repo/.board and the repository /srv/repo lie in each other
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  stateDir = "/srv/repo/.board";
}; }
