# The options of NixOS that the module sets, and how NixOS makes unit files of them: nixos/lib/systemd-lib.nix and
# systemd-unit-options.nix of nixpkgs, as far as the module uses them.
{ config, lib, pkgs, ... }:

let
  inherit (lib) mkOption types;
  inherit (builtins) attrNames concatLists isBool isList;

  option = type: default: mkOption { inherit type default; description = "As in NixOS."; };
  # Any directive: lists of several definitions are joined, everything else must agree.
  directive = types.anything;
  section = option (types.attrsOf directive) { };

  ofUnit = {
    overrideStrategy = option (types.enum [ "asDropinIfExists" "asDropin" ]) "asDropinIfExists";
    wantedBy = option (types.listOf types.str) [ ];
    unitConfig = section;
    restartTriggers = option (types.listOf types.package) [ ];
  };
  units = more: option (types.attrsOf (types.submodule { options = ofUnit // more; })) { };

  show = value: if isBool value then (if value then "true" else "false") else toString value;
  toLines =
    set:
    lib.concatMap (
      key: map (value: "${key}=${show value}") (if isList set.${key} then set.${key} else [ set.${key} ])
    ) (attrNames set);
  toSection = name: lines: [ "[${name}]" ] ++ lines ++ [ "" ];

  head =
    unit:
    toSection "Unit" (
      toLines unit.unitConfig
      ++ lib.optional (unit.restartTriggers != [ ]) "X-Restart-Triggers=${toString unit.restartTriggers}"
    );

  # What NixOS lets every service find.
  defaultPath = [ pkgs.coreutils pkgs.findutils pkgs.gnugrep pkgs.gnused pkgs.systemd ];
  environmentOf =
    unit:
    let
      path = unit.path ++ defaultPath;
      below = dir: lib.concatMapStringsSep ":" (package: "${package}/${dir}") path;
      all = {
        LOCALE_ARCHIVE = "/run/current-system/sw/lib/locale/locale-archive";
        TZDIR = "/etc/zoneinfo";
        PATH = "${below "bin"}:${below "sbin"}";
      } // unit.environment;
    in
    map (name: "Environment=${builtins.toJSON "${name}=${all.${name}}"}") (attrNames all);

  kinds = {
    service =
      unit:
      toSection "Service" (
        environmentOf unit
        ++ lib.optional (!unit.restartIfChanged) "X-RestartIfChanged=false"
        ++ lib.optional (!unit.stopIfChanged) "X-StopIfChanged=false"
        ++ toLines unit.serviceConfig
      );
    socket =
      unit:
      toSection "Socket" (
        toLines unit.socketConfig ++ map (address: "ListenStream=${address}") unit.listenStreams
      );
    path = unit: toSection "Path" (toLines unit.pathConfig);
    target = _: [ ];
  };

  rendered =
    kind: set:
    lib.mapAttrsToList (name: unit: {
      name = "${name}.${kind}";
      value = {
        inherit (unit) overrideStrategy wantedBy;
        text = lib.concatStringsSep "\n" (head unit ++ kinds.${kind} unit);
      };
    }) set;
in
{
  options = {
    assertions = option (types.listOf types.anything) [ ];
    warnings = option (types.listOf types.str) [ ];
    environment.etc = option (types.attrsOf (types.submodule {
      options.source = option (types.either types.package types.path) null;
    })) { };
    environment.systemPackages = option (types.listOf types.package) [ ];
    time.timeZone = option (types.nullOr types.str) null;

    users.users = option (types.attrsOf (types.submodule {
      options = {
        isSystemUser = option types.bool false;
        isNormalUser = option types.bool false;
        group = option types.str "";
        home = option types.path "/var/empty";
        description = option types.str "";
        extraGroups = option (types.listOf types.str) [ ];
      };
    })) { };
    users.groups = option (types.attrsOf (types.submodule { options = { }; })) { };

    networking.firewall.allowedTCPPorts = option (types.listOf types.int) [ ];
    networking.firewall.interfaces = option (types.attrsOf (types.submodule {
      options.allowedTCPPorts = option (types.listOf types.int) [ ];
    })) { };

    systemd = {
      packages = option (types.listOf types.package) [ ];
      tmpfiles.rules = option (types.listOf types.str) [ ];
      targets = units { };
      paths = units { pathConfig = section; };
      sockets = units {
        socketConfig = section;
        listenStreams = option (types.listOf types.str) [ ];
      };
      services = units {
        serviceConfig = section;
        environment = option (types.attrsOf types.str) { };
        path = option (types.listOf types.package) [ ];
        restartIfChanged = option types.bool true;
        stopIfChanged = option types.bool true;
      };
    };

    # Not of NixOS: what the tests look at.
    rendered = option types.anything { };
  };

  config.rendered = {
    units = builtins.listToAttrs (
      concatLists [
        (rendered "service" config.systemd.services)
        (rendered "socket" config.systemd.sockets)
        (rendered "path" config.systemd.paths)
        (rendered "target" config.systemd.targets)
      ]
    );
  };
}
