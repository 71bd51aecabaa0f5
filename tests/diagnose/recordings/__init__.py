"""Jobs explained from the files of the recorder."""
