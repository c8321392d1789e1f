# Behind a proxy of the same host that comes by a unix socket.
{
  services.board-agent = {
    enable = true;
    repository = "/srv/repo";
    listen = "/run/board-agent/http.sock";
    socketGroup = "nginx";
    credentials.proxy-secret = "/run/secrets/board-proxy";
    settings = {
      http.public_url = "https://board.example.org";
      auth = {
        trusted_peers = [ "nginx" ];
        operators.users = [ "lukas" ];
      };
    };
  };
}
