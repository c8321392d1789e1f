# builder.inbox: an external builder needs both directories
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  builder.results = "/var/lib/agent-codex/results";
}; }
