# The types of options that the module uses, as nixpkgs has them.
{ lib, modules }:

let
  inherit (builtins)
    all
    concatMap
    filter
    head
    isAttrs
    isBool
    isInt
    isList
    isString
    length
    listToAttrs
    ;

  # Definitions of equal strength must not differ.
  one =
    loc: defs:
    if all (def: def.value == (head defs).value) defs then
      (head defs).value
    else
      throw "The option `${lib.concatStringsSep "." loc}' has conflicting definition values: ${
        lib.concatStringsSep ", " (map (def: "${builtins.toJSON def.value} in ${toString def.file}") defs)
      }";
  plain = description: check: {
    inherit description check;
    merge = one;
  };
  isPathLike = value: builtins.isPath value || (isString value && builtins.substring 0 1 value == "/");
  isPackage = value: isAttrs value && value.type or null == "derivation";

  types = rec {
    bool = plain "boolean" isBool;
    int = plain "signed integer" isInt;
    ints.between =
      low: high:
      plain "integer between ${toString low} and ${toString high} (both inclusive)" (
        value: isInt value && value >= low && value <= high
      );
    str = plain "string" isString;
    lines = str // {
      merge = _: defs: lib.concatStringsSep "\n" (map (def: def.value) defs);
    };
    strMatching =
      pattern:
      plain "string matching the pattern ${pattern}" (
        value: isString value && builtins.match pattern value != null
      );
    path = plain "absolute path" isPathLike;
    package = plain "package" isPackage;
    enum = values: plain "one of ${lib.concatMapStringsSep ", " builtins.toJSON values}" (value: lib.elem value values);
    either = left: right: {
      description = "${left.description} or ${right.description}";
      check = value: left.check value || right.check value;
      merge = loc: defs: if all (def: left.check def.value) defs then left.merge loc defs else right.merge loc defs;
    };
    oneOf = many: lib.foldl' either (head many) (lib.tail many);
    nullOr = inner: {
      description = "null or ${inner.description}";
      check = value: value == null || inner.check value;
      merge =
        loc: defs:
        let
          given = filter (def: def.value != null) defs;
        in
        if given == [ ] then
          null
        else if length given == length defs then
          inner.merge loc defs
        else
          throw "The option `${lib.concatStringsSep "." loc}' is defined both null and not null";
    };
    listOf = inner: {
      description = "list of ${inner.description}";
      check = isList;
      emptyValue = [ ];
      merge =
        loc: defs:
        concatMap (
          def:
          concatMap (
            value:
            let
              merged = modules.merge loc inner [
                {
                  inherit (def) file;
                  inherit value;
                }
              ];
            in
            if merged.isDefined then [ merged.value ] else [ ]
          ) def.value
        ) defs;
    };
    attrsOf = inner: {
      description = "attribute set of ${inner.description}";
      check = isAttrs;
      emptyValue = { };
      inherit inner;
      merge =
        loc: defs:
        let
          # A wrapper around an entry decides on that entry.
          names = lib.unique (concatMap (def: builtins.attrNames def.value) defs);
          of =
            name:
            concatMap (
              def:
              if def.value ? ${name} then
                [
                  {
                    inherit (def) file;
                    value = def.value.${name};
                  }
                ]
              else
                [ ]
            ) defs;
          entry = name: modules.merge (loc ++ [ name ]) inner (of name);
        in
        listToAttrs (
          map (name: {
            inherit name;
            value = (entry name).value;
          }) (filter (name: (entry name).isDefined) names)
        );
    };
    anything = {
      description = "anything";
      check = _: true;
      merge =
        loc: defs:
        if length defs > 1 && all (def: isAttrs def.value) defs then
          (attrsOf anything).merge loc defs
        else if length defs > 1 && all (def: isList def.value) defs then
          concatMap (def: def.value) defs
        else
          one loc defs;
    };
    submodule =
      module:
      let
        evaluated =
          loc: defs:
          modules.evalModules {
            inherit loc;
            modules = [
              module
            ]
            ++ map (def: {
              _file = def.file;
              config = def.value;
            }) defs;
          };
      in
      {
        description = "submodule";
        check = isAttrs;
        emptyValue = (evaluated [ ] [ ]).config;
        merge = loc: defs: (evaluated loc defs).config;
        subOptions = loc: (evaluated loc [ ]).options;
      };
    # What a TOML file can hold, and null, which the caller takes out.
    toml =
      (nullOr (oneOf [
        bool
        int
        str
        path
        (attrsOf anything)
        (listOf anything)
      ]))
      // {
        description = "TOML value";
      };
  };
in
types
