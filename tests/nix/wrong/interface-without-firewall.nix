# openFirewallInterface: nothing is opened without openFirewall
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  openFirewallInterface = "tailscale0";
}; }
