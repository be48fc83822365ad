"""`replay view`: the pages of a folder, for the browser of this user on this machine."""
