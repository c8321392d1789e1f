# builder.results: an external builder needs both directories
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  builder.inbox = "/var/lib/agent-codex/inbox";
}; }
