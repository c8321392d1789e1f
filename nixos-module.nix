# services.board-agent: the board on a NixOS host. docs/nixos.md goes from nothing to a running board.
#
# The units are those of systemd/, installed by the package and taken over with systemd.packages. What is said here depends
# on options and becomes drop-ins; nothing that stands in a unit file is said again.
{
  config,
  lib,
  pkgs,
  ...
}:

let
  inherit (lib)
    mkDefault
    mkIf
    mkMerge
    mkOption
    optional
    optionals
    types
    ;

  cfg = config.services.board-agent;
  format = pkgs.formats.toml { };

  # What the unit files know; everything else has to be told to them.
  known = {
    user = "board-agent";
    group = "board-agent";
    dropGroup = "board-agent-drop";
    stateDir = "/var/lib/board-agent";
    listen = "127.0.0.1:8787";
    control = "/run/board-agent/control.sock";
  };
  target = "board-agent.target";
  daemons = [
    "trigger"
    "watcher"
    "sweep"
    "backlog"
    "runs"
    "alarm@"
  ];
  lanes = [
    "draft"
    "read"
    "research"
    "build"
  ];

  isUnix = lib.hasPrefix "/" cfg.listen || lib.hasPrefix "unix:" cfg.listen;
  listen = lib.removePrefix "unix:" cfg.listen;
  isLoopback = isUnix || lib.hasPrefix "127." cfg.listen || lib.hasPrefix "[::1]:" cfg.listen;
  port = lib.toInt (lib.last (lib.splitString ":" cfg.listen));

  isExternal = cfg.builder.inbox != null;
  slots = cfg.slots // {
    research = 1;
    build = if isExternal then 0 else cfg.slots.build;
  };

  repository = toString cfg.repository;
  gitDir = "${repository}/.git";
  isMoved = cfg.stateDir != known.stateDir;
  isBelow = dir: path: path == dir || lib.hasPrefix "${dir}/" path;
  # Where the units have a file system of their own, and not even a bind leads to a checkout that will stay there.
  unusable = lib.filter (dir: isBelow dir repository) [
    "/tmp"
    "/var/tmp"
    "/dev"
    "/proc"
    "/sys"
    "/run/user"
  ];
  # Hidden from the units, which is what a home is for; a checkout in one is bound by name.
  isInHome = isBelow "/home" repository || isBelow "/root" repository;

  # A path as a word of a unit file.
  word =
    path:
    let
      text = builtins.replaceStrings [ "%" ] [ "%%" ] path;
    in
    if lib.hasInfix " " text then "\"${text}\"" else text;
  isWord = path: !lib.any (character: lib.hasInfix character path) [ "\"" "'" "\\" ":" "\n" "\t" ];
  isInStore = path: isBelow builtins.storeDir (toString path);

  # TOML knows no null: a key without a value is one that is left out.
  settings = lib.filterAttrsRecursive (_: value: value != null) cfg.settings;
  configFile =
    let
      file = format.generate "board-agent.toml" settings;
      isRunnable = pkgs.stdenv.buildPlatform.canExecute pkgs.stdenv.hostPlatform;
    in
    if cfg.checkConfig && isRunnable then
      pkgs.runCommand "board-agent-checked.toml" { TZDIR = "${pkgs.tzdata}/share/zoneinfo"; } ''
        ${cfg.package}/bin/boardctl --config ${file} check-config --elsewhere
        cp ${file} "$out"
      ''
    else
      file;

  # The directories of the state, written once in systemd/tmpfiles.d, for this directory and this user.
  tmpfiles =
    let
      lines = lib.splitString "\n" (builtins.readFile ./systemd/tmpfiles.d/board-agent.conf);
      fields = line: builtins.match "([a-z]) +([^ ]+) +([0-7]+) +([^ ]+) +([^ ]+) +-" line;
      rule =
        line:
        let
          at = builtins.elemAt (fields line);
          path = "${cfg.stateDir}${lib.removePrefix known.stateDir (at 1)}";
          user = if at 3 == known.user then cfg.user else at 3;
          group = if at 4 == known.group then cfg.group else at 4;
        in
        "${at 0} ${path} ${at 2} ${user} ${group} -";
    in
    map rule (lib.filter (line: fields line != null) lines);

  # What every service is told.
  common = {
    # git for the programs themselves; systemctl and its kin are in the default path.
    path = [ pkgs.git ];
    serviceConfig = mkMerge [
      (mkIf (cfg.user != known.user) { User = cfg.user; })
      (mkIf (cfg.group != known.group) { Group = cfg.group; })
      # The service's own user shares the checkout with its owner by the group.
      (mkIf (cfg.user == known.user) { UMask = mkDefault "0007"; })
    ];
  };

  daemon = name: {
    serviceConfig = mkMerge [
      (mkIf isMoved {
        StateDirectory = "";
        ReadWritePaths = [ (word cfg.stateDir) ];
      })
      (mkIf (name == "sweep") (allow [ gitDir ]))
    ];
    unitConfig = mkIf (isMoved && name == "backlog") {
      # The first, empty one takes back those of the unit file.
      ConditionPathExistsGlob = [
        ""
        "|${cfg.stateDir}/queue/inbox/*/*.json"
        "|${cfg.stateDir}/alarms/*"
      ];
    };
    # A new package is a new ExecStop= there, and ends no run for it.
    restartIfChanged = mkIf (name == "runs") false;
    # Restarted in one go, under the sockets that stay.
    stopIfChanged = mkIf (lib.elem name [ "trigger" "watcher" ]) false;
    restartTriggers = mkIf (lib.elem name [ "trigger" "watcher" ]) [ configFile ];
  };

  # Lets a unit write. A path below a hidden home cannot be allowed, it is bound.
  allow =
    paths:
    if isInHome then { BindPaths = map word paths; } else { ReadWritePaths = map word paths; };

  # Other secrets than the proxy's are the agents', and come to the workers.
  isOfProxy = name: name == "proxy-secret";
  credentialsOf =
    wanted: lib.mapAttrsToList (name: path: "${name}:${toString path}") (lib.filterAttrs (name: _: wanted name) cfg.credentials);
  keys = credentialsOf (name: !isOfProxy name);

  worker = lane: {
    # A deploy ends no run: it goes on with the program that it was started with, the next one takes the new one.
    restartIfChanged = false;
    stopIfChanged = false;
    unitConfig.X-StopOnRemoval = false;
    serviceConfig = mkMerge [
      (mkIf isMoved {
        ReadWritePaths =
          map (name: "-${word "${cfg.stateDir}/${name}"}") (
            [ "queue" "locks" "logs" "runs" "runtimes" ] ++ optional (lane == "build") "worktrees"
          );
      })
      (mkIf (isMoved && lane != "build") { InaccessiblePaths = [ "-${word "${cfg.stateDir}/worktrees"}" ]; })
      (mkIf (isInHome && lane != "build") { ProtectHome = "tmpfs"; })
      # An empty directory in its place: the programs want to see that there is one.
      (mkIf (lane != "build") { TemporaryFileSystem = [ "${word repository}:ro" ]; })
      (mkIf (lane == "read" || lane == "research") { BindReadOnlyPaths = [ (word gitDir) ]; })
      (mkIf (lane == "build") (allow [ gitDir ]))
      (mkIf (keys != [ ]) {
        LoadCredential = keys;
        # One path for all slots, so that a runtime's `credential.file` can name it.
        BindReadOnlyPaths = [ "%d:/run/board-agent-keys" ];
      })
      (mkIf (cfg.environmentFiles != [ ]) { EnvironmentFile = map toString cfg.environmentFiles; })
      (mkIf (cfg.worker.memoryMax != null) { MemoryMax = cfg.worker.memoryMax; })
      cfg.worker.serviceConfig
    ];
  };

  # A slot is an instance that is wanted. Its unit is the template's; NixOS would write a whole one. What its lane has to be
  # told stands here too: a drop-in of an instance hides that of its template, since NixOS gives both the same name.
  slot = lane: number: {
    name = "board-agent-${lane}@${toString number}";
    value = {
      overrideStrategy = "asDropin";
      wantedBy = [ target ];
      unitConfig = mkIf isMoved { RequiresMountsFor = [ cfg.stateDir ]; };
      pathConfig = mkIf isMoved {
        # The first, empty one takes back those of the unit file.
        PathExistsGlob = [
          ""
          "${cfg.stateDir}/queue/inbox/${lane}/*.json"
          "${cfg.stateDir}/queue/running/${lane}-%i/*.json"
        ];
      };
    };
  };
