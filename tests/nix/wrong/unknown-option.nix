# The option `services.board-agent.slot' does not exist
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  slot.build = 2;
}; }
