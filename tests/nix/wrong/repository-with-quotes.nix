# repository and stateDir are named in unit files, which allow no quotes
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  repository = ''/srv/my "repo"'';
}; }
