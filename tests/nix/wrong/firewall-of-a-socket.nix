# openFirewall: `listen` is a unix socket, which no firewall lets through
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  listen = "/run/board-agent/http.sock";
  openFirewall = true;
}; }
