# CMake generated Testfile for 
# Source directory: /tmp/w/hard/bench
# Build directory: /tmp/w/hard/bfn/bench
# 
# This file includes the relevant testing commands required for 
# testing this directory and lists subdirectories to be tested as well.
