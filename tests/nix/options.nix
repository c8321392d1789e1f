# The options of the module as data, from which docs/options.md is made.
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
    ];
  };

  isOption = value: value._type or null == "option";
  text = value: if value._type or null == "literalExpression" then value.text else show value;
  # A value as it would stand in a configuration.
  show =
    value:
    if builtins.isList value then
      if value == [ ] then "[ ]" else "[ ${lib.concatMapStringsSep " " show value} ]"
    else if builtins.isAttrs value then
      if value == { } then
        "{ }"
      else
        "{ ${lib.concatStringsSep " " (lib.mapAttrsToList (name: inner: "${name} = ${show inner};") value)} }"
    else
      builtins.toJSON value;

  # A submodule's own options stand below it, those of a set of submodules below `<name>`.
  below =
    name: type:
    if type ? subOptions then
      walk name (type.subOptions [ ])
    else if type ? inner then
      below "${name}.<name>" type.inner
    else
      [ ];
  walk =
    prefix: options:
    lib.concatMap (
      part:
      let
        option = options.${part};
        name = "${prefix}.${part}";
      in
      if isOption option then
        [
          (
            {
              inherit name;
              type = option.type.description;
              description = option.description;
              default =
                if option ? defaultText then
                  text option.defaultText
                else if option ? default then
                  text option.default
                else
                  null;
            }
            // (if option ? example then { example = text option.example; } else { })
          )
        ]
        ++ below name option.type
      else
        walk name option
    ) (lib.attrNames options);
in
walk "services.board-agent" evaluated.options.services.board-agent
