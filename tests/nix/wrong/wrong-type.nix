# is not of type `integer between 1 and 16
{ services.board-agent = { enable = true; repository = "/srv/repo"; } // {
  slots.build = "two";
}; }
