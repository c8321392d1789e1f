# One host, evaluated: everything that the tests look at, as JSON can hold it.
#
#   nix-instantiate --eval --strict --json tests/nix/eval.nix --arg host ./hosts/default.nix
{
  host,
}:

let
  lib = import ./lib.nix;
  pkgs = (import ./pkgs.nix { inherit lib; }) // {
    inherit lib;
  };
  evaluated = lib.evalModules {
    args = { inherit pkgs; };
    modules = [
      ./nixos.nix
      ../../nixos-module.nix
      host
    ];
  };
  inherit (evaluated) config;
  refused = map (assertion: assertion.message) (
    builtins.filter (assertion: !assertion.assertion) config.assertions
  );
  # A host without the board has none.
  source = (config.environment.etc."board-agent/config.toml" or { source = { }; }).source;
in
# As NixOS does: what an assertion refuses is not looked at further.
if refused != [ ] then
  {
    inherit refused;
    inherit (config) warnings;
  }
else
  {
    inherit refused;
    inherit (config) warnings;
    inherit (config.rendered) units;
    inherit (config.systemd) packages;
    inherit (config.users) users groups;
    inherit (config.networking) firewall;
    inherit (config.environment) systemPackages;
    tmpfiles = config.systemd.tmpfiles.rules;
    settings =
      if config.services.board-agent.enable then
        lib.filterAttrsRecursive (_: value: value != null) config.services.board-agent.settings
      else
        { };
    etc = builtins.mapAttrs (_: entry: toString entry.source) config.environment.etc;
    check = source.script or "";
    configFile = source.outPath or null;
  }
