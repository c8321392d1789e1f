# What the module uses of nixpkgs' lib, with its signatures. Anything else is missing here, and evaluation stops with its
# name: the module keeps to this list.
let
  modules = import ./modules.nix { inherit lib; };
  wrapper = kind: fields: fields // { _type = kind; };

  lib = rec {
    inherit (builtins)
      # { a } -> [String]; { a } -> [a]
      attrNames
      attrValues
      # (a -> [b]) -> [a] -> [b]
      concatMap
      # a -> [a] -> Bool
      elem
      # (a -> Bool) -> [a] -> [a]
      filter
      # (b -> a -> b) -> b -> [a] -> b
      foldl'
      # [a] -> a; [a] -> Int; [a] -> [a]
      head
      length
      tail
      # [{ name, value }] -> { a }
      listToAttrs
      # (String -> a -> b) -> { a } -> { b }
      mapAttrs
      # (a -> Bool) -> [a] -> Bool
      any
      all
      ;

    # Bool -> a -> [a]; Bool -> [a] -> [a]; Bool -> String -> String; Bool -> { a } -> { a }
    optional = condition: value: if condition then [ value ] else [ ];
    optionals = condition: values: if condition then values else [ ];
    optionalAttrs = condition: set: if condition then set else { };
    optionalString = condition: text: if condition then text else "";
    # Int -> Int -> [Int]
    range = first: last: if first > last then [ ] else builtins.genList (n: first + n) (last - first + 1);
    # [a] -> a
    last = list: builtins.elemAt list (length list - 1);
    # [a] -> [a]
    unique = foldl' (found: value: if elem value found then found else found ++ [ value ]) [ ];
    # Int -> Int -> [a] -> [a]
    sublist = start: count: list: builtins.genList (n: builtins.elemAt list (start + n)) count;

    # String -> [String] -> String; String -> (a -> String) -> [a] -> String
    concatStringsSep = builtins.concatStringsSep;
    concatMapStringsSep = separator: f: list: concatStringsSep separator (map f list);
    # String -> String -> Bool
    hasPrefix = prefix: text: builtins.substring 0 (builtins.stringLength prefix) text == prefix;
    hasInfix = infix: text: length (splitString infix text) > 1;
    # String -> String -> String
    removePrefix =
      prefix: text:
      if hasPrefix prefix text then
        builtins.substring (builtins.stringLength prefix) (builtins.stringLength text) text
      else
        text;
    # String -> String -> [String]
    splitString =
      separator: text:
      let
        escaped = builtins.replaceStrings (map (c: c) special) (map (c: "\\${c}") special) separator;
        special = [ "\\" "." "*" "+" "?" "(" ")" "[" "]" "{" "}" "^" "$" "|" ];
      in
      filter builtins.isString (builtins.split escaped text);
    # String -> Int
    toInt =
      text:
      let
        value = builtins.fromJSON text;
      in
      if builtins.isInt value then value else throw "toInt: ${text} is no whole number";

    # String -> a -> { name, value }
    nameValuePair = name: value: { inherit name value; };
    # [String] -> (String -> a) -> { a }
    genAttrs = names: make: listToAttrs (map (name: nameValuePair name (make name)) names);
    # (String -> a -> b) -> { a } -> [b]
    mapAttrsToList = f: set: map (name: f name set.${name}) (attrNames set);
    # (String -> a -> Bool) -> { a } -> { a }
    filterAttrs = keep: set: listToAttrs (
      concatMap (name: optional (keep name set.${name}) (nameValuePair name set.${name})) (attrNames set)
    );
    filterAttrsRecursive =
      keep: set:
      mapAttrs (_: value: if builtins.isAttrs value then filterAttrsRecursive keep value else value) (
        filterAttrs keep set
      );
    # { a } -> { a } -> { a }
    recursiveUpdate =
      left: right:
      left
      // mapAttrs (
        name: value:
        if left ? ${name} && builtins.isAttrs left.${name} && builtins.isAttrs value then
          recursiveUpdate left.${name} value
        else
          value
      ) right;
    # [String] -> a -> { a }
    setAttrByPath = path: value: if path == [ ] then value else { ${head path} = setAttrByPath (tail path) value; };

    # Path -> { a }
    importTOML = file: builtins.fromTOML (builtins.readFile file);
    # package.nix alone: what is selected is not looked at here.
    fileset = {
      unions = files: files;
      toSource = { root, fileset }: { inherit root fileset; };
    };
    licenses = genAttrs [ "mit" "asl20" ] (spdx: { inherit spdx; });
    platforms.linux = [ "x86_64-linux" "aarch64-linux" ];

    # Bool -> Definition -> Definition; [Definition] -> Definition; Int -> Definition -> Definition
    mkIf = condition: content: wrapper "if" { inherit condition content; };
    mkMerge = contents: wrapper "merge" { inherit contents; };
    mkOverride = priority: content: wrapper "override" { inherit priority content; };
    # Definition -> Definition
    mkDefault = mkOverride 1000;
    mkForce = mkOverride 50;
    # { type, default, defaultText, example, description, apply } -> Option
    mkOption = wrapper "option";
    # String -> Text
    literalExpression = text: wrapper "literalExpression" { inherit text; };
    # String -> Option
    mkEnableOption =
      name:
      mkOption {
        type = types.bool;
        default = false;
        example = true;
        description = "Whether to enable ${name}.";
      };
    # Packages -> String -> { example } -> Option
    mkPackageOption =
      pkgs: name:
      { example }:
      mkOption {
        type = types.package;
        default = pkgs.${name};
        defaultText = literalExpression "pkgs.${name}";
        example = literalExpression example;
        description = "The ${name} package to use.";
      };

    types = import ./types.nix { inherit lib modules; };
    inherit (modules) evalModules;
  };
in
lib
