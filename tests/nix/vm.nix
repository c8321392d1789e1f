# A run survives a switch, in a virtual machine of NixOS. It needs nixpkgs and KVM, so it is not part of `cargo xtask test`:
#
#   nix build .#checks.x86_64-linux.vm
#
# What of it needs neither is tests/systemd, which boots the same units with the same programs on Debian's systemd and does
# what a switch does.
{
  name = "board-agent-switch";

  nodes.machine =
    { pkgs, lib, ... }:
    let
      package = pkgs.callPackage ../../package.nix { };
      # The same programs at another path of the store, as after an update.
      newer = pkgs.runCommand "board-agent-newer" { } ''
        cp -r ${package} "$out"
        chmod -R u+w "$out"
        find "$out/lib" -type f -exec sed -i "s|${package}|$out|g" {} +
      '';
      # Waits until the test opens its gate, a file named after the card.
      agent = pkgs.writeShellScript "agent" ''
        until [ -e "/opt/gates/$BOARD_CARD_ID" ]; do sleep 0.1; done
        case $BOARD_JOB_TYPE in
        builder) echo "$BOARD_CARD_ID" >"$BOARD_CARD_ID.txt"; echo "Die Datei ist da." ;;
        review)
          printf '%s\n' '===REVIEW-REPORT===' "commit: $BOARD_COMMIT" 'entscheidung: bereit' '---' '# Review' "" \
            '## Umfang und Methoden' "" 'Gelesen.' "" '## Befunde' "" 'Keine.' "" '## Unsicherheiten' "" 'Keine.' "" \
            '## Entscheidung' "" 'bereit' "" '## Empfehlungen' "" 'Keine.' '===END-REVIEW-REPORT===' ;;
        esac
      '';
    in
    {
      imports = [ ../../nixos-module.nix ];
      # A test's machine may come without it.
      system.switch.enable = true;
      services.board-agent = {
        enable = true;
        inherit package;
        repository = "/srv/repo";
        credentials.proxy-secret = "/etc/board-proxy-secret";
        settings = {
          board.undo_seconds = 0;
          auth.operators.users = [ "root" ];
          audit.quiet_seconds = 0;
          sandbox.read = [ "/opt/gates" ];
          runtimes.script = {
            kind = "command";
            argv = [ "${agent}" ];
          };
          profiles.standard.runtime = "script";
        };
      };
      environment.etc.board-proxy-secret = {
        text = "secret-of-the-proxy-of-the-tests";
        mode = "0400";
      };
      environment.systemPackages = [ pkgs.jq ];
      systemd.tmpfiles.rules = [ "d /opt/gates 0755 root root -" ];
      # A checkout of the service's own.
      systemd.services.checkout = {
        wantedBy = [ "multi-user.target" ];
        before = [
          "board-agent-trigger.service"
          "board-agent-watcher.service"
        ];
        path = [ pkgs.git ];
        serviceConfig.Type = "oneshot";
        script = ''
          [ -d /srv/repo ] || {
            install -d -o board-agent -g board-agent /srv/repo
            cd /srv/repo
            mkdir -p docs/intent
            for card in eins zwei; do printf '# %s\n\nDie Datei anlegen.\n' "$card" >"docs/intent/$card.md"; done
            chown -R board-agent: .
            ${pkgs.util-linux}/bin/runuser -u board-agent -- ${pkgs.writeShellScript "first" ''
              git init --quiet --initial-branch=main
              git config user.name Operator
              git config user.email operator@example.invalid
              git add .
              git commit --quiet -m Anfang
            ''}
          }
        '';
      };
      specialisation.newer.configuration.services.board-agent.package = lib.mkForce newer;
    };

  testScript = ''
    def phase(card, wanted):
        machine.wait_until_succeeds(f"boardctl --json show {card} | jq -e '.phase == \"{wanted}\"'")

    def program(slot):
        unit = f"board-agent-build@{slot}.service"
        machine.wait_until_succeeds(f"[ $(systemctl show --value --property MainPID {unit}) != 0 ]")
        pid = machine.succeed(f"systemctl show --value --property MainPID {unit}").strip()
        return pid, machine.succeed(f"readlink /proc/{pid}/exe").strip()

    machine.wait_for_unit("board-agent-watcher.service")
    machine.wait_for_open_port(8787)
    machine.succeed("boardctl start eins")
    # Which of the two slots was faster nobody knows, so the second build tells both.
    machine.wait_until_succeeds("systemctl list-units --plain 'board-agent-build@*.service' | grep activating")
    unit = machine.succeed("systemctl list-units --plain --no-legend 'board-agent-build@*.service'").split()[0]
    slot = unit.split("@")[1].split(".")[0]
    other = "2" if slot == "1" else "1"
    before = program(slot)

    machine.succeed("/run/current-system/specialisation/newer/bin/switch-to-configuration test")
    assert program(slot) == before, "the switch ended the run"
    machine.succeed("boardctl start zwei")
    assert "board-agent-newer" in program(other)[1], "the next run takes the new program"

    machine.succeed("touch /opt/gates/eins /opt/gates/zwei")
    for card in ["eins", "zwei"]:
        phase(card, "bereit_fuer_deployment")
  '';
}
