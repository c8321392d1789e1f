# A small stand-in for the module system of nixpkgs, which is not there where the tests run: options and their
# declarations, mkIf and its push-down, priorities, free-form submodules, refusal of what is not declared. It does what the
# manual of NixOS says for the part that the module uses, and throws for everything else.
{ lib }:

let
  inherit (builtins)
    attrNames
    concatMap
    elem
    filter
    foldl'
    head
    isAttrs
    isFunction
    length
    listToAttrs
    mapAttrs
    ;

  showLoc = lib.concatStringsSep ".";
  is = kind: value: isAttrs value && value._type or null == kind;

  # What a declaration may say; a typo in it is found here.
  optionFields = [
    "_type"
    "apply"
    "default"
    "defaultText"
    "description"
    "example"
    "type"
  ];

  # Wrappers around a set of definitions are taken into it, so that what an `mkIf` decides is only asked where a value is.
  pushDown =
    value:
    if is "merge" value then
      concatMap pushDown value.contents
    else if is "if" value then
      map (mapAttrs (_: inner: lib.mkIf value.condition inner)) (pushDown value.content)
    else if is "override" value then
      map (mapAttrs (_: inner: lib.mkOverride value.priority inner)) (pushDown value.content)
    else
      [ value ];

  # The definitions of one value without wrappers, each with its priority.
  discharge =
    priority: def:
    if is "merge" def.value then
      concatMap (value: discharge priority (def // { inherit value; })) def.value.contents
    else if is "if" def.value then
      if def.value.condition then discharge priority (def // { value = def.value.content; }) else [ ]
    else if is "override" def.value then
      discharge def.value.priority (def // { value = def.value.content; })
    else
      [ (def // { inherit priority; }) ];

  # Those of the strongest priority alone: the least number.
  strongest =
    defs:
    let
      least = foldl' (least: def: if def.priority < least then def.priority else least) 9999 defs;
    in
    filter (def: def.priority == least) defs;

  showFiles = defs: lib.concatStringsSep ", " (map (def: toString def.file) defs);

  # A value from its definitions, checked by its type.
  merge =
    loc: type: defs:
    let
      found = strongest (concatMap (discharge 100) defs);
      wrong = filter (def: !type.check def.value) found;
    in
    if wrong != [ ] then
      throw "A definition for option `${showLoc loc}' is not of type `${type.description}'. Definition values: in ${showFiles wrong}: ${builtins.toJSON (map (def: def.value) wrong)}"
    else
      {
        isDefined = found != [ ];
        value = type.merge loc found;
      };

  evalOption =
    loc: option: defs:
    let
      unknown = filter (field: !elem field optionFields) (attrNames option);
      default =
        if option ? default then
          [
            {
              file = "the default of ${showLoc loc}";
              value = lib.mkOverride 1500 option.default;
            }
          ]
        else
          [ ];
      merged = merge loc option.type (defs ++ default);
    in
    if unknown != [ ] then
      throw "The declaration of `${showLoc loc}' says ${toString unknown}, which no option has"
    else if !merged.isDefined && !(option.type ? emptyValue) then
      throw "The option `${showLoc loc}' was accessed but has no value defined. Try setting the option."
    else
      (option.apply or (value: value)) (
        if merged.isDefined then merged.value else option.type.emptyValue
      );

  # The values of a tree of options, and the definitions that no option is there for.
  evalTree =
    loc: options: defs:
    let
      pushed = concatMap (
        def:
        map (value: {
          inherit (def) file;
          value =
            if isAttrs value then
              value
            else
              throw "The option `${showLoc loc}' is a set of options, and ${toString def.file} defines it as something else";
        }) (pushDown def.value)
      ) defs;
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
        ) pushed;
      names = lib.unique (concatMap (def: attrNames def.value) pushed);
      nested = mapAttrs (
        name: option:
        if is "option" option then
          {
            value = evalOption (loc ++ [ name ]) option (of name);
            unmatched = [ ];
          }
        else
          evalTree (loc ++ [ name ]) option (of name)
      ) options;
      strangers = filter (name: !options ? ${name}) names;
    in
    {
      value = mapAttrs (_: result: result.value) nested;
      unmatched =
        concatMap (name: nested.${name}.unmatched) (attrNames nested)
        ++ concatMap (
          name:
          map (def: {
            inherit (def) file value;
            path = loc ++ [ name ];
          }) (of name)
        ) strangers;
    };

  # Declarations from several modules; two of one option are an error.
  mergeDeclarations =
    loc: trees:
    let
      names = lib.unique (concatMap attrNames trees);
      of = name: map (tree: tree.${name}) (filter (tree: tree ? ${name}) trees);
      declared =
        name:
        let
          all = of name;
          here = loc ++ [ name ];
        in
        if length (filter (is "option") all) == 0 then
          mergeDeclarations here all
        else if length all == 1 then
          head all
        else
          throw "The option `${showLoc here}' is declared twice";
    in
    listToAttrs (
      map (name: {
        inherit name;
        value = declared name;
      }) names
    );

  moduleFields = [
    "_file"
    "config"
    "freeformType"
    "imports"
    "options"
  ];

  # A module as a set, with those it imports before it.
  collect =
    args: module:
    let
      isPath = builtins.isPath module || builtins.isString module;
      loaded = if isPath then import module else module;
      called = if isFunction loaded then loaded args else loaded;
      isLong = called ? options || called ? config || called ? freeformType;
      strange = filter (field: !elem field moduleFields) (attrNames called);
    in
    if isLong && strange != [ ] then
      throw "A module has the unknown attributes ${toString strange} beside `options' and `config'"
    else
      concatMap (collect args) (called.imports or [ ])
      ++ [
        {
          file = called._file or (if isPath then module else "a module of the test");
          options = called.options or { };
          config =
            if isLong then called.config or { } else removeAttrs called [ "imports" "_file" ];
          freeformType = called.freeformType or null;
        }
      ];

  evalModules =
    {
      modules,
      args ? { },
      loc ? [ ],
    }:
    let
      collected = concatMap (collect (args // { inherit config lib options; })) modules;
      options = mergeDeclarations loc (map (module: module.options) collected);
      result = evalTree loc options (
        map (module: {
          inherit (module) file;
          value = module.config;
        }) collected
      );
      freeform = filter (type: type != null) (map (module: module.freeformType) collected);
      unmatched = result.unmatched;
      free = (merge loc (head freeform) (
        map (def: {
          inherit (def) file;
          value = lib.setAttrByPath (lib.sublist (length loc) (length def.path - length loc) def.path) def.value;
        }) unmatched
      )).value;
      first = head unmatched;
      # What modules see of each other. Whether all is declared is asked afterwards: the names of what a module defines may
      # depend on it.
      config =
        if freeform != [ ] && unmatched != [ ] then lib.recursiveUpdate free result.value else result.value;
    in
    {
      inherit options;
      config =
        if freeform == [ ] && unmatched != [ ] then
          throw "The option `${showLoc first.path}' does not exist. Definition values: in ${toString first.file}"
        else
          config;
    };
in
{
  inherit evalModules merge;
}
