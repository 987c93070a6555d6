# CMake generated Testfile for 
# Source directory: /tmp/w/hard
# Build directory: /tmp/w/hard/bf
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
subdirs("src")
subdirs("cli")
subdirs("examples")
subdirs("bench")
subdirs("tests")
