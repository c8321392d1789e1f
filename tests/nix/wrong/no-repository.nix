# The option `services.board-agent.repository' was accessed but has no value defined
{ services.board-agent.enable = true; }
