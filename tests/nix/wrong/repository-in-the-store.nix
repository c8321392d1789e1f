# repository: /nix/store/abc-repo lies in the Nix store, where nothing can be committed
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  repository = "/nix/store/abc-repo";
}; }