in
{
  options.services.board-agent = {
    enable = lib.mkEnableOption "board-agent, a board for coding agents on git and systemd";

    package = lib.mkPackageOption (
      pkgs // { board-agent = pkgs.board-agent or (pkgs.callPackage ./package.nix { }); }
    ) "board-agent" { example = "pkgs.board-agent.overrideAttrs { patches = [ ./mine.patch ]; }"; };

    user = mkOption {
      type = types.str;
      default = known.user;
      example = "lukas";
      description = ''
        The user of all services, agents among them: the owner of the checkout, or one who shares it by its group. Created
        only at the default.
      '';
    };

    group = mkOption {
      type = types.str;
      default = known.group;
      example = "users";
      description = "The group of all services. Created only at the default.";
    };

    stateDir = mkOption {
      type = types.path;
      default = known.stateDir;
      example = "/srv/board-agent";
      description = "The queue, the board's state, worktrees and logs; on one file system.";
    };

    repository = mkOption {
      type = types.path;
      example = "/srv/nixos-config";
      description = "The checkout with `docs/intent`. Required; it has to be there, and nothing clones it.";
    };

    listen = mkOption {
      type = types.strMatching "(unix:)?/[^ ]+|[^ /]+:[0-9]+";
      default = known.listen;
      example = "/run/board-agent/http.sock";
      description = "Where the board listens for its proxy: an address with a port, or the path of a unix socket.";
    };

    socketGroup = mkOption {
      type = types.nullOr types.str;
      default = null;
      example = "traefik";
      description = ''
        The group that may connect to a unix socket, that of the proxy. The socket of `boardctl` gets the same group; who
        may do something there is decided by the user at its other end.
      '';
    };

    openFirewall = mkOption {
      type = types.bool;
      default = false;
      example = true;
      description = "Open the port of `listen`. Not needed behind a proxy on the same host.";
    };

    openFirewallInterface = mkOption {
      type = types.nullOr types.str;
      default = null;
      example = "tailscale0";
      description = "Open it on this interface alone.";
    };

    slots = {
      draft = mkOption {
        type = types.ints.between 1 16;
        default = 2;
        example = 1;
        description = "Rounds of the planner at once.";
      };
      read = mkOption {
        type = types.ints.between 1 16;
        default = 2;
        example = 1;
        description = "Reviews and splits at once. Research has one slot.";
      };
      build = mkOption {
        type = types.ints.between 1 16;
        default = 2;
        example = 1;
        description = "Builds at once. None with `builder.inbox`.";
      };
    };

    builder = {
      inbox = mkOption {
        type = types.nullOr types.path;
        default = null;
        example = "/var/lib/agent-codex/builder-inbox";
        description = "Where another service takes its jobs, which builds then instead of the slots here; see docs/builder.md.";
      };
      results = mkOption {
        type = types.nullOr types.path;
        default = null;
        example = "/var/lib/agent-codex/builder-results";
        description = "Where that service leaves its results.";
      };
      user = mkOption {
        type = types.nullOr types.str;
        default = null;
        example = "agent-codex";
        description = "The user whose results are taken, besides root's.";
      };
    };

    credentials = mkOption {
      type = types.attrsOf types.path;
      default = { };
      example = lib.literalExpression ''{ proxy-secret = "/run/secrets/board-proxy"; }'';
      description = ''
        Secrets by name, as files that root can read and that never lie in the store. `proxy-secret` is the board's. Every
        other one is the workers', at `/run/board-agent-keys/<name>`, for `settings.runtimes.<runtime>.credential.file`.
        Without `proxy-secret` here the unit takes `/etc/credstore/board-agent.proxy-secret`.
      '';
    };

    environmentFiles = mkOption {
      type = types.listOf types.path;
      default = [ ];
      example = [ "/run/secrets/agents.env" ];
      description = ''
        Files with `NAME=value` lines for the environment of the workers. An agent gets an allow-list of variables and none
        of these: what it needs goes into `settings.runtimes.<runtime>.env`, a key into `credential`.
      '';
    };

    path = mkOption {
      type = types.listOf types.package;
      default = [ ];
      example = lib.literalExpression "[ pkgs.codex pkgs.nix ]";
      description = ''
        Programs for the agents: the runtimes, and what a build calls. They come into the system's path, where runs look
        for programs; git and bubblewrap are there without being named.
      '';
    };

    worker = {
      timeout = mkOption {
        type = types.nullOr types.str;
        default = null;
        example = "4h";
        description = "What one job may take; two hours without it.";
      };
      memoryMax = mkOption {
        type = types.nullOr types.str;
        default = null;
        example = "8G";
        description = "What the run of one slot may take of memory; the slice of all of them has its own limit.";
      };
      serviceConfig = mkOption {
        type = types.attrsOf types.anything;
        default = { };
        example = {
          CPUQuota = "200%";
        };
        description = "Further directives for the workers of all lanes, as in `systemd.services.<name>.serviceConfig`.";
      };
    };

    sandbox.sockets = mkOption {
      type = types.listOf types.path;
      default = [ ];
      example = [ "/nix/var/nix/daemon-socket/socket" ];
      description = ''
        Sockets that a builder may use. With that of the nix daemon it can evaluate and build this host's configuration,
        and whoever may speak to the daemon can let it build and run any program in the daemon's own sandbox, with network
        for what has a fixed hash, and fill the store: that is more than the sandbox of a run allows. The workers of this
        version do not look at it yet; `settings.sandbox.read` with the socket's directory does the same for every role.
      '';
    };

    settings = mkOption {
      type = types.submodule {
        freeformType = format.type;
        options = import ./packaging/nix/settings.nix { inherit lib; };
      };
      default = { };
      example = lib.literalExpression ''
        {
          http.public_url = "https://board.example.ts.net";
          auth.operators.users = [ "lukas" ];
        }
      '';
      description = "The configuration file, key by key; `docs/config.example.toml` explains all of them.";
    };

    checkConfig = mkOption {
      type = types.bool;
      default = true;
      example = false;
      description = "Let `boardctl check-config` look at the configuration when the host is built.";
    };
  };

  config = mkIf cfg.enable {
    assertions =
      let
        refuse = wrong: message: {
          assertion = !wrong;
          message = "services.board-agent.${message}";
        };
      in
      [
        (refuse (cfg.openFirewall && isUnix)
          "openFirewall: `listen` is a unix socket, which no firewall lets through; remove openFirewall, or listen on an address."
        )
        (refuse (cfg.openFirewallInterface != null && !cfg.openFirewall)
          "openFirewallInterface: nothing is opened without openFirewall; set it too, or remove the interface."
        )
        (refuse (cfg.socketGroup != null && !isUnix)
          "socketGroup: `listen` is no unix socket, so there is no group that could connect; listen on /run/board-agent/http.sock, or remove socketGroup."
        )
        (refuse (isExternal && cfg.builder.results == null)
          "builder.results: an external builder needs both directories, and only `inbox` is named."
        )
        (refuse (!isExternal && (cfg.builder.results != null || cfg.builder.user != null))
          "builder.inbox: an external builder needs both directories, and `inbox` is not named."
        )
        (refuse (unusable != [ ])
          "repository: ${repository} lies below ${lib.concatStringsSep ", " unusable}, which the units do not share with the host; move the checkout, for example to /srv."
        )
        (refuse (!isWord repository || !isWord cfg.stateDir)
          "repository and stateDir are named in unit files, which allow no quotes, colons, backslashes and line breaks in a path; rename the directory."
        )
        (refuse (lib.hasInfix " " cfg.stateDir || lib.hasInfix "%" cfg.stateDir)
          "stateDir: ${cfg.stateDir} has a space or a percent sign, and no path unit can watch it; name another directory."
        )
        (refuse (isBelow repository cfg.stateDir || isBelow cfg.stateDir repository)
          "stateDir: ${cfg.stateDir} and the repository ${repository} lie in each other; name a directory of its own, as in ${known.stateDir}."
        )
        (refuse (lib.any isInStore (lib.attrValues cfg.credentials ++ cfg.environmentFiles))
          "credentials and environmentFiles: a file in the Nix store can be read by everybody; name a file of the host, as text in quotes (\"/run/secrets/…\")."
        )
        (refuse (isInStore repository)
          "repository: ${repository} lies in the Nix store, where nothing can be committed; write the path of the checkout as text in quotes."
        )
        (refuse (cfg.user == "root")
          "user: agents do not run as root; name the owner of the checkout, or leave the default."
        )
        (refuse (!isLoopback && !cfg.settings.http.allow_non_loopback)
          "listen: other hosts can reach ${cfg.listen}; listen on loopback or on a unix socket behind a proxy, or set settings.http.allow_non_loopback = true."
        )
      ];

    warnings =
      optional (!isLoopback && cfg.settings.auth.mode == "open")
        "services.board-agent.listen: ${cfg.listen} can be reached from other hosts, and settings.auth.mode = \"open\" asks nobody who he is; set it to \"proxy\"."
      ++ optional (cfg.openFirewall && isLoopback && !isUnix)
        "services.board-agent.openFirewall: ${cfg.listen} is loopback, which no other host reaches however open the firewall is."
      ++ optional (isUnix && cfg.settings.auth.mode == "proxy" && cfg.settings.auth.trusted_peers == null)
        "services.board-agent.settings.auth.trusted_peers: on a unix socket nobody may speak as the proxy until its user is named, as in [ \"traefik\" ].";

    services.board-agent.settings = {
      board = {
        repository = mkDefault repository;
        state_dir = mkDefault cfg.stateDir;
        timezone = mkDefault (if config.time.timeZone == null then "Europe/Berlin" else config.time.timeZone);
      };
      http.listen = mkDefault (if isUnix then "unix:${listen}" else listen);
      limits.wall_time = mkIf (cfg.worker.timeout != null) (mkDefault cfg.worker.timeout);
      slots = lib.genAttrs [ "draft" "read" "build" ] (lane: mkDefault slots.${lane});
      builder = mkIf isExternal (
        lib.mapAttrs (_: value: mkDefault (if value == null then null else toString value)) cfg.builder
      );
      sandbox.sockets = mkDefault (map toString cfg.sandbox.sockets);
    };

    environment.etc = {
      "board-agent/config.toml".source = configFile;
    }
    // lib.optionalAttrs (cfg.credentials ? proxy-secret) {
      # Where boardctl looks for it.
      "credstore/board-agent.proxy-secret".source = toString cfg.credentials.proxy-secret;
    };
    # Where runs look for programs, and the operator finds boardctl.
    environment.systemPackages = [
      cfg.package
      pkgs.bubblewrap
      pkgs.git
    ]
    ++ cfg.path;

    users.users = mkIf (cfg.user == known.user) {
      ${known.user} = {
        isSystemUser = true;
        group = cfg.group;
        home = cfg.stateDir;
        description = "board-agent";
      };
    };
    users.groups = mkMerge [
      (mkIf (cfg.group == known.group) { ${known.group} = { }; })
      # Who may drop job files by hand.
      { ${known.dropGroup} = { }; }
    ];

    networking.firewall = mkIf (cfg.openFirewall && !isUnix) (
      if cfg.openFirewallInterface == null then
        { allowedTCPPorts = [ port ]; }
      else
        { interfaces.${cfg.openFirewallInterface}.allowedTCPPorts = [ port ]; }
    );

    systemd = {
      packages = [ cfg.package ];
      tmpfiles.rules = tmpfiles;
      targets.board-agent.wantedBy = [ "multi-user.target" ];

      sockets = mkIf (listen != known.listen || cfg.group != known.group) {
        board-agent-trigger = {
          listenStreams = optionals (listen != known.listen) [
            ""
            listen
            known.control
          ];
          socketConfig.SocketGroup =
            if cfg.socketGroup != null then
              cfg.socketGroup
            else
              mkIf (cfg.group != known.group) cfg.group;
        };
      };

      paths = lib.listToAttrs (lib.concatMap (lane: map (slot lane) (lib.range 1 slots.${lane})) lanes);

      services = mkMerge [
        (lib.genAttrs (map (name: "board-agent-${name}") (daemons ++ map (lane: "${lane}@") lanes)) (_: common))
        (lib.listToAttrs (map (name: lib.nameValuePair "board-agent-${name}" (daemon name)) daemons))
        (lib.listToAttrs (map (lane: lib.nameValuePair "board-agent-${lane}@" (worker lane)) lanes))
        {
          board-agent-trigger.serviceConfig = mkMerge [
            (mkIf isInHome { BindReadOnlyPaths = [ (word repository) ]; })
            (mkIf (cfg.credentials ? proxy-secret) { LoadCredential = credentialsOf isOfProxy; })
          ];
          board-agent-watcher = {
            unitConfig.RequiresMountsFor = [ (word repository) ];
            serviceConfig = mkMerge [
              (allow [ repository ])
              (mkIf isExternal {
                ReadWritePaths = map (dir: word (toString dir)) (
                  lib.filter (dir: dir != null) [
                    cfg.builder.inbox
                    cfg.builder.results
                  ]
                );
              })
            ];
          };
        }
      ];
    };
  };
}
