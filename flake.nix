{
  description = "Board for coding agents on git and systemd";

  # Rust 1.88 and the library functions that package.nix calls: nixos-25.11 or newer.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      forAllSystems =
        make:
        builtins.listToAttrs (
          map (system: {
            name = system;
            value = make nixpkgs.legacyPackages.${system};
          }) systems
        );
    in
    {
      packages = forAllSystems (pkgs: rec {
        board-agent = pkgs.callPackage ./package.nix { };
        default = board-agent;
      });

      overlays.default = final: _: {
        board-agent = final.callPackage ./package.nix { };
      };

      # The module builds the package itself where no overlay has it.
      nixosModules = rec {
        board-agent = ./nixos-module.nix;
        default = board-agent;
      };

      checks = forAllSystems (pkgs: {
        package = self.packages.${pkgs.stdenv.hostPlatform.system}.board-agent;
        # A virtual machine in which a run survives a switch; wants KVM.
        vm = pkgs.testers.runNixOSTest ./tests/nix/vm.nix;
      });
    };
}
