{
  description = "What a builder evaluates in the tests: a configuration without inputs";

  outputs =
    { self }:
    {
      nixosConfigurations.demo.config.networking.hostName = builtins.readFile ./hostname;
    };
}
