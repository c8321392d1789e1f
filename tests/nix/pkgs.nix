# Packages as far as evaluation looks at them: a name and a path in the store. Nothing is built.
{ lib }:

let
  package =
    name: more:
    more
    // {
      type = "derivation";
      inherit name;
      # As long as a real one, and told apart by its name.
      outPath = "${builtins.storeDir}/${builtins.substring 0 32 (builtins.hashString "sha256" name)}-${name}";
      __toString = self: self.outPath;
    };
  plain = lib.genAttrs [
    "bubblewrap"
    "codex"
    "coreutils"
    "findutils"
    "git"
    "gnugrep"
    "gnused"
    "nix"
    "systemd"
    "tzdata"
  ] (name: package name { });
in
plain
// {
  board-agent = package "board-agent" { };
  stdenv = rec {
    hostPlatform = {
      system = "x86_64-linux";
      canExecute = other: other.system == hostPlatform.system;
    };
    buildPlatform = hostPlatform;
  };
  rustPlatform.buildRustPackage = arguments: package "${arguments.pname}-${arguments.version}" { inherit arguments; };
  formats.toml =
    { }:
    {
      type = lib.types.toml;
      # Its name changes with what it holds, as that of a store path does.
      generate = name: value: package "${name}-${builtins.hashString "md5" (builtins.toJSON value)}" { inherit value; };
    };
  runCommand =
    name: environment: script:
    package "${name}-${builtins.hashString "md5" script}" { inherit environment script; };
  testers.runNixOSTest = test: package "vm-test" { inherit test; };
}
