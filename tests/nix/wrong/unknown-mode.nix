# is not of type `one of "proxy", "open", "oidc"
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  settings.auth.mode = "none";
}; }
