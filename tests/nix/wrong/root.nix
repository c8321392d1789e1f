# user: agents do not run as root
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  user = "root";
}; }
