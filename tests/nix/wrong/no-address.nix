# is not of type `string matching the pattern
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  listen = "8787";
}; }
