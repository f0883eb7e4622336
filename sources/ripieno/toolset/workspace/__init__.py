"""The workspace: all file access beneath one folder, by file descriptors."""
