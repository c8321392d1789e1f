# a file in the Nix store can be read by everybody
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  credentials.proxy-secret = "/nix/store/abc-secret";
}; }
