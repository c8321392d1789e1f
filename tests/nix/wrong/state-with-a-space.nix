# stateDir: /srv/board agent has a space or a percent sign, and no path unit can watch it
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  stateDir = "/srv/board agent";
}; }
