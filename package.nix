# The programs, the units, man pages and completions, as one package of nixpkgs.
#
#   pkgs.callPackage ./package.nix { }
{
  lib,
  rustPlatform,
  stdenv,
}:

rustPlatform.buildRustPackage {
  pname = "board-agent";
  version = (lib.importTOML ./Cargo.toml).workspace.package.version;

  # What the build reads, so that a change of anything else builds nothing anew. The tests are here because cargo wants to
  # see every member of the workspace.
  src = lib.fileset.toSource {
    root = ./.;
    fileset = lib.fileset.unions [
      ./Cargo.lock
      ./Cargo.toml
      ./LICENSE-APACHE
      ./LICENSE-MIT
      ./crates
      ./docs
      ./packaging/nix
      ./queue-schema
      ./systemd
      ./tests
    ];
  };

  # Every crate comes from the registry, so no hash has to be kept here.
  cargoLock.lockFile = ./Cargo.lock;

  cargoBuildFlags = [
    "--package=board-trigger"
    "--package=board-watcher"
    "--package=board-worker"
    "--package=boardctl"
  ];

  # The tests make sandboxes, drop to other users and boot systemd, which a build of Nix may not: `cargo xtask test`.
  doCheck = false;

  postInstall = ''
    sh packaging/nix/install-units.sh systemd "$out"
    install -D -m 0644 -t "$out/share/doc/board-agent" docs/*.md docs/config.example.toml
  ''
  + lib.optionalString (stdenv.buildPlatform.canExecute stdenv.hostPlatform) ''
    "$out/bin/boardctl" generate "$out/share"
    # Where zsh of nixpkgs looks.
    mv "$out/share/zsh/vendor-completions" "$out/share/zsh/site-functions"
  '';

  meta = {
    description = "Board for coding agents on git and systemd";
    license = [
      lib.licenses.mit
      lib.licenses.asl20
    ];
    platforms = lib.platforms.linux;
    mainProgram = "boardctl";
  };
}
